//! Random machines, instance types and preferences.

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use serde_json::{Value, json};

use super::{instancetype_json, types_from_sketches};
use crate::defaults::InstanceDefaults;
use crate::model::InstanceTypeAndPreference;
use crate::start::{Binding, InstanceSettings};
use crate::tree;

/// Fields of a machine that no instance type sets, with possible values. The last value of a path counts.
fn machine_fields() -> Vec<(&'static str, Value)> {
    let disks = json!([{"name": "root"}, {"name": "data", "disk": {"bus": "sata"}, "cache": "none"}, {"name": "cd", "cdrom": {}},
        {"name": "lun", "lun": {"bus": "scsi"}}, {"name": "v", "disk": {"bus": "virtio"}, "dedicatedIOThread": false}]);
    let interfaces = json!([{"name": "pod"}, {"name": "b", "bridge": {}, "model": "e1000"}]);
    vec![
        ("architecture", json!("arm64")),
        ("architecture", json!("")),
        ("subdomain", json!("mine")),
        ("terminationGracePeriodSeconds", json!(0)),
        ("evictionStrategy", json!("None")),
        ("networks", json!([{"name": "pod", "pod": {}}, {"name": "b", "multus": {}}])),
        ("volumes", json!([{"name": "root"}, {"name": "image", "containerDisk": {"image": "a"}}])),
        ("future", json!({"a": [1, {"b": null}]})),
        ("domain.future", json!(1)),
        ("domain.cpu.maxSockets", json!(3)),
        ("domain.cpu.sockets", json!(0)),
        ("domain.cpu.dedicatedCpuPlacement", json!(false)),
        ("domain.cpu.model", json!("")),
        ("domain.cpu.features", json!([{"name": "vmx", "policy": "disable"}])),
        ("domain.resources.requests.ephemeral-storage", json!("1Gi")),
        ("domain.machine.type", json!("q35")),
        ("domain.clock.utc", json!({})),
        ("domain.clock.timer", json!({"rtc": {}})),
        ("domain.features.acpi", json!({"enabled": true})),
        ("domain.features.apic", json!({})),
        ("domain.features.hyperv", json!({"relaxed": {"enabled": false}, "vapic": null})),
        ("domain.firmware.bootloader.bios", json!({})),
        ("domain.firmware.bootloader.efi", json!({"secureBoot": true})),
        ("domain.firmware.bootloader", Value::Null),
        ("domain.launchSecurity", json!({"snp": {}})),
        ("domain.devices.disks", disks),
        ("domain.devices.interfaces", interfaces),
        ("domain.devices.inputs", json!([{"name": "a", "bus": ""}])),
        ("domain.devices.inputs", json!([])),
        ("domain.devices.panicDevices", json!([{}])),
        ("domain.devices.sound", json!({"name": "s"})),
        ("domain.devices.video", json!({})),
        ("domain.devices.rng", json!({})),
        ("domain.devices.tpm", json!({"enabled": false})),
        ("domain.devices.disableHotplug", json!(false)),
        ("domain.devices.autoattachInputDevice", json!(true)),
        ("domain.devices.autoattachInputDevice", json!(false)),
        ("domain.devices.autoattachPodInterface", json!(false)),
        ("domain.devices.blockMultiQueue", json!(false)),
    ]
}

/// Fields of a machine that conflict with every instance type.
fn conflicting_machine_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("domain.cpu.cores", json!(2)),
        ("domain.cpu.sockets", json!(4)),
        ("domain.memory.guest", json!("1024Mi")),
        ("domain.memory.hugepages", json!({"pageSize": "2Mi"})),
        ("domain.resources.requests.cpu", json!("1500m")),
        ("domain.resources.requests.memory", json!("2Gi")),
        ("domain.resources.limits.memory", json!(4_294_967_296_u64)),
    ]
}

