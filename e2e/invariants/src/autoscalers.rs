//! I18: an autoscaler never writes fewer replicas than were busy in the version that it read. It removes
//! machines by name only in Explicit pools, without force, and only unprotected ones.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use vmpool_test_cluster::control_plane::AuditEntry;

use super::draining::drain_deadline;
use super::protection::is_protected;
use super::removal_record::ParsedRemovalRecord;
use super::replica_writes::is_scale_write;
use super::timeline::{READABLE_FOR, Removable, Timeline};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory, RecordedState};

/// The actions with the removals that autoscalers requested as the user of the controller: the checks of
/// removals allow them, and [`check_autoscalers`] judges them.
pub(super) fn with_removals_by_autoscalers(
    history: &RecordedHistory,
    actions: &UserActions,
    controller_user: &str,
) -> UserActions {
    let mut extended = actions.clone();
    for change in history.changes().iter().filter(|change| is_autoscaled(change, actions)) {
        let record = ParsedRemovalRecord::of(&change.object);
        for uid in record.accepted_for(controller_user) {
            extended.removal_requests.entry(uid.to_owned()).or_insert(1);
        }
    }
    extended
}

fn is_autoscaled(change: &RecordedChange, actions: &UserActions) -> bool {
    change.kind == TestedKind::Pool && actions.autoscaled.contains(change.object.name())
}

/// Writes of autoscalers that left fewer replicas than busy machines, and removals by name that they may not
/// request.
pub fn check_autoscalers(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let writes: BTreeMap<(&str, &str), i64> = audit
        .iter()
        .filter(|entry| entry.user == controller_user && entry.is_success() && !entry.dry_run)
        .filter(|entry| is_scale_write(entry))
        .filter_map(scale_request)
        .collect();
    let mut check = AutoscalerCheck::new(actions, controller_user);
    history.replay(|before, change| {
        check.timeline.observe(change);
        check.busy.observe(before, change, actions);
        let former = before.get(TestedKind::Pool, change.object.uid());
        if change.kind != TestedKind::Pool || change.removed {
            return;
        }
        let version = former.map(|former| former.text("/metadata/resourceVersion")).unwrap_or_default();
        if let Some(replicas) = writes.get(&(change.object.name(), version)) {
            check.judge_scale(before, change, *replicas);
        }
        check.judge_removals(before, change);
    });
    check.found
}

/// The pool and the version that a write of the scale requires, and the replicas that it sets.
fn scale_request(entry: &AuditEntry) -> Option<((&str, &str), i64)> {
    let version = entry.body.pointer("/metadata/resourceVersion")?.as_str()?;
    Some(((entry.name.as_str(), version), entry.body.pointer("/spec/replicas")?.as_i64()?))
}

/// A check in progress.
struct AutoscalerCheck<'a> {
    actions: &'a UserActions,
    controller_user: &'a str,
    timeline: Timeline,
    busy: BusyMachines,
    /// The revision from which each target of a removal is in a record.
    recorded_since: BTreeMap<String, u64>,
    found: Vec<Violation>,
}

impl<'a> AutoscalerCheck<'a> {
    fn new(actions: &'a UserActions, controller_user: &'a str) -> Self {
        Self {
            actions,
            controller_user,
            timeline: Timeline::default(),
            busy: BusyMachines::default(),
            recorded_since: BTreeMap::new(),
            found: Vec::new(),
        }
    }

    /// A write of the scale, at the version of the pool before it.
    fn judge_scale(&mut self, before: &RecordedState, change: &RecordedChange, replicas: i64) {
        let pool = &change.object;
        let Some(former) = before.get(TestedKind::Pool, pool.uid()) else { return };
        // A lowering reads the machines after the pool. A raise uses a cache, which can be older.
        let is_raise = former.number("/spec/replicas").unwrap_or_default() < replicas;
        let unseen = readable_for().max(self.actions.unseen_for);
        let settled = if is_raise { change.at - unseen } else { change.at };
        let is_busy = |machine: &&JsonObject| {
            let since = self.busy.since(machine, change.at, self.actions);
            since.is_some_and(|since| since.revision <= former.revision() && since.at <= settled)
        };
        let busy = before.active_machines(pool.uid()).filter(is_busy).count();
        if i64::try_from(busy).unwrap_or(i64::MAX) > replicas {
            let what = format!("replicas became {replicas}, and {busy} machines were busy");
            self.report(change, &what);
        }
    }

