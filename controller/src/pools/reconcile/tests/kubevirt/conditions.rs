//! Whether pools have the conditions in the meaning of kstatus.

use rstest::rstest;

use super::*;
use crate::settings::KubevirtConditions;

/// The conditions of the pool.
fn kinds(world: &LeaderWorld) -> Vec<String> {
    let pool = world.server.get(POOLS, "web").unwrap();
    let conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter_map(|condition| condition["type"].as_str().map(str::to_owned)).collect()
}

/// The writes of a status of a pool since the last call.
fn status_writes(world: &LeaderWorld) -> usize {
    let writes = world.take_writes();
    let is_status = |call: &&Call| call.resource == "virtualmachinepools" && call.subresource == "status";
    writes.iter().filter(is_status).count()
}

/// Another controller has written the status, so it does not show whose definition of pools the cluster has.
#[rstest]
#[case::auto(KubevirtConditions::Auto, &["Ready", "Reconciling", "Stalled"])]
#[case::always(KubevirtConditions::Always, &["Ready", "Reconciling", "Stalled"])]
#[case::never(KubevirtConditions::Never, &[])]
#[tokio::test]
async fn a_pool_has_the_conditions_that_the_policy_allows(
    #[case] policy: KubevirtConditions,
    #[case] expected: &[&str],
) {
    let mut world = LeaderWorld::new();
    world.settings.kubevirt_conditions = policy;
    lead(&mut world, 0);
    world.calm().await;
    assert_eq!(kinds(&world), expected);
    // When nothing changes, then there are no writes, also of a new leader.
    world.take_writes();
    world.calm().await;
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(status_writes(&world), 0);
}

#[tokio::test]
async fn the_conditions_of_an_earlier_version_are_removed_with_one_write() {
    let mut world = LeaderWorld::new();
    world.settings.kubevirt_conditions = KubevirtConditions::Always;
    lead(&mut world, 0);
    world.calm().await;
    world.kill_leader().await;
    world.settings.kubevirt_conditions = KubevirtConditions::Never;
    world.server.edit(POOLS, "web", |pool| pool["spec"]["paused"] = json!(true));
    world.take_writes();
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(kinds(&world), ["ReplicaPaused"]);
    assert_eq!(status_writes(&world), 1);
}
