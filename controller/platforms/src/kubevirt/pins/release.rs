//! Releasing pins to the machines that use them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};
use vmpool_engine::ObjectId;

use super::super::keys::{API_VERSION, MACHINE_KIND, POOL_KIND};

/// The number of owners that an object gets at most, because etcd limits its size.
const OWNERS: usize = 1000;

/// The JSON patch that makes the machines which use a pin its only owners, so that virt-controller does not delete it with
/// the revisions of the pool, and the garbage collector deletes it with the last machine; `None` if no pool owns it, or
/// no machine uses it. With too many machines it gets no owner, so that it stays. The patch fails if the object has changed.
pub fn release(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
    let is_pool = |owner: &OwnerReference| owner.kind == POOL_KIND;
    let owners = pin.owner_references.as_deref().unwrap_or_default();
    if machines.is_empty() || !owners.iter().any(is_pool) {
        return None;
    }
    let mut left: Vec<OwnerReference> = owners.iter().filter(|owner| !is_pool(owner)).cloned().collect();
    if machines.len() > OWNERS {
        left.clear();
    } else {
        for machine in machines {
            let uid = machine.uid.as_str();
            if !left.iter().any(|owner| owner.uid == uid) {
                left.push(OwnerReference {
                    api_version: API_VERSION.to_owned(),
                    kind: MACHINE_KIND.to_owned(),
                    name: machine.name.to_string(),
                    uid: uid.to_owned(),
                    ..OwnerReference::default()
                });
            }
        }
    }
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": pin.uid },
        { "op": "test", "path": "/metadata/resourceVersion", "value": pin.resource_version },
        { "op": "add", "path": "/metadata/ownerReferences", "value": left },
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(owners: &Value) -> ObjectMeta {
        serde_json::from_value(json!({ "uid": "p", "resourceVersion": "7", "ownerReferences": owners }))
            .unwrap()
    }

    fn pool() -> Value {
        json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web", "uid": "w",
            "controller": true, "blockOwnerDeletion": true })
    }

    fn machine(number: usize) -> ObjectId {
        ObjectId::new(&format!("web-{number}"), &format!("m{number}"))
    }

    fn owners(patch: &Value) -> Vec<&str> {
        patch[2]["value"].as_array().unwrap().iter().map(|owner| owner["uid"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_machines_become_the_owners_instead_of_the_pool() {
        let patch = release(&pin(&json!([pool()])), &[machine(0), machine(1)]).unwrap();
        assert_eq!(owners(&patch), ["m0", "m1"]);
        assert_eq!(
            patch[2]["value"][0],
            json!({
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "uid": "m0",
            })
        );
        assert_eq!(patch[1]["value"], "7", "it fails if the object has changed");
        let released = patch[2]["value"].clone();
        assert_eq!(release(&pin(&released), &[machine(0)]), None, "no pool owns it");
    }

    #[test]
    fn a_pin_without_machines_stays_with_the_pool() {
        assert_eq!(release(&pin(&json!([pool()])), &[]), None);
    }

    #[test]
    fn a_pin_of_too_many_machines_gets_no_owner() {
        let machines: Vec<ObjectId> = (0..=OWNERS).map(machine).collect();
        assert_eq!(owners(&release(&pin(&json!([pool()])), &machines).unwrap()), [""; 0]);
    }
}
