//! The data model of the engine: pools, machines and disks in terms that every platform can be translated to.

mod blank;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::condition::Condition;
use crate::names::NameBlock;
use crate::removal::RemovalRecord;
use crate::revision::RevisionId;

/// The UID of an object: opaque, never reused by the API server.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The UID as the API server writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<Arc<str>> for Uid {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One object of the pool's namespace: the name finds it, the UID proves that it is still the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
}

impl ObjectId {
    /// An id of its two parts.
    pub fn new(name: &str, uid: &str) -> Self {
        Self { name: name.into(), uid: uid.into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// How the machines of a pool are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `<pool>-<five characters>`, from [`crate::names`]. The pool never reuses a name.
    Random,
    /// `<pool>-<ordinal>`, with the smallest ordinal that no object of the namespace has.
    Ordinal,
}

/// Which machines a scale-down deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDownPolicy {
    /// The youngest first.
    NewestFirst,
    /// The oldest first.
    OldestFirst,
    /// The smallest ordinal first.
    LowestOrdinalFirst,
    /// The greatest ordinal first, as a StatefulSet does.
    HighestOrdinalFirst,
    /// None. The controller deletes only the targets of targeted removals.
    Explicit,
}

/// How long a disk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as its machine, which owns it.
    Ephemeral,
    /// Until garbage collection: the pool owns it and allocates it to another machine.
    Retained,
}

/// One entry of `spec.virtualDiskTemplates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// What happens to its disks when their machine is deleted.
    pub lifetime: Lifetime,
    /// Number of its free disks that garbage collection keeps regardless of their age.
    pub keep_free: usize,
    /// Age at which garbage collection deletes a free disk beyond [`DiskTemplate::keep_free`]. With `None` it deletes
    /// none.
    pub ttl: Option<Duration>,
    /// Minimum size of its disks, in bytes. With `None` the controller does not expand them.
    pub size: Option<u64>,
    /// Whether machines of the pool's current revision have a device for it. Garbage collection keeps the disks of a
    /// template without a device.
    pub used: bool,
}

impl DiskTemplate {
    /// A template of the current revision with a device, no free disks to keep, no time to live and no minimum size.
    pub fn new(name: &str, lifetime: Lifetime) -> Self {
        Self { name: name.into(), lifetime, keep_free: 0, ttl: None, size: None, used: true }
    }
}

/// How the controller applies a changed template to existing machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Whether the rollout is paused: the controller updates no further machine.
    pub paused: bool,
    /// The disruption budget: how many machines may be unavailable at the same time because of the rollout.
    pub budget: Budget,
    /// Number of revisions to keep besides the current one and those that machines refer to.
    pub history: usize,
    /// The stored revision that replaces the template in the spec.
    pub pinned: Option<RevisionId>,
    /// Whether the requested revision cannot be read or is not stored. If so, the controller updates no machine and
    /// creates new machines from the last stored revision. `pinned` contains that revision as soon as the stored
    /// revisions are known.
    pub held: bool,
}

impl Rollout {
    /// Whether the rollout is paused or held, so that the controller updates no further machine.
    pub fn stands_still(&self) -> bool {
        self.paused || self.held
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self { paused: false, budget: Budget::default(), history: 10, pinned: None, held: false }
    }
}

/// A number of machines, or a share of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A number of machines, at least one.
    Machines(usize),
    /// A percentage of the desired machines, rounded down, but at least one machine.
    Percent(u8),
}

impl Default for Budget {
    /// A quarter.
    fn default() -> Self {
        Self::Percent(25)
    }
}

impl Budget {
    /// How many of `desired` machines it allows: at least one.
    pub fn of(self, desired: usize) -> usize {
        match self {
            Self::Machines(machines) => machines,
            Self::Percent(percent) => desired.saturating_mul(usize::from(percent)) / 100,
        }
        .max(1)
    }
}

/// A pool: its spec, and the state that its annotations and its status store.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.generation`, which counts changes of the spec.
    pub generation: i64,
    /// Whether the API server has accepted its deletion.
    pub deleting: bool,
    /// Desired number of machines: `spec.replicas`.
    pub desired: usize,
    /// Which machines a scale-down deletes.
    pub scale_down_policy: ScaleDownPolicy,
    /// How the controller names machines.
    pub naming: Naming,
    /// Identity of the current revision.
    pub revision: RevisionId,
    /// Whether that revision is stored, so that its identity is fixed.
    pub revision_stored: bool,
    /// How the controller applies it to existing machines.
    pub rollout: Rollout,
    /// The disk templates. The list is empty if the platform stores disks inside the machine object.
    pub disks: Vec<DiskTemplate>,
    /// The current name block; `None` before the first one.
    pub name_block: Option<NameBlock>,
    /// The removal record. If it cannot be read, it is empty and [`Pool::validation_errors`] contains the error.
    pub record: RemovalRecord,
    /// The last published status.
    pub published: Published,
    /// Messages about fields that cannot be read and that the controller needs to create machines.
    pub validation_errors: Vec<String>,
    /// Messages about settings that cannot be read. The controller uses the safe value of each, and continues to
    /// reconcile the pool.
    pub invalid_settings: Vec<String>,
}

