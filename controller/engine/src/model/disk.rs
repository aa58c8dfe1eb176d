//! Disks: the facts that the engine reads, and the annotations that the controller stores.

use std::sync::Arc;

use jiff::Timestamp;

use crate::ids::{ObjectId, Uid};
use crate::membership::owner::Owner;
use crate::revisions::Fingerprint;

/// One disk object of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.creationTimestamp`; whole seconds, as the API server keeps it.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// Its controller owner.
    pub owner: Option<Owner>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
    /// The managed label that holds the name of its template.
    pub template: Option<Arc<str>>,
    /// Its state.
    pub state: DiskState,
    /// Fingerprint of the source that its spec names; only for a disk that is being provisioned and has no
    /// capacity yet.
    pub pending_source: Option<Fingerprint>,
    /// Why it is not ready, as the platform reports it; only for a disk that failed, lost its volume, or
    /// waits for an object.
    pub failure: Option<Arc<str>>,
    /// The size that its spec asks for, in bytes.
    pub size: Option<u64>,
    /// The size that it has, in bytes.
    pub capacity: Option<u64>,
    /// The machine that mounts it, from the status of the disk.
    pub mounted_by: Option<Arc<str>>,
    /// Whether an image is being created from it, or its data is being exported.
    pub used_otherwise: bool,
    /// Its part in an operation of the platform that restores disks.
    pub restore: DiskRestore,
    /// The annotations that the controller stores on a disk of the pool.
    pub annotations: DiskAnnotations,
}

impl Disk {
    /// A ready disk without owner, labels and template. Its creation time is the Unix epoch.
    pub fn blank(id: ObjectId) -> Self {
        Self {
            id,
            created: Timestamp::UNIX_EPOCH,
            terminating: false,
            owner: None,
            pool_uid_label: None,
            template: None,
            state: DiskState::Ready,
            pending_source: None,
            failure: None,
            size: None,
            capacity: None,
            mounted_by: None,
            used_otherwise: false,
            restore: DiskRestore::None,
            annotations: DiskAnnotations::default(),
        }
    }

    /// Whether this pool, which is in its namespace, is its controller owner.
    pub fn belongs_to(&self, pool: &ObjectId) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_pool(pool))
    }

    /// Whether this machine, which is in its namespace, is its controller owner.
    pub fn is_of_machine(&self, machine: &ObjectId) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_machine(machine))
    }

    /// Whether it contains data, or will when it is provisioned.
    pub fn is_usable(&self) -> bool {
        match self.state {
            DiskState::Ready | DiskState::Changing | DiskState::Pending => true,
            DiskState::Failed | DiskState::Lost | DiskState::Superseded => false,
        }
    }

    /// Whether it is useless and has never contained data, so that nothing is lost with it.
    pub fn was_never_provisioned(&self) -> bool {
        matches!(self.state, DiskState::Failed | DiskState::Superseded) && self.capacity.is_none()
    }
}

/// The state of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiskState {
    /// It contains data and can be used.
    Ready,
    /// It is being provisioned, or waits for its first consumer.
    #[default]
    Pending,
    /// It is being resized or migrated. It can be used, but its spec must not be changed.
    Changing,
    /// Its provisioning failed.
    Failed,
    /// Its volume was deleted.
    Lost,
    /// It is being provisioned from a source that its disk template no longer names, and contains no data. A
    /// disk alone does not show this:
    /// [`Snapshot::mark_superseded_disks`](crate::plan::PoolSnapshot::mark_superseded_disks) compares it with
    /// the pool.
    Superseded,
}

/// The part of a disk in an operation of the platform that restores disks: the platform deletes the disk, and
/// then creates another one with its name and the restored data. That one has no controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiskRestore {
    /// No operation concerns it.
    #[default]
    None,
    /// The platform deletes it, and creates another disk with its name.
    Replaced,
    /// The platform created it, with restored data.
    Created,
}

/// The annotations that the controller stores on a disk of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskAnnotations {
    /// The machine that it is allocated to. A name identifies the machine, because names are never reused.
    pub claimed_by: Option<Arc<str>>,
    /// Since when no machine uses it.
    pub free_since: Option<StoredTime>,
    /// Since when garbage collection intends to delete it.
    pub collecting_since: Option<StoredTime>,
}

/// A time that is stored in an annotation, which users can edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTime {
    /// The time.
    At(Timestamp),
    /// The annotation does not contain a valid time.
    Unreadable,
}