fn instancetype_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("cpu.guest", json!(1)),
        ("cpu.guest", json!(12)),
        ("cpu.guest", json!(7)),
        ("cpu.model", json!("host-model")),
        ("cpu.dedicatedCPUPlacement", json!(true)),
        ("cpu.isolateEmulatorThread", json!(false)),
        ("cpu.numa", json!({"guestMappingPassthrough": {}})),
        ("cpu.maxSockets", json!(16)),
        ("memory.guest", json!("2048Mi")),
        ("memory.guest", json!("1.5Gi")),
        ("memory.guest", json!(3_000_000_000_u64)),
        ("memory.overcommitPercent", json!(15)),
        ("memory.maxGuest", json!("4096Mi")),
        ("gpus", json!([{"name": "g", "deviceName": "d", "future": 1}])),
        ("hostDevices", json!([{"name": "h"}])),
        ("ioThreadsPolicy", json!("auto")),
        ("ioThreads.supplementalPoolThreadCount", json!(2)),
        ("launchSecurity", json!({"sev": {}})),
        ("nodeSelector", json!({"zone": "a"})),
        ("schedulerName", json!("other")),
        ("annotations", json!({"team": "a", "size": "small"})),
        ("future", json!({"a": null})),
    ]
}

fn preference_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("annotations", json!({"team": "b", "os": "linux"})),
        ("clock.preferredClockOffset", json!({"timezone": "CET"})),
        ("clock.preferredTimer", json!({"hpet": {"present": false}})),
        ("cpu.preferredCPUTopology", json!("cores")),
        ("cpu.preferredCPUTopology", json!("preferThreads")),
        ("cpu.preferredCPUTopology", json!("spread")),
        ("cpu.spreadOptions", json!({"across": "SocketsCoresThreads", "ratio": 3})),
        ("cpu.spreadOptions", json!({"across": "CoresThreads"})),
        ("cpu.preferredCPUFeatures", json!([{"name": "vmx", "policy": "require"}, {"name": "avx"}])),
        ("devices.preferredAutoattachInputDevice", json!(true)),
        ("devices.preferredAutoattachPodInterface", json!(false)),
        ("devices.preferredAutoattachPodInterface", json!(true)),
        ("devices.preferredDisableHotplug", json!(true)),
        ("devices.preferredSoundModel", json!("ich9")),
        ("devices.preferredInputBus", json!("virtio")),
        ("devices.preferredDiskBus", json!("virtio")),
        ("devices.preferredDiskBlockSize", json!({"matchVolume": {}})),
        ("devices.preferredDiskCache", json!("writeback")),
        ("devices.preferredDiskDedicatedIoThread", json!(true)),
        ("devices.preferredCdromBus", json!("sata")),
        ("devices.preferredInterfaceModel", json!("virtio")),
        ("devices.preferredInterfaceMasquerade", json!({})),
        ("devices.preferredRng", json!({"source": "x"})),
        ("devices.preferredTPM", json!({"persistent": true})),
        ("devices.preferredBlockMultiQueue", json!(true)),
        ("devices.preferredPanicDeviceModel", json!("isa")),
        ("devices.preferredVideoType", json!("virtio")),
        ("features.preferredAcpi", json!({"enabled": false})),
        ("features.preferredApic", json!({"enabled": false})),
        ("features.preferredHyperv", json!({"relaxed": {}, "vapic": {}, "future": {}})),
        ("firmware.preferredUseBios", json!(true)),
        ("firmware.preferredUseBiosSerial", json!(true)),
        ("firmware.preferredEfi", json!({"persistent": true})),
        ("firmware.preferredUseEfi", json!(true)),
        ("firmware.preferredUseSecureBoot", json!(false)),
        ("machine.preferredMachineType", json!("pc")),
        ("preferredSubdomain", json!("preferred")),
        ("preferredTerminationGracePeriodSeconds", json!(60)),
        ("preferredArchitecture", json!("amd64")),
        ("preferredLaunchSecurity", json!({"tdx": {}})),
        ("requirements.memory.guest", json!("1Gi")),
        ("requirements.cpu.guest", json!(1)),
    ]
}

