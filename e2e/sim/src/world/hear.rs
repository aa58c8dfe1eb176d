//! Collects what the history, the referee, the clients and the garbage collector report.

use jiff::{SignedDuration, Timestamp};
use vmpool_e2e::object::{Kind, Object};
use vmpool_e2e::recorder;
use vmpool_model::{Change, ChangeKind, Verb};

use super::World;
use crate::caller::{Asked, Target};
use crate::transcript::told;

impl World {
    /// Collects the notes of the referee and the outcomes of the clients.
    pub(super) fn listen(&mut self) {
        let (told, late) = {
            let notes = &mut *self.notes.lock();
            (std::mem::take(&mut notes.told), std::mem::take(&mut notes.late))
        };
        for line in told {
            self.tell(|| line);
        }
        self.late.extend(late.iter().map(ToString::to_string));
        for call in late.iter().filter(|call| call.resource == "virtualmachines") {
            let owner = call.body["metadata"]["ownerReferences"][0]["uid"].as_str();
            if let (Verb::Create, Some(pool)) = (call.verb, owner) {
                *self.grounds.in_flight.entry(pool.to_owned()).or_default() += 1;
                self.grounds.late.insert(call.name.clone());
            }
            if let (Verb::Delete, Some(uid)) = (call.verb, call.body["preconditions"]["uid"].as_str()) {
                self.grounds.named.insert(uid.to_owned());
            }
        }
        let asked = std::mem::take(&mut *self.asked.lock());
        for asked in asked {
            self.tell(|| format!("targeted removal: {asked:?}"));
            let uids =
                |targets: &[Target]| targets.iter().map(|target| target.uid.clone()).collect::<Vec<_>>();
            match asked {
                Asked::Sent(targets) => self.grounds.ask(&uids(&targets)),
                Asked::Refused(targets, _) => self.grounds.refused(&uids(&targets)),
                Asked::Removed(targets) => {
                    let removed = targets.into_iter().map(|target| (target.uid, target.name));
                    self.grounds.removed.extend(removed);
                }
                Asked::Lost(_) => {}
            }
        }
        self.callers.retain(|caller| !caller.is_finished());
    }

    pub(super) fn collect_garbage(&mut self) {
        if self.next_garbage.is_none_or(|time| self.now() < time) {
            return;
        }
        let found = self.server.collect_garbage(self.chance.any());
        self.next_garbage = found.map(|_| self.now() + self.garbage_pause());
    }

    fn garbage_pause(&self) -> SignedDuration {
        SignedDuration::from_millis(self.chance.number(5..=400).cast_signed())
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
                self.next_garbage = Some(now + self.garbage_pause());
            }
            let kind =
                [Kind::Pool, Kind::Machine, Kind::Disk].into_iter().find(|kind| kind.plural() == resource);
            if let Some(kind) = kind {
                self.history.push(recorded(&change, kind, now));
            }
            self.tell(|| told(&change));
        }
    }
}

fn recorded(change: &Change, kind: Kind, at: Timestamp) -> recorder::Change {
    recorder::Change {
        revision: change.version,
        at,
        kind,
        object: Object::from(change.object.clone()),
        removed: change.kind == ChangeKind::Deleted,
    }
}
