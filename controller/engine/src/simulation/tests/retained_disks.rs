//! Stories about disks that outlive their machines.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::config;
use crate::model::DiskTemplate;
use crate::simulation::controller::Fate;
use crate::simulation::disk_steps::DiskStep;
use crate::simulation::step::Step;
use crate::simulation::world::World;

/// Runs a story of a pool that keeps disks to its settled end.
fn run(
    desired: usize,
    opened: u64,
    edit: impl FnOnce(&mut DiskTemplate),
    steps: impl IntoIterator<Item = Step>,
) -> Result<World, String> {
    let mut world = World::keeping(desired, opened, edit);
    let end = steps.into_iter().try_for_each(|step| world.step(step)).and_then(|()| world.settle());
    match end {
        Ok(()) => Ok(world),
        Err(broken) => Err(format!("{broken}\n{}", world.transcript)),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_to_disks_that_are_kept_the_invariants_hold_and_the_world_settles(
        desired in 0usize..7,
        opened in 0u64..12,
        keep in 0usize..3,
        ttl in prop::option::of(5u64..60),
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let ttl = ttl.map(Duration::from_secs);
        let edit = |template: &mut DiskTemplate| (template.keep_free, template.ttl) = (keep, ttl);
        let steps = numbers.into_iter().map(Step::from_number_with_disks);
        run(desired, opened, edit, steps).map_err(TestCaseError::fail)?;
    }
}

/// Everybody but the leader does their work: what terminates is gone, machines run, and the watches show it.
const MEANWHILE: [Step; 10] = [
    Step::Finish(0),
    Step::Finish(0),
    Step::Collect,
    Step::Toggle(0),
    Step::Disk(DiskStep::Tell(0)),
    Step::Disk(DiskStep::Tell(0)),
    Step::Disk(DiskStep::Tell(0)),
    Step::WatchMachines(99),
    Step::WatchDisks(99),
    Step::Pass,
];

/// So many rounds of a leader that gets answers.
fn rounds(count: usize) -> impl Iterator<Item = Step> {
    std::iter::repeat_n(MEANWHILE.into_iter().chain([Step::Act(Fate::Answered); 8]), count).flatten()
}

/// A pool of one machine shrinks, and grows again when its disk is free.
fn cycle() -> Vec<Step> {
    let shrink = rounds(2).chain([Step::Scale(0)]).chain(rounds(3));
    shrink.chain([Step::Scale(1)]).chain(rounds(2)).collect()
}

/// How many kept disks there ever were.
fn made(world: &World) -> usize {
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
fn a_disk_is_used_again_whatever_write_fails_and_however() {
    let acts = |steps: &[Step]| -> Vec<usize> {
        let acts = steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Act(_)));
        acts.map(|(position, _)| position).collect()
    };
    let steps = cycle();
    for position in acts(&steps) {
        for fate in [Fate::AnswerLost, Fate::RequestLost, Fate::Late] {
            let mut steps = steps.clone();
            steps[position] = Step::Act(fate);
            steps.insert(position + 1, Step::Land(0));
            let world = run(1, 0, |_| {}, steps).unwrap();
            assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
        }
    }
}

#[test]
fn a_disk_is_used_again_whenever_the_leader_dies_and_whatever_it_had_sent() {
    let steps = cycle();
    for position in 0..steps.len() {
        for (late, lands) in [(0, 0), (1, 0), (1, 1), (1, 12), (3, 1)] {
            let mut steps = steps.clone();
            steps.insert(position, Step::Crash(late));
            for land in 0..late {
                let at = (position + 1 + lands + land).min(steps.len());
                steps.insert(at, Step::Land(0));
            }
            let world = run(1, 0, |_| {}, steps).unwrap();
            assert_eq!(world.api.pool_machines().count(), 1, "{}", world.transcript);
            // A disk that a dead leader asked for may come after its machine is gone, and then there is one to spare.
            assert!(world.api.retained_disks().count() <= 1 + late, "{}", world.transcript);
        }
    }
}

