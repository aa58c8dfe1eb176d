//! Storage that belongs to a machine and can be preserved for the next machine with its name.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_engine::revisions::RevisionId;

use super::{ApiObject, NoObject};

/// What a write makes a machine do with volumes that it does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeUse {
    /// A new machine gets them. It adopts volumes that no machine has.
    Create,
    /// The template of an existing machine gets them.
    Update {
        /// Whether the controller preserves the storage of the machine when it deletes the machine for the
        /// rollout. Otherwise, it would delete the data in volumes that the machine adopts.
        preserved: bool,
    },
}

/// Storage of a machine to which a user moved a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageMove {
    /// Name of the storage that the template gives to the machine.
    pub from: String,
    /// Name of the claim that the volume uses now, or of the volume that provisions it.
    pub to: String,
}

/// The storage objects of machines.
pub trait MachineStorage<Machine>: Send + Sync + 'static {
    /// Whether the platform has them. If not, the controller requests none.
    const EXIST: bool = true;

    /// The label of preserved storage, if the platform has one.
    const PRESERVED_LABEL: Option<&'static str> = None;

    /// An object that provisions a claim.
    type Volume: ApiObject;
    /// A claim.
    type Claim: ApiObject;

    /// Names of the volumes of a machine.
    fn volumes(machine: &Machine) -> Vec<Arc<str>>;

    /// Names of the claims of a machine.
    fn claims(machine: &Machine) -> Vec<Arc<str>>;

    /// Names of the volumes, and of their claims, that the platform creates for this machine from the
    /// template.
    fn new_volumes(template: &Value, machine: &str) -> Vec<String>;

    /// The merge patch that records which revision the storage of `live` was created from, if an update from
    /// template `from` to `to` with the identity `revision` changes what storage is created from. The
    /// controller then creates the machine again. `None` if nothing is to be recorded.
    fn record_origin(_live: &Value, _from: &Value, _to: &Value, _revision: &RevisionId) -> Option<Value> {
        None
    }

    /// Why `machine`, a machine of `pool`, must not be created or updated while this volume or claim has the
    /// name of one of its new volumes; `None` if nothing is against it.
    fn conflict<K: ApiObject>(
        object: &ObjectMeta,
        machine: &str,
        pool: &ObjectId,
        volume_use: VolumeUse,
    ) -> Option<String>;

    /// The JSON patch that removes `machine`, a machine of `pool`, from the owners of a storage object;
    /// `None` if the machine is not its controller owner. It fails if the owners have changed.
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value>;

    /// Why this volume is not ready, in the words of the platform; `None` if it reports no problem.
    fn problem(_volume: &Self::Volume) -> Option<String> {
        None
    }

    /// The storage to which volumes of a machine were moved, away from that of `template`, in the form that
    /// [`PoolSpec::storage_moves`](vmpool_engine::PoolSpec::storage_moves) stores; `None` if there is none.
    fn moves(_template: &Value, _machine: &Machine) -> Option<String> {
        None
    }

    /// The moves in such a text.
    fn read_moves(_text: &str) -> Vec<StorageMove> {
        Vec::new()
    }

    /// The merge patch of a pool that records these moves for the next machine with this ordinal, or that
    /// there are none.
    fn record_moves(_ordinal: u64, _moves: Option<&str>) -> Value {
        Value::Null
    }

    /// The name of the pool whose machine left this storage object behind; `None` if it is not preserved, or
    /// a machine uses it again.
    fn preserved_for(_object: &ObjectMeta) -> Option<&str> {
        None
    }
}

/// For platforms whose machines own no such storage.
#[derive(Clone, Copy, Debug)]
pub struct NoStorage;

impl<Machine> MachineStorage<Machine> for NoStorage {
    const EXIST: bool = false;

    type Volume = NoObject;
    type Claim = NoObject;

    fn volumes(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn claims(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn new_volumes(_: &Value, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn conflict<K: ApiObject>(_: &ObjectMeta, _: &str, _: &ObjectId, _: VolumeUse) -> Option<String> {
        None
    }
    fn preserve<K: ApiObject>(_: &K, _: &ObjectId, _: &ObjectId) -> Option<Value> {
        None
    }
}
