//! Kinds and references of the objects that own copies.

use serde_json::{Value, json};
use vmpool_api::kubevirt::POOL_API_VERSION;

/// Kind of pools in owner references.
pub const POOL_KIND: &str = "VirtualMachinePool";
/// Kind of machines.
pub const MACHINE_KIND: &str = "VirtualMachine";
/// The owner reference of machines, revisions and copies to their pool.
pub fn pool_owner_reference(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": POOL_API_VERSION,
        "kind": POOL_KIND,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}
