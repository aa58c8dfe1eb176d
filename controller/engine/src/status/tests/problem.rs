//! Problems that the platform reports, in the message of `Available`.

use std::time::Duration;

use super::{condition, idle, shown};
use crate::condition::ConditionType;
use crate::memory::PROBLEM_AGE;
use crate::model::DiskState;
use crate::testing::{PoolWorld, numbered_machine_name};

const MISSING: &str = "VirtualMachineClass \"large\" not found";

/// Machines of which these wait for a class that does not exist, observed for `age`.
fn waiting(machines: u64, numbers: &[u64], age: Duration) -> PoolWorld {
    let world = PoolWorld::desiring(usize::try_from(machines).unwrap()).with_machines(machines);
    let mut world = numbers.iter().fold(world, |world, number| {
        idle(world, *number)
            .edit(&numbered_machine_name(*number), |machine| machine.problem = Some(MISSING.into()))
    });
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    world.uptime += age;
    world.memory.observe_machines(machines.iter(), world.uptime);
    world
}

fn message(world: &PoolWorld) -> String {
    condition(&shown(world), ConditionType::Available).expect("it is always there")
}

#[test]
fn a_machine_with_a_lasting_problem_is_reported_with_the_message_of_the_platform() {
    let before = waiting(2, &[1], PROBLEM_AGE.saturating_sub(Duration::from_millis(1)));
    assert_eq!(message(&before), "False InsufficientReadyReplicas: 1 of 2 machines are ready");
    assert_eq!(before.plan().requeue_after, Some(Duration::from_millis(1)));
    let after = waiting(2, &[1], PROBLEM_AGE);
    assert_eq!(
        message(&after),
        format!(
            "False InsufficientReadyReplicas: 1 of 2 machines are ready; machine {} is not ready: {MISSING}",
            numbered_machine_name(1)
        )
    );
    assert_eq!(after.plan(), crate::Plan::default());
}

#[test]
fn of_several_machines_the_first_one_is_reported() {
    let first = (0..3).map(numbered_machine_name).min().unwrap();
    let message = message(&waiting(3, &[0, 1, 2], PROBLEM_AGE));
    let expected = format!("; machine {first} is not ready: {MISSING}; 2 more machines are not ready");
    assert!(message.ends_with(&expected), "{message}");
}

#[test]
fn the_problem_of_a_disk_is_the_cause() {
    let disk = format!("{}-root", numbered_machine_name(0));
    let world = waiting(1, &[0], PROBLEM_AGE).edit_disk(&disk, |disk| {
        (disk.state, disk.failure) = (DiskState::Pending, Some("StorageClass fast does not exist".into()));
    });
    let expected = format!(
        "; disk {disk} of machine {} is not ready: StorageClass fast does not exist",
        numbered_machine_name(0)
    );
    assert!(message(&world).ends_with(&expected), "{}", message(&world));
}

#[test]
fn a_machine_that_waits_again_gets_the_same_time_again() {
    let mut world = waiting(2, &[1], PROBLEM_AGE);
    world.memory.observe_machines([].iter(), world.uptime);
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    assert_eq!(message(&world), "False InsufficientReadyReplicas: 1 of 2 machines are ready");
}

#[test]
fn a_published_problem_stays_after_a_change_of_the_leader() {
    let before = waiting(1, &[0], PROBLEM_AGE);
    let published = shown(&before).conditions;
    let mut world = before.pool(|pool| pool.published.conditions = published);
    world.memory = crate::PassMemory::default();
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    assert!(message(&world).contains(MISSING), "{}", message(&world));
}
