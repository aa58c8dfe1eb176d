//! Objects that are too large affect only their own pool.

use serde_json::{Value, json};

use super::rollouts::{MACHINES, POOLS, edit, resize};
use super::{SECOND, count, count_patches};
use crate::testing::{LeaderWorld, Verb, machine_names, pool_manifest};

fn tolerations(count: usize) -> Value {
    vec![json!({ "key": "a" }); count].into()
}

fn failure(world: &LeaderWorld, name: &str) -> String {
    let pool = world.server.get(POOLS, name).unwrap();
    let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let failure = conditions.into_iter().find(|condition| condition["type"] == "ReplicaFailure");
    failure.map(|failure| failure["message"].as_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_pool_that_is_too_large_gets_a_condition_and_no_machine_and_others_are_served() {
    let world = LeaderWorld::with_pool(1).await;
    let mut large = pool_manifest("large", 2);
    large["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = tolerations(60_000);
    world.server.create(POOLS, large);
    world.scale(3);
    world.calm().await;
    assert!(
        failure(&world, "large").contains("more than the limit of 131072"),
        "{}",
        failure(&world, "large")
    );
    let names = machine_names(&world.machines());
    assert!(names.len() == 3 && names.iter().all(|name| name.starts_with("web-")), "{names:?}");
    // The state stays the same without further writes.
    world.run_machines();
    world.calm().await;
    world.take_writes();
    world.advance(SECOND * 660).await;
    let writes = world.take_writes();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn a_pool_that_becomes_too_large_keeps_its_machines_until_it_is_corrected() {
    let world = LeaderWorld::with_pool(3).await;
    let (machines, disks) = (machine_names(&world.machines()), world.disks().len());
    edit(&world, |pool| {
        pool["spec"]["replicas"] = json!(1);
        pool["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = tolerations(60_000);
    });
    world.calm().await;
    world.advance(SECOND * 660).await;
    assert!(failure(&world, "web").contains("spec takes"));
    assert_eq!((machine_names(&world.machines()), world.disks().len()), (machines, disks));
    edit(&world, |pool| pool["spec"]["virtualMachineTemplate"]["spec"]["tolerations"] = tolerations(1));
    world.calm().await;
    assert_eq!((failure(&world, "web"), world.machines().len()), (String::new(), 1));
}

#[tokio::test]
async fn a_machine_that_is_too_large_is_not_updated_and_the_others_are() {
    let world = LeaderWorld::with_pool(3).await;
    let large = machine_names(&world.machines()).remove(0);
    world.server.edit(MACHINES, &large, |machine| machine["spec"]["tolerations"] = tolerations(60_000));
    world.run_machines();
    world.calm().await;
    world.take_writes();
    edit(&world, |pool| pool["spec"]["rollout"] = json!({ "maxUnavailable": 3 }));
    resize(&world, "1Gi");
    for _ in 0..10 {
        world.calm().await;
        world.run_machines();
        world.advance(SECOND * 10).await;
    }
    assert!(failure(&world, "web").contains("more than the limit of 524288"), "{}", failure(&world, "web"));
    let sizes = |wanted: &str| {
        world.machines().iter().filter(|machine| machine["spec"]["memory"]["size"] == wanted).count()
    };
    assert_eq!((sizes("1Gi"), sizes("512Mi")), (2, 1));
    let patched = world.take_writes();
    assert!(patched.iter().all(|call| call.name != large), "{patched:?}");
    assert_eq!(count(&patched, Verb::Create, MACHINES), 0);
    assert_eq!(count_patches(&patched, MACHINES), 4);
}
