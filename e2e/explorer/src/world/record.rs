//! Collects what the history, the referee, the clients and the garbage collector report.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use vmpool_invariants::image_references::ImageChange;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder;
use vmpool_model::{Call, ChangeKind, ObjectChange, PatchKind, Verb};

use super::{SimulatedWorld, TENANT};
use crate::attempt::{ClaimReleaseRequest, ClientRequestEvent, Holding, MachineToRemove};
use crate::manifest::STANDBY;
use crate::transcript::description_of;

impl SimulatedWorld {
    /// Collects the notes of the referee and the outcomes of the clients.
    pub(super) fn collect_reports(&mut self) {
        let (lines, late, slow) = {
            let injector = &mut *self.injector.lock();
            let late = (std::mem::take(&mut injector.late), std::mem::take(&mut injector.slow));
            (std::mem::take(&mut injector.lines), late.0, late.1)
        };
        for line in lines {
            self.log(|| line);
        }
        self.late.extend(late.iter().map(ToString::to_string));
        for call in late.iter().filter(|call| call.resource == "virtualmachines") {
            let owner = call.body["metadata"]["ownerReferences"][0]["uid"].as_str();
            if let (Verb::Create, Some(pool)) = (call.verb, owner) {
                *self.user_actions.in_flight.entry(pool.to_owned()).or_default() += 1;
                self.user_actions.late_creates.insert(call.name.clone());
            }
            if let (Verb::Delete, Some(uid)) = (call.verb, call.body["preconditions"]["uid"].as_str()) {
                self.user_actions.deleted.insert(uid.to_owned());
            }
        }
        self.record_late_activations(late.iter().chain(&slow));
        self.record_slow(&slow);
        let attempts = std::mem::take(&mut *self.attempts.lock());
        for attempt in attempts {
            self.log(|| format!("a client: {attempt:?}"));
            let uids = |targets: &[MachineToRemove]| {
                targets.iter().map(|target| target.uid.clone()).collect::<Vec<_>>()
            };
            match attempt {
                ClientRequestEvent::Sent(targets) => self.user_actions.request_removal(&uids(&targets)),
                ClientRequestEvent::SentUndrained(targets) => {
                    self.user_actions.request_undrained_removal(&uids(&targets));
                }
                ClientRequestEvent::Rejected(targets, _) => {
                    self.user_actions.removal_refused(&uids(&targets));
                }
                ClientRequestEvent::Succeeded(targets) => {
                    let removed = targets.into_iter().map(|target| (target.uid, target.name));
                    self.user_actions.completed_removals.extend(removed);
                }
                ClientRequestEvent::Claimed(holding) => self.record_holding(holding),
                ClientRequestEvent::ReleaseSent(ClaimReleaseRequest { holding, then }) => {
                    if then == "Replace" {
                        self.user_actions.deleted.insert(holding.uid.clone());
                    }
                    self.holdings.retain(|held| held.uid != holding.uid || held.id != holding.id);
                    self.released.insert((holding.id, holding.uid));
                }
                ClientRequestEvent::Unknown(_) => {}
            }
        }
        self.callers.retain(|caller| !caller.is_finished());
    }

    /// Records writes that slow admission delays. A create counts as a request that a former leader had in
    /// flight only if its sender does not lead when it takes effect.
    fn record_slow(&mut self, slow: &[Call]) {
        self.late.extend(slow.iter().map(ToString::to_string));
        for call in slow.iter().filter(|call| call.resource == "virtualmachines") {
            if let (Verb::Create, Some(owner)) =
                (call.verb, call.body["metadata"]["ownerReferences"][0]["uid"].as_str())
            {
                self.user_actions.late_creates.insert(call.name.clone());
                self.slow_creates.insert(call.name.clone(), (call.sender.clone(), owner.to_owned()));
            }
            if let (Verb::Delete, Some(uid)) = (call.verb, call.body["preconditions"]["uid"].as_str()) {
                self.user_actions.deleted.insert(uid.to_owned());
            }
        }
    }

