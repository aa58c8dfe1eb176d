//! Tables of cases. Properties are in `laws`, over the machines of `model`.

use rstest::rstest;

use super::*;
use crate::draining::{DrainHook, DrainMark, Draining};
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{
    DiskDraft, DiskRef, DiskSource, DisruptionBudget, Lifetime, Pool, PoolDiskTemplate, Selectable,
    TemplateParts,
};
use crate::revisions::{Fingerprint, LiveParts};
use crate::rollout::attempts::{EVALUATION_AGE, UpdateOutcome};
use crate::selector::{LabelMap, Operator, Selector, SelectorRequirement};
use crate::testing::{PoolWorld, numbered_machine_name, own_disk, pool_owner, running_machine};

mod adoption;
mod disks;
mod model;
mod properties;
mod protection;
mod transcripts;

pub(super) const UPTIME: Duration = Duration::from_secs(100);

/// Running machines at revision `r1`, the oldest first, and a template with revision `r2`.
pub(super) fn outdated(machines: u64) -> PoolWorld {
    PoolWorld::desiring(usize::try_from(machines).unwrap())
        .with_machines(machines)
        .pool(|pool| pool.revision.id = "r2".into())
}

fn allowing(machines: u64, budget: usize) -> PoolWorld {
    outdated(machines).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(budget))
}

fn parts(spec: u64) -> TemplateParts {
    let of = |number: u64| Fingerprint::of_exact(&number.into());
    TemplateParts { instance: of(spec), live: LiveParts::default(), storage: of(0) }
}

/// Machine 0 does not run, which uses the whole budget. The specs of both revisions are equal or differ.
fn without_budget(is_same_spec: bool) -> PoolWorld {
    with(allowing(4, 1), 0, idle).pool(|pool| {
        let new = parts(if is_same_spec { 1 } else { 2 });
        pool.revision.template_parts = [("r1".into(), parts(1)), ("r2".into(), new)].into();
    })
}

#[rstest]
#[case::labels_reach_all_machines_at_once(without_budget(true), &[0, 1, 2, 3])]
#[case::another_spec_waits_for_budget(without_budget(false), &[0])]
#[case::an_unknown_base_may_have_another_spec(
    without_budget(true).pool(|pool| pool.revision.template_parts.retain(|id, _| id.as_str() == "r2")), &[0]
)]
#[case::a_user_changed_the_spec_of_a_machine(
    answering(without_budget(true), 2, UpdateOutcome::Differs), &[0, 1, 3]
)]
#[case::a_device_is_missing(with(without_budget(true), 2, |machine| machine.disks.clear()), &[0, 1, 3])]
#[case::a_paused_rollout_writes_nothing(without_budget(true).pool(|pool| pool.rollout.paused = true), &[])]
#[case::a_stopped_rollout_repeats_what_was_rejected(
    refuse(refuse(without_budget(true), 1), 2), &[1, 2]
)]
fn a_change_of_labels_uses_no_budget(#[case] world: PoolWorld, #[case] expected: &[u64]) {
    let updates = disruption(&world.plan());
    assert_eq!(updates.iter().map(|(number, _)| *number).collect::<Vec<_>>(), expected);
    let is_free = |(number, disruption): &(u64, Disruption)| {
        *disruption == if *number == 0 { Disruption::NotRunning } else { Disruption::MetadataOnly }
    };
    assert!(updates.iter().all(is_free), "{updates:?}");
}

/// The numbers of the machines that a plan updates, in the order of the plan.
pub(super) fn updated(plan: &Plan) -> Vec<u64> {
    numbers(plan, |action| match action {
        PoolAction::Update { machine, .. } => Some(&machine.name),
        _ => None,
    })
}

/// The numbers of the updated machines and the disruption of each update.
fn disruption(plan: &Plan) -> Vec<(u64, Disruption)> {
    let disruption = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Update { disruption, .. } => Some(*disruption),
        _ => None,
    });
    let mut all: Vec<_> = updated(plan).into_iter().zip(disruption).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

fn advanced(plan: &Plan) -> Vec<u64> {
    numbers(plan, |action| match action {
        PoolAction::RecordRevision { machine, .. } => Some(&machine.name),
        _ => None,
    })
}

