//! What KubeVirt's webhook and VM controller add to a new machine.
//!
//! The simulator has no webhook, so it adds the defaults of the webhook with the controller's first write.

use crate::{
    kubevirt::{
        json::{namespace_and_name, stable_uuid},
        objects::{CONTROLLER_FINALIZER, KubeVirtMachineView},
    },
    objects::NamespacedKey,
};
use serde_json::{Map, Value, json};

/// Annotations with the API version that the controller uses.
const API_VERSIONS: [&str; 2] =
    ["kubevirt.io/latest-observed-api-version", "kubevirt.io/storage-observed-api-version"];
/// Template annotation with the version of the PCI topology.
const TOPOLOGY: (&str, &str) = ("kubevirt.io/pci-topology-version", "v3");

/// The merge patch that adds what a machine lacks; `None` if it lacks nothing.
pub(super) fn machine_defaults_patch(
    key: &NamespacedKey,
    machine: &KubeVirtMachineView,
    seed: u64,
) -> Option<Value> {
    let mut patch = json!({});
    let meta = &machine.meta;
    let is_new = !meta.has_finalizer(CONTROLLER_FINALIZER);
    if is_new {
        let finalizers = meta.finalizers.iter().map(String::as_str).chain([CONTROLLER_FINALIZER]);
        patch["metadata"]["finalizers"] = finalizers.collect();
    }
    for annotation in API_VERSIONS.iter().filter(|name| !meta.annotations.contains_key(**name)) {
        patch["metadata"]["annotations"][*annotation] = json!("v1");
    }
    let spec = &machine.spec.instance_spec;
    let firmware = firmware(&spec["domain"]["firmware"], is_new, key, &meta.uid, seed);
    if !firmware.is_empty() {
        patch["spec"]["template"]["spec"]["domain"]["firmware"] = Value::Object(firmware);
    }
    if is_new {
        if spec["domain"]["machine"]["type"].is_null() {
            patch["spec"]["template"]["spec"]["domain"]["machine"]["type"] = json!("q35");
        }
        if !machine.spec.template_annotations.contains_key(TOPOLOGY.0) {
            patch["spec"]["template"]["metadata"]["annotations"][TOPOLOGY.0] = json!(TOPOLOGY.1);
        }
    }
    (patch != json!({})).then_some(patch)
}

/// The firmware's identity: random for a new machine. Later the controller replaces only a missing UUID, by
/// one that follows from the machine's name: an update that drops the identity loses it.
fn firmware(known: &Value, is_new: bool, key: &NamespacedKey, uid: &str, seed: u64) -> Map<String, Value> {
    let lacks = |field: &str| known[field].as_str().is_none_or(str::is_empty);
    let mut firmware = Map::new();
    if lacks("uuid") {
        let value = if is_new {
            stable_uuid(&("uuid", uid, seed))
        } else {
            stable_uuid(&("name", namespace_and_name(key)))
        };
        firmware.insert("uuid".to_owned(), json!(value));
    }
    if is_new && lacks("serial") {
        firmware.insert("serial".to_owned(), json!(stable_uuid(&("serial", uid, seed))));
    }
    firmware
}
