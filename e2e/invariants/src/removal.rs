//! I1 and I5: which machines may be removed. Also I6: no machine is removed in the place of a target. Also
//! I20: healing removes unhealthy machines, and none while too many are unhealthy.

use jiff::{SignedDuration, Timestamp};

use super::health::{HealingVerdict, RecordedUnreadiness};
use super::replacement::{Replacements, find_removed_machine};
use super::timeline::{DesiredState, READABLE_FOR, Removable, Timeline};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedHistory, RecordedState};

/// Machines that were removed although they were not targets and the pool had no surplus (I1), or is Explicit
/// (I5).
pub fn check_machine_removals(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    let mut others = OtherRemovals::default();
    let mut replacements = Replacements::default();
    let mut unready = RecordedUnreadiness::default();
    history.replay(|before, change| {
        timeline.observe(change);
        replacements.observe(change);
        others.observe(before, change, actions);
        if !(change.removed || change.object.is_terminating()) {
            unready.observe(change);
        }
        let Some(former) = find_removed_machine(before, change, actions) else { return };
        let pool = former.owner_uid();
        if pool.is_empty() {
            return;
        }
        let states = timeline.states_at_deletion(former, change);
        // The garbage collector deletes the machines of a terminating pool. A pool that was never recorded is
        // not checked.
        if states.is_empty() || states.iter().any(|state| state.terminating) {
            return;
        }
        if replacements.allows(former, &states, change.at + actions.clocks_ahead) {
            return;
        }
        let healing = unready.judge(former, &states, before, change.at, actions);
        if matches!(healing, HealingVerdict::Allowed) {
            return;
        }
        // A machine that is unhealthy may leave, but not if too many are.
        let violated = |usual| if matches!(healing, HealingVerdict::TooMany) { "I20" } else { usual };
        if states.iter().all(|state| state.paused) {
            let what = format!(
                "machine {} was removed from the paused pool at revision {} without a request",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: "I1", what });
            return;
        }
        // No count of the pool contains it.
        if former.is_standby() {
            return;
        }
        if states.iter().all(|state| state.removable == Removable::None) {
            let what = format!(
                "machine {} was removed from the Explicit pool at revision {} without a request",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: violated("I5"), what });
            return;
        }
        if states.iter().all(|state| state.removable != Removable::All) && !is_stopped(former) {
            let what = format!(
                "machine {}, which is not stopped, was removed from the opportunistic pool at revision {} without a request",
                former.name(),
                change.revision
            );
            found.push(Violation { invariant: violated("I5"), what });
            return;
        }
        let machines = || before.active_machines(pool).filter(|machine| !machine.is_terminating());
        // Machines that others removed at this moment still existed when the controller decided.
        let others = others.recently_removed(pool, change.at);
        let live = machines().count() + others;
        // A target is removed for the decrement that was made for it; no other machine may use that
        // decrement.
        let surplus = |state: &DesiredState| {
            let staying = machines().filter(|machine| !state.record.accepted.contains(machine.uid()));
            staying.count() + others > state.desired
        };
        if states.iter().any(|state| surplus(state)) {
            return;
        }
        let desired = states.iter().map(|state| state.desired).min().unwrap_or_default();
        let (name, revision) = (former.name(), change.revision);
        found.push(if live > desired {
            let what = format!("machine {name} was removed at revision {revision} in the place of a target");
            Violation { invariant: violated("I6"), what }
        } else {
            let what = format!(
                "machine {name} was removed at revision {revision} without a surplus: {live} machines were not \
                 terminating, and {desired} were desired"
            );
            Violation { invariant: violated("I1"), what }
        });
    });
    found
}

/// Whether the guest of a KubeVirt machine has ended, or is not to run.
fn is_stopped(machine: &JsonObject) -> bool {
    machine.text("/spec/runStrategy") == "Halted" || machine.text("/status/printableStatus") == "Stopped"
}

/// Machines that others removed from the pool: deleted and released ones.
#[derive(Default)]
struct OtherRemovals(Vec<(String, Timestamp)>);

impl OtherRemovals {
    fn observe(&mut self, before: &RecordedState, change: &RecordedChange, actions: &UserActions) {
        if change.kind != TestedKind::Machine {
            return;
        }
        let Some(former) = before.get(TestedKind::Machine, change.object.uid()) else { return };
        let pool = former.owner_uid();
        if former.is_terminating() || pool.is_empty() {
            return;
        }
        let leaves = change.removed || change.object.is_terminating();
        let deleted = leaves && actions.deleted.contains(former.uid());
        if deleted || !leaves && change.object.owner_uid() != pool {
            self.0.push((pool.to_owned(), change.at));
        }
    }

    /// How many machines of a pool still existed when the controller decided about a write that happens now.
    fn recently_removed(&self, pool: &str, now: Timestamp) -> usize {
        let limit = SignedDuration::try_from(READABLE_FOR).unwrap_or(SignedDuration::MAX);
        self.0.iter().filter(|(of, at)| of == pool && now.duration_since(*at) <= limit).count()
    }
}
