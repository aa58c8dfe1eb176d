//! `Synced` and the counters that belong to it.

use std::time::Duration;

use rstest::rstest;

use super::{condition, shown, terminating};
use crate::condition::ConditionType;
use crate::model::{
    DetachedDisk, DiskRef, DisruptionBudget, Lifetime, Machine, MachineActivity, PoolDiskTemplate,
};
use crate::plan::{EVALUATION_AGE, UpdateOutcome};
use crate::testing::{PoolWorld, RETAINED, numbered_machine_name, running_machine};

const UPTIME: Duration = Duration::from_secs(100);

/// A pool with template `r2` whose running machines have `r1`.
fn outdated(machines: u64) -> PoolWorld {
    PoolWorld::desiring(usize::try_from(machines).unwrap())
        .with_machines(machines)
        .pool(|pool| pool.revision.id = "r2".into())
}

fn with(world: PoolWorld, numbers: &[u64], edit: fn(&mut Machine)) -> PoolWorld {
    numbers.iter().fold(world, |world, number| world.edit(&numbered_machine_name(*number), edit))
}

fn written(machine: &mut Machine) {
    machine.written = Some("r2".into());
}

fn in_effect(machine: &mut Machine) {
    (machine.written, machine.revision) = (Some("r2".into()), Some("r2".into()));
}

fn not_evaluated(machine: &mut Machine) {
    written(machine);
    machine.evaluated = false;
}

/// The machine has the template and waits for an approved restart.
fn for_approval(machine: &mut Machine) {
    written(machine);
    machine.restart_pending = true;
}

/// The machine has the template, and the platform restarts it.
fn restarting(machine: &mut Machine) {
    for_approval(machine);
    machine.restarts_itself = true;
}

/// The machine stops, so that the template takes effect, and the platform no longer reports a pending
/// restart.
fn stopping(machine: &mut Machine) {
    written(machine);
    machine.activity = MachineActivity::Stopping;
}

/// The machine has the template and boots from a disk whose template was removed.
fn stranded(machine: &mut Machine) {
    written(machine);
    machine.disks.push(DiskRef { template: Some("old".into()), disk: "old".into(), position: 1 });
    machine.boot_disk = Some("old".into());
}

fn refusing(mut world: PoolWorld, numbers: &[u64]) -> PoolWorld {
    for number in numbers {
        let uid = running_machine(&numbered_machine_name(*number), 0).id.uid;
        world.memory.rollout_attempts.record(&uid, &"r2".into(), UpdateOutcome::Refused, UPTIME);
    }
    world
}

fn allowing(world: PoolWorld, budget: usize) -> PoolWorld {
    world.pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(budget))
}

