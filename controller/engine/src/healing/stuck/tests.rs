use jiff::Timestamp;

use super::*;
use crate::healing::setting::HealingPolicy;
use crate::model::{DisruptionBudget, MachineActivity, Naming};
use crate::server_clock::ServerClock;
use crate::testing::{PoolWorld, created_machines, numbered_machine_name, observation_time};

fn ago(minutes: i64) -> Timestamp {
    observation_time() - jiff::SignedDuration::from_mins(minutes)
}

/// A pool of five machines. The deletions of the first ones were requested this long ago.
fn terminating(minutes: &[i64]) -> PoolWorld {
    let mut world = PoolWorld::desiring(5).with_machines(5).pool(|pool| {
        pool.healing = Some(HealingPolicy::default());
        pool.rollout.budget = DisruptionBudget::Machines(1);
    });
    for (number, minutes) in (0..).zip(minutes) {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.terminating = true;
            machine.terminating_since = Some(ago(*minutes));
            machine.activity = MachineActivity::NotRunning;
        });
    }
    world
}

#[test]
fn a_stuck_machine_counts_as_gone() {
    let plan = terminating(&[5]).plan();
    assert_eq!(created_machines(&plan), [numbered_machine_name(5)]);
    let early = terminating(&[4]).plan();
    assert_eq!(created_machines(&early), [""; 0]);
    assert_eq!(early.requeue_after, Some(Duration::from_mins(1)));
}

#[test]
fn a_clock_that_is_ahead_makes_no_machine_stuck_after_the_first_response() {
    let mut world = terminating(&[5]);
    world.server_clock = Some(ServerClock::of_response(ago(5), world.uptime));
    let plan = world.plan();
    assert_eq!(created_machines(&plan), [""; 0]);
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(299)));
}

#[test]
fn at_most_max_unhealthy_machines_count_as_gone() {
    assert_eq!(created_machines(&terminating(&[9, 9, 9, 9]).plan()).len(), 2, "40% of 5");
}

#[test]
fn the_name_of_a_stuck_machine_is_not_used_again() {
    let named = |number: u64| format!("web-{number}");
    let mut world = PoolWorld::desiring(2).pool(|pool| {
        pool.healing = Some(HealingPolicy::default());
        pool.naming = Naming::Ordinal;
    });
    for number in 0..2 {
        world = world.with_machine(&named(number), 0);
    }
    let stuck = world.edit("web-0", |machine| {
        machine.terminating = true;
        machine.terminating_since = Some(ago(6));
    });
    assert_eq!(created_machines(&stuck.plan()), ["web-2"]);
    let preserved = stuck.pool(|pool| pool.preservation = Preservation::UnlessChanged);
    assert_eq!(created_machines(&preserved.plan()), [""; 0]);
}

#[test]
fn these_machines_do_not_count_as_gone() {
    let off = terminating(&[9]).pool(|pool| pool.healing = None);
    let unknown =
        terminating(&[9]).edit(&numbered_machine_name(0), |machine| machine.terminating_since = None);
    let reserved = terminating(&[9]).reserved("request", &[&numbered_machine_name(0)]);
    let future = terminating(&[-9]);
    for world in [off, unknown, reserved, future] {
        assert_eq!(created_machines(&world.plan()), [""; 0]);
    }
}

#[test]
fn a_stuck_machine_keeps_its_disks() {
    let world = terminating(&[9])
        .keeping(|_| {})
        .holding(&numbered_machine_name(0), "web-data-held")
        .holding(&numbered_machine_name(1), "web-data-other");
    let plan = world.plan();
    let drafts = plan.actions.iter().filter_map(|action| match action {
        crate::PoolAction::Create { draft } => Some(draft),
        _ => None,
    });
    let disks: Vec<_> = drafts.flat_map(|draft| &draft.disks).collect();
    assert_eq!(disks.len(), 2, "one of each template");
    assert!(disks.iter().all(|disk| &*disk.name != "web-data-held"), "{disks:?}");
}

#[test]
fn a_scale_down_whose_machines_are_stuck_is_complete() {
    let smaller = terminating(&[9, 9]).pool(|pool| pool.desired = 3);
    assert_eq!(created_machines(&smaller.plan()), [""; 0]);
}