/// A pool of three that keeps one of its disks, and no other for longer than 20 seconds, shrinks to none.
fn shrinking() -> Vec<Step> {
    let begin = (0..3).flat_map(|which| rounds(1).chain([Step::Toggle(which)]));
    begin.chain([Step::Scale(0)]).chain(rounds(4)).collect()
}

fn keeping_one(template: &mut DiskTemplate) {
    (template.keep_free, template.ttl) = (1, Some(Duration::from_secs(20)));
}

#[test]
fn an_idle_pool_loses_the_disks_that_are_too_old_and_keeps_the_newest() {
    let world = run(3, 0, keeping_one, shrinking()).unwrap();
    assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
    insta::assert_snapshot!(world.transcript);
}

#[test]
fn who_dies_between_the_mark_and_the_deletion_leaves_nothing_undone() {
    let steps = shrinking();
    // Long enough for the mark, then for the deletion.
    let waits = [Step::Wait(21), Step::Pass, Step::Act(Fate::Answered), Step::Act(Fate::Answered)];
    let waits = waits.into_iter().chain([Step::WatchDisks(99), Step::Wait(31), Step::Pass]);
    let steps: Vec<Step> = steps.into_iter().chain(waits).chain([Step::Act(Fate::Answered); 3]).collect();
    for position in steps.len() - 12..=steps.len() {
        for late in 0..=2 {
            let mut steps = steps.clone();
            steps.insert(position, Step::Crash(late));
            steps.extend([Step::Land(0); 2]);
            let world = run(3, 0, keeping_one, steps).unwrap();
            assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
        }
    }
}

#[test]
fn a_disk_that_is_wanted_while_it_is_about_to_be_deleted_stays() {
    for wait in 0..32 {
        let end = [Step::Wait(21), Step::Pass, Step::Act(Fate::Answered), Step::Act(Fate::Answered)];
        let end = end.into_iter().chain([Step::WatchDisks(99), Step::Wait(wait), Step::Scale(3), Step::Pass]);
        let steps = shrinking().into_iter().chain(end).chain([Step::Act(Fate::Answered); 30]);
        let world = run(3, 0, keeping_one, steps).unwrap();
        assert_eq!(made(&world), 3, "{}", world.transcript);
    }
}

#[test]
fn a_disk_that_somebody_attaches_by_hand_is_left_alone_as_long_as_it_is_attached() {
    for which in 0..3 {
        let attached =
            [Step::Disk(DiskStep::Attach(which)), Step::WatchMachines(99), Step::Wait(39), Step::Pass];
        let waits = attached.into_iter().chain([Step::Act(Fate::Answered); 4]).chain([Step::WatchDisks(99)]);
        let waits = waits.chain([Step::Wait(39), Step::Pass]).chain([Step::Act(Fate::Answered); 4]);
        let steps: Vec<Step> = shrinking().into_iter().chain(waits).collect();
        let mut world = World::keeping(3, 0, keeping_one);
        steps.into_iter().try_for_each(|step| world.step(step)).unwrap();
        let attached = |name: &str| world.api.is_referred_to(name);
        assert!(world.api.retained_disks().any(|disk| attached(&disk.id.name)), "{}", world.transcript);
        world.settle().unwrap();
        assert_eq!(world.api.retained_disks().count(), 1, "{}", world.transcript);
    }
}

#[test]
fn broken_disks_are_replaced_and_do_not_pile_up() {
    // Whatever is made breaks before anybody runs on it, for ten rounds.
    let breaks = |which| [Step::Disk(DiskStep::Break(which)), Step::WatchDisks(99), Step::Wait(39)];
    let steps = (0..10).flat_map(|round| {
        let quiet = rounds(1).filter(|step| !matches!(step, Step::Toggle(_)));
        quiet.chain((0..6).flat_map(move |disk| breaks(round + disk)))
    });
    let world = run(2, 0, |_| {}, steps).unwrap();
    // One for each machine, a replacement, and another one after the broken ones were collected ten minutes later.
    assert!(made(&world) <= 8, "{} disks\n{}", made(&world), world.transcript);
}
