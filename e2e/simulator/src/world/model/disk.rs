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
pub(crate) struct SimulatedDisk {
    pub(crate) view: DiskView,
    pub(crate) outbox: Outbox,
    pub(crate) stage: DiskStage,
    /// Size of the volume, a quantity.
    pub(crate) capacity: Option<String>,
    /// The machine to which it is attached according to the platform.
    pub(crate) holder: Option<DiskHolder>,
    /// UIDs of the machines whose guests use it. More than one is a violation.
    pub(crate) mounts: Vec<Arc<str>>,
    /// UIDs of the machines that have used it, oldest first.
    pub(crate) log: Vec<Box<str>>,
}

/// The machine to which a disk is attached. Other machines cannot start with the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskHolder {
    pub(crate) uid: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// The stage of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiskStage {
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
    pub(crate) fn new(view: DiskView, now: Timestamp) -> Self {
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
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.stage, DiskStage::Ready | DiskStage::Resizing(_))
    }

    /// Whether it becomes usable only when a machine starts with it.
    pub(crate) fn waits_for_consumer(&self) -> bool {
        matches!(self.stage, DiskStage::Waiting | DiskStage::Binding(_))
    }

    /// Whether it waits for an event other than the end of a delay.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.stage, DiskStage::Pending(_))
    }

    /// Records that the guest of a machine has used the disk.
    pub(crate) fn log_mount(&mut self, uid: &str) {
        self.log.push(uid.into());
        let surplus = self.log.len().saturating_sub(LOG_LENGTH);
        self.log.drain(..surplus);
    }
}
