//! Limits on machines that have not been ready yet, of pools and of storage classes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::rollouts::{POOLS, edit};
use crate::testing::{LeaderWorld, NAMESPACE, pool_manifest};

/// A world whose controller limits provisioning, with no leader yet.
fn limiting_world(max_per_class: usize) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.limits_provisioning = true;
    world.settings.max_provisioning_per_class = max_per_class;
    world
}

fn limited_pool(replicas: usize, limit: &Value) -> Value {
    let mut pool = pool_manifest("web", replicas);
    pool["spec"]["maxProvisioning"] = limit.clone();
    pool
}

/// Number of machines by the name of their pool.
fn machines_by_pool(world: &LeaderWorld) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for machine in world.machines() {
        let pool = machine["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned();
        *counts.entry(pool).or_default() += 1;
    }
    counts
}

fn reason(world: &LeaderWorld) -> Option<String> {
    Some(world.condition("ProvisioningLimited")?["reason"].as_str()?.to_owned())
}

#[tokio::test]
async fn a_pool_with_a_limit_creates_further_machines_as_machines_become_ready() {
    let mut world = limiting_world(0);
    world.server.create(POOLS, limited_pool(5, &json!(2)));
    world.lead();
    for expected in [2, 4] {
        world.calm().await;
        assert_eq!(world.machines().len(), expected);
        assert_eq!(reason(&world).as_deref(), Some("MaxProvisioningReached"));
        world.run_machines();
    }
    world.calm().await;
    assert_eq!((world.machines().len(), reason(&world)), (5, None));
}

#[tokio::test]
async fn machines_that_do_not_start_delay_the_pool_for_half_an_hour() {
    let mut world = limiting_world(0);
    world.server.create(POOLS, limited_pool(2, &json!(1)));
    world.lead();
    world.advance(Duration::from_mins(29)).await;
    assert_eq!(world.machines().len(), 1);
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(world.machines().len(), 2);
    let overdue = world.condition("StartOverdue").expect("the pool names the machine");
    assert_eq!(overdue["reason"], "StartTimeoutExceeded");
}

#[tokio::test]
async fn an_unreadable_limit_allows_one_machine_and_is_reported() {
    let mut world = limiting_world(0);
    world.server.create(POOLS, limited_pool(3, &json!("many")));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    let invalid = world.condition("InvalidSettings").expect("the pool says so");
    assert!(invalid["message"].as_str().unwrap().contains("maxProvisioning"), "{invalid}");
}

#[tokio::test]
async fn with_the_gate_off_the_limit_has_no_effect() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, limited_pool(3, &json!(1)));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert!(!world.metrics.page().contains("vmpool_pool_provisioning{"));
}

#[tokio::test]
async fn the_metric_counts_provisioning_machines_by_the_limit_that_delays_creates() {
    let mut world = limiting_world(0);
    world.server.create(POOLS, limited_pool(3, &json!(2)));
    world.lead();
    world.calm().await;
    let series = |limit: &str, count: usize| {
        format!(
            r#"vmpool_pool_provisioning{{namespace="{NAMESPACE}",pool="web",platform="dvp",limit="{limit}"}} {count}"#
        )
    };
    let page = world.metrics.page();
    assert!(page.contains(&series("pool", 2)) && page.contains(&series("none", 0)), "{page}");
    edit(&world, |pool| pool["spec"]["maxProvisioning"] = Value::Null);
    world.calm().await;
    assert!(world.metrics.page().contains(&series("none", 3)));
}

#[tokio::test]
async fn pools_share_the_slots_of_a_storage_class_and_a_free_one_wakes_the_next_pool() {
    let mut world = limiting_world(2);
    for name in ["web", "other"] {
        world.server.create(POOLS, pool_manifest(name, 2));
    }
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 2, "{:?}", machines_by_pool(&world));
    world.run_machines();
    world.calm().await;
    assert_eq!(machines_by_pool(&world), BTreeMap::from([("other".into(), 2), ("web".into(), 2)]));
}

#[tokio::test]
async fn a_machine_uses_a_slot_for_at_most_five_minutes() {
    let mut world = limiting_world(1);
    world.server.create(POOLS, pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    assert_eq!(reason(&world).as_deref(), Some("StorageClassLimitReached"));
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn a_new_leader_counts_the_machines_of_all_pools_before_it_gives_a_slot() {
    let mut world = limiting_world(2);
    world.server.create(POOLS, pool_manifest("web", 2));
    world.lead();
    world.calm().await;
    world.kill_leader().await;
    // By name, this pool comes first.
    world.server.create(POOLS, pool_manifest("a", 2));
    world.lead();
    world.calm().await;
    assert_eq!(machines_by_pool(&world), BTreeMap::from([("web".into(), 2)]));
}