fn numbers(plan: &Plan, of: impl Fn(&PoolAction) -> Option<&Arc<str>>) -> Vec<u64> {
    let number = |found: &Arc<str>| {
        (0..1000).find(|number| *numbered_machine_name(*number) == **found).expect("one of ours")
    };
    plan.actions.iter().filter_map(of).map(number).collect()
}

/// Edits a machine of the pool.
pub(super) fn with(world: PoolWorld, number: u64, edit: impl FnOnce(&mut Machine)) -> PoolWorld {
    world.edit(&numbered_machine_name(number), edit)
}

fn idle(machine: &mut Machine) {
    machine.activity = MachineActivity::NotRunning;
}

fn stopped(machine: &mut Machine) {
    machine.activity = MachineActivity::Stopped;
}

/// `r2` was written, and the platform has not evaluated it.
fn written(machine: &mut Machine) {
    (machine.written, machine.evaluated) = (Some("r2".into()), false);
}

/// `r2` was written, and the restart needs an approval.
fn for_approval(machine: &mut Machine) {
    (machine.written, machine.restart_pending) = (Some("r2".into()), true);
}

/// `r2` was written, and the platform restarts the machine.
fn restarting(machine: &mut Machine) {
    for_approval(machine);
    machine.restarts_itself = true;
}

/// `r2` has come into effect.
fn unrecorded(machine: &mut Machine) {
    machine.written = Some("r2".into());
}

/// The update stops the guest, whose hooks are released.
fn drained(machine: &mut Machine) {
    let mark = DrainMark {
        id: "d1".to_owned(),
        reason: DrainReason::Rollout,
        since: crate::testing::observation_time(),
        deadline: crate::testing::observation_time() + Duration::from_mins(10),
    };
    let hook = DrainHook { name: "job".into(), value: "d1".into() };
    machine.restarts_itself = true;
    machine.draining = Some(Arc::new(Draining { hooks: vec![hook], mark: Some(mark) }));
}

fn answering(mut world: PoolWorld, number: u64, answer: UpdateOutcome) -> PoolWorld {
    let uid = running_machine(&numbered_machine_name(number), 0).id.uid;
    world.memory.rollout_attempts.record(&uid, &"r2".into(), answer, UPTIME);
    world
}

fn refuse(world: PoolWorld, number: u64) -> PoolWorld {
    answering(world, number, UpdateOutcome::Refused)
}

fn lose(world: PoolWorld, number: u64) -> PoolWorld {
    answering(world, number, UpdateOutcome::Unconfirmed)
}

