//! The pool whose machines are like one machine.

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::{POOL_API_VERSION, labels::POOL};

/// The manifest of a pool, and what differs from the machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PoolManifest {
    /// The pool.
    pub(super) object: Value,
    /// What the pool changes in the machine, for users.
    pub(super) notes: Vec<String>,
}

/// Builds the pool. It selects its machines by the label with its name, which is a convention of KubeVirt.
///
/// # Errors
/// The machine has no template of an instance.
pub(super) fn build_pool_manifest(
    name: &str,
    namespace: &str,
    replicas: u32,
    machine: &Value,
) -> Result<PoolManifest> {
    let mut spec = machine["spec"].clone();
    ensure!(spec["template"].is_object(), "the machine of the template has no spec.template");
    let mut notes = Vec::new();
    notes.extend(start_machines(&mut spec));
    notes.extend(spec.pointer_mut("/template/spec/domain").map(remove_identities).unwrap_or_default());
    notes.extend(name_shared_claims(&spec["template"]["spec"]));
    add_label(&mut spec["template"], name);
    let mut metadata = Map::new();
    for field in ["labels", "annotations"] {
        if let Some(value) = machine["metadata"].get(field).filter(|value| value.is_object()) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut template = json!({ "metadata": metadata, "spec": spec });
    add_label(&mut template, name);
    let object = json!({
        "apiVersion": POOL_API_VERSION,
        "kind": "VirtualMachinePool",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { POOL: name } },
            "virtualMachineTemplate": template,
        },
    });
    Ok(PoolManifest { object, notes })
}

fn add_label(template: &mut Value, pool: &str) {
    template["metadata"]["labels"][POOL] = json!(pool);
}

/// A template for one machine often leaves it off. The machines of a pool are to run.
fn start_machines(spec: &mut Value) -> Option<String> {
    let fields = spec.as_object_mut()?;
    let running = fields.remove("running");
    let strategy = fields.get("runStrategy").and_then(Value::as_str);
    let is_off = running == Some(json!(false)) || strategy == Some("Halted");
    if strategy.is_none() || strategy == Some("Halted") {
        fields.insert("runStrategy".to_owned(), json!("Always"));
    }
    is_off.then(|| {
        "the machine of the template is off; the machines of the pool run (runStrategy: Always)".to_owned()
    })
}

/// Removes what must differ between machines, so that KubeVirt generates it.
fn remove_identities(domain: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    if let Some(firmware) = domain.get_mut("firmware").and_then(Value::as_object_mut) {
        let fields = ["uuid", "serial"].into_iter().filter(|field| firmware.remove(*field).is_some());
        removed.extend(fields.map(|field| format!("firmware.{field}")));
    }
    let interfaces = domain.pointer_mut("/devices/interfaces").and_then(Value::as_array_mut);
    let interfaces = interfaces.into_iter().flatten().filter_map(Value::as_object_mut);
    if interfaces.filter_map(|interface| interface.remove("macAddress")).count() > 0 {
        removed.push("interfaces[].macAddress".to_owned());
    }
    removed
        .into_iter()
        .map(|field| format!("{field} of the template is left out, because it must differ between machines"))
        .collect()
}

/// The pool makes a DataVolume for each machine, but no claim that a volume names directly.
fn name_shared_claims(instance: &Value) -> Vec<String> {
    let volumes = instance["volumes"].as_array().into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let note = |claim| {
        format!("all machines use the PersistentVolumeClaim {claim}; use a DataVolume template instead")
    };
    claims.map(note).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use vmpool_api::kubevirt::VirtualMachinePool;

    use super::*;

    fn machine() -> Value {
        json!({
            "metadata": { "name": "web", "namespace": "other", "uid": "1", "labels": { "app": "web" }, "creationTimestamp": null },
            "spec": {
                "running": false,
                "dataVolumeTemplates": [{ "metadata": { "name": "web-root" }, "spec": { "storage": {} } }],
                "template": { "spec": {
                    "domain": { "firmware": { "uuid": "1", "bootloader": {} },
                        "devices": { "interfaces": [{ "name": "a", "macAddress": "02:00:00:00:00:01" }] } },
                    "volumes": [{ "name": "root", "dataVolume": { "name": "web-root" } },
                        { "name": "tools", "persistentVolumeClaim": { "claimName": "tools" } }],
                } },
            },
            "status": {},
        })
    }

    #[test]
    fn the_pool_has_the_machine_and_selects_it() {
        let manifest = build_pool_manifest("farm", "team-a", 3, &machine()).unwrap();
        let pool: VirtualMachinePool = serde_json::from_value(manifest.object.clone()).unwrap();
        assert_eq!((pool.desired_replicas(), pool.metadata.namespace.as_deref()), (3, Some("team-a")));
        let template = &manifest.object["spec"]["virtualMachineTemplate"];
        assert_eq!(template["metadata"], json!({ "labels": { "app": "web", POOL: "farm" } }));
        assert_eq!(template["spec"]["dataVolumeTemplates"], machine()["spec"]["dataVolumeTemplates"]);
        assert_eq!(manifest.object["spec"]["selector"]["matchLabels"], json!({ POOL: "farm" }));
        assert_eq!(template["spec"]["template"]["metadata"]["labels"], json!({ POOL: "farm" }));
    }

    #[test]
    fn what_must_differ_between_machines_is_left_out_and_named() {
        let manifest = build_pool_manifest("farm", "team-a", 3, &machine()).unwrap();
        let spec = &manifest.object["spec"]["virtualMachineTemplate"]["spec"];
        assert_eq!((&spec["runStrategy"], spec.get("running")), (&json!("Always"), None));
        let domain = &spec["template"]["spec"]["domain"];
        let expected =
            json!({ "firmware": { "bootloader": {} }, "devices": { "interfaces": [{ "name": "a" }] } });
        assert_eq!(domain, &expected);
        let notes = manifest.notes.join("\n");
        for part in ["runStrategy: Always", "firmware.uuid", "macAddress", "PersistentVolumeClaim tools"] {
            assert!(notes.contains(part), "{notes}");
        }
    }

    #[rstest]
    #[case::absent(json!({}), "Always", false)]
    #[case::halted(json!({ "runStrategy": "Halted" }), "Always", true)]
    #[case::running(json!({ "running": true }), "Always", false)]
    #[case::another(json!({ "runStrategy": "RerunOnFailure" }), "RerunOnFailure", false)]
    fn the_machines_run(#[case] change: Value, #[case] strategy: &str, #[case] is_named: bool) {
        let mut machine = json!({ "spec": change });
        machine["spec"]["template"] = json!({ "spec": { "domain": {} } });
        let manifest = build_pool_manifest("farm", "team-a", 1, &machine).unwrap();
        assert_eq!(manifest.object["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"], strategy);
        assert_eq!(!manifest.notes.is_empty(), is_named);
    }

    #[test]
    fn a_machine_without_an_instance_is_refused() {
        assert!(build_pool_manifest("farm", "team-a", 1, &json!({ "spec": {} })).is_err());
    }
}
