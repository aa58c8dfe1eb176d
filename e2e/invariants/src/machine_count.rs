//! I2: the number of machines is limited. Also I6: a target of a targeted removal is not replaced.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::health::count_stuck_machines;
use super::timeline::{DesiredState, Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// How long the controller may not see a machine that a user has returned to its pool: while its watch of
/// machines is interrupted. A pool that is full gets one machine too many by the return itself, so the
/// controller need not look for it before a create.
const RETURN_OBSERVATION_DELAY: SignedDuration = SignedDuration::from_secs(45);

/// Machines that were added although the pool had the maximum number of machines that any reader could still
/// see as desired.
///
/// A pool may have too many machines for a while after a scale-down, so only additions are checked.
pub fn check_machine_count(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut timeline = Timeline::default();
    let mut found = Vec::new();
    let mut returns: BTreeMap<String, Timestamp> = BTreeMap::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != TestedKind::Machine || change.removed || change.object.is_standby() {
            return;
        }
        let pool = change.object.owner_uid();
        let former = before.get(TestedKind::Machine, change.object.uid());
        // An activation adds a machine, as a create does.
        let belonged = former.is_some_and(|former| former.owner_uid() == pool && !former.is_standby());
        let returned = former.is_some() && actions.returned.contains(change.object.uid());
        if returned && !belonged {
            returns.insert(change.object.uid().to_owned(), change.at);
        }
        if pool.is_empty() || belonged || returned || actions.late_creates.contains(change.object.name()) {
            return;
        }
        let stamp = if former.is_none() { change.object.text("/metadata/creationTimestamp") } else { "" };
        // The controller could read the pool before it sent the request, and not while admission delayed it.
        let late = former.and_then(|standby| actions.late_activation(standby));
        let states = timeline.readable_states(pool, late.unwrap_or_else(|| accepted_at(change.at, stamp)));
        // A reserved machine that is gone still counts, because it is not replaced (I6).
        let vacant = |state_at: &DesiredState| {
            let gone = |uid: &&String| before.get(TestedKind::Machine, uid).is_none();
            state_at.desired.saturating_sub(state_at.record.reserved.iter().filter(gone).count())
        };
        let Some(vacant) = states.iter().map(|state_at| vacant(state_at)).max() else { return };
        let desired = states.iter().map(|state_at| state_at.desired).max().unwrap_or_default();
        let more = actions.in_flight.get(pool).copied().unwrap_or_default();
        let unseen = |uid: &str| {
            returns.get(uid).is_some_and(|returned| change.at.duration_since(*returned) <= RETURN_OBSERVATION_DELAY)
        };
        // The pool releases a machine that it does not select, and does not wait for that.
        let selects =
            |machine: &JsonObject| before.get(TestedKind::Pool, pool).is_none_or(|pool| pool.selects(machine));
        let machines = before.active_machines(pool);
        let machines = machines.filter(|machine| selects(machine) && !unseen(machine.uid())).count() + 1;
        let stuck = count_stuck_machines(before, pool, &states, change.at, actions);
        let machines = machines - stuck.min(machines - 1);
        let (name, revision) = (change.object.name(), change.revision);
        if !states.is_empty() && states.iter().all(|state| state.paused) && more == 0 {
            let what = format!("machine {name} was added to the paused pool at revision {revision}");
            found.push(Violation { invariant: "I2", what });
        } else if machines > desired + more {
            let allowed = desired + more;
            let what = format!(
                "machine {name} was added at revision {revision} as number {machines}, but every reader saw at most \
                 {allowed} as desired"
            );
            found.push(Violation { invariant: "I2", what });
        } else if machines > vacant + more {
            let what = format!("machine {name} was added at revision {revision} in the place of a targeted machine");
            found.push(Violation { invariant: "I6", what });
        }
    });
    found
}
