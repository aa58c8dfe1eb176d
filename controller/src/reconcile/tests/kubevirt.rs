//! KubeVirt pools: their ordinals, and the restarts of their instances.

use serde_json::Value;

use super::*;
use crate::options::PlatformName;
use crate::testing::{Fate, NAMESPACE, Refusal};

const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";

/// Creates the pool `web`, and starts a leader.
fn lead(world: &mut World, replicas: usize) {
    let labels = json!({ "farm": "web" });
    let template = json!({
        "metadata": { "labels": labels },
        "spec": {
            "runStrategy": "Always",
            "template": { "metadata": { "labels": labels }, "spec": { "domain": { "devices": {} } } },
        },
    });
    let spec = json!({
        "replicas": replicas, "selector": { "matchLabels": labels }, "virtualMachineTemplate": template,
    });
    let metadata = json!({ "name": "web", "namespace": NAMESPACE });
    world.server.create(POOLS, json!({ "metadata": metadata, "spec": spec }));
    world.lead_all(&[PlatformName::Kubevirt]);
}

/// A pool with one machine that has no instance, and whose guest still seems ready.
async fn world() -> World {
    let mut world = World::new();
    lead(&mut world, 1);
    world.calm().await;
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    });
    world.calm().await;
    world.take_writes();
    world
}

impl World {
    /// KubeVirt starts the machine `web-0`, from a revision that is not stored.
    fn start_outdated_instance(&self) {
        let machine = self.server.get(MACHINES, "web-0").unwrap();
        let owner = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "controller": true,
            "uid": machine["metadata"]["uid"],
        });
        let labels = json!({ "kubevirt.io/vm-pool-revision-name": "web-0" });
        let metadata = json!({
            "name": "web-0", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner],
        });
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        self.server.create(INSTANCES, json!({ "metadata": metadata, "spec": {}, "status": status }));
    }
}

#[tokio::test]
async fn an_outdated_instance_is_deleted_after_its_machine_is_marked() {
    let world = world().await;
    world.start_outdated_instance();
    world.calm().await;
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Delete, "virtualmachineinstances"), 1);
    assert_eq!(world.server.get(INSTANCES, "web-0"), None);
}

#[rstest]
#[case::was_detached(MACHINES, "web-0", |machine: &mut Value| machine["metadata"]["ownerReferences"] = json!([]))]
#[case::lost_its_label(MACHINES, "web-0", |machine: &mut Value| machine["metadata"]["labels"]["farm"] = json!("other"))]
#[case::belongs_to_a_paused_pool(POOLS, "web", |pool: &mut Value| pool["spec"]["paused"] = json!(true))]
#[tokio::test]
async fn no_instance_is_deleted_if_the_cache_does_not_show_yet_that_its_machine(
    #[case] resource: &str,
    #[case] name: &str,
    #[case] change: fn(&mut Value),
) {
    let world = world().await;
    world.server.hold(resource);
    world.server.edit(resource, name, change);
    world.start_outdated_instance();
    world.calm().await;
    assert!(world.server.get(INSTANCES, "web-0").is_some());
    // The release of a machine is a JSON patch.
    assert_eq!(count(&world.take_writes(), MERGE_PATCH, "virtualmachines"), 0, "the machine is not marked");
}

#[tokio::test]
async fn an_ordinal_whose_create_is_rejected_delays_no_other() {
    let mut world = World::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") && call.name == "web-0" {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "denied by a policy"));
        }
        Fate::Serve
    });
    lead(&mut world, 4);
    world.advance(SECOND * 30).await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-1", "web-2", "web-3"]);
    world.server.behave();
    world.advance(SECOND * 60).await;
    assert_eq!(world.server.all(MACHINES).len(), 4);
}

#[tokio::test]
async fn a_machine_that_lost_its_label_gets_no_template_although_the_cache_does_not_show_it_yet() {
    let world = world().await;
    world.server.hold(MACHINES);
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["labels"]["farm"] = json!("other"));
    world.server.edit(POOLS, "web", |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"]["template"];
        template["spec"]["terminationGracePeriodSeconds"] = json!(7);
    });
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], Value::Null);
}
