//! The claims of DataVolumes. On a cluster without a volume controller the simulator binds them.

use crate::{
    kubevirt::{
        model::KubeVirtModel,
        objects::{KubeVirtObjectId, KubeVirtObjectKind},
    },
    objects::NamespacedKey,
};
use jiff::Timestamp;
use serde_json::{Value, json};

impl KubeVirtModel {
    /// One pass over a claim, which need not exist any more.
    pub(crate) fn plan_claim(&mut self, key: &NamespacedKey, now: Timestamp) {
        self.judge_suspects(key, now);
        let Some(claim) = self.claims.view(key).cloned() else {
            // A create that failed is repeated by the DataVolume, if it still exists.
            return match self.data_volumes.view(key) {
                Some(_) => self.mark(KubeVirtObjectKind::DataVolume, key),
                None => self.give_up(&KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key)),
            };
        };
        let Some(slot) = self.claims.slot(key) else { return };
        slot.memory.bound |= claim.phase.as_deref() == Some("Bound");
        if slot.memory.bound || claim.meta.deleting() || !self.is_populated(key) {
            return;
        }
        let storage = claim.spec["resources"]["requests"]["storage"].clone();
        let status = json!({
            "phase": "Bound",
            "accessModes": claim.spec["accessModes"],
            "capacity": if storage.is_null() { Value::Null } else { json!({"storage": storage}) },
        });
        self.patch_status(&KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key), &status, now);
    }

    /// Whether CDI fills the claim, or has filled it.
    fn is_populated(&self, key: &NamespacedKey) -> bool {
        let phase = self.data_volumes.view(key).map(|view| &view.status.phase);
        phase.is_some_and(|phase| {
            !matches!(&**phase, "" | "Pending" | "WaitForFirstConsumer" | "PendingPopulation")
        })
    }
}
