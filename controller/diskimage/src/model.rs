//! What the planner knows about an image: its object, the objects with its data, and its status.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
pub use vmpool_api::ObjectKey;
use vmpool_api::diskimage::values::ImagePhase;

use crate::failure::DiskImageReason;

/// An image, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct DiskImage {
    /// Namespace and name. The objects with its data have the same.
    pub key: ObjectKey,
    /// The UID.
    pub uid: String,
    /// The version at which the facts were read.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it has our finalizer.
    pub protected: bool,
    /// Whether its annotation releases it from its references.
    pub force_release: bool,
    /// The value of the annotation that requests another import.
    pub retry: Option<String>,
    /// `spec.ttlAfterUnreferenced`. None also if it cannot be read: the image is then kept.
    pub ttl: Option<Duration>,
    /// Whether its disk is empty, so that nothing is transferred.
    pub blank: bool,
    /// Whether a user sends the data, at any time.
    pub upload: bool,
    /// Why the spec cannot be imported, if it cannot.
    pub invalid: Option<String>,
    /// The stored status.
    pub status: DiskImageStatus,
}

impl DiskImage {
    /// Whether its import needs a place in the queue. An import that transfers nothing, or that waits for a
    /// user, keeps no other image waiting.
    pub fn needs_queue_place(&self) -> bool {
        !self.blank && !self.upload
    }
}

/// An object with the name of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundObject<T> {
    /// There is none.
    Missing,
    /// It does not belong to this image.
    Foreign,
    /// It belongs to this image, by UID.
    Ours(T),
}

impl<T> FoundObject<T> {
    /// The object, if it belongs to the image.
    pub fn ours(&self) -> Option<&T> {
        match self {
            Self::Ours(object) => Some(object),
            Self::Missing | Self::Foreign => None,
        }
    }

    /// Whether there is none.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Whether it does not belong to the image.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign)
    }
}

/// How far a DataVolume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    /// Neither succeeded nor failed.
    InProgress,
    /// All data is in the claim.
    Succeeded,
    /// It will not succeed.
    Failed,
}

/// The DataVolume that imports the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingDataVolume {
    /// The UID.
    pub uid: String,
    /// When it was created, by the clock of the API server, which can differ from that of the controller.
    pub created: Timestamp,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// How far it is.
    pub transfer: Transfer,
    /// Its progress, as CDI writes it.
    pub progress: Option<String>,
    /// How often the transfer was restarted.
    pub restarts: u32,
    /// What its condition `Running` says, if that is False.
    pub not_running: Option<NotRunning>,
    /// Why the namespace has no room for the claim, if a quota refuses it.
    pub over_quota: Option<String>,
    /// Whether CDI knows that it must not fill a new claim on its own.
    pub prepopulated: bool,
}

impl BackingDataVolume {
    /// Why the data does not arrive, for users. Empty if CDI reports nothing.
    pub fn problem(&self) -> String {
        let stopped = self.not_running.as_ref();
        let NotRunning { reason, message } = stopped.cloned().unwrap_or_default();
        match (reason.is_empty(), message.is_empty()) {
            (false, false) => format!("{reason}: {message}"),
            (true, false) => message,
            // A reason alone says less than the message about a quota.
            (_, true) => self.over_quota.clone().unwrap_or(reason),
        }
    }
}

/// The condition `Running` of a DataVolume whose transfer does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotRunning {
    /// Its reason, a word of CDI.
    pub reason: String,
    /// Its message. It can contain the answer of the source.
    pub message: String,
}

/// The claim with the imported data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct BackingClaim {
    /// The UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it is bound to a volume.
    pub bound: bool,
    /// Whether its volume is lost.
    pub lost: bool,
    /// Whether the garbage collector deletes it after its DataVolume.
    pub owned: bool,
}

/// The snapshot that machines clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingSnapshot {
    /// The UID.
    pub uid: String,
    /// When it was created, by the clock of the API server, which can differ from that of the controller.
    pub created: Timestamp,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether it can be cloned.
    pub ready: bool,
    /// For how long the leader observes that it is not ready. No wall clock is involved, so a jump has no
    /// effect.
    pub unready_for: Option<Duration>,
    /// Its error, if it has one.
    pub error: Option<String>,
    /// Whether the content that it refers to is gone.
    pub content_lost: bool,
    /// The smallest size of a clone, as the storage driver reports it.
    pub restore_size: Option<String>,
}

/// The DataSource through which machines find the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingDataSource {
    /// The UID.
    pub uid: String,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// What it points to, if that is the snapshot or the claim of the image.
    pub target: Option<DataTarget>,
}

