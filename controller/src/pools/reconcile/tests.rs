//! Scenarios of a complete leader on a server in memory, without faults.

mod adoption;
mod deadline;
mod disks;
mod draining;
mod failures;
mod healing;
mod image_refresh;
mod kubevirt;
mod leaders;
mod limits;
mod membership;
mod other_clients;
mod other_namespaces;
mod overridden;
mod problems;
mod protection;
mod provisioning;
mod reads;
mod recycling;
mod revisions;
mod rollouts;
mod settings;
mod slow_admission;
mod standby;
mod targeted_removals;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;
use tokio::task::yield_now;

use crate::metrics::PassResult;
use crate::testing::{Call, JSON_PATCH, LeaderWorld, MERGE_PATCH, Verb, machine_names, pool_manifest};

const SECOND: Duration = Duration::from_secs(1);

fn count(calls: &[Call], verb: Verb, resource: &str) -> usize {
    calls.iter().filter(|call| call.is(verb, resource)).count()
}

/// Whether a request patches objects of this resource, with either type of patch.
fn is_patch(call: &Call, resource: &str) -> bool {
    call.is(MERGE_PATCH, resource) || call.is(JSON_PATCH, resource)
}

fn count_patches(calls: &[Call], resource: &str) -> usize {
    calls.iter().filter(|call| is_patch(call, resource)).count()
}

/// Each machine of `web` has a root disk that it owns.
fn assert_units_are_complete(world: &LeaderWorld) {
    let machines = world.machines();
    for machine in &machines {
        let name = machine["spec"]["blockDeviceRefs"][0]["name"].as_str().unwrap();
        let disk = world.server.get("virtualdisks", name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(disk["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"]);
    }
    assert_eq!(world.disks().len(), machines.len());
}

#[tokio::test]
async fn a_new_machine_costs_one_write_and_one_for_each_of_its_disks() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 3));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Create, "virtualmachines"), 3);
    assert_eq!(count(&writes, Verb::Create, "virtualdisks"), 3);
    assert_eq!(count(&writes, MERGE_PATCH, "virtualmachinepools"), 1, "the block of numbers");
    assert_eq!(count(&writes, Verb::Create, "controllerrevisions"), 1, "the revision");
    let others: Vec<_> = writes.iter().filter(|call| call.subresource != "status").skip(8).collect();
    assert!(others.is_empty(), "{others:?}");

    world.scale(5);
    world.calm().await;
    let writes: Vec<_> =
        world.take_writes().into_iter().filter(|call| call.subresource != "status").collect();
    assert_eq!(writes.len(), 4, "two machines with their disks, from the open block: {writes:?}");
}

#[tokio::test]
async fn a_settled_world_costs_no_request_at_all() {
    let world = LeaderWorld::with_pool(3).await;
    assert_eq!(world.condition("Available").unwrap()["status"], "True");
    // Longer than the resync interval, so that passes run.
    world.advance(Duration::from_mins(11)).await;
    let requests: Vec<String> = world.server.take_log().iter().map(ToString::to_string).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

#[rstest]
#[case::it_did_something(PassResult::Acted, 0, Some(0))]
#[case::it_did_nothing(PassResult::Idle, 0, Some(50))]
#[case::it_did_nothing_and_has_time(PassResult::Idle, 900, Some(900))]
#[case::the_world_is_another(PassResult::Outdated, 0, Some(0))]
#[case::it_failed(PassResult::Failed, 0, None)]
#[case::it_was_fenced(PassResult::Fenced, 0, None)]
fn a_pass_without_progress_is_not_repeated_at_once(
    #[case] result: PassResult,
    #[case] wanted: u64,
    #[case] expected: Option<u64>,
) {
    assert_eq!(
        super::planned_requeue_delay(Duration::from_millis(wanted), result),
        expected.map(Duration::from_millis)
    );
}

#[tokio::test]
async fn other_pools_run_between_two_immediate_passes() {
    const POOLS: usize = 40;
    let mut world = LeaderWorld::new();
    for number in 0..POOLS {
        world.server.create("virtualmachinepools", pool_manifest(&format!("web-{number}"), 0));
    }
    world.lead();
    world.calm().await;
    world.advance(world.settings.resync.saturating_sub(SECOND * 6)).await;
    let passed = Arc::new(Mutex::new(Vec::new()));
    let (seen, metrics) = (passed.clone(), world.metrics.clone());
    let other = world.env.spawn("other", async move {
        loop {
            seen.lock().push(passes(&metrics.page()));
            yield_now().await;
        }
    });
    world.advance(SECOND * 2).await;
    drop(other);
    let mut passed = passed.lock().clone();
    passed.dedup();
    let between = passed.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(passed[passed.len() - 1] - passed[0] >= POOLS, "a pass ran for each pool: {passed:?}");
    // A task that yields may still be scheduled before the other one.
    assert!(between.max().unwrap() <= 2 * world.settings.workers, "a few at a time: {passed:?}");
}

/// The number of passes.
fn passes(page: &str) -> usize {
    let counters = page.lines().filter_map(|line| line.strip_prefix("vmpool_passes_total"));
    counters.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[tokio::test]
async fn the_status_follows_the_machines_and_is_written_at_most_once_a_second() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 4));
    world.lead();
    world.calm().await;
    world.take_writes();
    for name in machine_names(&world.machines()) {
        world.server.edit("virtualmachines", &name, |machine| machine["status"]["phase"] = json!("Running"));
        world.advance(Duration::from_millis(300)).await;
    }
    world.calm().await;
    assert_eq!(world.status()["readyReplicas"], 4);
    let writes = world.take_writes();
    assert!(writes.iter().all(|call| call.subresource == "status"), "{writes:?}");
    assert!((2..=3).contains(&writes.len()), "{writes:?}");
}

#[tokio::test]
async fn surplus_machines_are_deleted_with_their_disks() {
    let world = LeaderWorld::with_pool(3).await;
    world.scale(1);
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    world.server.collect_garbage();
    world.calm().await;
    assert_units_are_complete(&world);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Delete, "virtualmachines"), 2);
    for delete in writes.iter().filter(|call| call.verb == Verb::Delete) {
        assert!(delete.body["preconditions"]["uid"].is_string(), "{:?}", delete.body);
    }
    assert_eq!(world.status()["replicas"], 1);
    assert_eq!(world.condition("Progressing"), None);
}

#[tokio::test]
async fn a_machine_deleted_by_hand_is_replaced_once_and_only_after_it_is_gone() {
    let world = LeaderWorld::with_pool(2).await;
    let victim = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &victim, |machine| {
        machine["metadata"]["finalizers"] = json!(["vm-cleanup"]);
    });
    world.server.delete("virtualmachines", &victim);
    world.calm().await;
    assert_eq!(world.machines().len(), 2, "a terminating machine counts");
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualmachines"), 0);

    world.server.edit("virtualmachines", &victim, |machine| machine["metadata"]["finalizers"] = json!([]));
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(!machine_names(&world.machines()).contains(&victim), "a name does not return");
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualmachines"), 1);
}

#[tokio::test]
async fn an_explicit_pool_deletes_no_surplus() {
    let world = LeaderWorld::with_pool(3).await;
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["scaleDownPolicy"] = json!("Explicit");
        pool["spec"]["replicas"] = json!(1);
    });
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.condition("Progressing").unwrap()["status"], "True");
}
