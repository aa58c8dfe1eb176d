//! Simulations with retained disks.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::config;
use crate::model::PoolDiskTemplate;
use crate::simulation::controller::RequestDelivery;
use crate::simulation::disk_steps::DiskStep;
use crate::simulation::step::SimulationStep;
use crate::simulation::world::EngineSimulation;

/// Runs a simulation of a pool with retained disks until it converges.
fn run(
    desired: usize,
    opened: u64,
    edit: impl FnOnce(&mut PoolDiskTemplate),
    steps: impl IntoIterator<Item = SimulationStep>,
) -> Result<EngineSimulation, String> {
    let mut world = EngineSimulation::keeping(desired, opened, edit);
    let end = steps.into_iter().try_for_each(|step| world.step(step)).and_then(|()| world.settle());
    match end {
        Ok(()) => Ok(world),
        Err(broken) => Err(format!("{broken}\n{}", world.transcript)),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_steps_on_retained_disks_keep_the_invariants_and_converge(
        desired in 0usize..7,
        opened in 0u64..12,
        keep in 0usize..3,
        ttl in prop::option::of(5u64..60),
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let ttl = ttl.map(Duration::from_secs);
        let edit = |template: &mut PoolDiskTemplate| (template.keep_free, template.ttl) = (keep, ttl);
        let steps = numbers.into_iter().map(SimulationStep::from_number_with_disks);
        run(desired, opened, edit, steps).map_err(TestCaseError::fail)?;
    }
}

/// All components except the leader work: terminating objects are deleted, machines run, and the watches show
/// it.
const MEANWHILE: [SimulationStep; 10] = [
    SimulationStep::Finish(0),
    SimulationStep::Finish(0),
    SimulationStep::Collect,
    SimulationStep::Toggle(0),
    SimulationStep::Disk(DiskStep::Tell(0)),
    SimulationStep::Disk(DiskStep::Tell(0)),
    SimulationStep::Disk(DiskStep::Tell(0)),
    SimulationStep::WatchMachines(99),
    SimulationStep::WatchDisks(99),
    SimulationStep::Pass,
];

/// This number of rounds of a leader without faults.
fn rounds(count: usize) -> impl Iterator<Item = SimulationStep> {
    std::iter::repeat_n(
        MEANWHILE.into_iter().chain([SimulationStep::Act(RequestDelivery::Answered); 8]),
        count,
    )
    .flatten()
}

/// A pool of one machine is scaled down, and scaled up again when its disk is free.
fn cycle() -> Vec<SimulationStep> {
    let shrink = rounds(2).chain([SimulationStep::Scale(0)]).chain(rounds(3));
    shrink.chain([SimulationStep::Scale(1)]).chain(rounds(2)).collect()
}

/// Number of retained disks that were ever created.
fn made(world: &EngineSimulation) -> usize {
    let count = world
        .transcript
        .lines()
        .filter(|line| line.contains("create disk web-data-") && line.ends_with(": done"));
    count.count()
}

#[test]
fn a_disk_is_used_again() {
    let world = run(1, 0, |_| {}, cycle()).unwrap();
    assert_eq!(made(&world), 1, "{}", world.transcript);
    assert_eq!(world.api.retained_disks().count(), 1);
}

#[test]
fn a_disk_is_reused_after_any_failed_write() {
    let acts = |steps: &[SimulationStep]| -> Vec<usize> {
        let acts = steps.iter().enumerate().filter(|(_, step)| matches!(step, SimulationStep::Act(_)));
        acts.map(|(position, _)| position).collect()
    };
    let steps = cycle();
    for position in acts(&steps) {
        for fate in [RequestDelivery::AnswerLost, RequestDelivery::RequestLost, RequestDelivery::Late] {
            let mut steps = steps.clone();
            steps[position] = SimulationStep::Act(fate);
            steps.insert(position + 1, SimulationStep::Land(0));
            let world = run(1, 0, |_| {}, steps).unwrap();
            assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
        }
    }
}

#[test]
fn a_disk_is_reused_after_any_exit_of_the_leader() {
    let steps = cycle();
    for position in 0..steps.len() {
        for (late, lands) in [(0, 0), (1, 0), (1, 1), (1, 12), (3, 1)] {
            let mut steps = steps.clone();
            steps.insert(position, SimulationStep::Crash(late));
            for land in 0..late {
                let at = (position + 1 + lands + land).min(steps.len());
                steps.insert(at, SimulationStep::Land(0));
            }
            let world = run(1, 0, |_| {}, steps).unwrap();
            assert_eq!(world.api.pool_machines().count(), 1, "{}", world.transcript);
            // A late create of a failed leader may produce a surplus disk after its machine is gone.
            assert!(world.api.retained_disks().count() <= 1 + late, "{}", world.transcript);
        }
    }
}

/// A pool of three machines with `keep: 1` and a `ttl` of 20 seconds is scaled down to zero.
fn shrinking() -> Vec<SimulationStep> {
    let begin = (0..3).flat_map(|which| rounds(1).chain([SimulationStep::Toggle(which)]));
    begin.chain([SimulationStep::Scale(0)]).chain(rounds(4)).collect()
}

fn keeping_one(template: &mut PoolDiskTemplate) {
    (template.keep_free, template.ttl) = (1, Some(Duration::from_secs(20)));
}

#[test]
fn an_idle_pool_loses_the_disks_that_are_too_old_and_keeps_the_newest() {
    let world = run(3, 0, keeping_one, shrinking()).unwrap();
    assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
    insta::assert_snapshot!(world.transcript);
}

#[test]
fn a_new_leader_completes_the_deletion_of_a_marked_disk() {
    let steps = shrinking();
    // Long enough for the mark and then for the deletion.
    let waits = [
        SimulationStep::Wait(21),
        SimulationStep::Pass,
        SimulationStep::Act(RequestDelivery::Answered),
        SimulationStep::Act(RequestDelivery::Answered),
    ];
    let waits = waits.into_iter().chain([
        SimulationStep::WatchDisks(99),
        SimulationStep::Wait(31),
        SimulationStep::Pass,
    ]);
    let steps: Vec<SimulationStep> =
        steps.into_iter().chain(waits).chain([SimulationStep::Act(RequestDelivery::Answered); 3]).collect();
    for position in steps.len() - 12..=steps.len() {
        for late in 0..=2 {
            let mut steps = steps.clone();
            steps.insert(position, SimulationStep::Crash(late));
            steps.extend([SimulationStep::Land(0); 2]);
            let world = run(3, 0, keeping_one, steps).unwrap();
            assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
        }
    }
}

#[test]
fn a_disk_that_is_wanted_while_it_is_about_to_be_deleted_stays() {
    for wait in 0..32 {
        let end = [
            SimulationStep::Wait(21),
            SimulationStep::Pass,
            SimulationStep::Act(RequestDelivery::Answered),
            SimulationStep::Act(RequestDelivery::Answered),
        ];
        let end = end.into_iter().chain([
            SimulationStep::WatchDisks(99),
            SimulationStep::Wait(wait),
            SimulationStep::Scale(3),
            SimulationStep::Pass,
        ]);
        let steps =
            shrinking().into_iter().chain(end).chain([SimulationStep::Act(RequestDelivery::Answered); 30]);
        let world = run(3, 0, keeping_one, steps).unwrap();
        assert_eq!(made(&world), 3, "{}", world.transcript);
    }
}

#[test]
fn an_attached_disk_is_neither_allocated_nor_deleted() {
    for which in 0..3 {
        let attached = [
            SimulationStep::Disk(DiskStep::Attach(which)),
            SimulationStep::WatchMachines(99),
            SimulationStep::Wait(39),
            SimulationStep::Pass,
        ];
        let waits = attached
            .into_iter()
            .chain([SimulationStep::Act(RequestDelivery::Answered); 4])
            .chain([SimulationStep::WatchDisks(99)]);
        let waits = waits
            .chain([SimulationStep::Wait(39), SimulationStep::Pass])
            .chain([SimulationStep::Act(RequestDelivery::Answered); 4]);
        let steps: Vec<SimulationStep> = shrinking().into_iter().chain(waits).collect();
        let mut world = EngineSimulation::keeping(3, 0, keeping_one);
        steps.into_iter().try_for_each(|step| world.step(step)).unwrap();
        let attached = |name: &str| world.api.is_referred_to(name);
        assert!(world.api.retained_disks().any(|disk| attached(&disk.id.name)), "{}", world.transcript);
        world.settle().unwrap();
        assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
    }
}

#[test]
fn broken_disks_are_replaced_and_do_not_pile_up() {
    // For ten rounds, every new disk fails before a machine runs on it.
    let breaks = |which| {
        [
            SimulationStep::Disk(DiskStep::Break(which)),
            SimulationStep::WatchDisks(99),
            SimulationStep::Wait(39),
        ]
    };
    let steps = (0..10).flat_map(|round| {
        let quiet = rounds(1).filter(|step| !matches!(step, SimulationStep::Toggle(_)));
        quiet.chain((0..6).flat_map(move |disk| breaks(round + disk)))
    });
    let world = run(2, 0, |_| {}, steps).unwrap();
    // One disk for each machine, a replacement, and another one after the failed disks were deleted ten
    // minutes later.
    assert!(made(&world) <= 8, "{} disks\n{}", made(&world), world.transcript);
}
