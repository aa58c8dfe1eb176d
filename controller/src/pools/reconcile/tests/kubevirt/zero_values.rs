//! Pools whose template has explicit zeros, which Go's encoder dropped from what virt-controller stored.

use super::*;

const REVISIONS: &str = "controllerrevisions";
const REVISION_LABEL: &str = "kubevirt.io/vm-pool-revision-name";

/// A template with these devices and features.
fn template(devices: &Value, features: &Value) -> Value {
    let labels = json!({ "farm": "web" });
    let domain = json!({ "devices": devices, "features": features });
    json!({
        "metadata": { "labels": labels },
        "spec": {
            "runStrategy": "Always",
            "template": { "metadata": { "labels": labels }, "spec": { "domain": domain } },
        },
    })
}

/// The template as its user wrote it.
fn explicit() -> Value {
    template(
        &json!({ "disableHotplug": false, "interfaces": [{ "name": "default", "acpiIndex": 0 }] }),
        &json!({ "kvm": { "hidden": false } }),
    )
}

/// The same template as Go's encoder writes it.
fn encoded() -> Value {
    template(&json!({ "interfaces": [{ "name": "default" }] }), &json!({ "kvm": {} }))
}

fn pool_spec(template: &Value) -> Value {
    let selector = json!({ "matchLabels": { "farm": "web" } });
    json!({ "replicas": 2, "selector": selector, "virtualMachineTemplate": template })
}

/// Stores what virt-controller has made of the pool, with this template in its revision and its machines.
fn leave_behind(world: &LeaderWorld, stored: &Value) {
    let finalizers = json!(["pool.kubevirt.io/finalizer"]);
    let metadata = json!({ "name": "web", "namespace": NAMESPACE, "finalizers": finalizers });
    world.server.create(POOLS, json!({ "metadata": metadata, "spec": pool_spec(&explicit()) }));
    let pool = world.server.get(POOLS, "web").unwrap();
    let owner = |kind: &str, api_version: &str, name: &str, uid: &Value| json!([{ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true }]);
    let of_pool = owner("VirtualMachinePool", "pool.kubevirt.io/v1beta1", "web", &pool["metadata"]["uid"]);
    let metadata = json!({ "name": "web-1", "namespace": NAMESPACE, "ownerReferences": of_pool });
    let revision = json!({ "metadata": metadata, "revision": 1, "data": pool_spec(stored) });
    world.server.create(REVISIONS, revision);
    for name in ["web-0", "web-1"] {
        let labels = json!({ "farm": "web", REVISION_LABEL: "web-1" });
        let mut spec = stored["spec"].clone();
        spec["template"]["metadata"]["labels"] = labels.clone();
        let metadata = json!({
            "name": name, "namespace": NAMESPACE, "labels": labels, "finalizers": finalizers,
            "ownerReferences": of_pool,
        });
        world.server.create(MACHINES, json!({ "metadata": metadata, "spec": spec }));
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        world.server.edit(MACHINES, name, |machine| {
            machine["status"] = json!({ "printableStatus": "Running", "conditions": ready });
        });
        let machine = world.server.get(MACHINES, name).unwrap();
        let of_machine = owner("VirtualMachine", "kubevirt.io/v1", name, &machine["metadata"]["uid"]);
        let metadata =
            json!({ "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": of_machine });
        let status = json!({ "phase": "Running", "conditions": ready });
        let instance =
            json!({ "metadata": metadata, "spec": machine["spec"]["template"]["spec"], "status": status });
        world.server.create(INSTANCES, instance);
    }
}

/// The writes of a leader that takes the pool over, without those of the pool.
async fn take_over(stored: &Value) -> Vec<Call> {
    let mut world = LeaderWorld::new();
    leave_behind(&world, stored);
    world.take_writes();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.advance(SECOND * 60).await;
    let mut writes = world.take_writes();
    writes.retain(|call| !["virtualmachinepools", "leases"].contains(&&*call.resource));
    writes
}

#[tokio::test]
async fn a_pool_with_explicit_zeros_is_taken_over_without_a_write() {
    let writes = take_over(&encoded()).await;
    assert!(writes.is_empty(), "{writes:?}");
}

/// The field is a pointer in Go, whose encoder keeps it.
#[tokio::test]
async fn a_pool_that_differs_in_a_pointer_is_rolled_out() {
    let mut stored = encoded();
    stored["spec"]["template"]["spec"]["domain"]["devices"]["autoattachSerialConsole"] = json!(false);
    let writes = take_over(&stored).await;
    assert!(count_patches(&writes, "virtualmachines") >= 2, "{writes:?}");
    assert_eq!(count(&writes, Verb::Delete, "virtualmachineinstances"), 2);
}
