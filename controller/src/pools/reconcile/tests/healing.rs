//! Healing: machines that are not ready, and machines whose deletion does not end.

use std::time::Duration;

use serde_json::{Value, json};

use super::rollouts::{MACHINES, edit};
use crate::testing::{LeaderWorld, NAMESPACE, machine_names};

const MINUTE: Duration = Duration::from_mins(1);

/// A pool with healing, whose machines have run for longer than the start timeout.
async fn healing_world(replicas: usize) -> LeaderWorld {
    let world = LeaderWorld::with_pool(replicas).await;
    edit(&world, |pool| pool["spec"]["healing"] = json!({}));
    world.run_machines();
    world.advance(31 * MINUTE).await;
    world
}

fn degrade(world: &LeaderWorld, machine: &str) {
    set_phase(world, machine, "Degraded");
}

fn set_phase(world: &LeaderWorld, machine: &str, phase: &str) {
    world.server.edit(MACHINES, machine, |machine| machine["status"]["phase"] = json!(phase));
}

fn live_names(world: &LeaderWorld) -> Vec<String> {
    let mut machines = world.machines();
    machines.retain(|machine| machine["metadata"]["deletionTimestamp"] == Value::Null);
    machine_names(&machines)
}

#[tokio::test]
async fn a_machine_that_is_not_ready_for_five_minutes_is_replaced() {
    let world = healing_world(3).await;
    let names = machine_names(&world.machines());
    degrade(&world, &names[0]);
    world.advance(4 * MINUTE).await;
    assert_eq!(machine_names(&world.machines()), names);
    world.advance(2 * MINUTE).await;
    let now = machine_names(&world.machines());
    assert!(now.len() == 3 && !now.contains(&names[0]) && now.contains(&names[1]), "{now:?}");
    let notes = world.server.all("events");
    let is_about = |event: &&Value| event["message"].to_string().contains("not ready for too long");
    assert_eq!(notes.iter().filter(is_about).count(), 1, "{notes:?}");
    assert!(world.metrics.page().contains(r#"vmpool_deletions_total{reason="not_ready"} 1"#));
}

#[tokio::test]
async fn too_many_unhealthy_machines_block_healing_with_one_event() {
    let world = healing_world(5).await;
    let names = machine_names(&world.machines());
    for name in &names[..3] {
        degrade(&world, name);
    }
    world.advance(10 * MINUTE).await;
    assert_eq!(machine_names(&world.machines()), names);
    let condition = world.condition("HealingBlocked").expect("the pool says why");
    assert_eq!(condition["reason"], "TooManyUnhealthy");
    let events =
        || world.server.all("events").iter().filter(|event| event["reason"] == "HealingBlocked").count();
    assert_eq!(events(), 1);
    let series = |healing: &str, count: usize| {
        format!(
            r#"vmpool_pool_unhealthy{{namespace="{NAMESPACE}",pool="web",platform="dvp",healing="{healing}"}} {count}"#
        )
    };
    let page = world.metrics.page();
    assert!(page.contains(&series("blocked", 3)) && page.contains(&series("active", 0)), "{page}");
    // When one of them is ready again, then the others are replaced.
    set_phase(&world, &names[0], "Running");
    world.calm().await;
    assert_eq!((world.condition("HealingBlocked"), events()), (None, 1));
    assert_eq!(machine_names(&world.machines()).len(), 5);
    assert!(live_names(&world).contains(&names[0]));
    assert_ne!(live_names(&world), names);
}

#[tokio::test]
async fn a_machine_whose_deletion_does_not_end_counts_as_gone_after_five_minutes() {
    let world = healing_world(3).await;
    let names = machine_names(&world.machines());
    world.server.edit(MACHINES, &names[0], |machine| {
        machine["metadata"]["finalizers"] = json!(["virtualization.deckhouse.io/vm-cleanup"]);
        machine["status"]["phase"] = json!("Degraded");
    });
    world.advance(6 * MINUTE).await;
    assert_eq!(machine_names(&world.machines()), names);
    assert_eq!(live_names(&world).len(), 2, "it is being deleted");
    world.advance(5 * MINUTE).await;
    assert_eq!(live_names(&world).len(), 3);
    assert!(machine_names(&world.machines()).contains(&names[0]), "it keeps its disks until it is gone");
    world.run_machines();
    world.server.edit(MACHINES, &names[0], |machine| machine["metadata"]["finalizers"] = json!([]));
    world.advance(MINUTE).await;
    assert_eq!(machine_names(&world.machines()), live_names(&world));
    assert_eq!(live_names(&world).len(), 3);
}