#[rstest]
#[case::as_many_as_the_budget_allows(allowing(8, 3), &[0, 1, 2])]
#[case::a_quarter_by_default(outdated(8), &[0, 1])]
#[case::at_least_one(allowing(2, 0), &[0])]
#[case::one_that_does_not_run_takes_a_place_and_goes_first(with(allowing(4, 2), 3, idle), &[3, 0])]
#[case::machines_that_do_not_run_are_updated_independent_of_the_budget(
    with(with(with(allowing(4, 1), 3, idle), 2, idle), 1, idle), &[1, 2, 3]
)]
#[case::a_stopped_one_costs_nothing(with(allowing(4, 1), 3, stopped), &[3, 0])]
#[case::one_that_is_not_evaluated_takes_a_place(with(allowing(4, 2), 0, written), &[1])]
#[case::one_that_waits_for_approval_takes_none(with(allowing(4, 1), 0, for_approval), &[1])]
#[case::one_that_is_restarted_takes_a_place(with(allowing(4, 1), 0, restarting), &[])]
#[case::a_terminating_machine_uses_the_budget(with(allowing(4, 1), 0, |m| m.terminating = true), &[])]
#[case::a_missing_machine_uses_the_budget(allowing(4, 2).pool(|pool| pool.desired = 5), &[0])]
#[case::two_terminating_machines_exceed_a_budget_of_one(
    with(with(allowing(4, 1), 0, |m| m.terminating = true), 1, |m| m.terminating = true), &[]
)]
#[case::a_terminating_surplus_machine_uses_no_budget(
    with(allowing(4, 1).pool(|pool| pool.desired = 3), 0, |m| { written(m); m.terminating = true; }), &[1]
)]
#[case::a_stopped_machine_leaves_the_budget_to_others(
    with(with(allowing(4, 2), 0, stopped), 1, |m| m.terminating = true), &[0, 2]
)]
#[case::one_that_was_written_and_is_back_takes_none(with(allowing(4, 1), 0, unrecorded), &[1])]
#[case::a_terminating_machine_is_not_updated(with(allowing(4, 2), 0, |m| m.terminating = true), &[1])]
#[case::one_that_is_written_with_an_older_one_keeps_its_place(
    with(allowing(4, 1), 2, |m| (m.written, m.evaluated) = (Some("r1b".into()), false)), &[2]
)]
#[case::too_many_are_unavailable_already(
    with(with(allowing(4, 1), 2, |m| m.evaluated = false), 3, |m| m.evaluated = false), &[]
)]
#[case::a_lost_answer_takes_a_place_and_is_tried_again(lose(allowing(4, 1), 2), &[2])]
#[case::a_drained_machine_is_updated(with(allowing(4, 1), 2, drained), &[2])]
#[case::drained_machines_follow_each_other_if_the_budget_became_smaller(
    with(with(allowing(4, 1), 1, drained), 2, drained), &[1]
)]
#[case::a_drained_machine_waits_while_another_one_uses_the_budget(
    with(with(allowing(4, 1), 1, |machine| machine.evaluated = false), 2, drained), &[]
)]
#[case::machines_with_a_rejected_update_come_last(refuse(allowing(4, 2), 0), &[1, 2])]
#[case::machines_with_a_rejected_update_use_no_budget(refuse(with(allowing(2, 1), 1, unrecorded), 0), &[0])]
#[case::paused(allowing(4, 2).pool(|pool| pool.rollout.paused = true), &[])]
#[case::a_pool_that_cannot_be_read(allowing(4, 2).pool(|pool| pool.validation_errors.push("odd".into())), &[])]
#[case::a_pool_that_is_deleted(allowing(4, 2).pool(|pool| pool.deleting = true), &[])]
#[case::all_have_it(PoolWorld::desiring(4).with_machines(4), &[])]
#[case::surplus_machines_are_not_updated(allowing(4, 4).pool(|pool| pool.desired = 2), &[0, 1])]
fn writes_to(#[case] world: PoolWorld, #[case] expected: &[u64]) {
    assert_eq!(updated(&world.plan()), expected);
}

#[rstest]
#[case::one_refuses_of_a_small_pool(4, 1, &[0], false)]
#[case::two_refuse_of_a_small_pool(4, 1, &[0, 1], true)]
#[case::two_refuse_where_more_may(16, 6, &[0, 1], false)]
#[case::half_the_budget_refuses(16, 6, &[0, 1, 2], true)]
#[case::half_of_an_odd_budget(16, 7, &[0, 1, 2], false)]
fn a_rollout_stops_when(
    #[case] machines: u64,
    #[case] budget: usize,
    #[case] refusing: &[u64],
    #[case] stops: bool,
) {
    let world = refusing.iter().copied().fold(allowing(machines, budget), refuse);
    let plan = world.plan();
    let others = updated(&plan).iter().any(|number| !refusing.contains(number));
    assert_eq!(others, !stops, "{:?}", updated(&plan));
    assert!(plan.wants.update);
    if stops {
        // Only the rejected updates are retried, after the backoff. Another template is written to all
        // machines.
        assert!(!updated(&plan).is_empty());
        let changed = world.pool(|pool| pool.revision.id = "r3".into());
        assert_eq!(updated(&changed.plan())[0], 0);
        assert_eq!(updated(&changed.plan()).len(), budget);
    }
}

#[test]
fn a_stopped_rollout_updates_no_other_machine() {
    let world = refuse(refuse(with(with(allowing(6, 1), 5, idle), 4, stopped), 0), 1);
    assert_eq!(updated(&world.plan()), [] as [u64; 0], "the one that does not run takes the only place");
    let world = refuse(refuse(with(allowing(6, 1), 4, stopped), 0), 1);
    assert_eq!(updated(&world.plan()), [0]);
}

