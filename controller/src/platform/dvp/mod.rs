//! Deckhouse DVP: `virtualization.deckhouse.io/v1alpha2` pools, machines and disks.

mod objects;
mod read;
mod write;

use serde_json::Value;
use vmpool_engine::model::{DiskDraft, Draft, ObjectId};
use vmpool_engine::numbers::Block;
use vmpool_engine::removal::Record;
use vmpool_engine::{Disk, Pool, Replica, Status};

use super::Platform;

pub use objects::{DiskObject, MachineObject, PoolObject};

/// `apiVersion` of pools, machines and disks.
const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";

/// Deckhouse DVP.
#[derive(Clone, Copy, Debug)]
pub struct Dvp;

impl Platform for Dvp {
    const NAME: &'static str = "dvp";
    const HAS_DISKS: bool = true;

    type Pool = PoolObject;
    type Machine = MachineObject;
    type Disk = DiskObject;

    fn read_pool(pool: &PoolObject) -> Pool {
        read::pool(pool)
    }
    fn read_machine(machine: &MachineObject) -> Replica {
        read::machine(machine)
    }
    fn read_disk(disk: &DiskObject) -> Disk {
        read::disk(disk)
    }
    fn machine(pool: &PoolObject, draft: &Draft) -> Value {
        write::machine(pool, draft)
    }
    fn disk(pool: &PoolObject, member: &ObjectId, draft: &DiskDraft) -> Option<Value> {
        write::disk(pool, member, draft)
    }
    fn mark(pool: &PoolObject) -> Value {
        write::mark(pool)
    }
    fn unmark() -> Value {
        write::unmark()
    }
    fn repoint(machine: &MachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
        write::repoint(machine, position, from, to)
    }
    fn record(block: Block) -> Value {
        write::record(block)
    }
    fn removals(record: &Record) -> Value {
        write::removals(record)
    }
    fn status(pool: &PoolObject, status: &Status) -> Value {
        write::status(pool, status)
    }
}

/// The label selector that a pool publishes: it matches the machines, and their pods, since the platform copies every
/// label of a machine to its pod.
fn selector(pool_uid: &str) -> String {
    format!("{}={pool_uid}", vmpool_api::labels::POOL_UID)
}

#[cfg(test)]
mod tests;
