//! The desired state of each pool over time, and how long a reader could still see a former one.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::disruption_budget::disruption_budget;
use super::health_setting::{HealthSetting, health_setting};
use super::provisioning_limit::provisioning_limit;
use super::removal_record::ParsedRemovalRecord;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedChange;

/// How long after a change of the pool a write may still be based on the former state.
///
/// The controller reads the pool live before it writes, and a write takes at most this long.
pub(super) const READABLE_FOR: Duration = Duration::from_secs(3);

/// When the store accepted a write that the harness observed at `heard`. The server's own `stamp`, in whole
/// seconds, is used if it is earlier, because a broken watch delivers events late.
pub(super) fn accepted_at(heard: Timestamp, stamp: &str) -> Timestamp {
    let stamped: Option<Timestamp> = stamp.parse().ok();
    stamped.map_or(heard, |stamped| heard.min(stamped + SignedDuration::from_secs(1)))
}

/// Which machines a scale-down may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removable {
    /// Any.
    All,
    /// Those that users stopped.
    Stopped,
    /// None.
    None,
}

/// The desired state of a pool from one moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DesiredState {
    /// When the harness observed it.
    since: Timestamp,
    /// `spec.replicas`; 0 once the pool is terminating.
    pub(super) desired: usize,
    /// The removal record.
    pub(super) record: ParsedRemovalRecord,
    /// Which machines may be removed besides targets.
    pub(super) removable: Removable,
    /// Whether the controller may create no machine, and remove only targets. KubeVirt pools have this.
    pub(super) paused: bool,
    /// The number of failed starts after which the controller replaces a machine. KubeVirt pools have this.
    pub(super) healing: Option<u64>,
    /// When the controller replaces machines that are not ready.
    pub(super) health: Option<HealthSetting>,
    /// How many machines may provision at the same time; `None` without a limit.
    pub(super) provisioning_limit: Option<usize>,
    /// How many machines may be unavailable at the same time.
    pub(super) budget: usize,
    /// Whether the pool is terminating or deleted.
    pub(super) terminating: bool,
}

/// Which machines a scale-down of the pool may remove.
fn removable_machines(pool: &JsonObject) -> Removable {
    let strategy = pool.at("/spec/scaleInStrategy");
    if pool.text("/spec/scaleDownPolicy") == "Explicit" || strategy["unmanaged"].is_object() {
        Removable::None
    } else if strategy["opportunistic"].is_object() {
        Removable::Stopped
    } else {
        Removable::All
    }
}

/// Whether the pool can keep more machines than it desires.
pub fn keeps_surplus(pool: &JsonObject) -> bool {
    removable_machines(pool) != Removable::All
}

/// The number of failed starts after which a KubeVirt pool replaces a machine.
fn autohealing_threshold(pool: &JsonObject) -> Option<u64> {
    let healing = pool.at("/spec/autohealing").as_object()?;
    Some(healing.get("startUpFailureThreshold").and_then(Value::as_u64).unwrap_or(3))
}

/// The desired states of all pools, by UID, in the order of the store.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pools: BTreeMap<String, Vec<DesiredState>>,
}

impl Timeline {
    /// Records a change of a pool; ignores other changes.
    pub(super) fn observe(&mut self, change: &RecordedChange) {
        if change.kind != TestedKind::Pool {
            return;
        }
        let pool = &change.object;
        let terminating = change.removed || pool.is_terminating();
        let desired = pool.desired_replicas();
        let state_at = DesiredState {
            since: change.at,
            desired: if terminating { 0 } else { desired },
            record: ParsedRemovalRecord::of(pool),
            removable: removable_machines(pool),
            paused: pool.is_kubevirt() && pool.at("/spec/paused") == true,
            healing: autohealing_threshold(pool),
            health: health_setting(pool, desired),
            provisioning_limit: provisioning_limit(pool, desired),
            budget: disruption_budget(pool, desired),
            terminating,
        };
        let states = self.pools.entry(pool.uid().to_owned()).or_default();
        let repeats = states
            .last()
            .is_some_and(|last| DesiredState { since: state_at.since, ..last.clone() } == state_at);
        if !repeats {
            states.push(state_at);
        }
    }

    /// The states of the pool of a machine that a writer may have read when it deleted the machine with this
    /// change.
    pub(super) fn states_at_deletion(
        &self,
        machine: &JsonObject,
        change: &RecordedChange,
    ) -> Vec<&DesiredState> {
        let stamp = change.object.text("/metadata/deletionTimestamp");
        self.readable_states(machine.owner_uid(), accepted_at(change.at, stamp))
    }

    /// The states that a writer may have read at this moment: the current one, and those that were replaced
    /// recently. Empty for an unknown pool.
    pub(super) fn readable_states(&self, pool_uid: &str, at: Timestamp) -> Vec<&DesiredState> {
        let states = self.pools.get(pool_uid).map_or(&[][..], Vec::as_slice);
        let limit = SignedDuration::try_from(READABLE_FOR).unwrap_or(SignedDuration::ZERO);
        let replaced = states.iter().skip(1).map(|next| Some(next.since)).chain([None]);
        states
            .iter()
            .zip(replaced)
            .filter(|(_, replaced)| replaced.is_none_or(|replaced| at.duration_since(replaced) <= limit))
            .map(|(state_at, _)| state_at)
            .collect()
    }
}