/// The status that the pool object shows now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// All conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
    /// The counters and identities; `None` while the status is incomplete.
    pub summary: Option<crate::status::Summary>,
    /// The desired template hash in the status, and the generation that the status observed. It can be present without
    /// a summary, because another controller may omit counters.
    pub named: Option<(RevisionId, i64)>,
}

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Its guest runs, or is being live-migrated.
    Running,
    /// It is stopped until a user starts it. An update of a stopped machine disrupts no workload.
    Stopped,
    /// It is not started, starting, stopping or failed.
    NotRunning,
}

/// A device of a machine that is a disk object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRef {
    /// The disk template that it fills, from the disk map of the machine. `None` for a disk that is not in the disk
    /// map.
    pub template: Option<Arc<str>>,
    /// Name of the disk.
    pub disk: Arc<str>,
    /// Position in the machine's list of devices.
    pub position: usize,
}

/// A disk that the disk map of a machine names and that no device of the machine refers to, because a user removed the
/// device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedDisk {
    /// The disk template that it fills.
    pub template: Arc<str>,
    /// Name of the disk.
    pub disk: Arc<str>,
}

/// One machine of the namespace. It belongs to the pool if its controller owner reference names the pool.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts: any of them may come with any other")]
pub struct Machine {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.creationTimestamp`; whole seconds, as the API server keeps it.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// UID in its controller owner reference.
    pub owner: Option<Uid>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
    /// The managed label that holds a pool's name.
    pub pool_label: Option<Arc<str>>,
    /// The revision that is in effect in it.
    pub revision: Option<RevisionId>,
    /// The revision that the controller last wrote to it.
    pub written: Option<RevisionId>,
    /// Whether the platform has evaluated its current spec.
    pub evaluated: bool,
    /// Its state.
    pub activity: Activity,
    /// Whether a change of its spec takes effect only after a restart.
    pub restart_pending: bool,
    /// Whether the platform restarts it for such a change without approval.
    pub restarts_itself: bool,
    /// Its disks.
    pub disks: Vec<DiskRef>,
    /// The disks of its disk map that no device refers to.
    pub detached: Vec<DetachedDisk>,
    /// The disk that it boots from: the one with the smallest boot order, or else the first device. `None` if it does
    /// not boot from a disk.
    pub boot_disk: Option<Arc<str>>,
    /// Disks that its status still shows and its spec does not. They may still be mounted.
    pub lingering: Vec<Arc<str>>,
    /// Whether the platform reports that all its devices are ready.
    pub devices_ready: bool,
}

impl Machine {
    /// The disks that are not free while the machine exists: those of its devices, those that only its disk map names,
    /// and those that may still be mounted. A disk can occur twice.
    pub fn held_disks(&self) -> impl Iterator<Item = &Arc<str>> {
        let devices = self.disks.iter().map(|device| &device.disk);
        devices.chain(self.detached.iter().map(|detached| &detached.disk)).chain(&self.lingering)
    }
}

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
    pub owner: Option<ObjectId>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
    /// The managed label that holds the name of its template.
    pub template: Option<Arc<str>>,
    /// Its state.
    pub state: DiskState,
    /// The failure that the platform reports; only for a failed or lost disk.
    pub failure: Option<Arc<str>>,
    /// The size that its spec asks for, in bytes.
    pub size: Option<u64>,
    /// The size that it has, in bytes.
    pub capacity: Option<u64>,
    /// The machine that mounts it, from the status of the disk.
    pub mounted_by: Option<Arc<str>>,
    /// Whether an image is being created from it, or its data is being exported.
    pub used_otherwise: bool,
    /// The annotations that the controller stores on a disk of the pool.
    pub annotations: DiskAnnotations,
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

/// A disk of a machine that the plan creates or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskDraft {
    /// Name of the disk.
    pub name: Arc<str>,
    /// The template that it fills.
    pub template: Arc<str>,
    /// Its source.
    pub source: DiskSource,
}

impl DiskDraft {
    /// A disk that does not exist yet.
    pub fn new(name: Arc<str>, template: Arc<str>) -> Self {
        Self { name, template, source: DiskSource::New }
    }
}

/// The source of a disk in a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// The controller creates it after the machine that refers to it.
    New,
    /// It is a free disk of the pool. The controller allocates it before the machine refers to it.
    Free(ObjectId),
    /// It exists and is already allocated to the machine, or the machine refers to it.
    Existing(ObjectId),
}

/// A machine to create together with its disks. It contains every decision that creating it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Name of the machine.
    pub name: Arc<str>,
    /// The number that the name was made from.
    pub number: u64,
    /// The revision that it is created from.
    pub revision: RevisionId,
    /// Its disks, in the order of the pool's disk templates.
    pub disks: Vec<DiskDraft>,
}