/// A document with some of these fields.
fn some_of(fields: Vec<(&'static str, Value)>) -> impl Strategy<Value = Value> {
    let most = fields.len();
    subsequence(fields, 0..=most).prop_map(|fields| {
        let mut document = json!({});
        for (path, value) in fields {
            // A field below one that is a text or a list already is left out.
            let _ = tree::set_value(&mut document, path, value);
        }
        document
    })
}

/// The spec of an instance. One of four has sizes of its own.
pub(crate) fn instance_spec() -> impl Strategy<Value = Value> {
    let sized = [machine_fields(), conflicting_machine_fields()].concat();
    prop_oneof![3 => some_of(machine_fields()), 1 => some_of(sized)]
}

/// The spec of an instance type.
pub(crate) fn instancetype_spec() -> impl Strategy<Value = Value> {
    some_of(instancetype_fields()).prop_map(instancetype_json)
}

/// The spec of a preference.
pub(crate) fn preference_spec() -> impl Strategy<Value = Value> {
    some_of(preference_fields())
}

/// Annotations of a machine.
fn arbitrary_annotations() -> impl Strategy<Value = Value> {
    some_of(vec![("team", json!("mine")), ("team", json!("a")), ("other", json!(""))])
}

/// A machine, what its matchers name, and the settings of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct ExpansionWorld {
    pub(crate) machine: Value,
    pub(crate) types: InstanceTypeAndPreference,
    pub(crate) settings: InstanceSettings,
}

impl ExpansionWorld {
    /// `spec.template` of the machine.
    pub(crate) fn template(&self) -> Value {
        self.machine["spec"]["template"].clone()
    }
}

/// A world whose machine has at least one matcher.
pub(crate) fn arbitrary_expansion_world() -> impl Strategy<Value = ExpansionWorld> {
    let specs = (proptest::option::weighted(0.7, instancetype_spec()), preference_spec());
    (instance_spec(), arbitrary_annotations(), specs, arbitrary_settings()).prop_map(
        |(spec, annotations, (instancetype, preference), settings)| {
            let mut machine = json!({
                "metadata": {"name": "db0"},
                "spec": {
                    "preference": {"name": "p", "kind": "VirtualMachinePreference"},
                    "template": {"metadata": {"annotations": annotations}, "spec": spec},
                },
                "status": {"preferenceRef": {"name": "p"}, "ready": true},
            });
            if instancetype.is_some() {
                machine["spec"]["instancetype"] = json!({"name": "t"});
            }
            let types = types_from_sketches(
                instancetype.map(|spec| ("VirtualMachineClusterInstancetype", "t", spec)),
                Some(("VirtualMachinePreference", "p", preference)),
            );
            ExpansionWorld { machine, types, settings }
        },
    )
}

fn arbitrary_settings() -> impl Strategy<Value = InstanceSettings> {
    let interface = prop_oneof![Just(None), Just(Some(Binding::Masquerade)), Just(Some(Binding::Bridge))];
    (interface, any::<bool>()).prop_map(|(interface, with_defaults)| {
        let machine_types = [("amd64".to_owned(), "q35".to_owned())].into();
        let defaults = InstanceDefaults {
            architecture: "amd64".to_owned(),
            machine_types,
            cpu_request: Some("100m".to_owned()),
            eviction_strategy: Some("LiveMigrate".to_owned()),
        };
        InstanceSettings { interface, defaults: with_defaults.then_some(defaults) }
    })
}

/// A value of any type.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("junk"),
        json!("-1e9"),
        json!([]),
        json!([null]),
        json!([{}]),
        json!([[]]),
        json!({}),
        json!({"name": 1}),
        json!({"disk": "junk"}),
    ];
    proptest::sample::select(values.to_vec())
}

/// A document in which up to three values are replaced by values of any type.
pub(crate) fn with_arbitrary_values(document: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (document, proptest::collection::vec((any::<Index>(), arbitrary_json()), 0..4)).prop_map(
        |(mut document, changes)| {
            for (index, value) in changes {
                let mut pointers = Vec::new();
                pointers_of(&document, "", &mut pointers);
                let pointer = index.get(&pointers);
                if let Some(place) = document.pointer_mut(pointer) {
                    *place = value;
                }
            }
            document
        },
    )
}

/// The JSON pointers of all values of a document.
pub(crate) fn pointers_of(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers_of(value, &format!("{pointer}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers_of(value, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}
