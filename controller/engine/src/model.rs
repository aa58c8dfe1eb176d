//! The vocabulary of the engine: pools, replicas and disks in words that every platform can be put into.

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
    /// `<pool>-<five characters>`, from [`crate::names`]; a name does not return.
    Random,
    /// `<pool>-<ordinal>`, always the smallest ordinal that no object of the namespace has.
    Ordinal,
}

/// Which machines leave when there are more than desired.
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
    /// None: only machines that somebody named leave.
    Explicit,
}

/// How long a disk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as its machine, which owns it.
    Ephemeral,
    /// Beyond its machine: the pool owns it and hands it to another machine.
    Retained,
}

/// One entry of the pool's list of per-replica disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// What happens to its disks when their machine leaves.
    pub lifetime: Lifetime,
    /// How many of its free disks are kept whatever their age.
    pub keep: usize,
    /// Age at which a free disk beyond [`DiskTemplate::keep`] is deleted; `None`: never.
    pub ttl: Option<Duration>,
    /// The size that its disks shall have at least, in bytes; `None` leaves them as they are.
    pub size: Option<u64>,
    /// Whether machines of the pool's current revision have a device for it. A template without one keeps its disks.
    pub used: bool,
}

impl DiskTemplate {
    /// A template of the current revision that keeps nothing and asks for no size.
    pub fn new(name: &str, lifetime: Lifetime) -> Self {
        Self { name: name.into(), lifetime, keep: 0, ttl: None, size: None, used: true }
    }
}

/// How a changed template reaches the machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Whether no further machine is changed.
    pub paused: bool,
    /// How many machines may be unavailable at once because of it.
    pub budget: Budget,
    /// Revisions that are kept besides the current one and those that members name.
    pub history: usize,
    /// The stored revision that machines shall have instead of the template in the spec.
    pub pinned: Option<RevisionId>,
    /// Whether the revision cannot be read, or is not stored. No machine is updated then, and new machines are created
    /// from the last stored revision, which is `pinned` once the stored revisions are known.
    pub held: bool,
}

impl Rollout {
    /// Whether no further machine is updated.
    pub fn stands_still(&self) -> bool {
        self.paused || self.held
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self { paused: false, budget: Budget::default(), history: 10, pinned: None, held: false }
    }
}

/// A share of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many machines; at least one counts.
    Machines(usize),
    /// So many of a hundred desired machines, rounded down; at least one counts.
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

/// A pool, as its owner wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.generation`: counts changes of the spec.
    pub generation: i64,
    /// Whether the API server has accepted its deletion.
    pub deleting: bool,
    /// Replicas it should have.
    pub desired: usize,
    /// Who leaves first.
    pub scale_down_policy: ScaleDownPolicy,
    /// How machines are called.
    pub naming: Naming,
    /// Identity of the revision that machines shall have.
    pub revision: RevisionId,
    /// Whether that revision is stored, so that its identity is fixed.
    pub revision_stored: bool,
    /// How it reaches machines that exist.
    pub rollout: Rollout,
    /// The disks that every machine gets as objects of their own. Empty where the platform keeps disks inside the
    /// machine object.
    pub disks: Vec<DiskTemplate>,
    /// The block of machine numbers that is open; `None` before the first one.
    pub name_block: Option<NameBlock>,
    /// The machines that were named to be removed. Empty if it cannot be read, which is a flaw then.
    pub record: RemovalRecord,
    /// The status that was published last.
    pub published: Published,
    /// What could not be read and without which no machine can be created, in words for the owner.
    pub flaws: Vec<String>,
    /// Settings that could not be read, in words for the owner. Each has its safe value, and the pool is served.
    pub unreadable: Vec<String>,
}

/// The status that the pool object shows now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// All conditions, those of others included.
    pub conditions: Vec<Condition>,
    /// The counters and identities, as the platform wrote them; `None` while there is no complete status.
    pub summary: Option<crate::status::Summary>,
    /// The template that the status names as the desired one, and the generation of the pool that it speaks of. There
    /// may be no summary beside it: another controller may leave counters out.
    pub named: Option<(RevisionId, i64)>,
}

/// What a machine is doing, as far as a pool cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Its guest runs; live migration included.
    Running,
    /// It is stopped and stays so until somebody starts it: a change of its template disturbs nobody.
    Stopped,
    /// Anything else: not started, starting, stopping, broken.
    NotRunning,
}

