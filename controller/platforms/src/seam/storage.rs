//! Storage that belongs to a machine and can be preserved for the next machine with its name.

use std::sync::Arc;

use serde_json::Value;
use vmpool_engine::ObjectId;

use super::{ApiObject, NoObject, Platform};

/// The volumes of a platform.
pub type VolumeOf<P> = <<P as Platform>::Storage as Storage<P>>::Volume;
/// The claims of a platform.
pub type ClaimOf<P> = <<P as Platform>::Storage as Storage<P>>::Claim;

/// The storage objects of machines.
pub trait Storage<P: Platform>: Send + Sync + 'static {
    /// An object that provisions a claim.
    type Volume: ApiObject;
    /// A claim.
    type Claim: ApiObject;

    /// Names of the volumes of a machine.
    fn volumes(machine: &P::Machine) -> Vec<Arc<str>>;

    /// Names of the claims of a machine.
    fn claims(machine: &P::Machine) -> Vec<Arc<str>>;

    /// The JSON patch that removes `machine`, a machine of `pool`, from the owners of a storage object; `None` if the
    /// machine is not its controller owner. It fails if the owners have changed.
    fn preserve<K: ApiObject>(object: &K, machine: &ObjectId, pool: &ObjectId) -> Option<Value>;
}

/// For platforms whose machines own no such storage.
#[derive(Clone, Copy, Debug)]
pub struct NoStorage;

impl<P: Platform> Storage<P> for NoStorage {
    type Volume = NoObject;
    type Claim = NoObject;

    fn volumes(_: &P::Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn claims(_: &P::Machine) -> Vec<Arc<str>> {
        Vec::new()
    }
    fn preserve<K: ApiObject>(_: &K, _: &ObjectId, _: &ObjectId) -> Option<Value> {
        None
    }
}
