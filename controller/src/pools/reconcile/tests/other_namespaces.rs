//! Objects of another namespace that name the pool: a tenant can write there, and read the UID of the pool.

use serde_json::Value;

use super::*;
use crate::process::options::PlatformName;
use crate::testing::NAMESPACE;

/// The namespace of the tenant.
const EVIL: &str = "evil";
const POOLS: &str = "virtualmachinepools";
const MACHINES: &str = "virtualmachines";
const DISKS: &str = "virtualdisks";

/// The objects of a resource in a namespace.
fn of(world: &LeaderWorld, namespace: &str, resource: &str) -> Vec<Value> {
    let mut all = world.server.all(resource);
    all.retain(|object| object["metadata"]["namespace"] == namespace);
    all
}

/// Owner references with the UID of the pool, from the tests' point of view all forged.
fn forgeries(pool: &Value) -> Vec<Value> {
    let uid = &pool["metadata"]["uid"];
    let owner = |api_version: &str, kind: &str, name: &str| {
        json!({ "apiVersion": api_version, "kind": kind,
        "name": name, "uid": uid, "controller": true })
    };
    let api_version = pool["apiVersion"].as_str().unwrap();
    vec![
        owner("no.such.group/v1", "VirtualMachinePool", "web"),
        owner(api_version, "VirtualMachinePool", "web"),
        owner(api_version, "VirtualMachinePool", "other"),
        owner(api_version, "VirtualMachine", "web"),
    ]
}

/// Creates copies of an object in the namespace of the tenant, one for each forged owner.
fn forge(world: &LeaderWorld, resource: &str, original: &Value, owners: &[Value]) {
    for (number, owner) in owners.iter().enumerate() {
        let mut copy = original.clone();
        copy["metadata"] = json!({
            "name": format!("decoy-{number}"), "namespace": EVIL, "ownerReferences": [owner],
            "labels": original["metadata"]["labels"], "annotations": original["metadata"]["annotations"],
        });
        world.server.create(resource, copy);
    }
}

/// The writes of the controller in the namespace of the tenant.
fn writes_of_tenant(writes: &[Call]) -> Vec<String> {
    writes.iter().filter(|call| call.namespace == EVIL).map(ToString::to_string).collect()
}

#[tokio::test]
async fn machines_of_another_namespace_are_no_machines_of_the_pool() {
    let mut world = LeaderWorld::with_pool(3).await;
    world.run_machines();
    world.calm().await;
    let stored = world.server.get(POOLS, "web").unwrap();
    world.take_writes();
    forge(&world, MACHINES, &world.machines()[0], &forgeries(&stored));
    world.calm().await;
    assert_eq!(world.status()["replicas"], 3);
    assert!(world.take_writes().is_empty(), "nothing of the pool has changed");

    // A deleted machine is replaced.
    world.server.delete(MACHINES, &machine_names(&of(&world, NAMESPACE, MACHINES))[0]);
    world.calm().await;
    assert_eq!(of(&world, NAMESPACE, MACHINES).len(), 3);

    // A new leader deletes nothing, and a scale-down deletes only as many machines as are surplus.
    let before = machine_names(&of(&world, NAMESPACE, MACHINES));
    world.kill_leader().await;
    world.lead();
    world.calm().await;
    assert_eq!(machine_names(&of(&world, NAMESPACE, MACHINES)), before);
    world.scale(2);
    world.calm().await;
    assert_eq!(of(&world, NAMESPACE, MACHINES).len(), 2);
    assert_eq!(of(&world, EVIL, MACHINES).len(), 4);
    assert_eq!(world.status()["replicas"], 2);
    assert_eq!(writes_of_tenant(&world.take_writes()), [""; 0]);
}

#[tokio::test]
async fn the_owner_of_a_machine_is_group_kind_name_and_uid_in_its_own_namespace_too() {
    let world = LeaderWorld::with_pool(2).await;
    let stored = world.server.get(POOLS, "web").unwrap();
    let mut machine = world.machines()[0].clone();
    for (number, owner) in forgeries(&stored).iter().enumerate().filter(|(number, _)| *number != 1) {
        machine["metadata"] =
            json!({ "name": format!("decoy-{number}"), "namespace": NAMESPACE, "ownerReferences": [owner] });
        world.server.create(MACHINES, machine.clone());
    }
    world.calm().await;
    assert_eq!(world.status()["replicas"], 2);
    assert_eq!(world.machines().len(), 5, "they are neither members nor surplus");
}