/// A device of a machine that is a disk object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRef {
    /// The disk template that it fills, as the member's own disk map says; `None` for a disk that came otherwise.
    pub template: Option<Arc<str>>,
    /// Name of the disk.
    pub disk: Arc<str>,
    /// Position in the machine's list of devices.
    pub position: usize,
}

/// A disk that the disk map of a machine names, and that no device of the machine refers to: a person removed the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedDisk {
    /// The disk template that it fills.
    pub template: Arc<str>,
    /// Name of the disk.
    pub disk: Arc<str>,
}

/// One machine of the namespace: a member, or one that might be taken for one.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts: any of them may come with any other")]
pub struct Machine {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.creationTimestamp`; whole seconds, as the API server keeps it.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// UID of its controller owner.
    pub owner: Option<Uid>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
    /// The managed label that holds a pool's name.
    pub pool_label: Option<Arc<str>>,
    /// The template revision that is in effect.
    pub revision: Option<RevisionId>,
    /// The template revision that was last written to it.
    pub written: Option<RevisionId>,
    /// Whether the platform has looked at its spec as it is now.
    pub evaluated: bool,
    /// What it is doing.
    pub activity: Activity,
    /// Whether a change waits for its restart.
    pub restart_pending: bool,
    /// Whether the platform restarts it for such a change without being asked.
    pub restarts_itself: bool,
    /// Its disks.
    pub disks: Vec<DiskRef>,
    /// The disks of its disk map that are not among these.
    pub detached: Vec<DetachedDisk>,
    /// The disk that it boots from, if it boots from one: the smallest boot order, or else the first device.
    pub boot_disk: Option<Arc<str>>,
    /// Disks that its status still shows and its spec does not: they may still be mounted.
    pub lingering: Vec<Arc<str>>,
    /// Whether all its devices are there, as the platform says.
    pub devices_ready: bool,
}

impl Machine {
    /// The disks that are not free while the machine exists: those of its devices, those that only its disk map names,
    /// and those that may still be mounted. A disk may come twice.
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
    /// What it is doing.
    pub state: DiskState,
    /// Why it failed, in the platform's words; only of one that failed or is lost.
    pub failure: Option<Arc<str>>,
    /// The size that its spec asks for, in bytes.
    pub size: Option<u64>,
    /// The size that it has, in bytes.
    pub capacity: Option<u64>,
    /// The machine that has it mounted, as the disk's status says.
    pub mounted_by: Option<Arc<str>>,
    /// Whether an image is made from it, or its data is being exported.
    pub used_otherwise: bool,
    /// What we keep on a disk of the pool between its machines.
    pub annotations: DiskAnnotations,
}

/// What a disk is doing, as far as a pool cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DiskState {
    /// It holds data and can be used.
    Ready,
    /// It is on its way: being made, or waiting for its first consumer.
    #[default]
    Coming,
    /// It is changing: growing or moving. It can be used, and its spec must be left alone.
    Changing,
    /// It could not be made.
    Failed,
    /// Its volume is gone.
    Lost,
}

/// What we keep on a disk of the pool between its machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskAnnotations {
    /// The machine that it is promised to. Names do not return, so a name is enough.
    pub claimed_by: Option<Arc<str>>,
    /// Since when no machine has it.
    pub free_since: Option<StoredTime>,
    /// Since when it is about to be deleted.
    pub collecting_since: Option<StoredTime>,
}

/// A moment that was written on an object, where anybody may have changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredTime {
    /// The moment.
    At(Timestamp),
    /// What stands there is no moment.
    Unreadable,
}

/// A disk of a machine that is to be created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskDraft {
    /// Name of the disk.
    pub name: Arc<str>,
    /// The template that it fills.
    pub template: Arc<str>,
    /// Where it comes from.
    pub source: DiskSource,
}

impl DiskDraft {
    /// A disk to be made.
    pub fn new(name: Arc<str>, template: Arc<str>) -> Self {
        Self { name, template, source: DiskSource::New }
    }
}

/// Where a disk of a draft comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskSource {
    /// It is created after the machine that refers to it.
    New,
    /// It exists, belongs to the pool and is free: it is claimed before the machine refers to it.
    Free(ObjectId),
    /// It exists and is the machine's already: it was claimed for it, or the machine refers to it.
    Held(ObjectId),
}

/// A machine to be created, with every choice already made, and the disks that belong to the same unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Name of the machine.
    pub name: Arc<str>,
    /// The number that the name was made from.
    pub number: u64,
    /// The revision that it is made from.
    pub revision: RevisionId,
    /// Its own disks, in the order of the pool's templates.
    pub disks: Vec<DiskDraft>,
}