#[rstest]
#[case::all_have_the_template(PoolWorld::desiring(2).with_machines(2), "True PoolSynced: ALL")]
#[case::there_are_none(PoolWorld::desiring(2), "True PoolSynced: the pool has no machines")]
#[case::an_older_one_is_leaving(
    terminating(PoolWorld::desiring(2).with_machines(2), [0]).edit(&numbered_machine_name(0), |machine: &mut Machine| machine.revision = None),
    "True PoolSynced: the current template is in effect in 1 of 1 machine"
)]
#[case::one_is_older(
    with(outdated(4), &[1, 2, 3], in_effect),
    "False RolloutInProgress: the current template is in effect in 3 of 4 machines"
)]
#[case::one_was_written_and_not_evaluated(
    with(with(outdated(4), &[1, 2, 3], in_effect), &[0], not_evaluated),
    "False RolloutInProgress: the current template is in effect in 3 of 4 machines"
)]
#[case::one_has_the_label_and_an_older_one_was_written(
    with(outdated(1), &[0], |machine: &mut Machine| machine.revision = Some("r2".into())),
    "False RolloutInProgress: the current template is in effect in 0 of 1 machine"
)]
#[case::one_is_restarted_without_being_asked(
    with(with(outdated(2), &[0], in_effect), &[1], restarting),
    "False RolloutInProgress: the current template is in effect in 1 of 2 machines; 1 machine restarts to apply it"
)]
#[case::one_stops_for_the_restart(
    with(with(outdated(2), &[0], in_effect), &[1], stopping),
    "False RolloutInProgress: the current template is in effect in 1 of 2 machines; 1 machine restarts to apply it"
)]
#[case::one_stops_for_an_approved_restart(
    with(with(outdated(2), &[0], in_effect), &[1], |machine: &mut Machine| { for_approval(machine); stopping(machine); }),
    "False RolloutInProgress: the current template is in effect in 1 of 2 machines; 1 machine restarts to apply it"
)]
#[case::one_waits_for_a_restart(
    with(with(outdated(2), &[0], in_effect), &[1], for_approval),
    "False RestartPendingApproval: the current template is in effect in 1 of 2 machines; 1 machine needs a \
     restart for it, which you must approve"
)]
#[case::one_waits_and_one_is_older(
    with(outdated(2), &[1], for_approval),
    "False RestartPendingApproval: the current template is in effect in 0 of 2 machines; 1 machine needs a \
     restart for it, which you must approve"
)]
#[case::one_that_had_it_waits_again(
    with(outdated(1), &[0], |machine: &mut Machine| { in_effect(machine); machine.restart_pending = true; }),
    "False RestartPendingApproval: the current template is in effect in 0 of 1 machine; 1 machine needs a \
     restart for it, which you must approve"
)]
#[case::one_keeps_a_disk_that_it_booted_from(
    with(with(outdated(2), &[0], in_effect), &[1], stranded),
    "False RecreationRequired: the current template is in effect in 1 of 2 machines; 1 machine keeps the disk that \
     it booted from, whose disk template was removed, until you stop or recreate the machine"
)]
#[case::one_keeps_a_disk_and_one_is_older(
    with(outdated(2), &[1], stranded),
    "False RolloutInProgress: the current template is in effect in 0 of 2 machines; 1 machine keeps the disk that \
     it booted from, whose disk template was removed, until you stop or recreate the machine"
)]
#[case::paused(
    outdated(2).pool(|pool| pool.rollout.paused = true),
    "False RolloutInProgress: the current template is in effect in 0 of 2 machines; paused: the controller updates no further machine"
)]
#[case::paused_with_nothing_to_do(
    PoolWorld::desiring(2).with_machines(2).pool(|pool| pool.rollout.paused = true), "True PoolSynced: ALL"
)]
#[case::pinned_and_reached(
    PoolWorld::desiring(2).with_machines(2).pool(|pool| pool.revision.pinned = true),
    "True PoolSynced: revision r1, which the pool requests instead of its template, is in effect in all 2 machines"
)]
#[case::pinned_and_on_its_way(
    with(outdated(2), &[0], in_effect).pool(|pool| pool.revision.pinned = true),
    "False RolloutInProgress: revision r2, which the pool requests instead of its template, is in effect in 1 of 2 machines"
)]
#[case::one_refuses(
    allowing(refusing(outdated(9), &[7]), 3),
    "False RolloutInProgress: the current template is in effect in 0 of 9 machines; the API server rejected the update of machine NAME7"
)]
#[case::half_the_budget_refuses(
    allowing(refusing(outdated(9), &[7, 2]), 3),
    "False RolloutInProgress: the current template is in effect in 0 of 9 machines; the API server rejected the updates of machines FIRST; \
     stopped: the controller updates no other machine until the API server accepts one of these updates"
)]
#[case::too_many_are_unavailable(
    allowing(with(outdated(3), &[0, 2], |machine: &mut Machine| machine.activity = MachineActivity::NotRunning), 2),
    "False RolloutInProgress: the current template is in effect in 0 of 3 machines; waiting: 2 machines are unavailable, and the disruption budget is 2"
)]
fn synced(#[case] world: PoolWorld, #[case] expected: &str) {
    let mut refusing = [numbered_machine_name(7), numbered_machine_name(2)];
    refusing.sort();
    let expected =
        expected.replace("NAME7", &numbered_machine_name(7)).replace("FIRST", &refusing.join(" and "));
    let expected = expected.replace("ALL", "the current template is in effect in all 2 machines");
    assert_eq!(condition(&shown(&world), ConditionType::Synced), Some(expected));
}

#[rstest]
#[case::not_for_a_while(Duration::from_secs(599), "RolloutInProgress")]
#[case::for_ten_minutes(EVALUATION_AGE, "ChangesNotEvaluated")]
fn a_platform_that_does_not_look(#[case] age: Duration, #[case] reason: &str) {
    let mut world = with(with(outdated(2), &[0], in_effect), &[1], not_evaluated);
    let machines = world.machines.clone();
    world.memory.rollout_attempts.observe(machines.iter(), UPTIME);
    world.uptime = UPTIME + age;
    let condition = condition(&shown(&world), ConditionType::Synced).unwrap();
    assert!(condition.starts_with(&format!("False {reason}: ")), "{condition}");
    let tells = format!(
        "has not evaluated changes of 1 machine ({}) for more than 10 minutes",
        numbered_machine_name(1)
    );
    assert_eq!(condition.contains(&tells), reason == "ChangesNotEvaluated", "{condition}");
}

