//! Machines that something holds: they are not removed by count, and not restarted by a rollout. I12 and I19
//! check this with different holds.

use jiff::Timestamp;

use super::Violation;
use super::timeline::{DesiredState, Timeline};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory};

/// What holds machines.
pub(super) trait MachineHold {
    /// The number of the invariant.
    const INVARIANT: &'static str;

    /// Whether the machine is held at this time, according to every clock.
    fn holds(&self, machine: &JsonObject, at: Timestamp) -> bool;

    /// Whether the machine may be removed nevertheless. `states` are those of its pool that a writer may have
    /// read.
    fn may_be_removed(&self, machine: &JsonObject, states: &[&DesiredState]) -> bool;

    /// Why the machine is held, as the end of a sentence.
    fn describe_hold(&self, machine: &JsonObject) -> String;
}

/// The machines of pools that were removed or restarted while they were held.
pub(super) fn find_disturbed_machines<H: MachineHold>(history: &RecordedHistory, hold: &H) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != TestedKind::Machine {
            return;
        }
        let Some(former) = before.get(TestedKind::Machine, change.object.uid()) else { return };
        // The recorder observes a change after it was committed.
        let is_machine = !former.is_terminating() && !former.owner_uid().is_empty();
        if !(is_machine && hold.holds(former, change.at)) {
            return;
        }
        let Some(what) = find_disturbance(former, change, &timeline, hold) else { return };
        let (name, revision, why) = (former.name(), change.revision, hold.describe_hold(former));
        let what = format!("machine {name} was {what} at revision {revision}, and {why}");
        found.push(Violation { invariant: H::INVARIANT, what });
    });
    found
}

/// What the change does to a held machine; `None` if it may do that.
fn find_disturbance(
    former: &JsonObject,
    change: &RecordedChange,
    timeline: &Timeline,
    hold: &impl MachineHold,
) -> Option<&'static str> {
    if change.removed || change.object.is_terminating() {
        let states = timeline.states_at_deletion(former, change);
        return (!hold.may_be_removed(former, &states)).then_some("removed");
    }
    restarts_machine(former, &change.object).then_some("restarted")
}

/// Whether the pool of a machine is deleted, according to one of the states that a writer may have read.
pub(super) fn is_pool_deleted(states: &[&DesiredState]) -> bool {
    states.is_empty() || states.iter().any(|state| state.terminating)
}

/// Whether the change restarts a running machine: its spec in effect changes although it restarts by itself,
/// or a stop is requested.
fn restarts_machine(former: &JsonObject, now: &JsonObject) -> bool {
    if former.is_kubevirt() {
        let stops = |machine: &JsonObject| {
            let requests = machine.at("/status/stateChangeRequests").as_array();
            requests.into_iter().flatten().any(|request| request["action"] == "Stop")
        };
        return stops(now) && !stops(former);
    }
    let automatic = former.text("/spec/disruptions/restartApprovalMode") == "Automatic";
    automatic && former.is_running() && former.at("/spec/cpu") != now.at("/spec/cpu")
}
