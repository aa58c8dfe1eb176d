//! I16: a machine is created only while fewer machines of its pool provision than the limit that the
//! controller planned with.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::timeline::{Timeline, accepted_at};
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedHistory, RecordedState};

/// After this time, a machine no longer counts, unless healing has a shorter one.
const START_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// The run strategies of KubeVirt that do not restart a machine whose guest has ended.
const NOT_RESTARTED: [&str; 3] = ["Manual", "RerunOnFailure", "Once"];

/// Machines that were added although the pool had as many provisioning machines as the limit allows that any
/// reader could still see. Without the feature gate there is no limit.
pub fn check_provisioning(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    if !actions.limits_provisioning {
        return Vec::new();
    }
    let mut timeline = Timeline::default();
    let mut started: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    history.replay(|before, change| {
        timeline.observe(change);
        if change.kind != TestedKind::Machine {
            return;
        }
        let machine = &change.object;
        if has_started(machine) {
            started.insert(machine.uid().to_owned());
        }
        let is_new = !change.removed && before.get(TestedKind::Machine, machine.uid()).is_none();
        let pool = machine.owner_uid();
        if !is_new || pool.is_empty() || actions.late_creates.contains(machine.name()) {
            return;
        }
        let stamp = machine.text("/metadata/creationTimestamp");
        let states = timeline.readable_states(pool, accepted_at(change.at, stamp));
        // A pool may have had no limit when the controller planned.
        let limits: Option<Vec<usize>> = states.iter().map(|state| state.provisioning_limit).collect();
        let Some(limit) = limits.and_then(|limits| limits.into_iter().max()) else { return };
        let allowed = limit + actions.in_flight.get(pool).copied().unwrap_or_default();
        // A machine that is too old for one of the settings may not have counted.
        let timeouts = states.iter().filter_map(|state| Some(state.health?.start_timeout));
        let timeout = timeouts.fold(START_TIMEOUT, SignedDuration::min) - actions.clocks_ahead;
        let is_young = |created| change.at.duration_since(created) < timeout;
        let provisioning = count_provisioning(before, pool, &started, actions, is_young);
        if provisioning >= allowed {
            let (name, revision) = (machine.name(), change.revision);
            let what = format!(
                "machine {name} was created at revision {revision} while {provisioning} machines provisioned, and every \
                 reader saw a limit of at most {allowed}"
            );
            found.push(Violation { invariant: "I16", what });
        }
    });
    found
}

/// Number of live machines of the pool that have neither been ready nor stopped, and are not too old. The
/// controller may not have seen machines that a user returned.
fn count_provisioning(
    before: &RecordedState,
    pool: &str,
    started: &BTreeSet<String>,
    actions: &UserActions,
    is_young: impl Fn(Timestamp) -> bool,
) -> usize {
    let owner = before.get(TestedKind::Pool, pool);
    let counts = |machine: &&JsonObject| {
        let created: Option<Timestamp> = machine.text("/metadata/creationTimestamp").parse().ok();
        let is_young = created.is_none_or(&is_young);
        let is_settled = started.contains(machine.uid()) || actions.returned.contains(machine.uid());
        // An admission policy can change the labels of a create, so that the machine never belongs to the
        // pool.
        let is_selected = owner.is_none_or(|owner| owner.selects(machine));
        is_young && is_selected && !machine.is_terminating() && !is_settled
    };
    before.owned_by(TestedKind::Machine, pool).filter(counts).count()
}

/// Whether the machine is ready, or stopped.
fn has_started(machine: &JsonObject) -> bool {
    if machine.is_running() {
        return true;
    }
    if !machine.is_kubevirt() {
        return machine.phase() == "Stopped";
    }
    let strategy = machine.text("/spec/runStrategy");
    let is_off = machine.at("/spec/running") == false || ["Halted", "WaitAsReceiver"].contains(&strategy);
    is_off || NOT_RESTARTED.contains(&strategy) && machine.text("/status/printableStatus") == "Stopped"
}
