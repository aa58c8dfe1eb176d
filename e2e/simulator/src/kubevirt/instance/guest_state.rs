//! States of a running guest that the knob `guest-state` sets: paused, or moving to a different node.

use super::{condition::new_condition, shown_guest::ShownGuest};
use crate::{
    knobs::{MIGRATING, PAUSED},
    kubevirt::{
        model::KubeVirtModel,
        objects::{InstanceStatus, SimulatedKubeVirtCondition},
    },
    objects::format_seconds,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The message of the condition that the knob sets. Other clients pause guests, too.
const PAUSED_BY_KNOB: &str = "VMI was paused by user, as the knob guest-state says";
/// The UID of the migration that the knob sets.
const MIGRATION: &str = "knob-guest-state";

/// Whether the knob has set this condition.
pub(super) fn is_of_knob(condition: &SimulatedKubeVirtCondition) -> bool {
    condition.type_ == PAUSED && condition.message.as_deref() == Some(PAUSED_BY_KNOB)
}

impl KubeVirtModel {
    fn is_in_state(&self, shown: ShownGuest<'_>, state: &str) -> bool {
        let knob = self.knobs_of_instance(shown.key, shown.instance).get(|knobs| knobs.guest_state.clone());
        shown.runs() && knob.as_deref() == Some(state)
    }

    /// The condition of a guest that the knob pauses.
    pub(super) fn paused_condition(
        &self,
        shown: ShownGuest<'_>,
        now: Timestamp,
    ) -> Option<SimulatedKubeVirtCondition> {
        self.is_in_state(shown, PAUSED)
            .then(|| new_condition(PAUSED, "True", "PausedByUser", PAUSED_BY_KNOB.to_owned(), now))
    }

    /// The migration that the knob begins, or ends when it is removed, or that of another client.
    pub(super) fn migration_state(&self, shown: ShownGuest<'_>, now: Timestamp) -> Option<Value> {
        let observed: &InstanceStatus = &shown.instance.status;
        let is_wanted = self.is_in_state(shown, MIGRATING);
        match &observed.migration_state {
            Some(state) if !is_wanted && observed.migrates() && state["migrationUid"] == MIGRATION => {
                let mut ended = state.clone();
                ended["endTimestamp"] = json!(format_seconds(now));
                ended["completed"] = json!(true);
                Some(ended)
            }
            _ if is_wanted && !observed.migrates() => {
                Some(json!({ "migrationUid": MIGRATION, "startTimestamp": format_seconds(now) }))
            }
            state => state.clone(),
        }
    }
}
