//! CDI: a DataVolume becomes a claim with content.

mod claim;
mod data_source;
mod download;
mod snapshot;
mod source;
mod stages;
mod status;

pub(crate) use source::review_body;

use super::{
    model::KubeVirtModel,
    objects::{DataVolumeView, KubeVirtObjectId, KubeVirtObjectKind, claims_of},
};
use crate::{knobs::Effective, objects::NamespacedKey};
use jiff::Timestamp;
use serde_json::json;

/// Annotation of a DataVolume that CDI must not delete after its success, with the value `false`.
const DELETE_AFTER_COMPLETION: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";

impl KubeVirtModel {
    pub(super) fn knobs_of_data_volume<'a>(
        &'a self,
        key: &NamespacedKey,
        view: &'a DataVolumeView,
    ) -> Effective<'a> {
        self.knobs_for(key, view.knobs.as_deref())
    }

    /// One pass over a DataVolume.
    pub(super) fn plan_data_volume(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(data_volume) = self.data_volumes.view(key).cloned() else {
            self.waiting.remove(key);
            // A create that failed is repeated by the machine, if one still needs it.
            let users = self.users.get(key).cloned().unwrap_or_default();
            if users.is_empty() {
                self.give_up(&KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, key));
            }
            return users.iter().for_each(|user| self.mark(KubeVirtObjectKind::Machine, user));
        };
        if data_volume.meta.deleting() {
            return;
        }
        let known = self.data_volumes.slot(key).and_then(|slot| slot.memory.stage.clone());
        let mut stage = known.unwrap_or_else(|| (data_volume.status.phase.clone(), now));
        self.advance_data_volume(key, &data_volume, &mut stage, now);
        if let Some(slot) = self.data_volumes.slot(key) {
            slot.memory.stage = Some(stage.clone());
        }
        if stage.0 == "CloneScheduled" && self.missing_source(key, &data_volume).is_some() {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        if self.publish_data_volume(key, &data_volume, &stage.0, now) && data_volume.succeeded() {
            self.delete_completed_data_volume(key, &data_volume, now);
        }
    }

    /// If the knob requests it and no annotation prevents it, gives the claim of a DataVolume that succeeded
    /// the controller of the DataVolume, or none, and deletes the DataVolume.
    fn delete_completed_data_volume(
        &mut self,
        key: &NamespacedKey,
        data_volume: &DataVolumeView,
        now: Timestamp,
    ) {
        let wanted = self.knobs_of_data_volume(key, data_volume).is(|knobs| knobs.collect_data_volumes);
        let kept =
            data_volume.meta.annotations.get(DELETE_AFTER_COMPLETION).is_some_and(|value| value == "false");
        if !wanted || kept {
            return;
        }
        let owner = data_volume.meta.controller().cloned();
        let Some(claim) = self.claims.view(key).cloned() else { return };
        let is_handed_over = match &owner {
            Some(owner) => claim.meta.is_controlled_by(&owner.uid),
            None => claim.meta.controller().is_none(),
        };
        if is_handed_over {
            if let Some(slot) = self.data_volumes.slot(key) {
                slot.memory.collected = true;
            }
            self.delete(
                &KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, key),
                &data_volume.meta.uid,
                false,
                now,
            );
        } else if claim.meta.is_controlled_by(&data_volume.meta.uid) && !claim.meta.deleting() {
            let others = claim.meta.owners.iter().filter(|other| *other.uid != *data_volume.meta.uid);
            let owners: Vec<_> = others.chain(&owner).collect();
            self.patch(
                &KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key),
                json!({"metadata": {"ownerReferences": owners}}),
                now,
            );
        }
    }

    /// Whether an instance waits for the DataVolume.
    fn has_consumer(&self, key: &NamespacedKey) -> bool {
        let users = self.users.get(key).into_iter().flatten();
        users.filter_map(|user| Some((user, self.instances.view(user)?))).any(|(user, instance)| {
            !instance.meta.deleting()
                && !instance.status.phase.is_final()
                && claims_of(user, instance).contains(key)
        })
    }
}
