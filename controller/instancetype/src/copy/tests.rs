mod reading;
mod writing;

use serde_json::{Value, json};

use super::*;
use crate::model::InstanceTypeObject;
use crate::testing;

const UID: &str = "7f0c9f0e-3d0c-4a53-9f1e-0a1b2c3d4e5f";

/// A cluster instance type with a UID as Kubernetes makes them.
fn cluster_object(name: &str, spec: Value) -> InstanceTypeObject {
    let mut document = testing::instancetype_document("VirtualMachineClusterInstancetype", name, spec);
    document["metadata"]["uid"] = json!(UID);
    InstanceTypeObject::read(document).unwrap()
}

fn small() -> InstanceTypeObject {
    cluster_object("u1.small", testing::instancetype_json(json!({})))
}

fn owner() -> CopyOwner {
    CopyOwner::machine("db0", "uid-of-db0")
}

fn pool() -> CopyOwner {
    CopyOwner {
        api_version: "pool.kubevirt.io/v1beta1".to_owned(),
        kind: "VirtualMachinePool".to_owned(),
        name: "web".to_owned(),
        uid: "uid-of-web".to_owned(),
        controller: true,
    }
}