#[rstest]
#[case::nothing_failed(None, 100, Ok(8))]
#[case::in_the_pause_after_a_failure(Some(100), 100, Err(250))]
#[case::after_the_pause_one_is_tried(Some(100), 101, Ok(1))]
fn the_pace(#[case] failed: Option<u64>, #[case] uptime: u64, #[case] expected: Result<usize, u64>) {
    let failure = PoolFailure { reason: FailureReason::FailedTemplateUpdate, message: "no".into() };
    let mut world = allowing(8, 8);
    // The recorded attempts belong to the revision.
    world.memory.observe(&world.pool, UPTIME);
    if let Some(failed) = failed {
        world.memory.backoff_mut(ApplyStage::Update).failed(failure, Duration::from_secs(failed), None, 0.0);
    }
    world.uptime = Duration::from_secs(uptime);
    let plan = world.plan();
    assert!(plan.wants.update);
    match expected {
        Ok(width) => assert_eq!(updated(&plan).len(), width),
        Err(left) => {
            assert_eq!(updated(&plan), [] as [u64; 0]);
            assert_eq!(plan.requeue_after, Some(Duration::from_millis(left)));
        }
    }
    if expected == Ok(1) {
        assert_eq!(plan.requeue_after, Some(Duration::ZERO), "the rest comes with the next pass");
        // Another revision is tried without a delay.
        world.pool.revision.id = "r3".into();
        world.memory.observe(&world.pool, world.uptime);
        assert_eq!(updated(&world.plan()).len(), 8);
    }
}

#[rstest]
#[case::it_has_come_into_effect(unrecorded, true)]
#[case::the_platform_has_not_looked(written, false)]
#[case::a_restart_waits(for_approval, false)]
#[case::a_restart_is_under_way(restarting, false)]
#[case::it_leaves(|m: &mut Machine| { unrecorded(m); m.terminating = true; }, false)]
#[case::it_is_stopped(|m: &mut Machine| { unrecorded(m); stopped(m); }, true)]
#[case::it_says_so_already(|m: &mut Machine| { unrecorded(m); m.revision = Some("r2".into()); }, false)]
#[case::it_was_not_written(|_: &mut Machine| {}, false)]
fn the_revision_is_recorded_when(#[case] edit: fn(&mut Machine), #[case] expected: bool) {
    let world = with(allowing(2, 1), 1, edit);
    let plan = world.plan();
    assert_eq!(advanced(&plan).contains(&1), expected);
    assert_eq!(plan.wants.record_revision, expected);
    let paused = world.pool(|pool| pool.rollout.paused = true);
    assert_eq!(advanced(&paused.plan()).contains(&1), expected, "recording a revision changes no machine");
}

#[test]
fn saying_so_has_a_pace_of_its_own() {
    let failure = PoolFailure { reason: FailureReason::FailedRepair, message: "no".into() };
    let mut world = with(with(allowing(3, 1), 0, unrecorded), 1, unrecorded);
    world.memory.observe(&world.pool, UPTIME);
    world.memory.backoff_mut(ApplyStage::Update).failed(failure.clone(), UPTIME, None, 0.0);
    let plan = world.plan();
    assert_eq!((advanced(&plan).len(), updated(&plan).len()), (2, 0));
    world.memory.backoff_mut(ApplyStage::Update).reset();
    world.memory.backoff_mut(ApplyStage::RecordRevision).failed(failure, UPTIME, None, 0.0);
    let plan = world.plan();
    assert_eq!((advanced(&plan).len(), updated(&plan).len()), (0, 1));
}

#[rstest]
#[case::it_is_stored(Some("r1"), Some("r1"), Some("r1"))]
#[case::what_was_written_counts(Some("r0"), Some("r1"), Some("r1"))]
#[case::else_what_is_in_effect(Some("r0"), None, Some("r0"))]
#[case::another_controller_wrote_it(Some("5c8a1d2f"), Some("5c8a1d2f"), None)]
#[case::unknown(None, None, None)]
fn the_merge_base_of_a_machine(
    #[case] in_effect: Option<&str>,
    #[case] written: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut world = with(outdated(1), 0, |machine| {
        machine.revision = in_effect.map(RevisionId::from);
        machine.written = written.map(RevisionId::from);
    });
    world.stored = ["r0", "r1"].map(RevisionId::from).to_vec();
    let plan = world.plan();
    let [PoolAction::Update { base, to, .. }] = &plan.actions[..] else { panic!("{:?}", plan.actions) };
    assert_eq!((base.as_ref().map(RevisionId::as_str), to.as_str()), (expected, "r2"));
}

