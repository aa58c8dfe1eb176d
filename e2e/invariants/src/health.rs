//! I20: healing removes no ready machine, and none while more than `maxUnhealthy` machines are unhealthy.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::UserActions;
use super::health_setting::HealthSetting;
use super::timeline::DesiredState;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedState};

/// By how much the times of the recorded history, of the platform and of the controller can differ.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(3);

/// What the controller may remove because of healing.
pub(super) enum HealingVerdict {
    /// This machine is not unhealthy.
    NotUnhealthy,
    /// The machine is unhealthy.
    Allowed,
    /// The machine is unhealthy, but so are too many others.
    TooMany,
}

/// Since when machines are not ready, by UID.
#[derive(Debug, Default)]
pub(super) struct RecordedUnreadiness(BTreeMap<String, UnreadySince>);

/// Since when a machine is not ready.
#[derive(Debug, Clone, Copy)]
struct UnreadySince {
    /// Apart from excuses that were so short that a pass need not have seen them.
    earliest: Timestamp,
    /// Since its last excuse.
    latest: Timestamp,
    /// Since when it has an excuse.
    excused: Option<Timestamp>,
}

impl RecordedUnreadiness {
    /// Records a change of a machine that stays; ignores other changes.
    pub(super) fn observe(&mut self, change: &RecordedChange) {
        if change.kind != TestedKind::Machine {
            return;
        }
        let (machine, at) = (&change.object, change.at);
        if machine.is_standby() || machine.is_running() {
            self.0.remove(machine.uid());
            return;
        }
        let new = UnreadySince { earliest: at, latest: at, excused: None };
        let unready = self.0.entry(machine.uid().to_owned()).or_insert(new);
        if is_excused(machine) {
            unready.excused.get_or_insert(at);
        } else if let Some(excused) = unready.excused.take() {
            unready.latest = at;
            if at.duration_since(excused) > TOLERANCE {
                unready.earliest = at;
            }
        }
    }

    /// Whether healing may remove this machine, according to one of the states that the controller may have
    /// read.
    pub(super) fn judge(
        &self,
        machine: &JsonObject,
        states: &[&DesiredState],
        before: &RecordedState,
        at: Timestamp,
        actions: &UserActions,
    ) -> HealingVerdict {
        let (early, late) = (TOLERANCE + actions.clocks_ahead, TOLERANCE + actions.unseen_for);
        let active = states.iter().filter(|state| !state.paused).filter_map(|state| state.health);
        let since = |machine: &JsonObject| self.0.get(machine.uid()).filter(|since| since.excused.is_none());
        let (earliest, latest) = (|since: &UnreadySince| since.earliest, |since: &UnreadySince| since.latest);
        let settings: Vec<HealthSetting> = active
            .filter(|setting| is_unhealthy(machine, since(machine).map(earliest), setting, at, early))
            .collect();
        let Some(limit) = settings.iter().map(|setting| setting.max_unhealthy).max() else {
            return HealingVerdict::NotUnhealthy;
        };
        // Only machines that every reader finds unhealthy.
        let is_surely = |other: &&JsonObject| {
            let is_found = |setting| is_unhealthy(other, since(other).map(latest), setting, at, -late);
            !other.is_terminating() && settings.iter().all(is_found)
        };
        let others = before.active_machines(machine.owner_uid()).filter(is_surely);
        let unhealthy = others.filter(|other| other.uid() != machine.uid()).count() + 1;
        if unhealthy > limit { HealingVerdict::TooMany } else { HealingVerdict::Allowed }
    }
}

fn is_unhealthy(
    machine: &JsonObject,
    unready_since: Option<Timestamp>,
    setting: &HealthSetting,
    at: Timestamp,
    tolerance: SignedDuration,
) -> bool {
    let has_passed = |since: Timestamp, time: SignedDuration| at.duration_since(since) + tolerance >= time;
    start_of(machine).is_none_or(|start| has_passed(start, setting.start_timeout))
        && unready_since.is_some_and(|since| has_passed(since, setting.not_ready_for))
}

/// When the machine was activated or, if it was not, created.
fn start_of(machine: &JsonObject) -> Option<Timestamp> {
    let activated = machine.annotation("vmpool.dev/activated-at").and_then(|text| text.parse().ok());
    activated.or_else(|| machine.text("/metadata/creationTimestamp").parse().ok())
}

/// Whether the machine is in a state in which it is not ready on purpose.
fn is_excused(machine: &JsonObject) -> bool {
    if machine.annotation("vmpool.dev/restarting").is_some() {
        return true;
    }
    if !machine.is_kubevirt() {
        let is_always_on = machine.text("/spec/runPolicy") == "AlwaysOn";
        return match machine.phase() {
            "Stopped" => !is_always_on && !machine.is_starting_activated(),
            phase => ["Stopping", "Pause"].contains(&phase),
        };
    }
    let state = machine.text("/status/printableStatus");
    let strategy = machine.text("/spec/runStrategy");
    ["Paused", "Stopping", "Migrating"].contains(&state)
        || strategy == "Halted"
        || state == "Stopped" && strategy != "Always"
        || !machine.text("/status/snapshotInProgress").is_empty()
        || !machine.text("/status/restoreInProgress").is_empty()
}

/// How many machines of the pool count as gone although they are being deleted, according to one of these
/// states.
pub(super) fn count_stuck_machines(
    before: &RecordedState,
    pool: &str,
    states: &[&DesiredState],
    at: Timestamp,
    actions: &UserActions,
) -> usize {
    let tolerance = TOLERANCE + actions.clocks_ahead;
    let stuck_of = |setting: HealthSetting| {
        let after = setting.replace_stuck_after?;
        let is_stuck = |machine: &&JsonObject| {
            let deleted: Option<Timestamp> = machine.text("/metadata/deletionTimestamp").parse().ok();
            deleted.is_some_and(|deleted| at.duration_since(deleted) + tolerance >= after)
        };
        Some(before.active_machines(pool).filter(is_stuck).count().min(setting.max_unhealthy))
    };
    states.iter().filter_map(|state| state.health.and_then(stuck_of)).max().unwrap_or_default()
}