#[tokio::test]
async fn disks_of_another_namespace_do_not_stop_a_scale_up() {
    let world = LeaderWorld::with_pool(1).await;
    let stored = world.server.get(POOLS, "web").unwrap();
    forge(&world, DISKS, &world.disks()[0], &forgeries(&stored));
    world.scale(3);
    world.calm().await;
    assert_eq!(of(&world, NAMESPACE, MACHINES).len(), 3);
    assert_eq!(of(&world, NAMESPACE, DISKS).len(), 3);
    assert_eq!(of(&world, EVIL, DISKS).len(), 4);
    assert_eq!(writes_of_tenant(&world.take_writes()), [""; 0]);
}

#[tokio::test]
async fn changes_of_another_namespace_cause_no_pass_of_the_pool() {
    let world = LeaderWorld::with_pool(2).await;
    let stored = world.server.get(POOLS, "web").unwrap();
    forge(&world, MACHINES, &world.machines()[0], &forgeries(&stored));
    world.calm().await;
    let passes = |world: &LeaderWorld| {
        let page = world.metrics.page();
        let lines = page.lines().filter(|line| line.starts_with("vmpool_passes_total{"));
        lines.filter(|line| !line.contains("\"gone\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = passes(&world);
    for number in 0..4 {
        world.server.delete_in(EVIL, MACHINES, &format!("decoy-{number}"));
    }
    world.advance(SECOND).await;
    assert_eq!(passes(&world), before);
}

#[tokio::test]
async fn kubevirt_machines_of_another_namespace_are_no_machines_of_the_pool() {
    const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
    const MACHINES: &str = "virtualmachines.kubevirt.io";
    const REVISIONS: &str = "controllerrevisions";
    let mut world = LeaderWorld::new();
    super::kubevirt::lead(&mut world, 3);
    world.calm().await;
    let stored = world.server.get(POOLS, "web").unwrap();
    let owners = forgeries(&stored);
    let machines = of(&world, NAMESPACE, MACHINES);
    forge(&world, MACHINES, &machines[0], &owners);
    let mut revision = of(&world, NAMESPACE, REVISIONS)[0].clone();
    revision["data"] = json!({ "virtualMachineTemplate": { "spec": { "forged": true } } });
    forge(&world, REVISIONS, &revision, &owners);
    world.calm().await;
    let replicas =
        |world: &LeaderWorld| world.server.get(POOLS, "web").unwrap()["status"]["replicas"].clone();
    assert_eq!(replicas(&world), 3);
    world.server.delete_in(NAMESPACE, MACHINES, "web-1");
    world.calm().await;
    assert_eq!(machine_names(&of(&world, NAMESPACE, MACHINES)), ["web-0", "web-1", "web-2"]);
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(machine_names(&of(&world, NAMESPACE, MACHINES)), ["web-0", "web-1", "web-2"]);
    assert_eq!((of(&world, EVIL, MACHINES).len(), of(&world, EVIL, REVISIONS).len()), (4, 4));
    assert_eq!(replicas(&world), 3);
    assert_eq!(writes_of_tenant(&world.take_writes()), [""; 0]);
}

/// A list alone does not prove how many machines there are.
#[tokio::test]
async fn a_new_leader_counts_live_before_it_deletes_by_count() {
    let mut world = LeaderWorld::with_pool(3).await;
    world.kill_leader().await;
    world.scale(2);
    world.server.take_log();
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    let log = world.server.take_log();
    // The first list of the watch, and the live count.
    assert_eq!(count(&log, Verb::List, MACHINES), 2);
    let delete = log.iter().position(|call| call.is(Verb::Delete, MACHINES)).unwrap();
    let last_list = log.iter().rposition(|call| call.is(Verb::List, MACHINES)).unwrap();
    assert!(last_list < delete);
}
