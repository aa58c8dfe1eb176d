//! What instance types and preferences write, for each field in their definitions.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::defaults::InstanceDefaults;
use crate::start::Binding;
use crate::testing::kubevirt::{fields_of, unknown_fields};
use crate::testing::{merge_documents, types_from_sketches};

const INSTANCETYPE: &str = "VirtualMachineInstancetype";
const PREFERENCE: &str = "VirtualMachinePreference";

/// A machine with a device of each kind that a preference completes.
fn machine_with_devices() -> Value {
    let devices = json!({
        "disks": [{"name": "root"}, {"name": "fast", "disk": {"bus": "virtio"}}, {"name": "cd", "cdrom": {}}, {"name": "lun", "lun": {}}],
        "interfaces": [{"name": "pod"}], "inputs": [{"name": "mouse"}], "panicDevices": [{}], "sound": {"name": "sound"},
    });
    let volumes = json!([{"name": "root"}, {"name": "image", "containerDisk": {"image": "a"}}]);
    json!({"spec": {
        "dataVolumeTemplates": [{"metadata": {"name": "root"}, "spec": {"storage": {}}}],
        "instancetype": {"name": "t", "kind": INSTANCETYPE},
        "preference": {"name": "p", "kind": PREFERENCE},
        "template": {"spec": {"networks": [{"name": "pod", "pod": {}}], "volumes": volumes, "domain": {"devices": devices}}},
    }})
}

/// The same without devices.
fn bare_machine() -> Value {
    let mut machine = machine_with_devices();
    machine["spec"]["template"]["spec"] = json!({"domain": {"devices": {"autoattachInputDevice": true}}});
    machine
}

/// The machine with an instance type and a preference written out.
fn written_out_machine(
    machine: &Value,
    instancetype: Value,
    preference: Value,
    settings: &InstanceSettings,
) -> Value {
    let types =
        types_from_sketches(Some((INSTANCETYPE, "t", instancetype)), Some((PREFERENCE, "p", preference)));
    expand_machine(machine, &types, settings, MachineLocation::VirtualMachine).unwrap()
}

/// A document with one field.
fn document_with_field(path: &str, value: &Value) -> Value {
    path.rsplit('.').fold(value.clone(), |value, field| json!({ (field): value }))
}

/// The values of fields that allow only some, and of requirements that the machine meets.
fn allowed_value(path: &str, value: Value) -> Value {
    match path {
        "cpu.preferredCPUTopology" => json!("cores"),
        "cpu.spreadOptions.across" => json!("SocketsCoresThreads"),
        "requirements.cpu.guest" => json!(1),
        "requirements.memory.guest" => json!("1Gi"),
        "requirements.architecture" => json!("amd64"),
        _ => value,
    }
}

/// All settings that add something.
fn complete_settings() -> InstanceSettings {
    let defaults = InstanceDefaults {
        architecture: "amd64".to_owned(),
        machine_types: [("amd64".to_owned(), "q35".to_owned())].into(),
        cpu_request: Some("200m".to_owned()),
        eviction_strategy: Some("LiveMigrate".to_owned()),
    };
    InstanceSettings { interface: Some(Binding::Bridge), defaults: Some(defaults) }
}

#[rstest]
#[case::with_devices(machine_with_devices())]
#[case::without_devices(bare_machine())]
fn each_written_field_is_one_of_kubevirt(#[case] machine: Value) {
    for kind in [INSTANCETYPE, PREFERENCE] {
        for (path, value) in fields_of(kind) {
            let more = document_with_field(&path, &allowed_value(&path, value));
            let (instancetype, preference) =
                if kind == INSTANCETYPE { (more, json!({})) } else { (json!({}), more) };
            let written = written_out_machine(&machine, instancetype, preference, &complete_settings());
            assert_eq!(unknown_fields(&written["spec"]["template"]["spec"]), [""; 0], "{kind}: {path}");
        }
    }
}

/// What a preference must also set, so that a field has an effect, and the only one: any device setting makes
/// a disk without a target a target of type `disk`.
fn companion_fields(path: &str) -> Value {
    match path {
        "cpu.spreadOptions.across" | "cpu.spreadOptions.ratio" | "preferSpreadSocketToCoreRatio" => {
            json!({"cpu": {"preferredCPUTopology": "spread"}})
        }
        "firmware.preferredUseBiosSerial" => json!({"firmware": {"preferredUseBios": true}}),
        "firmware.preferredUseSecureBoot" => json!({"firmware": {"preferredUseEfi": true}}),
        _ => json!({"devices": {}}),
    }
}

/// Whether a field of a preference changes no machine: KubeVirt ignores it, or it only restricts machines.
fn has_no_effect(path: &str) -> bool {
    path.starts_with("devices.preferredVirtualGPUOptions.") || path.starts_with("requirements.")
}

#[test]
fn each_field_reaches_the_machine() {
    let size = json!({"cpu": {"guest": 12}});
    for kind in [INSTANCETYPE, PREFERENCE] {
        for (path, value) in fields_of(kind) {
            let more = document_with_field(&path, &allowed_value(&path, value));
            let others = companion_fields(&path);
            let written = |instancetype, preference| {
                written_out_machine(
                    &machine_with_devices(),
                    instancetype,
                    preference,
                    &InstanceSettings::default(),
                )
            };
            let without = written(size.clone(), others.clone());
            let with = if kind == INSTANCETYPE {
                written(merge_documents(size.clone(), more), others)
            } else {
                written(size.clone(), merge_documents(others, more))
            };
            assert_eq!(with == without, has_no_effect(&path), "{kind}: {path}");
        }
    }
}
