//! A disk in the model, and its stages.

use crate::{
    objects::{DiskPhase, DiskView},
    shared::outbox::Outbox,
};
use jiff::Timestamp;
use std::sync::Arc;

/// Maximum number of UIDs in a disk's log; the oldest are dropped.
const LOG_LENGTH: usize = 32;

/// A disk in the model.
#[derive(Debug)]
pub(in crate::world) struct SimulatedDisk {
    pub(in crate::world) view: DiskView,
    pub(in crate::world) outbox: Outbox,
    pub(in crate::world) stage: DiskStage,
    /// Size of the volume, a quantity.
    pub(in crate::world) capacity: Option<String>,
    /// The machine to which it is attached according to the platform.
    pub(in crate::world) holder: Option<DiskHolder>,
    /// UIDs of the machines whose guests use it. More than one is a violation.
    pub(in crate::world) mounts: Vec<Arc<str>>,
    /// UIDs of the machines that have used it, oldest first.
    pub(in crate::world) log: Vec<Box<str>>,
}

/// The machine to which a disk is attached. Other machines cannot start with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) struct DiskHolder {
    pub(in crate::world) uid: Arc<str>,
    pub(in crate::world) name: Arc<str>,
}

/// The stage of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world) enum DiskStage {
    /// Waits for this reason.
    Pending(String),
    Provisioning(Timestamp),
    Upload,
    /// Waits for its first consumer, a machine that starts with it.
    Waiting,
    /// A machine has started with it.
    Binding(Timestamp),
    Ready,
    Resizing(Timestamp),
    /// Failed permanently, for this reason.
    Failed(String),
    Lost,
}

impl SimulatedDisk {
    pub(in crate::world) fn new(view: DiskView, now: Timestamp) -> Self {
        let stage = match view.status.phase {
            Some(DiskPhase::Provisioning) => DiskStage::Provisioning(now),
            Some(DiskPhase::WaitForUserUpload) => DiskStage::Upload,
            Some(DiskPhase::WaitForFirstConsumer) => DiskStage::Waiting,
            Some(DiskPhase::Resizing) => DiskStage::Resizing(now),
            Some(DiskPhase::Failed) => DiskStage::Failed("failed earlier".to_owned()),
            Some(DiskPhase::PvcLost) => DiskStage::Lost,
            Some(DiskPhase::Ready | DiskPhase::Exporting | DiskPhase::Migrating) => DiskStage::Ready,
            // The previous phase is unknown; an existing volume still exists.
            Some(DiskPhase::Terminating) if view.status.capacity.is_some() => DiskStage::Ready,
            None | Some(DiskPhase::Pending | DiskPhase::Terminating) => DiskStage::Pending(String::new()),
        };
        let log = view.mount_log.iter().flat_map(|log| log.split(',')).filter(|uid| !uid.is_empty());
        Self {
            log: log.map(Box::from).collect(),
            outbox: Outbox::new(now),
            capacity: view.status.capacity.clone(),
            stage,
            view,
            holder: None,
            mounts: Vec::new(),
        }
    }

    /// Whether a guest can use it.
    pub(in crate::world) fn is_usable(&self) -> bool {
        matches!(self.stage, DiskStage::Ready | DiskStage::Resizing(_))
    }

    /// Whether it becomes usable only when a machine starts with it.
    pub(in crate::world) fn waits_for_consumer(&self) -> bool {
        matches!(self.stage, DiskStage::Waiting | DiskStage::Binding(_))
    }

    /// Whether it waits for an event other than the end of a delay.
    pub(in crate::world) fn is_pending(&self) -> bool {
        matches!(self.stage, DiskStage::Pending(_))
    }

    /// Records that the guest of a machine has used the disk.
    pub(in crate::world) fn log_mount(&mut self, uid: &str) {
        self.log.push(uid.into());
        let surplus = self.log.len().saturating_sub(LOG_LENGTH);
        self.log.drain(..surplus);
    }
}
