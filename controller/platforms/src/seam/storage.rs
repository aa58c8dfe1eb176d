//! Storage that belongs to a machine and can be preserved for the next machine with its name.

use std::sync::Arc;

use serde_json::Value;
use vmpool_engine::ObjectId;

use super::{ApiObject, NoObject};

/// The storage objects of machines.
pub trait Storage<Machine>: Send + Sync + 'static {
    /// An object that provisions a claim.
    type Volume: ApiObject;
    /// A claim.
    type Claim: ApiObject;

    /// Names of the volumes of a machine.
    fn volumes(machine: &Machine) -> Vec<Arc<str>>;

    /// Names of the claims of a machine.
    fn claims(machine: &Machine) -> Vec<Arc<str>>;

    /// The JSON patch that removes `machine`, a machine of `pool`, from the owners of a storage object; `None` if the
    /// machine is not its controller owner. It fails if the owners have changed.
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value>;
}

/// For platforms whose machines own no such storage.
#[derive(Clone, Copy, Debug)]
pub struct NoStorage;

impl<Machine> Storage<Machine> for NoStorage {
    type Volume = NoObject;
    type Claim = NoObject;

    fn volumes(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn claims(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn preserve<K: ApiObject>(_: &K, _: &ObjectId, _: &ObjectId) -> Option<Value> {
        None
    }
}
