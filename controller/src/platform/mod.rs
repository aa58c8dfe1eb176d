//! The seam between the engine's words and the objects of one virtualization stack.
//!
//! A platform only translates. It never waits, decides, or knows what a pass is; all IO is written once, generically,
//! over its types. Whoever is about to write `match platform` outside this module is missing a verb in [`Platform`].

pub mod contract;
pub mod dvp;
mod meta;

use std::fmt::Debug;

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_engine::model::{DiskDraft, Draft, ObjectId};
use vmpool_engine::numbers::Block;
use vmpool_engine::removal::Record;
use vmpool_engine::{Disk, Pool, Replica, Status};

pub use dvp::Dvp;
pub use meta::{controller_of, slim_metadata};

/// What the cache and the client need of an object's type.
pub trait Stored:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Stored for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A pool API together with its machines and disks.
///
/// The stored types decode only what is read; what is written is plain JSON, so that no field that this version does
/// not know gets lost.
pub trait Platform: Send + Sync + 'static {
    /// The word for this platform in logs, events and field managers.
    const NAME: &'static str;

    /// Whether a machine's disks are objects of [`Platform::Disk`]. Without them that type is never asked for.
    const HAS_DISKS: bool;

    /// The pool.
    type Pool: Stored;
    /// The machine.
    type Machine: Stored;
    /// The disk.
    type Disk: Stored;

    /// Puts a stored pool into the engine's words. What cannot be read becomes a flaw of the pool.
    fn read_pool(pool: &Self::Pool) -> Pool;

    /// Puts a stored machine into the engine's words.
    fn read_machine(machine: &Self::Machine) -> Replica;

    /// Puts a stored disk into the engine's words.
    fn read_disk(disk: &Self::Disk) -> Disk;

    /// Puts a drafted machine into this stack's words: every marker set, every disk resolved, owned by the pool.
    fn machine(pool: &Self::Pool, draft: &Draft) -> Value;

    /// Puts a drafted disk of `member` into this stack's words; `None` if the pool has no such template any more.
    fn disk(pool: &Self::Pool, member: &ObjectId, draft: &DiskDraft) -> Option<Value>;

    /// The merge patch that gives a member its managed labels back.
    fn mark(pool: &Self::Pool) -> Value;

    /// The merge patch that takes our markers off a machine.
    fn unmark() -> Value;

    /// The JSON patch that makes a machine refer to disk `to` where it refers to `from`, at this position of its
    /// devices; it fails if the machine changed there meanwhile.
    fn repoint(machine: &Self::Machine, position: usize, from: &str, to: &DiskDraft) -> Value;

    /// The merge patch that records a block of machine numbers on the pool.
    fn record(block: Block) -> Value;

    /// The merge patch that writes the record of named machines on the pool; one without entries is taken away.
    fn removals(record: &Record) -> Value;

    /// The status object to publish.
    fn status(pool: &Self::Pool, status: &Status) -> Value;
}