#[test]
fn changes_that_are_never_evaluated_are_reported_for_new_machines_too() {
    let mut world = with(PoolWorld::desiring(1).with_machines(1), &[0], |machine: &mut Machine| {
        (machine.evaluated, machine.activity) = (false, MachineActivity::NotRunning);
    });
    let machines = world.machines.clone();
    world.memory.rollout_attempts.observe(machines.iter(), UPTIME);
    assert_eq!(
        condition(&shown(&world), ConditionType::Synced).as_deref(),
        Some("True PoolSynced: the current template is in effect in 1 of 1 machine")
    );
    world.uptime = UPTIME + EVALUATION_AGE;
    let condition = condition(&shown(&world), ConditionType::Synced).unwrap();
    assert!(condition.starts_with("False ChangesNotEvaluated: "), "{condition}");
}

#[rstest]
#[case::in_effect(in_effect, 1, 0)]
#[case::older(|_: &mut Machine| {}, 0, 0)]
#[case::written_and_the_label_not_there_yet(written, 0, 0)]
#[case::not_evaluated(not_evaluated, 0, 0)]
#[case::waiting(for_approval, 0, 1)]
#[case::restarting(restarting, 0, 1)]
#[case::stopping_for_the_restart(stopping, 0, 0)]
#[case::stopping_later(|machine: &mut Machine| { in_effect(machine); machine.activity = MachineActivity::Stopping; }, 1, 0)]
#[case::waiting_for_an_older_change(|machine: &mut Machine| machine.restart_pending = true, 0, 0)]
#[case::waiting_again(|machine: &mut Machine| { in_effect(machine); machine.restart_pending = true; }, 0, 1)]
#[case::leaving(|machine: &mut Machine| { in_effect(machine); machine.terminating = true; }, 0, 0)]
#[case::made_from_it_and_not_looked_at_yet(
    |machine: &mut Machine| { in_effect(machine); (machine.evaluated, machine.activity) = (false, MachineActivity::NotRunning); }, 1, 0
)]
#[case::rolled_back_and_not_looked_at_yet(|machine: &mut Machine| { in_effect(machine); machine.evaluated = false; }, 0, 0)]
#[case::stranded(stranded, 0, 0)]
fn counts(#[case] edit: fn(&mut Machine), #[case] updated: usize, #[case] restart_pending: usize) {
    let summary = shown(&with(outdated(1), &[0], edit)).summary;
    assert_eq!((summary.updated, summary.restart_pending), (updated, restart_pending));
}

#[test]
fn an_unused_template_strands_only_machines_with_its_disk() {
    let world = PoolWorld::desiring(1).with_machines(1).pool(|pool| {
        pool.disks
            .push(PoolDiskTemplate { used: false, ..PoolDiskTemplate::new("data", Lifetime::Retained) });
    });
    assert_eq!(
        condition(&shown(&world), ConditionType::Synced).as_deref(),
        Some("True PoolSynced: the current template is in effect in 1 of 1 machine")
    );
}

/// A user detached the retained disk of each of these machines.
fn detached(machines: u64, of: &[u64]) -> PoolWorld {
    let world = PoolWorld::desiring(2).with_machines(machines).keeping(|_| {});
    let world = (0..machines).fold(world, |world, number| {
        world.holding(&numbered_machine_name(number), &format!("web-data-{number}"))
    });
    of.iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(*number), |machine| {
            let disk = machine.disks.pop().expect("it has two").disk;
            machine.detached.push(DetachedDisk { template: RETAINED.into(), disk });
        })
    })
}

fn message_of(world: &PoolWorld) -> String {
    condition(&shown(world), ConditionType::Synced).expect("it is always there")
}

#[test]
fn a_disk_that_was_detached_by_hand_is_not_synced_and_the_message_says_what_to_do() {
    let text = message_of(&detached(2, &[1]));
    assert!(
        text.starts_with("False DiskDetachedByHand: the current template is in effect in all 2 machines; "),
        "{text}"
    );
    let machine = numbered_machine_name(1);
    for part in [
        format!("disk web-data-1 of disk template data was detached from machine {machine} by hand"),
        "to attach it again, add it to spec.blockDeviceRefs".to_owned(),
        "to free it, remove data from annotation vmpool.virtualization.deckhouse.io/disks".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} is not in {text}");
    }
    assert_eq!(
        message_of(&detached(2, &[])),
        "True PoolSynced: the current template is in effect in all 2 machines"
    );
    assert!(message_of(&detached(5, &[0, 1, 2, 3, 4])).ends_with("and 2 more disks"));
    let unused = detached(2, &[1]).pool(|pool| pool.disks[1].used = false);
    assert!(!message_of(&unused).contains("by hand"));
}

#[test]
fn a_detached_disk_that_another_machine_has_is_not_offered() {
    let world = detached(2, &[1]).edit(&numbered_machine_name(0), |machine| {
        machine.disks.push(DiskRef { template: None, disk: "web-data-1".into(), position: 2 });
    });
    let text = message_of(&world);
    assert!(text.contains(&format!("machine {} refers to it", numbered_machine_name(0))), "{text}");
}