    /// The removals that the controller requested, when they are accepted.
    fn judge_removals(&mut self, before: &RecordedState, change: &RecordedChange) {
        let record = ParsedRemovalRecord::of(&change.object);
        for uid in record.accepted.iter().chain(&record.reserved) {
            self.recorded_since.entry(uid.clone()).or_insert(change.revision);
        }
        let former = before.get(TestedKind::Pool, change.object.uid()).map(ParsedRemovalRecord::of);
        let known = former.unwrap_or_default().accepted;
        let requested = record.accepted_for(self.controller_user);
        for uid in requested.filter(|uid| !known.contains(*uid)).collect::<Vec<_>>() {
            self.judge_removal(before, change, &record, uid);
        }
    }

    fn judge_removal(
        &mut self,
        before: &RecordedState,
        change: &RecordedChange,
        record: &ParsedRemovalRecord,
        uid: &str,
    ) {
        let states = self.timeline.readable_states(change.object.uid(), change.at);
        let was_explicit = states.iter().any(|state| state.removable == Removable::None);
        let recorded = self.recorded_since.get(uid).copied().unwrap_or(change.revision);
        let machine = before.get(TestedKind::Machine, uid);
        let since = machine.and_then(|machine| self.busy.since(machine, change.at, self.actions));
        if !was_explicit {
            self.report(change, &format!("it removed {uid} by name, and the pool is not Explicit"));
        }
        if record.forced.contains(uid) {
            self.report(change, &format!("it removed {uid} with force"));
        }
        // The request verifies that a target is not protected after it has reserved it.
        if since.is_some_and(|since| since.revision < recorded) {
            self.report(change, &format!("it removed {uid} by name, and the machine was protected"));
        }
    }

    fn report(&mut self, change: &RecordedChange, what: &str) {
        let (pool, revision) = (change.object.name(), change.revision);
        let what = format!("the autoscaler of pool {pool} at revision {revision}: {what}");
        self.found.push(Violation { invariant: "I18", what });
    }
}

fn readable_for() -> SignedDuration {
    SignedDuration::try_from(READABLE_FOR).unwrap_or(SignedDuration::ZERO)
}

/// Since when a machine is busy without a pause.
#[derive(Clone, Copy)]
struct BusySince {
    revision: u64,
    at: Timestamp,
}

/// The busy machines by UID: protected ones that do not drain.
#[derive(Default)]
struct BusyMachines(BTreeMap<String, BusySince>);

impl BusyMachines {
    fn observe(&mut self, before: &RecordedState, change: &RecordedChange, actions: &UserActions) {
        if change.kind != TestedKind::Machine {
            return;
        }
        let uid = change.object.uid();
        let was_busy =
            before.get(TestedKind::Machine, uid).is_some_and(|former| is_busy(former, change.at, actions));
        if !was_busy {
            self.0.remove(uid);
        }
        if change.removed || !is_busy(&change.object, change.at, actions) {
            self.0.remove(uid);
        } else {
            let since = BusySince { revision: change.revision, at: change.at };
            self.0.entry(uid.to_owned()).or_insert(since);
        }
    }

    /// Since when the machine is busy; `None` if it is not busy now.
    fn since(&self, machine: &JsonObject, now: Timestamp, actions: &UserActions) -> Option<BusySince> {
        let since = self.0.get(machine.uid()).copied();
        since.filter(|_| is_busy(machine, now, actions))
    }
}

fn is_busy(machine: &JsonObject, at: Timestamp, actions: &UserActions) -> bool {
    !machine.is_terminating() && drain_deadline(machine).is_none() && is_protected(machine, at, actions)
}