/// What the DataSource of an image points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataTarget {
    /// The snapshot.
    Snapshot,
    /// The claim, on a cluster without snapshots.
    Claim,
}

/// A kind of object that the template of a DataVolume can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedSourceKind {
    /// A DataSource.
    DataSource,
    /// A snapshot.
    Snapshot,
    /// A claim.
    Claim,
}

/// An object that the template of a DataVolume names. It may belong to the image with its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedSource {
    /// Its kind.
    pub kind: NamedSourceKind,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// A kind of object that the controller creates for the data of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataKind {
    /// The DataVolume.
    DataVolume,
    /// The snapshot.
    Snapshot,
    /// The DataSource.
    DataSource,
}

/// The objects with the data of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingObjects {
    /// Whether the API server serves DataVolumes and DataSources.
    pub importer_served: bool,
    /// Whether the API server serves snapshots.
    pub snapshots_served: bool,
    /// The DataVolume.
    pub data_volume: FoundObject<BackingDataVolume>,
    /// The claim.
    pub claim: FoundObject<BackingClaim>,
    /// The snapshot.
    pub snapshot: FoundObject<BackingSnapshot>,
    /// The DataSource.
    pub data_source: FoundObject<BackingDataSource>,
    /// Those that have an owner reference to the image, with their UIDs: a leader has created them and exited
    /// before it removed the reference, or an earlier version of the controller has created them.
    pub owned: Vec<(DataKind, String)>,
    /// Those that lack labels of the image, with their UIDs: a user has changed the labels of the object or
    /// of the image.
    pub mislabeled: Vec<(DataKind, String)>,
}

impl BackingObjects {
    /// A cluster with importer and snapshots, and no object of the image.
    pub fn empty() -> Self {
        Self {
            importer_served: true,
            snapshots_served: true,
            data_volume: FoundObject::Missing,
            claim: FoundObject::Missing,
            snapshot: FoundObject::Missing,
            data_source: FoundObject::Missing,
            owned: Vec::new(),
            mislabeled: Vec::new(),
        }
    }

    /// The kinds of objects that have the name of the image and do not belong to it.
    pub fn foreign(&self) -> Vec<&'static str> {
        let kinds = [
            ("DataVolume", self.data_volume.is_foreign()),
            ("PersistentVolumeClaim", self.claim.is_foreign()),
            ("VolumeSnapshot", self.snapshot.is_foreign()),
            ("DataSource", self.data_source.is_foreign()),
        ];
        kinds.into_iter().filter(|(_, foreign)| *foreign).map(|(kind, _)| kind).collect()
    }

    /// Whether machines can find data of the image by its name, and no other object.
    pub fn has_own_source(&self) -> bool {
        let has_any = self.snapshot.ours().is_some() || self.claim.ours().is_some();
        has_any && self.foreign().is_empty()
    }

    /// The claim, if its volume is there. The data in it need not be complete.
    pub fn usable_claim(&self) -> Option<&BackingClaim> {
        self.claim.ours().filter(|claim| claim.bound && !claim.lost && !claim.deleting)
    }

    /// The DataVolume, if all data is in its claim and the claim is usable.
    pub fn complete(&self) -> Option<&BackingDataVolume> {
        let complete =
            |volume: &&BackingDataVolume| volume.transfer == Transfer::Succeeded && !volume.deleting;
        self.data_volume.ours().filter(complete).filter(|_| self.usable_claim().is_some())
    }

    /// Whether the garbage collector still has to delete the claim, or is deleting it.
    pub fn claim_is_leaving(&self) -> bool {
        self.claim.ours().is_some_and(|claim| claim.deleting || claim.owned)
    }
}

/// How many objects refer to an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// Machines and wrappers.
    pub machines: usize,
    /// Pools.
    pub pools: usize,
    /// Unfinished clones that belong to no counted machine.
    pub clones: usize,
}

impl ReferenceCounts {
    /// Whether no object refers to the image.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }
}

/// Kind of an object that refers to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferrerKind {
    /// A wrapper.
    Wrapper,
    /// A machine.
    Machine,
    /// A pool.
    Pool,
    /// A DataVolume.
    DataVolume,
}

/// An object that refers to an image. The order is that of the status: by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageReference {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The kind.
    pub kind: ReferrerKind,
    /// The UID.
    pub uid: String,
}

/// All references to an image, and how they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceList {
    /// How many there are.
    pub counts: ReferenceCounts,
    /// Which ones, in the order of the status.
    pub list: Vec<ImageReference>,
    /// Whether they were listed from the API server after the fact that makes the decision final: the
    /// deletion mark, or the end of the time to live. Only then may a decision remove something.
    pub live: bool,
}

