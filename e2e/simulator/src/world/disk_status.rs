//! The object of a disk: its finalizers, the log of its mounts, and its status.

use super::{
    events::{BRIEF, DvpModelAction, DvpWrite},
    model::{DiskStage, DvpModel, SimulatedDisk},
};
use crate::{
    objects::{
        AttachedTo, DiskPhase, DiskTarget, DvpObjectId, DvpObjectKind, MOUNT_LOG, NamespacedKey,
        SimulatedDiskStatus, SimulatedDvpCondition, VD_CLEANUP, VD_PROTECTION,
    },
    shared::outbox::{Permit, locked_metadata, locked_status, status_merge_patch},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

impl DvpModel {
    /// Writes the differences between model and object, one write at a time; `due` is the time of the disk's
    /// next stage.
    pub(super) fn publish_disk(
        &mut self,
        key: &NamespacedKey,
        disk: &mut SimulatedDisk,
        due: Option<Timestamp>,
        now: Timestamp,
    ) {
        let id = DvpObjectId::new(DvpObjectKind::Disk, key.clone());
        match disk.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id, at),
        }
        if let Some(metadata) = disk_metadata(disk) {
            if disk.outbox.admit(&json!(metadata), disk.view.meta.version) {
                let patch = locked_metadata(&disk.view.meta, metadata);
                self.actions.push(DvpModelAction::Write(id, DvpWrite::Patch(patch)));
            }
            return;
        }
        let provisions = matches!(disk.stage, DiskStage::Provisioning(_) | DiskStage::Binding(_));
        if is_finished(disk) || (provisions && due.is_some_and(|at| at <= now + BRIEF)) {
            return;
        }
        let desired = self.disk_status(key, disk, now);
        if let Some(status) = status_merge_patch(&disk.view.status, &desired)
            && disk.outbox.admit(&status, disk.view.meta.version)
        {
            let patch = locked_status(&disk.view.meta, &status);
            self.actions.push(DvpModelAction::Write(id, DvpWrite::PatchStatus(patch)));
        }
    }

    fn disk_status(&self, key: &NamespacedKey, disk: &SimulatedDisk, now: Timestamp) -> SimulatedDiskStatus {
        let generation = disk.view.meta.generation;
        let observed = &disk.view.status.conditions;
        let say = |type_: &str, state| SimulatedDvpCondition::next(observed, type_, state, generation, now);
        let in_use = match &disk.holder {
            Some(holder) => (true, "AttachedToVirtualMachine", format!("attached to {}", holder.name)),
            None => (false, "NotInUse", String::new()),
        };
        let mut conditions = vec![say("Ready", ready_condition(disk)), say("InUse", in_use)];
        match disk.stage {
            DiskStage::Resizing(_) => conditions.push(say("Resizing", (true, "InProgress", String::new()))),
            DiskStage::Ready if Self::needs_expansion(disk) && !self.may_expand(disk) => {
                let why = "the storage class does not allow expansion".to_owned();
                conditions.push(say("Resizing", (false, "NotAvailable", why)));
            }
            _ => {}
        }
        let users = self.users.get(key).into_iter().flatten();
        let attached_to_virtual_machines = users
            .map(|machine| AttachedTo {
                name: machine.name.to_string(),
                mounted: disk.holder.as_ref().is_some_and(|holder| holder.name == machine.name),
            })
            .collect();
        SimulatedDiskStatus {
            phase: Some(phase(disk)),
            observed_generation: Some(generation),
            conditions,
            capacity: disk.capacity.clone(),
            target: disk.capacity.is_some().then(|| DiskTarget {
                persistent_volume_claim_name: Some(format!("vd-{}", disk.view.meta.uid)),
            }),
            attached_to_virtual_machines,
        }
    }
}

/// Whether the object of a deleted disk can be removed: no machine uses it.
fn is_finished(disk: &SimulatedDisk) -> bool {
    disk.view.meta.deleting && disk.holder.is_none() && disk.mounts.is_empty()
}

fn disk_metadata(disk: &SimulatedDisk) -> Option<Map<String, Value>> {
    let meta = &disk.view.meta;
    let in_use = disk.holder.is_some() || !disk.mounts.is_empty();
    let mut finalizers = meta.finalizers.clone();
    let mut set = |finalizer: &str, wanted: bool| {
        let has = finalizers.iter().any(|other| other == finalizer);
        // The API server rejects new finalizers of a deleted object.
        if wanted && !has && !meta.deleting {
            finalizers.push(finalizer.to_owned());
        } else if !wanted && has {
            finalizers.retain(|other| other != finalizer);
        }
    };
    set(VD_CLEANUP, !is_finished(disk));
    set(VD_PROTECTION, in_use);
    let mut metadata = Map::new();
    if finalizers != meta.finalizers {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let log = disk.log.join(",");
    if log != disk.view.mount_log.as_deref().unwrap_or_default() && !is_finished(disk) {
        metadata.insert("annotations".to_owned(), json!({MOUNT_LOG: log}));
    }
    (!metadata.is_empty()).then_some(metadata)
}

fn phase(disk: &SimulatedDisk) -> DiskPhase {
    if disk.view.meta.deleting {
        return DiskPhase::Terminating;
    }
    match disk.stage {
        DiskStage::Pending(_) => DiskPhase::Pending,
        DiskStage::Provisioning(_) | DiskStage::Binding(_) => DiskPhase::Provisioning,
        DiskStage::Upload => DiskPhase::WaitForUserUpload,
        DiskStage::Waiting => DiskPhase::WaitForFirstConsumer,
        DiskStage::Ready => DiskPhase::Ready,
        DiskStage::Resizing(_) => DiskPhase::Resizing,
        DiskStage::Failed(_) => DiskPhase::Failed,
        DiskStage::Lost => DiskPhase::PvcLost,
    }
}

fn ready_condition(disk: &SimulatedDisk) -> (bool, &'static str, String) {
    if disk.view.meta.deleting {
        return (false, "Terminating", "the disk is being deleted".to_owned());
    }
    match &disk.stage {
        DiskStage::Pending(why) => (false, "WaitingForDependencies", why.clone()),
        DiskStage::Provisioning(_) | DiskStage::Binding(_) => (false, "Provisioning", String::new()),
        DiskStage::Upload => (false, "WaitingForUserUpload", String::new()),
        DiskStage::Waiting => (false, "WaitingForFirstConsumer", String::new()),
        DiskStage::Ready | DiskStage::Resizing(_) => (true, "Ready", String::new()),
        DiskStage::Failed(why) => (false, "ProvisioningFailed", why.clone()),
        DiskStage::Lost => (false, "PVCLost", String::new()),
    }
}
