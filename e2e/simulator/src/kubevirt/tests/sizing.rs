//! Instance types and preferences: machines start with the copies that they name.

use super::{KubeVirtObjectKind, KubeVirtTestbed};
use rstest::rstest;
use serde_json::{Value, json};

fn copy(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "metadata": { "labels": { "instancetype.kubevirt.io/object-kind": kind } },
        "data": {
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": kind,
            "metadata": { "name": name },
            "spec": spec,
        },
    })
}

/// A machine that runs, with these fields in its spec and in its template's.
fn machine(fields: &Value, template: &Value) -> Value {
    let mut spec = json!({ "runStrategy": "Always", "template": { "spec": template } });
    super::server::merge(&mut spec, fields);
    json!({ "spec": spec })
}

fn size(vcpus: u64) -> Value {
    json!({ "cpu": { "guest": vcpus }, "memory": { "guest": "2048Mi" } })
}

/// The instance of a machine with an instance type and a preference.
fn started(instancetype: &Value, preference: &Value, template: &Value) -> Value {
    let mut stage = KubeVirtTestbed::new();
    stage.create(
        KubeVirtObjectKind::Revision,
        "size",
        &copy("VirtualMachineClusterInstancetype", "t", instancetype),
    );
    stage.create(KubeVirtObjectKind::Revision, "taste", &copy("VirtualMachinePreference", "p", preference));
    let fields = json!({
        "instancetype": { "name": "t", "revisionName": "size" },
        "preference": { "name": "p", "kind": "virtualmachinepreferences", "revisionName": "taste" },
    });
    stage.create(KubeVirtObjectKind::Machine, "a", &machine(&fields, template));
    stage.settle();
    stage.get(KubeVirtObjectKind::Instance, "a").clone()
}

#[test]
fn a_machine_starts_with_the_copies_in_its_status_as_soon_as_they_exist() {
    let mut stage = KubeVirtTestbed::new();
    let fields = json!({ "instancetype": { "name": "t", "kind": "VirtualMachineInstancetype" } });
    stage.create(
        KubeVirtObjectKind::Machine,
        "a",
        &machine(&fields, &json!({ "domain": { "devices": {} } })),
    );
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none(), "it names no copy");
    let reference = json!({ "name": "t", "controllerRevisionRef": { "name": "size" } });
    stage.edit(KubeVirtObjectKind::Machine, "a", &json!({ "status": { "instancetypeRef": reference } }));
    stage.settle();
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none(), "the copy does not exist");
    stage.create(KubeVirtObjectKind::Revision, "size", &copy("VirtualMachineInstancetype", "t", &size(2)));
    stage.settle();
    let instance = stage.get(KubeVirtObjectKind::Instance, "a");
    assert_eq!(instance["spec"]["domain"]["memory"]["guest"], "2048Mi", "the spelling stays");
    assert_eq!(instance["metadata"]["annotations"]["kubevirt.io/instancetype-name"], "t");
    // The status of the other controller stays.
    assert_eq!(stage.get(KubeVirtObjectKind::Machine, "a")["status"]["instancetypeRef"], reference);
    // Nothing restarts if the copy goes.
    let uid = stage.uid(KubeVirtObjectKind::Instance, "a");
    stage.delete(KubeVirtObjectKind::Revision, "size");
    stage.settle();
    assert_eq!(stage.uid(KubeVirtObjectKind::Instance, "a"), uid);
}

#[test]
fn a_copy_of_another_object_is_not_used() {
    let mut stage = KubeVirtTestbed::new();
    stage.create(KubeVirtObjectKind::Revision, "size", &copy("VirtualMachineInstancetype", "t", &size(2)));
    let fields = json!({ "instancetype": { "name": "t", "revisionName": "size" } });
    stage.create(
        KubeVirtObjectKind::Machine,
        "a",
        &machine(&fields, &json!({ "domain": { "devices": {} } })),
    );
    stage.settle();
    assert!(
        stage.find(KubeVirtObjectKind::Instance, "a").is_none(),
        "the machine names an instance type of the cluster"
    );
}

#[rstest]
#[case::without_topology(12, json!({}), [12, 1, 1])]
#[case::in_cores(12, json!({"preferredCPUTopology": "preferCores"}), [1, 12, 1])]
#[case::in_threads(12, json!({"preferredCPUTopology": "threads"}), [1, 1, 12])]
#[case::spread(12, json!({"preferredCPUTopology": "spread"}), [6, 2, 1])]
#[case::spread_over_threads(12, json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "CoresThreads"}}), [1, 6, 2])]
#[case::spread_over_all(12, json!({"preferredCPUTopology": "spread", "spreadOptions": {"across": "SocketsCoresThreads", "ratio": 3}}), [2, 3, 2])]
#[case::one(1, json!({"preferredCPUTopology": "spread"}), [1, 1, 1])]
fn vcpus_are_laid_out(#[case] vcpus: u64, #[case] cpu: Value, #[case] expected: [u64; 3]) {
    let instance = started(&size(vcpus), &json!({ "cpu": cpu }), &json!({ "domain": { "devices": {} } }));
    let cpu = &instance["spec"]["domain"]["cpu"];
    assert_eq!(
        [&cpu["sockets"], &cpu["cores"], &cpu["threads"]].map(|number| number.as_u64().unwrap()),
        expected
    );
}