/// Why a deletion waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionBlocked {
    /// Objects refer to the image.
    InUse,
    /// Objects with the data of the image are not gone yet.
    CleanupPending,
}

/// The status of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskImageStatus {
    /// The phase. None before the first pass.
    pub phase: Option<ImagePhase>,
    /// Reason of the condition `Ready`. The condition is True with [`DiskImageReason::Synced`] only.
    pub reason: Option<DiskImageReason>,
    /// Message of the phase and of the condition.
    pub message: String,
    /// Failed attempts of the current import.
    pub failures: u32,
    /// When the last attempt failed.
    pub last_failure: Option<Timestamp>,
    /// When the current import was queued.
    pub queued_at: Option<Timestamp>,
    /// When the current attempt began.
    pub sync_started_at: Option<Timestamp>,
    /// When the current data became ready. None until then.
    pub ready_at: Option<Timestamp>,
    /// Progress of the transfer.
    pub progress: Option<String>,
    /// How many objects refer to the image.
    pub counts: ReferenceCounts,
    /// The first references.
    pub references: Vec<ImageReference>,
    /// Since when no object refers to the image.
    pub unreferenced_since: Option<Timestamp>,
    /// When the controller removes the image.
    pub expires_at: Option<Timestamp>,
    /// UID of the DataVolume.
    pub data_volume: Option<String>,
    /// UID of the claim.
    pub claim: Option<String>,
    /// UID of the snapshot.
    pub snapshot: Option<String>,
    /// UID of the DataSource.
    pub data_source: Option<String>,
    /// How often lost data or objects were restored.
    pub heal_count: u32,
    /// When the last restorations began, the oldest first.
    pub heal_times: Vec<Timestamp>,
    /// The last handled value of the annotation that requests another import.
    pub retry_token: Option<String>,
    /// Why the deletion waits, if the image is being deleted.
    pub deletion: Option<DeletionBlocked>,
    /// Whether the claim is lost while the snapshot is usable. None while that is not known.
    pub source_volume_lost: Option<bool>,
    /// Why accounts of other namespaces do not get the permission to clone, if they need it and an object
    /// prevents it.
    pub clone_conflict: Option<String>,
}

impl DiskImageStatus {
    /// Whether machines can clone the image.
    pub fn is_ready(&self) -> bool {
        self.phase == Some(ImagePhase::Ready) && self.reason == Some(DiskImageReason::Synced)
    }

    /// UID of the object of this kind.
    pub fn recorded(&self, kind: DataKind) -> Option<&String> {
        let recorded = match kind {
            DataKind::DataVolume => &self.data_volume,
            DataKind::Snapshot => &self.snapshot,
            DataKind::DataSource => &self.data_source,
        };
        recorded.as_ref()
    }

    /// Times in the future become `now`. They come from a leader whose clock ran ahead, and would delay what
    /// they begin.
    pub fn clamp_future_times(&mut self, now: Timestamp) {
        let times = [
            &mut self.last_failure,
            &mut self.queued_at,
            &mut self.sync_started_at,
            &mut self.ready_at,
            &mut self.unreferenced_since,
        ];
        let times = times.into_iter().flatten().chain(&mut self.heal_times);
        times.filter(|time| **time > now).for_each(|time| *time = now);
    }

    /// Whether the data is there. During a deletion that waits for references, they keep working. When the
    /// data is being deleted, nothing new may use it.
    pub fn is_usable(&self) -> bool {
        self.phase == Some(ImagePhase::Ready)
            && matches!(self.reason, Some(DiskImageReason::Synced | DiskImageReason::Terminating))
            && self.deletion != Some(DeletionBlocked::CleanupPending)
    }

    /// Whether the image takes one of the concurrent imports. An image that only waits for a snapshot
    /// transfers nothing.
    pub fn transfers(&self) -> bool {
        self.phase == Some(ImagePhase::Syncing) && self.reason == Some(DiskImageReason::Syncing)
    }
}

/// Names of references for a message, at most ten.
pub fn name_references(references: &[ImageReference]) -> String {
    let names: BTreeSet<String> = references
        .iter()
        .map(|reference| {
            let kind = match reference.kind {
                ReferrerKind::Wrapper | ReferrerKind::Machine => "VirtualMachine",
                ReferrerKind::Pool => "VirtualMachinePool",
                ReferrerKind::DataVolume => "DataVolume",
            };
            format!("{kind} {}", reference.key)
        })
        .collect();
    let named: Vec<String> = names.iter().take(10).cloned().collect();
    let further = names.len() - named.len();
    let further = if further == 0 { String::new() } else { format!(" and {further} more") };
    format!("{}{further}", named.join(", "))
}
