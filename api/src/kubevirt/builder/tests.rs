use serde_json::json;

use super::*;

#[test]
fn the_builder_writes_the_expected_manifest() {
    let pool = VirtualMachinePool::builder("builders")
        .namespace("ci")
        .replicas(2)
        .cpu(2)
        .memory("2Gi")
        .machine_label("role", "builder")
        .disk("root", DataVolumeSpec::from_registry("docker://images.example.com/debian:13", "10Gi"))
        .container_disk("tools", "images.example.com/tools:1")
        .scale_in_order(SortPolicy::DescendingOrder)
        .state_preservation(StatePreservation::Offline)
        .max_unavailable(Share::Percent(25))
        .max_protection("4h".parse().unwrap())
        .autohealing()
        .build();
    let virtio = json!({"bus": "virtio"});
    let labels = json!({"kubevirt.io/vmpool": "builders", "role": "builder"});
    assert_eq!(
        serde_json::to_value(&pool).unwrap(),
        json!({
            "apiVersion": "pool.kubevirt.io/v1beta1",
            "kind": "VirtualMachinePool",
            "metadata": {"name": "builders", "namespace": "ci"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"kubevirt.io/vmpool": "builders"}},
                "scaleInStrategy": {"proactive": {
                    "selectionPolicy": {"sortPolicy": "DescendingOrder"},
                    "statePreservation": "Offline",
                }},
                "maxUnavailable": "25%",
                "maxProtection": "4h0m0s",
                "autohealing": {},
                "virtualMachineTemplate": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "runStrategy": "Always",
                        "dataVolumeTemplates": [{
                            "metadata": {"name": "builders-root"},
                            "spec": {
                                "source": {"registry": {"url": "docker://images.example.com/debian:13"}},
                                "storage": {"resources": {"requests": {"storage": "10Gi"}}},
                            },
                        }],
                        "template": {
                            "metadata": {"labels": labels},
                            "spec": {
                                "domain": {
                                    "cpu": {"cores": 2},
                                    "memory": {"guest": "2Gi"},
                                    "devices": {"disks": [
                                        {"name": "root", "disk": virtio},
                                        {"name": "tools", "disk": virtio},
                                    ]},
                                },
                                "volumes": [
                                    {"name": "root", "dataVolume": {"name": "builders-root"}},
                                    {"name": "tools", "containerDisk": {"image": "images.example.com/tools:1"}},
                                ],
                            },
                        },
                    },
                },
            },
        })
    );
}

#[test]
fn an_instance_type_takes_the_place_of_a_size() {
    let pool = VirtualMachinePool::builder("builders").instancetype("u1.small").preference("debian").build();
    let machine = serde_json::to_value(&pool.spec.virtual_machine_template.spec).unwrap();
    assert_eq!(
        (&machine["instancetype"], &machine["preference"]),
        (&json!({"name": "u1.small"}), &json!({"name": "debian"}))
    );
    assert_eq!(machine["template"]["spec"]["domain"], json!({"devices": {}}));
}

#[test]
fn a_pool_has_one_scale_in_strategy() {
    let pool = VirtualMachinePool::builder("builders").scale_in_order(SortPolicy::Newest);
    let pool = pool.opportunistic_scale_in(StatePreservation::Offline);
    let strategy = |pool: &KubeVirtPoolBuilder| {
        serde_json::to_value(&pool.clone().build().spec.scale_in_strategy).unwrap()
    };
    assert_eq!(strategy(&pool), json!({"opportunistic": {"statePreservation": "Offline"}}));
    let pool = pool.scale_in_order(SortPolicy::Oldest);
    assert_eq!(strategy(&pool), json!({"proactive": {"selectionPolicy": {"sortPolicy": "Oldest"}}}));
}

#[test]
fn with_changes_any_field() {
    let pool = VirtualMachinePool::builder("web")
        .disk("data", DataVolumeSpec::blank("1Gi").with_storage_class("fast"))
        .opportunistic_updates()
        .paused()
        .with(|pool| pool.spec.replicas = Some(7))
        .build();
    assert_eq!((pool.spec.replicas, pool.spec.paused), (Some(7), Some(true)));
    assert_eq!(serde_json::to_value(&pool.spec.update_strategy).unwrap(), json!({"opportunistic": {}}));
    let machine = &pool.spec.virtual_machine_template.spec;
    let disk = machine.data_volume_templates.as_ref().unwrap()[0].spec.as_ref().unwrap();
    assert_eq!(disk.storage.as_ref().unwrap()["storageClassName"], "fast");
}