    /// Records activations of standby machines that are sent now, and take effect long after that. The pool
    /// may have been paused or scaled down by then.
    fn record_late_activations<'a>(&mut self, calls: impl Iterator<Item = &'a Call>) {
        let now = self.now();
        for activated in calls.filter_map(activated_version) {
            self.user_actions.late_activations.entry(activated).or_insert(now);
        }
    }

    /// Counts a slow create of a former leader that takes effect now.
    fn record_slow_create(&mut self, change: &ObjectChange) {
        if change.kind != ChangeKind::Added || !change.key.resource.starts_with("virtualmachines.") {
            return;
        }
        if let Some((sender, owner)) = self.slow_creates.get(&*change.key.name)
            && self.leader().as_ref() != Some(sender)
        {
            *self.user_actions.in_flight.entry(owner.clone()).or_default() += 1;
        }
    }

    /// Records what a caller holds, and checks that no other caller holds it.
    fn record_holding(&mut self, holding: Holding) {
        let now = self.now();
        let other = self.holdings.iter().find(|held| {
            held.uid == holding.uid && held.id != holding.id && held.until > now && holding.until > now
        });
        if let Some(other) = other {
            let machine = &holding.name;
            let (first, second, until) = (other.id, holding.id, other.until);
            self.shared_machines.push(format!(
                "I12: machine {machine} was given to the caller {second}, although the caller {first} holds it until \
                 {until}"
            ));
        }
        self.holdings.retain(|held| held.id != holding.id);
        // The response may be older than a release or than a change of a user.
        let is_released = self.released.contains(&(holding.id, holding.uid.clone()));
        if !is_released && !self.annotated.contains(&holding.uid) {
            self.holdings.push(holding);
        }
    }

    pub(super) fn collect_garbage(&mut self) {
        if self.next_garbage.is_none_or(|time| self.now() < time) {
            return;
        }
        let found = self.server.collect_garbage(self.random.any());
        self.next_garbage = found.map(|_| self.now() + self.garbage_collection_delay());
    }

    fn garbage_collection_delay(&self) -> SignedDuration {
        SignedDuration::from_millis(self.random.number(5..=400).cast_signed())
    }

    /// Adds the new changes to the history and the transcript.
    pub(super) fn record(&mut self) {
        let news = self.server.changes_since(self.changes);
        self.changes += news.len();
        for change in news {
            let resource = change.key.resource.split('.').next().unwrap_or_default();
            if ["leases", "events"].contains(&resource) {
                continue;
            }
            let now = self.now();
            self.changed = now;
            if self.next_garbage.is_none() {
                self.next_garbage = Some(now + self.garbage_collection_delay());
            }
            let platform = self.options.platform;
            let kind = [TestedKind::Pool, TestedKind::Machine, TestedKind::Disk]
                .into_iter()
                .find(|kind| platform.resource(*kind).plural == resource);
            if let Some(kind) = kind {
                let recorded = recorded(&change, kind, now);
                match recorded.object.namespace() {
                    TENANT => self.tenant_history.push(recorded),
                    _ => self.history.push(recorded),
                }
            }
            self.record_slow_create(&change);
            if self.options.images {
                self.check_images(&change);
            }
            self.log(|| description_of(&change));
        }
    }
}

impl SimulatedWorld {
    /// Checks after every change that no image is deleted that is referenced.
    fn check_images(&mut self, change: &ObjectChange) {
        let object = JsonObject::from(change.object.clone());
        let change = ImageChange {
            resource: &change.key.resource,
            object: &object,
            removed: change.kind == ChangeKind::Deleted,
            revision: change.version,
        };
        let found = self.image_references.observe(change, &self.user_actions.deleted);
        // The wrapper may have changed since the create was sent.
        let is_late = self.user_actions.late_creates.contains(object.name());
        let found: Vec<_> = found.into_iter().filter(|_| !is_late).collect();
        self.image_violations.extend(found.iter().map(ToString::to_string));
    }
}

/// The standby machine that a request activates: its UID, and the version that the request requires. `None`
/// for other requests.
fn activated_version(call: &Call) -> Option<(String, u64)> {
    let metadata = &call.body["metadata"];
    let is_activation = call.is(Verb::Patch(PatchKind::Merge), "virtualmachines")
        && metadata["labels"].get(STANDBY).is_some_and(Value::is_null);
    let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
    is_activation.then_some((metadata["uid"].as_str()?.to_owned(), version))
}

fn recorded(change: &ObjectChange, kind: TestedKind, at: Timestamp) -> recorder::RecordedChange {
    recorder::RecordedChange {
        revision: change.version,
        at,
        kind,
        object: JsonObject::from(change.object.clone()),
        removed: change.kind == ChangeKind::Deleted,
    }
}

#[cfg(test)]
mod tests;