#[test]
fn a_machine_that_does_not_run_is_updated_as_not_running() {
    let world = with(with(allowing(3, 3), 0, idle), 1, stopped);
    assert_eq!(
        disruption(&world.plan()),
        [(0, Disruption::NotRunning), (1, Disruption::NotRunning), (2, Disruption::Budgeted)]
    );
}

#[test]
fn the_pool_looks_again_when_a_change_has_been_ignored_for_long_enough() {
    let mut world = with(PoolWorld::desiring(2).with_machines(2), 0, |machine| machine.evaluated = false);
    let machines = world.machines.clone();
    world.memory.rollout_attempts.observe(machines.iter(), UPTIME);
    assert_eq!(world.plan().requeue_after, Some(EVALUATION_AGE));
    world.uptime = UPTIME + EVALUATION_AGE;
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn those_that_refused_are_tried_again_in_turn() {
    let mut world = refuse(allowing(3, 1), 0);
    let second = running_machine(&numbered_machine_name(1), 0).id.uid;
    world.memory.rollout_attempts.record(
        &second,
        &"r2".into(),
        UpdateOutcome::Refused,
        UPTIME + Duration::from_secs(1),
    );
    assert_eq!(updated(&world.plan()), [0]);
    let first = running_machine(&numbered_machine_name(0), 0).id.uid;
    world.memory.rollout_attempts.record(
        &first,
        &"r2".into(),
        UpdateOutcome::Refused,
        UPTIME + Duration::from_secs(2),
    );
    assert_eq!(updated(&world.plan()), [1]);
}

#[test]
fn the_order_of_the_input_changes_nothing() {
    let mut world = refuse(with(with(allowing(20, 5), 7, idle), 11, stopped), 3);
    let expected = world.plan();
    world.machines.reverse();
    assert_eq!(world.plan(), expected);
    assert_eq!(updated(&expected), [7, 11, 0, 1, 2, 4]);
}

/// Running machines with an older template, which the controller restarts.
fn restarted_by_the_controller(machines: u64) -> PoolWorld {
    allowing(machines, 1).pool(|pool| pool.rollout.restarts = Restarts::ByController)
}

#[test]
fn all_machines_that_the_controller_restarts_get_the_template_at_once() {
    assert_eq!(updated(&restarted_by_the_controller(3).plan()), [0, 1, 2]);
}

/// Their guests continue until they are restarted, so a rejected update endangers no other machine.
#[test]
fn machines_that_the_controller_restarts_get_the_template_although_several_others_refuse_it() {
    let world = [0, 1, 2].into_iter().fold(restarted_by_the_controller(6), refuse);
    let plan = world.plan();
    let updated = updated(&plan);
    assert!([3, 4, 5].iter().all(|number| updated.contains(number)), "{updated:?}");
}

#[rstest]
#[case::paused(|pool: &mut Pool| pool.paused = true)]
#[case::unmanaged(|pool: &mut Pool| pool.rollout.disabled = true)]
fn no_machine_gets_the_template_if(#[case] setting: fn(&mut Pool)) {
    assert_eq!(updated(&restarted_by_the_controller(3).pool(setting).plan()), [0; 0]);
}

#[test]
fn machines_outside_the_selection_of_an_update_keep_their_spec() {
    let labels = |zone: &str| Some(LabelMap::from([("zone".into(), zone.into())]));
    let in_a = SelectorRequirement { key: "zone".into(), operator: Operator::In, values: vec!["a".into()] };
    let world = restarted_by_the_controller(2)
        .pool(|pool| pool.rollout.selection.labels = Selector(vec![in_a]))
        .edit(&numbered_machine_name(0), |machine| {
            machine.selectable =
                Arc::new(Selectable { instance_labels: labels("b"), ..Selectable::default() });
        })
        .edit(&numbered_machine_name(1), |machine| {
            machine.selectable =
                Arc::new(Selectable { instance_labels: labels("a"), ..Selectable::default() });
        });
    assert_eq!(updated(&world.plan()), [1]);
}

#[rstest]
#[case::rounded_down(30, 9, 2)]
#[case::at_least_one(30, 3, 1)]
#[case::whole(50, 4, 2)]
fn a_percentage_of_the_desired_machines_is(
    #[case] percent: u8,
    #[case] desired: usize,
    #[case] expected: usize,
) {
    assert_eq!(DisruptionBudget::Percent(percent).of(desired), expected);
}