#[test]
fn the_preference_reaches_the_devices_that_are_added() {
    let preference = json!({
        "devices": {
            "preferredAutoattachInputDevice": true,
            "preferredInputBus": "virtio",
            "preferredDiskBus": "virtio",
            "preferredInterfaceModel": "e1000",
        },
        "firmware": { "preferredUseEfi": true, "preferredUseSecureBoot": false },
        "annotations": { "os": "linux" },
    });
    let template = json!({
        "domain": { "devices": { "disks": [{ "name": "other", "disk": { "bus": "sata" } }] } },
        "volumes": [{ "name": "root", "containerDisk": { "image": "registry/a" } }],
    });
    let instance = started(&size(1), &preference, &template);
    let domain = &instance["spec"]["domain"];
    assert_eq!(
        domain["devices"]["inputs"],
        json!([{ "name": "default-0", "bus": "virtio", "type": "tablet" }])
    );
    let disks = json!([{ "name": "other", "disk": { "bus": "sata" } }, { "name": "root", "disk": { "bus": "virtio" } }]);
    assert_eq!(domain["devices"]["disks"], disks);
    assert_eq!(
        domain["devices"]["interfaces"],
        json!([{ "name": "default", "bridge": {}, "model": "e1000" }])
    );
    assert_eq!(domain["firmware"]["bootloader"], json!({ "efi": { "secureBoot": false } }));
    assert_eq!(instance["spec"]["volumes"][0]["containerDisk"]["imagePullPolicy"], "Always");
    let annotations = &instance["metadata"]["annotations"];
    assert_eq!(annotations["os"], "linux");
    assert_eq!(annotations["kubevirt.io/cluster-instancetype-name"], "t");
    assert_eq!(annotations["kubevirt.io/preference-name"], "p");
}

#[test]
fn overcommitted_memory_is_requested_in_whole_bytes() {
    let size = json!({ "cpu": { "guest": 1 }, "memory": { "guest": "1Gi", "overcommitPercent": 15 } });
    let instance = started(&size, &json!({}), &json!({ "domain": { "devices": {} } }));
    assert_eq!(instance["spec"]["domain"]["resources"]["requests"]["memory"], "912680550");
}

#[rstest]
#[case::memory(json!({ "devices": {}, "memory": { "guest": "1Gi" } }))]
#[case::dedicated_cpus(json!({ "devices": {}, "cpu": { "dedicatedCpuPlacement": true } }))]
fn a_machine_that_sets_what_its_instance_type_sets_does_not_start(#[case] domain: Value) {
    let mut stage = KubeVirtTestbed::new();
    let mut size = size(2);
    size["cpu"]["dedicatedCPUPlacement"] = json!(false);
    stage.create(
        KubeVirtObjectKind::Revision,
        "size",
        &copy("VirtualMachineClusterInstancetype", "t", &size),
    );
    let fields = json!({ "instancetype": { "name": "t", "revisionName": "size" } });
    stage.create(KubeVirtObjectKind::Machine, "a", &machine(&fields, &json!({ "domain": domain })));
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "Failure"), "True/FailedCreate");
    assert!(stage.find(KubeVirtObjectKind::Instance, "a").is_none());
}

#[test]
fn a_machine_may_contain_the_size_of_its_instance_without_a_restart() {
    let mut stage = KubeVirtTestbed::new();
    stage.create(
        KubeVirtObjectKind::Revision,
        "size",
        &copy("VirtualMachineClusterInstancetype", "t", &size(2)),
    );
    let fields = json!({ "instancetype": { "name": "t", "revisionName": "size" } });
    stage.create(
        KubeVirtObjectKind::Machine,
        "a",
        &machine(&fields, &json!({ "domain": { "devices": {} } })),
    );
    stage.settle();
    let domain = json!({
        "cpu": { "sockets": 2, "cores": 1, "threads": 1 },
        "memory": { "guest": "2048Mi" },
        "devices": { "interfaces": [{ "name": "default", "bridge": {} }] },
    });
    let template = json!({ "spec": { "domain": domain, "networks": [{ "name": "default", "pod": {} }] } });
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({ "spec": { "instancetype": null, "template": template } }),
    );
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "absent");
    stage.edit(
        KubeVirtObjectKind::Machine,
        "a",
        &json!({ "spec": { "template": { "spec": { "domain": { "cpu": { "cores": 2 } } } } } }),
    );
    stage.settle();
    assert_eq!(stage.condition(KubeVirtObjectKind::Machine, "a", "RestartRequired"), "True/RestartRequired");
}
