//! Objects as KubeVirt's pool controller and its other controllers write them.

use serde_json::{Value, json};

pub(super) const POOL_UID: &str = "2cf25f91-ce59-4cf6-9969-10c0ef837397";
pub(super) const MACHINE_UID: &str = "61815a0a-53ba-4f9c-be05-1a55c94b48a6";

/// A pool as a user creates it, with one DataVolume template. The tests of the webhook use the same file.
pub(super) fn new_pool() -> Value {
    serde_json::from_str(include_str!("fixtures/pool.json")).unwrap()
}

/// The spec of a pool of two machines.
pub(super) fn recorded_pool_spec() -> Value {
    json!({
        "nameGeneration": { "appendIndexToConfigMapRefs": true, "appendIndexToSecretRefs": true },
        "replicas": 2,
        "selector": { "matchLabels": { "app": "herd" } },
        "virtualMachineTemplate": {
            "metadata": { "labels": { "app": "herd" } },
            "spec": {
                "dataVolumeTemplates": [{
                    "metadata": { "name": "root" },
                    "spec": {
                        "source": { "registry": { "url": "docker://alpine" } },
                        "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                    },
                }],
                "runStrategy": "Always",
                "template": {
                    "metadata": { "labels": { "app": "herd" } },
                    "spec": {
                        "domain": {
                            "devices": { "disks": [
                                { "disk": { "bus": "virtio" }, "name": "root" },
                                { "disk": {}, "name": "cm" },
                                { "disk": {}, "name": "sec" },
                            ] },
                            "resources": { "requests": { "memory": "512Mi" } },
                        },
                        "volumes": [
                            { "dataVolume": { "name": "root" }, "name": "root" },
                            { "configMap": { "name": "conf" }, "name": "cm" },
                            { "name": "sec", "secret": { "secretName": "cred" } },
                        ],
                    },
                },
            },
        },
    })
}

/// The pool.
pub(super) fn recorded_pool() -> Value {
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": {
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}\n" },
            "creationTimestamp": "2026-11-21T13:05:06Z",
            "finalizers": ["pool.kubevirt.io/finalizer"],
            "generation": 1,
            "managedFields": [{ "manager": "kv-pool", "operation": "Update" }],
            "name": "herd",
            "namespace": "rec",
            "resourceVersion": "12199",
            "uid": POOL_UID,
        },
        "spec": recorded_pool_spec(),
        "status": { "labelSelector": "app=herd", "replicas": 2 },
    })
}

/// The owner reference of the pool's machines and revisions.
pub(super) fn recorded_owner_reference() -> Value {
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": "VirtualMachinePool",
        "name": "herd",
        "uid": POOL_UID,
    })
}

/// Machine 0 as the pool controller created it.
pub(super) fn created_machine() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {
            "finalizers": ["pool.kubevirt.io/finalizer"],
            "labels": { "app": "herd", "kubevirt.io/vm-pool-revision-name": "herd-1" },
            "name": "herd-0",
            "namespace": "rec",
            "ownerReferences": [recorded_owner_reference()],
        },
        "spec": {
            "dataVolumeTemplates": [{
                "metadata": { "name": "root-0" },
                "spec": {
                    "source": { "registry": { "url": "docker://alpine" } },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                },
            }],
            "runStrategy": "Always",
            "template": {
                "metadata": { "labels": { "app": "herd", "kubevirt.io/vm-pool-revision-name": "herd-1" } },
                "spec": {
                    "domain": {
                        "devices": { "disks": [
                            { "disk": { "bus": "virtio" }, "name": "root" },
                            { "disk": {}, "name": "cm" },
                            { "disk": {}, "name": "sec" },
                        ] },
                        "resources": { "requests": { "memory": "512Mi" } },
                    },
                    "volumes": [
                        { "dataVolume": { "name": "root-0" }, "name": "root" },
                        { "configMap": { "name": "conf-0" }, "name": "cm" },
                        { "name": "sec", "secret": { "secretName": "cred-0" } },
                    ],
                },
            },
        },
    })
}

/// The same machine in a cluster: with the fields that the API server, the webhooks and the controllers of
/// KubeVirt set.
pub(super) fn recorded_machine() -> Value {
    let mut machine = created_machine();
    let metadata = &mut machine["metadata"];
    metadata["uid"] = MACHINE_UID.into();
    metadata["resourceVersion"] = "12196".into();
    metadata["generation"] = 1.into();
    metadata["creationTimestamp"] = "2026-11-21T13:05:07Z".into();
    metadata["managedFields"] = json!([{ "manager": "kv-pool", "operation": "Update" }]);
    metadata["annotations"] = json!({ "kubevirt.io/latest-observed-api-version": "v1" });
    metadata["finalizers"] =
        json!(["kubevirt.io/virtualMachineControllerFinalize", "pool.kubevirt.io/finalizer"]);
    let domain = &mut machine["spec"]["template"]["spec"]["domain"];
    domain["firmware"] = json!({ "serial": "f1a2", "uuid": "5d3b" });
    domain["machine"] = json!({ "type": "q35" });
    domain["devices"]["interfaces"] =
        json!([{ "macAddress": "02:00:00:00:00:01", "masquerade": {}, "name": "default" }]);
    machine["spec"]["template"]["spec"]["networks"] = json!([{ "name": "default", "pod": {} }]);
    machine["status"] = json!({
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastProbeTime": null,
                "lastTransitionTime": "2026-11-21T13:06:07Z",
            },
            { "type": "LiveMigratable", "status": "True", "lastProbeTime": null },
        ],
        "created": true,
        "printableStatus": "Running",
        "ready": true,
    });
    machine
}

/// The VirtualMachineInstance of that machine.
pub(super) fn recorded_instance() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "finalizers": [
                "kubevirt.io/virtualMachineControllerFinalize",
                "kubevirt.io/foregroundDeleteVirtualMachine",
            ],
            "labels": {
                "app": "herd",
                "kubevirt.io/nodeName": "node-1",
                "kubevirt.io/vm-pool-revision-name": "herd-1",
            },
            "name": "herd-0",
            "namespace": "rec",
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "VirtualMachine",
                "name": "herd-0",
                "uid": MACHINE_UID,
            }],
            "uid": "0d6b6f4e",
            "resourceVersion": "12210",
        },
        "spec": { "domain": { "devices": {} } },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True", "lastProbeTime": null },
                { "type": "LiveMigratable", "status": "True" },
            ],
        },
    })
}

/// The revision of the first generation.
pub(super) fn recorded_revision() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "data": recorded_pool_spec(),
        "metadata": { "name": "herd-1", "namespace": "rec", "ownerReferences": [recorded_owner_reference()] },
        "revision": 1,
    })
}
