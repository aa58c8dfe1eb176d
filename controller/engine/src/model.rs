//! The vocabulary of the engine: pools, replicas and disks in words that every platform can be put into.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::condition::Condition;
use crate::numbers::Block;
use crate::removal::Record;
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
    /// `<pool>-<five characters>`, from [`crate::numbers`]; a name does not return.
    Scattered,
    /// `<pool>-<ordinal>`, always the smallest ordinal that no object of the namespace has.
    Ordinal,
}

/// Which machines leave when there are more than desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
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
    Machine,
    /// Beyond its machine: the pool owns it and hands it to another machine.
    Pool,
}

/// One entry of the pool's list of per-replica disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// What happens to its disks when their machine leaves.
    pub lifetime: Lifetime,
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
    pub removal: Removal,
    /// How machines are called.
    pub naming: Naming,
    /// Identity of the current machine template.
    pub revision: RevisionId,
    /// The disks that every machine gets as objects of their own. Empty where the platform keeps disks inside the
    /// machine object.
    pub disks: Vec<DiskTemplate>,
    /// The block of machine numbers that is open; `None` before the first one.
    pub block: Option<Block>,
    /// The machines that were named to be removed. Empty if it cannot be read, which is a flaw then.
    pub record: Record,
    /// The status that was published last.
    pub published: Published,
    /// What could not be read, in words for the owner.
    pub flaws: Vec<String>,
}

/// The status that the pool object shows now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// All conditions, those of others included.
    pub conditions: Vec<Condition>,
    /// The counters and identities, as the platform wrote them; `None` while there is no complete status.
    pub summary: Option<crate::status::Summary>,
}

/// What a machine is doing, as far as a pool cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Its guest runs; live migration included.
    Running,
    /// Anything else: not started, starting, stopped, broken.
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

/// One machine of the namespace: a member, or one that might be taken for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
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
    /// What it is doing.
    pub activity: Activity,
    /// Whether a change waits for its restart.
    pub restart_pending: bool,
    /// Its disks.
    pub disks: Vec<DiskRef>,
}

/// One disk object of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Name and UID.
    pub id: ObjectId,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// Its controller owner.
    pub owner: Option<ObjectId>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
}

/// A disk to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskDraft {
    /// Name of the disk.
    pub name: Arc<str>,
    /// The template that it is made from.
    pub template: Arc<str>,
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
