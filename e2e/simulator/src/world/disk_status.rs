//! The object of a disk: its finalizers, the log of its mounts, and its status.

use super::{
    events::{Action, BRIEF, Write},
    model::{Disk, Stage, World},
};
use crate::{
    objects::{
        AttachedTo, Condition, DiskPhase, DiskStatus, DiskTarget, Id, Key, Kind, MOUNT_LOG, VD_CLEANUP,
        VD_PROTECTION,
    },
    shared::outbox::{Permit, difference, locked_metadata, locked_status},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

impl World {
    /// Writes the differences between model and object, one write at a time; `due` is the time of the disk's next
    /// stage.
    pub(super) fn publish_disk(
        &mut self,
        key: &Key,
        disk: &mut Disk,
        due: Option<Timestamp>,
        now: Timestamp,
    ) {
        let id = Id::new(Kind::Disk, key.clone());
        match disk.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id, at),
        }
        if let Some(metadata) = disk_metadata(disk) {
            if disk.outbox.admit(&json!(metadata), disk.view.meta.version) {
                let patch = locked_metadata(&disk.view.meta, metadata);
                self.actions.push(Action::Write(id, Write::Patch(patch)));
            }
            return;
        }
        let provisions = matches!(disk.stage, Stage::Provisioning(_) | Stage::Binding(_));
        if is_finished(disk) || (provisions && due.is_some_and(|at| at <= now + BRIEF)) {
            return;
        }
        let desired = self.disk_status(key, disk, now);
        if let Some(status) = difference(&disk.view.status, &desired)
            && disk.outbox.admit(&status, disk.view.meta.version)
        {
            let patch = locked_status(&disk.view.meta, &status);
            self.actions.push(Action::Write(id, Write::PatchStatus(patch)));
        }
    }

    fn disk_status(&self, key: &Key, disk: &Disk, now: Timestamp) -> DiskStatus {
        let generation = disk.view.meta.generation;
        let observed = &disk.view.status.conditions;
        let say = |type_: &str, state| Condition::next(observed, type_, state, generation, now);
        let in_use = match &disk.holder {
            Some(holder) => (true, "AttachedToVirtualMachine", format!("attached to {}", holder.name)),
            None => (false, "NotInUse", String::new()),
        };
        let mut conditions = vec![say("Ready", ready_condition(disk)), say("InUse", in_use)];
        match disk.stage {
            Stage::Resizing(_) => conditions.push(say("Resizing", (true, "InProgress", String::new()))),
            Stage::Ready if Self::grows(disk) && !self.may_expand(disk) => {
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
        DiskStatus {
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
fn is_finished(disk: &Disk) -> bool {
    disk.view.meta.deleting && disk.holder.is_none() && disk.mounts.is_empty()
}

fn disk_metadata(disk: &Disk) -> Option<Map<String, Value>> {
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

fn phase(disk: &Disk) -> DiskPhase {
    if disk.view.meta.deleting {
        return DiskPhase::Terminating;
    }
    match disk.stage {
        Stage::Pending(_) => DiskPhase::Pending,
        Stage::Provisioning(_) | Stage::Binding(_) => DiskPhase::Provisioning,
        Stage::Upload => DiskPhase::WaitForUserUpload,
        Stage::Waiting => DiskPhase::WaitForFirstConsumer,
        Stage::Ready => DiskPhase::Ready,
        Stage::Resizing(_) => DiskPhase::Resizing,
        Stage::Failed(_) => DiskPhase::Failed,
        Stage::Lost => DiskPhase::PvcLost,
    }
}

fn ready_condition(disk: &Disk) -> (bool, &'static str, String) {
    if disk.view.meta.deleting {
        return (false, "Terminating", "the disk is being deleted".to_owned());
    }
    match &disk.stage {
        Stage::Pending(why) => (false, "WaitingForDependencies", why.clone()),
        Stage::Provisioning(_) | Stage::Binding(_) => (false, "Provisioning", String::new()),
        Stage::Upload => (false, "WaitingForUserUpload", String::new()),
        Stage::Waiting => (false, "WaitingForFirstConsumer", String::new()),
        Stage::Ready | Stage::Resizing(_) => (true, "Ready", String::new()),
        Stage::Failed(why) => (false, "ProvisioningFailed", why.clone()),
        Stage::Lost => (false, "PVCLost", String::new()),
    }
}
