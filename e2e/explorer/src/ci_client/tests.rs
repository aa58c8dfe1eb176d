//! An hour of simulated time with jobs: the controller neither removes a machine that still runs a job, nor
//! creates one that no job needs.

use rstest::rstest;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{Call, ChangeKind};
use vmpool_runtime::testing::{Idle, SeededRandom};

use super::*;
use crate::checks::{invariant_violations, settled_violations};
use crate::instance::CONTROLLER;
use crate::world::SimulatedWorldOptions;

/// The rounds of an hour.
const ROUNDS: usize = 720;
/// The rounds in which the last jobs must finish.
const LAST_ROUNDS: usize = 60;

/// The number of machines that the controller created.
fn count_created_machines(world: &SimulatedWorld) -> usize {
    let history = world.server.history();
    let is_new = |change: &&vmpool_model::ObjectChange| {
        change.kind == ChangeKind::Added && *change.key.resource == *MACHINES
    };
    history.iter().filter(is_new).count()
}

/// The number of deletions of machines by the controller, each of a machine whose guest has powered off.
fn count_removals_of_finished(world: &SimulatedWorld, client: &CiClient) -> usize {
    let served = world.server.handled_since(0);
    let is_removal = |call: &&Call| {
        call.verb == Verb::Delete && call.resource == "virtualmachines" && call.sender.starts_with(CONTROLLER)
    };
    let accepted = served.iter().filter(|request| request.code < 300).map(|request| &*request.call);
    let uid = |call: &Call| call.body["preconditions"]["uid"].as_str().unwrap_or_default().to_owned();
    let removals: Vec<String> = accepted.filter(is_removal).map(uid).collect();
    for uid in &removals {
        assert!(client.finished.contains(uid), "the controller removed {uid}, whose job has no result");
    }
    removals.len()
}

/// An hour with jobs, and the time until the last of them has finished.
async fn run_an_hour(world: &mut SimulatedWorld, seed: u64, scale_in: &str) -> CiClient {
    world.some_may_not_run = true;
    world.create("virtualmachinepools", pool_of_runners(scale_in)).await;
    let (random, mut client) = (SeededRandom::new(seed), CiClient::default());
    for round in 0..ROUNDS + LAST_ROUNDS {
        if round < ROUNDS {
            let burst = if random.per_mille(10) { 10 } else { 0 };
            client.jobs += burst + usize::from(random.per_mille(350));
        }
        client.run_round(world).await.unwrap();
    }
    client
}

/// Runs an hour, and checks what holds after each.
fn run_to_the_end(
    options: SimulatedWorldOptions,
    scale_in: &str,
    check: impl FnOnce(&SimulatedWorld, &CiClient),
) {
    let (runtime, idle) = Idle::runtime().unwrap();
    runtime.block_on(async {
        let mut world = SimulatedWorld::new(options, idle, false).await;
        let client = run_an_hour(&mut world, options.seed, scale_in).await;
        assert!(client.jobs > 200, "only {} jobs", client.jobs);
        assert_eq!(client.open_jobs(), 0, "each job gets a machine: {client:?}");
        assert_eq!(world.server.all(MACHINES).len(), 0, "no machine stays without a job");
        assert_eq!(invariant_violations(&world), [""; 0]);
        check(&world, &client);
    });
}

fn options(seed: u64) -> SimulatedWorldOptions {
    let platform = TestedPlatform::KubeVirt;
    SimulatedWorldOptions { platform, seed, controllers: 1, latency: 50, ..SimulatedWorldOptions::default() }
}

#[test]
fn with_unmanaged_scale_in_each_job_costs_exactly_one_machine() {
    run_to_the_end(options(1), "Unmanaged", |world, client| {
        assert_eq!(count_created_machines(world), client.jobs);
        assert_eq!(count_removals_of_finished(world, client), 0, "only the client deletes");
        assert_eq!(settled_violations(world), [""; 0]);
    });
}

#[test]
fn with_opportunistic_scale_in_the_controller_removes_only_machines_whose_guest_is_off() {
    run_to_the_end(options(2), "Opportunistic", |world, client| {
        let removals = count_removals_of_finished(world, client);
        assert!(removals > 0, "the controller removes finished machines before the client does");
        // The client cannot know which of two finished machines the controller removes.
        let created = count_created_machines(world);
        assert!((client.jobs..=client.jobs + removals).contains(&created), "{created} machines");
        assert_eq!(settled_violations(world), [""; 0]);
    });
}

/// Requests fail, responses are lost, and leaders are killed.
#[rstest]
fn faults_cost_no_job(#[values("Unmanaged", "Opportunistic")] scale_in: &str) {
    let faulty = SimulatedWorldOptions {
        controllers: 2,
        write_faults_per_mille: 20,
        read_faults_per_mille: 5,
        ..options(3)
    };
    run_to_the_end(faulty, scale_in, |world, client| {
        count_removals_of_finished(world, client);
    });
}
