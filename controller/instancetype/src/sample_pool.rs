//! A pool with an instance type and a preference, and a cluster that has them, for tests of this crate and of
//! platforms.

use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_platform::ReferencedObject;

use crate::pins::TEMPLATE;

/// The namespace of the pool and of the preference.
pub const NAMESPACE: &str = "studio";
/// The path of the instance type.
pub const SMALL: &str = "/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/small";
/// The path of the preference.
pub const LINUX: &str =
    "/apis/instancetype.kubevirt.io/v1beta1/namespaces/studio/virtualmachinepreferences/linux";

/// The pool.
pub fn pool_id() -> ObjectId {
    ObjectId::new("farm", "uid-of-farm")
}

/// The spec of a pool whose template has these fields, which are those of the spec of a machine.
///
/// # Panics
/// The template is no object.
pub fn pool_spec(template: &Value) -> Value {
    let mut machine = json!({ "template": { "spec": { "domain": { "devices": {} } } } });
    for (field, value) in template.as_object().expect("a template is an object") {
        machine[field] = value.clone();
    }
    json!({ "replicas": 1, (TEMPLATE): { "spec": machine } })
}

/// The spec of a pool that names the instance type and the preference.
pub fn pool_spec_with_both() -> Value {
    pool_spec(&json!({
        "instancetype": { "name": "small" },
        "preference": { "name": "linux", "kind": "virtualmachinepreference" },
    }))
}

/// The instance type, with two vCPUs.
pub fn small_instancetype(generation: u64, memory: &str) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": { "name": "small", "uid": "uid-of-small", "generation": generation, "labels": { "a": "b" } },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": memory } },
    })
}

/// The preference.
pub fn linux_preference(spec: &Value) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePreference",
        "metadata": { "name": "linux", "namespace": NAMESPACE, "uid": "uid-of-linux", "generation": 1 },
        "spec": spec,
    })
}

/// The object that a reference leads to in a cluster with these objects, by their paths.
pub fn find_in_cluster(cluster: &[(&str, Value)], reference: &ReferencedObject) -> Option<Value> {
    let path = format!("{}/{}", reference.collection, reference.name);
    cluster.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone())
}
