//! Zero values of the spec of an instance that Go's encoder drops.
//!
//! KubeVirt's programs read objects into Go types, and write these. A field that is no pointer and has the
//! tag `omitempty` is absent in what they write if it is zero or false. Such a program is the mutating
//! webhook of machines, and the controller that creates their instances.

use serde_json::Value;

/// The fields, from the Go types of `kubevirt.io/v1` in KubeVirt 1.9.0. `[]` stands for each item of a list.
/// Zero of a field that is a pointer stays, for example `devices.autoattachSerialConsole: false`.
const DROPPED: [&str; 27] = [
    "domain.cpu.cores",
    "domain.cpu.dedicatedCpuPlacement",
    "domain.cpu.isolateEmulatorThread",
    "domain.cpu.maxSockets",
    "domain.cpu.sockets",
    "domain.cpu.threads",
    "domain.devices.disableHotplug",
    "domain.devices.disks.[].disk.readonly",
    "domain.devices.disks.[].lun.readonly",
    "domain.devices.interfaces.[].acpiIndex",
    "domain.features.apic.endOfInterrupt",
    "domain.features.kvm.hidden",
    "domain.resources.overcommitGuestOverhead",
    "livenessProbe.failureThreshold",
    "livenessProbe.initialDelaySeconds",
    "livenessProbe.periodSeconds",
    "livenessProbe.successThreshold",
    "livenessProbe.timeoutSeconds",
    "networks.[].multus.default",
    "readinessProbe.failureThreshold",
    "readinessProbe.initialDelaySeconds",
    "readinessProbe.periodSeconds",
    "readinessProbe.successThreshold",
    "readinessProbe.timeoutSeconds",
    "volumes.[].dataVolume.hotpluggable",
    "volumes.[].persistentVolumeClaim.hotpluggable",
    "volumes.[].persistentVolumeClaim.readOnly",
];

/// The spec of an instance as Go's encoder writes it.
pub(super) fn encode_instance_spec(spec: &Value) -> Value {
    let mut encoded = spec.clone();
    for path in DROPPED {
        let names: Vec<&str> = path.split('.').collect();
        drop_zero(&mut encoded, &names);
    }
    encoded
}

fn drop_zero(value: &mut Value, path: &[&str]) {
    match path {
        [] => {}
        ["[]", rest @ ..] => {
            for item in value.as_array_mut().into_iter().flatten() {
                drop_zero(item, rest);
            }
        }
        [name] => {
            if let Some(fields) = value.as_object_mut()
                && fields.get(*name).is_some_and(is_zero)
            {
                fields.remove(*name);
            }
        }
        [name, rest @ ..] => {
            if let Some(inner) = value.get_mut(*name) {
                drop_zero(inner, rest);
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    *value == Value::Bool(false) || value.as_i64() == Some(0)
}
