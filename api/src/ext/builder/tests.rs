use serde_json::json;

use crate::{
    Share,
    enums::{RunPolicy, ScaleDownPolicy},
    v1alpha2::{BlockDeviceRef, DiskTemplate, VirtualDiskSpec, VirtualMachinePool},
};

#[test]
fn the_builder_writes_the_expected_manifest() {
    let pool = VirtualMachinePool::builder("builders", ScaleDownPolicy::OldestFirst)
        .namespace("team-a")
        .replicas(4)
        .class("small")
        .cpu(1, "25%")
        .memory("1Gi")
        .run_policy(RunPolicy::AlwaysOn)
        .machine_label("role", "builder")
        .disk(DiskTemplate::from_cluster_image("boot", "debian"))
        .device(BlockDeviceRef::cluster_image("toolbox"))
        .disk(DiskTemplate::blank("layers", "20Gi").retained_for("45m".parse().unwrap(), 2))
        .build();
    assert_eq!(
        serde_json::to_value(&pool).unwrap(),
        json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2",
            "kind": "VirtualMachinePool",
            "metadata": {"name": "builders", "namespace": "team-a"},
            "spec": {
                "replicas": 4,
                "scaleDownPolicy": "OldestFirst",
                "virtualMachineTemplate": {
                    "metadata": {"labels": {"role": "builder"}},
                    "spec": {
                        "virtualMachineClassName": "small",
                        "runPolicy": "AlwaysOn",
                        "cpu": {"cores": 1, "coreFraction": "25%"},
                        "memory": {"size": "1Gi"},
                        "blockDeviceRefs": [
                            {"kind": "VirtualDisk", "name": "boot"},
                            {"kind": "ClusterVirtualImage", "name": "toolbox"},
                            {"kind": "VirtualDisk", "name": "layers"},
                        ],
                    },
                },
                "virtualDiskTemplates": [
                    {
                        "name": "boot",
                        "spec": {"dataSource": {
                            "type": "ObjectRef",
                            "objectRef": {"kind": "ClusterVirtualImage", "name": "debian"},
                        }},
                    },
                    {
                        "name": "layers",
                        "reclaim": {"onScaleDown": "Retain", "keep": 2, "ttl": "45m0s"},
                        "spec": {"persistentVolumeClaim": {"size": "20Gi"}},
                    },
                ],
            },
        })
    );
}

#[test]
fn with_changes_any_field() {
    let pool = VirtualMachinePool::builder("web", ScaleDownPolicy::Explicit)
        .disk(DiskTemplate::new("data", VirtualDiskSpec::blank("1Gi").with_storage_class("fast")).retained())
        .with(|pool| pool.spec.virtual_machine_template.spec.priority_class_name = Some("low".to_owned()))
        .build();
    let spec = &pool.spec;
    assert_eq!(spec.virtual_machine_template.spec.priority_class_name.as_deref(), Some("low"));
    let disk = &spec.virtual_disk_templates[0];
    let claim = disk.spec.persistent_volume_claim.as_ref().unwrap();
    assert_eq!(claim.storage_class_name.as_deref(), Some("fast"));
    let reclaim = disk.reclaim.as_ref().unwrap();
    assert_eq!((reclaim.on_scale_down.as_deref(), reclaim.ttl.as_deref()), (Some("Retain"), None));
}

#[test]
fn the_builder_writes_rollout_settings() {
    let pool = VirtualMachinePool::builder("builders", ScaleDownPolicy::OldestFirst);
    assert_eq!(pool.clone().build().spec.rollout, None, "unset fields are omitted");
    let pool = pool.max_unavailable(Share::Percent(10)).paused().revision("8c1f5e0a9b7d4e21").build();
    assert_eq!(
        serde_json::to_value(&pool.spec.rollout).unwrap(),
        json!({"maxUnavailable": "10%", "paused": true, "revision": "8c1f5e0a9b7d4e21"})
    );
    let pool = VirtualMachinePool::builder("builders", ScaleDownPolicy::OldestFirst);
    let pool = pool.max_unavailable(Share::Machines(2)).build();
    assert_eq!(serde_json::to_value(&pool.spec.rollout).unwrap(), json!({"maxUnavailable": 2}));
}
