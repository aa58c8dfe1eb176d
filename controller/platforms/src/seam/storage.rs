//! Storage that belongs to a machine and can be preserved for the next machine with its name.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_engine::ObjectId;

use super::{ApiObject, NoObject};

/// The storage objects of machines.
pub trait Storage<Machine>: Send + Sync + 'static {
    /// Whether the platform has them. If not, the controller requests none.
    const EXIST: bool = true;

    /// An object that provisions a claim.
    type Volume: ApiObject;
    /// A claim.
    type Claim: ApiObject;

    /// Names of the volumes of a machine.
    fn volumes(machine: &Machine) -> Vec<Arc<str>>;

    /// Names of the claims of a machine.
    fn claims(machine: &Machine) -> Vec<Arc<str>>;

    /// Names of the volumes, and of their claims, that the platform creates for a new machine with this number.
    fn new_volumes(template: &Value, number: u64) -> Vec<String>;

    /// Why `machine`, a new machine of `pool`, must not be created while this volume or claim has the name of one of its
    /// volumes; `None` if nothing is against it.
    fn conflict<K: ApiObject>(object: &ObjectMeta, machine: &str, pool: &ObjectId) -> Option<String>;

    /// The JSON patch that removes `machine`, a machine of `pool`, from the owners of a storage object; `None` if the
    /// machine is not its controller owner. It fails if the owners have changed.
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value>;
}

/// For platforms whose machines own no such storage.
#[derive(Clone, Copy, Debug)]
pub struct NoStorage;

impl<Machine> Storage<Machine> for NoStorage {
    const EXIST: bool = false;

    type Volume = NoObject;
    type Claim = NoObject;

    fn volumes(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn claims(_: &Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn new_volumes(_: &Value, _: u64) -> Vec<String> {
        Vec::new()
    }
    fn conflict<K: ApiObject>(_: &ObjectMeta, _: &str, _: &ObjectId) -> Option<String> {
        None
    }
    fn preserve<K: ApiObject>(_: &K, _: &ObjectId, _: &ObjectId) -> Option<Value> {
        None
    }
}
