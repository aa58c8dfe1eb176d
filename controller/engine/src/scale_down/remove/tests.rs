use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::backoff::MAX_BATCH;
use crate::failure::PoolFailure;
use crate::model::{Instance, MachineActivity, ScaleDownPolicy};
use crate::plan::{Blocker, START_TIMEOUT};
use crate::testing::{
    PoolWorld, another_pool, deleted_machines, fixture_id, numbered_machine_name, running_machine,
};

/// A pool with machines given as (name, creation second, running).
fn world(desired: usize, policy: ScaleDownPolicy, machines: &[(&str, i64, bool)]) -> PoolWorld {
    machines.iter().fold(
        PoolWorld::desiring(desired).pool(|pool| pool.scale_down_policy = policy),
        |world, machine| {
            let (name, created, running) = *machine;
            world.with_machine(name, created).edit(name, |machine| {
                machine.activity =
                    if running { MachineActivity::Running } else { MachineActivity::NotRunning };
            })
        },
    )
}

const AGES: &[(&str, i64, bool)] =
    &[("web-b", 1, true), ("web-d", 3, true), ("web-a", 2, false), ("web-c", 4, true)];
const EQUAL_AGES: &[(&str, i64, bool)] =
    &[("web-b", 5, true), ("web-d", 5, false), ("web-a", 5, false), ("web-c", 5, true)];
const ORDINALS: &[(&str, i64, bool)] =
    &[("web-2", 1, true), ("web-10", 2, false), ("web-0", 9, true), ("web-x", 3, true)];

#[rstest]
#[case::the_newest_first(ScaleDownPolicy::NewestFirst, AGES, &["web-c", "web-d", "web-a", "web-b"])]
#[case::the_oldest_first(ScaleDownPolicy::OldestFirst, AGES, &["web-b", "web-a", "web-d", "web-c"])]
#[case::among_twins_those_not_running_then_by_falling_name(
    ScaleDownPolicy::NewestFirst, EQUAL_AGES, &["web-d", "web-a", "web-c", "web-b"]
)]
#[case::among_twins_those_not_running_then_by_rising_name(
    ScaleDownPolicy::OldestFirst, EQUAL_AGES, &["web-a", "web-d", "web-b", "web-c"]
)]
#[case::the_lowest_ordinal_first_by_number_and_not_by_text(
    ScaleDownPolicy::LowestOrdinalFirst, ORDINALS, &["web-0", "web-x", "web-2", "web-10"]
)]
#[case::the_highest_ordinal_first(
    ScaleDownPolicy::HighestOrdinalFirst, ORDINALS, &["web-10", "web-2", "web-0", "web-x"]
)]
fn the_policy_decides_the_order_of_deletion(
    #[case] policy: ScaleDownPolicy,
    #[case] machines: &[(&str, i64, bool)],
    #[case] order: &[&str],
) {
    for desired in 0..=machines.len() {
        let leaving = &order[..machines.len() - desired];
        assert_eq!(deleted_machines(&world(desired, policy, machines).plan()), leaving, "{desired} desired");
    }
}

/// A minute before the observation, so that the age of a machine does not show whether it has been ready.
const RECENTLY: i64 = 1_000_000 - 60;

/// Machines 1 and 3 have been ready, 2 and 4 never. Machine 1 is the oldest.
fn half_started(desired: usize, policy: ScaleDownPolicy) -> PoolWorld {
    let machines = [("web-1", true), ("web-2", false), ("web-3", true), ("web-4", false)];
    let world = PoolWorld::desiring(desired).pool(|pool| pool.scale_down_policy = policy);
    (RECENTLY..).zip(machines).fold(world, |world, (created, (name, been_ready))| {
        world.with_machine(name, created).edit(name, |machine| {
            machine.been_ready = been_ready;
            machine.activity =
                if name == "web-1" { MachineActivity::Running } else { MachineActivity::NotRunning };
        })
    })
}

#[rstest]
#[case::oldest_first(ScaleDownPolicy::OldestFirst, &["web-2", "web-4", "web-1", "web-3"])]
#[case::newest_first(ScaleDownPolicy::NewestFirst, &["web-4", "web-2", "web-3", "web-1"])]
#[case::but_not_before_a_smaller_ordinal(
    ScaleDownPolicy::LowestOrdinalFirst, &["web-1", "web-2", "web-3", "web-4"]
)]
#[case::but_not_before_a_greater_ordinal(
    ScaleDownPolicy::HighestOrdinalFirst, &["web-4", "web-3", "web-2", "web-1"]
)]
fn machines_that_have_never_been_ready_leave_first(#[case] policy: ScaleDownPolicy, #[case] order: &[&str]) {
    for desired in 0..=4 {
        assert_eq!(
            deleted_machines(&half_started(desired, policy).plan()),
            order[..4 - desired],
            "{desired} desired"
        );
    }
}

#[test]
fn in_a_random_order_machines_that_have_never_been_ready_leave_first_too() {
    let world = half_started(2, ScaleDownPolicy::Random);
    let mut leaving = deleted_machines(&world.plan()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    leaving.sort();
    assert_eq!(leaving, ["web-2", "web-4"]);
}

/// During an outage, the machines of a pool are not ready. A new leader has not seen that they were.
#[test]
fn a_machine_that_was_old_when_the_leader_first_saw_it_counts_as_ready_before() {
    let start_timeout = i64::try_from(START_TIMEOUT.as_secs()).unwrap();
    let world = |now_old: bool| {
        let created = 1_000_000 - start_timeout + i64::from(!now_old);
        let stopped = |machine: &mut Machine| machine.activity = MachineActivity::NotRunning;
        PoolWorld::desiring(1)
            .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::OldestFirst)
            .with_machine("web-old", created)
            .edit("web-old", stopped)
            .with_machine("web-new", created + 1)
            .edit("web-new", stopped)
    };
    assert_eq!(deleted_machines(&world(true).plan()), ["web-new"]);
    assert_eq!(deleted_machines(&world(false).plan()), ["web-old"]);
    // A machine that gets old later does not: this leader has observed it from the beginning.
    let mut later = world(false);
    later.uptime += START_TIMEOUT;
    assert_eq!(deleted_machines(&later.plan()), ["web-old"]);
}

/// Web-1 runs, web-2 and web-4 are stopped, web-5 waits for a guest of another cluster, and the others start.
#[rstest]
#[case::as_many_as_are_surplus(5, &["web-2"])]
#[case::no_others(1, &["web-2", "web-4"])]
fn an_opportunistic_scale_down_deletes_only_stopped_machines(
    #[case] desired: usize,
    #[case] expected: &[&str],
) {
    let world = half_started(desired, ScaleDownPolicy::StoppedOnly)
        .with_machine("web-5", RECENTLY)
        .with_machine("web-6", RECENTLY)
        .edit("web-2", |machine| machine.activity = MachineActivity::Stopped)
        .edit("web-4", |machine| (machine.activity, machine.been_ready) = (MachineActivity::Stopped, true))
        .edit("web-5", |machine| {
            machine.activity = MachineActivity::Stopped;
            let (id, machine_uid) = (fixture_id("web-5"), Some(machine.id.uid.clone()));
            let parts = crate::revisions::LiveParts::default();
            machine.instance = Some(Arc::new(Instance {
                id,
                machine: machine_uid,
                terminating: false,
                revision: None,
                live: parts,
                pending_update: None,
                ended: false,
                ready: false,
            }));
        });
    let plan = world.plan();
    let mut leaving = deleted_machines(&plan);
    leaving.sort_unstable();
    assert_eq!(leaving, expected);
    assert_eq!(plan.failure, None, "the rest stays until a user stops it");
}

/// The guest of web-2 has shut down by itself, and so has that of web-4, which the platform starts again.
#[test]
fn an_opportunistic_scale_down_deletes_a_machine_whose_guest_has_shut_down() {
    let ended = |machine: &mut Machine| {
        machine.instance = Some(Arc::new(Instance {
            id: machine.id.clone(),
            machine: Some(machine.id.uid.clone()),
            terminating: false,
            revision: None,
            live: crate::revisions::LiveParts::default(),
            pending_update: None,
            ended: true,
            ready: false,
        }));
    };
    let world = half_started(1, ScaleDownPolicy::StoppedOnly)
        .edit("web-2", |machine| {
            ended(machine);
            machine.activity = MachineActivity::Stopped;
        })
        .edit("web-4", ended);
    assert_eq!(deleted_machines(&world.plan()), ["web-2"]);
}

#[rstest]
#[case::no_surplus(3, 3, 0, 0)]
#[case::a_surplus_leaves(2, 3, 0, 1)]
#[case::all_leave(0, 3, 0, 3)]
#[case::terminating_machines_count_for_the_surplus(3, 5, 2, 0)]
#[case::only_the_rest_leaves(2, 5, 2, 1)]
#[case::more_terminating_than_surplus(4, 5, 3, 0)]
#[case::fewer_machines_than_desired(5, 3, 1, 0)]
fn the_surplus_of_live_machines_is_deleted(
    #[case] desired: usize,
    #[case] machines: u64,
    #[case] terminating: u64,
    #[case] leaving: usize,
) {
    let world = PoolWorld::desiring(desired).with_machines(machines);
    // The oldest machines are terminating, and the newest ones must be deleted.
    let world = (0..terminating)
        .fold(world, |world, n| world.edit(&numbered_machine_name(n), |machine| machine.terminating = true));
    let plan = world.plan();
    let expected: Vec<String> = (0..machines).rev().take(leaving).map(numbered_machine_name).collect();
    assert_eq!(deleted_machines(&plan), expected);
    assert_eq!(plan.wants.remove, leaving > 0);
}

#[rstest]
#[case::to_nothing(0)]
#[case::by_one(2)]
fn an_explicit_pool_never_shrinks_by_itself(#[case] desired: usize) {
    let plan = PoolWorld::desiring(desired)
        .with_machines(3)
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit)
        .plan();
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_foreign_machine_with_copied_labels_neither_counts_nor_leaves() {
    let world = PoolWorld::desiring(2)
        .with_machines(3)
        .edit(&numbered_machine_name(2), |machine| machine.owner = Some(another_pool()));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn a_delete_names_the_uid_that_was_seen() {
    let plan = PoolWorld::desiring(0).with_machines(1).plan();
    let machine =
        crate::ObjectId::new(&numbered_machine_name(0), &format!("uid-of-{}", numbered_machine_name(0)));
    assert_eq!(
        plan.actions,
        [PoolAction::Delete { machine, reason: DeleteReason::Surplus { rule: SurplusRule::Policy } }]
    );
}

#[test]
fn one_pass_deletes_no_more_than_a_full_batch() {
    let plan = PoolWorld::desiring(0).with_machines(MAX_BATCH as u64 + 1).plan();
    assert_eq!(deleted_machines(&plan).len(), MAX_BATCH);
    assert_eq!(plan.requeue_after, Some(Duration::ZERO), "the rest follows at once");
}

#[test]
fn a_rejected_deletion_does_not_delay_the_others() {
    let mut world = PoolWorld::desiring(0).with_machines(3);
    let first = |world: &PoolWorld| deleted_machines(&world.plan())[0].to_owned();
    let protected = first(&world);
    world.memory.record_result(&protected.as_str().into(), true);
    let next = first(&world);
    assert_ne!(next, protected);
    assert_eq!(deleted_machines(&world.plan()).last(), Some(&protected.as_str()), "it is tried too, at last");
    // A refused deletion moves behind the other deletions. It does not make the plan delete a machine that
    // should stay.
    let victim = first(&PoolWorld::desiring(2).with_machines(3));
    let mut world = PoolWorld::desiring(2).with_machines(3);
    world.memory.record_result(&victim.as_str().into(), true);
    assert_eq!(deleted_machines(&world.plan()), [victim]);
}

#[test]
fn while_a_deletion_is_unconfirmed_no_other_machine_is_deleted() {
    let mut world = PoolWorld::desiring(2).with_machines(3);
    let victim = deleted_machines(&world.plan())[0].to_owned();
    let other = world.machines.iter().find(|machine| *machine.id.name != *victim).expect("three").clone();
    world.memory.delete_unconfirmed(&other.id.uid, world.uptime);
    assert_eq!(deleted_machines(&world.plan()), [&*other.id.name], "the same deletion is asked for again");
    assert!(world.plan().wants.remove, "and its failure stays to be seen");
    // A machine that is desired again stays, also if its deletion failed.
    world.pool.desired = 3;
    assert_eq!(deleted_machines(&world.plan()), [""; 0]);
    // When the late request can no longer be executed, the machine is chosen like the others.
    world.pool.desired = 2;
    world.uptime += crate::ledger::REQUEST_TIMEOUT;
    assert_eq!(deleted_machines(&world.plan()), [victim]);
}

#[test]
fn after_a_failure_removal_pauses_and_then_tries_one() {
    let cause = PoolFailure { reason: FailureReason::FailedDelete, message: "denied".into() };
    let mut world = PoolWorld::desiring(0).with_machines(3);
    world.memory.backoff_mut(ApplyStage::Remove).failed(cause, world.uptime, None, 0.0);
    let left = Duration::from_millis(250);
    assert_eq!(world.plan().blockers, [Blocker::Backoff { stage: ApplyStage::Remove, left }]);
    assert_eq!(deleted_machines(&world.plan()), [""; 0]);
    assert_eq!(world.plan().requeue_after, Some(left));
    world.uptime += left;
    assert_eq!(deleted_machines(&world.plan()), [numbered_machine_name(2)]);
}

/// The deleted machines and the reasons, in order.
fn leaving(world: &PoolWorld) -> Vec<(String, DeleteReason)> {
    world
        .plan()
        .actions
        .into_iter()
        .filter_map(|action| match action {
            PoolAction::Delete { machine, reason } => Some((machine.name.to_string(), reason)),
            _ => None,
        })
        .collect()
}

#[rstest]
#[case::newest_first(ScaleDownPolicy::NewestFirst)]
#[case::oldest_first(ScaleDownPolicy::OldestFirst)]
#[case::the_lowest_ordinal_first(ScaleDownPolicy::LowestOrdinalFirst)]
#[case::the_highest_ordinal_first(ScaleDownPolicy::HighestOrdinalFirst)]
#[case::explicit(ScaleDownPolicy::Explicit)]
fn targets_are_deleted_with_every_policy_and_no_machine_in_their_place(#[case] policy: ScaleDownPolicy) {
    let world = world(4, policy, AGES).accepted("r", &["web-a"]);
    assert_eq!(leaving(&world), [("web-a".to_owned(), DeleteReason::Targeted { forced: false })]);
    assert!(world.plan().needs_live_pool(), "the pool is read live before");
    assert!(!world.plan().deletes_surplus(), "all accepted targets are deleted");
}

#[rstest]
#[case::of_all(&["web-a", "web-b", "web-c", "web-d"], &["web-c", "web-d"])]
#[case::of_those_that_stay_one_is_gone(&["web-a", "web-c", "web-d"], &["web-c"])]
#[case::the_surplus_machine_is_gone(&["web-a", "web-b", "web-d"], &["web-d"])]
#[case::as_many_are_gone_as_were_too_many(&["web-c", "web-d"], &[])]
#[case::more_are_gone(&["web-d"], &[])]
fn a_machine_that_is_already_gone_counts_for_the_surplus(#[case] live: &[&str], #[case] expected: &[&str]) {
    let stranger = |machine: &mut Machine| machine.owner = None;
    let world = world(2, ScaleDownPolicy::NewestFirst, AGES).with_machine("web-e", 9).edit("web-e", stranger);
    assert!(world.plan().deletes_surplus());
    let mut snapshot = world.snapshot();
    let uids = world.machines.iter().filter(|machine| live.contains(&&*machine.id.name));
    let staying = uids.map(|machine| machine.id.uid.clone()).collect();
    snapshot.count_live(&world.pool.id, &staying);
    let plan = crate::plan_pass(&world.observed(&snapshot));
    assert_eq!(deleted_machines(&plan), expected);
    assert_eq!(plan.deletes_surplus(), !expected.is_empty());
    assert!(crate::testing::created_machines(&plan).is_empty(), "no replacement is created yet");
    let mut strangers = snapshot.machines.iter().filter(|machine| machine.owner.is_none());
    assert!(strangers.all(|machine| !machine.terminating), "other machines do not change");
}

#[test]
fn targets_are_deleted_before_the_surplus() {
    let world =
        world(4, ScaleDownPolicy::NewestFirst, AGES).accepted("r", &["web-a"]).pool(|pool| pool.desired -= 1);
    assert_eq!(
        leaving(&world),
        [
            ("web-a".to_owned(), DeleteReason::Targeted { forced: false }),
            ("web-c".to_owned(), DeleteReason::Surplus { rule: SurplusRule::Policy })
        ]
    );
}

#[test]
fn several_requests_for_one_machine_cost_one_machine() {
    let world = world(4, ScaleDownPolicy::NewestFirst, AGES)
        .accepted("r", &["web-a"])
        .accepted("s", &["web-a", "web-b"]);
    assert_eq!(world.pool.desired, 2);
    assert_eq!(deleted_machines(&world.plan()), ["web-a", "web-b"]);
}

#[rstest]
#[case::newest_first(ScaleDownPolicy::NewestFirst)]
#[case::explicit(ScaleDownPolicy::Explicit)]
fn a_terminating_target_is_not_deleted_again_and_not_compensated(#[case] policy: ScaleDownPolicy) {
    let terminating =
        world(4, policy, AGES).edit("web-a", |machine| machine.terminating = true).accepted("r", &["web-a"]);
    assert_eq!(terminating.plan(), Plan::default());
}

#[test]
fn no_machine_is_deleted_for_a_target_that_is_gone() {
    let mut world = world(4, ScaleDownPolicy::NewestFirst, AGES).accepted("r", &["web-a"]);
    world.machines.retain(|machine| *machine.id.name != *"web-a");
    assert_eq!(leaving(&world), []);
}

#[test]
fn a_released_target_is_not_deleted() {
    let world = world(4, ScaleDownPolicy::Explicit, AGES)
        .edit("web-a", |machine| machine.owner = None)
        .accepted("r", &["web-a"]);
    assert_eq!(leaving(&world), []);
}

#[test]
fn a_name_means_the_machine_that_had_it_when_it_was_named() {
    let mut world = world(4, ScaleDownPolicy::Explicit, AGES).accepted("r", &["web-a"]);
    world.machines.retain(|machine| *machine.id.name != *"web-a");
    let mut another = running_machine("web-a", 9);
    another.id = crate::ObjectId::new("web-a", "another-uid");
    world.machines.push(std::sync::Arc::new(another));
    assert_eq!(leaving(&world), []);
}

#[test]
fn an_invalid_spec_does_not_block_targets() {
    let flawed = |pool: &mut crate::Pool| {
        pool.validation_errors.push("scaleDownPolicy is missing".into());
        pool.scale_down_policy = ScaleDownPolicy::Explicit;
    };
    let world = world(4, ScaleDownPolicy::NewestFirst, AGES).pool(flawed).accepted("r", &["web-a"]);
    assert_eq!(deleted_machines(&world.plan()), ["web-a"]);
}

#[test]
fn a_reserved_machine_is_not_deleted_as_surplus_and_no_other_in_its_place() {
    // Machine web-c is the newest, and web-d is next.
    let world = world(2, ScaleDownPolicy::NewestFirst, AGES).reserved("r", &["web-c"]);
    let plan = world.plan();
    assert_eq!(leaving(&world), [("web-d".to_owned(), DeleteReason::Surplus { rule: SurplusRule::Policy })]);
    assert!(plan.blockers.contains(&Blocker::Reservation { machine: "web-c".into() }), "{:?}", plan.blockers);
    // An accepted target is deleted in addition to the policy's choice. Without its entry, the machine is
    // chosen by the policy.
    let mut accepted = world;
    let mut withdrawn = accepted.pool.clone();
    accepted.pool.desired -= accepted.pool.record.accept("r");
    assert_eq!(deleted_machines(&accepted.plan()), ["web-c", "web-d", "web-a"]);
    withdrawn.record.withdraw("r");
    accepted.pool = withdrawn;
    assert_eq!(deleted_machines(&accepted.plan()), ["web-c", "web-d"]);
}

#[test]
fn a_reservation_alone_deletes_no_machine() {
    assert_eq!(leaving(&world(4, ScaleDownPolicy::NewestFirst, AGES).reserved("r", &["web-a"])), []);
}

#[test]
fn named_machines_leave_at_the_pace_of_deletions() {
    let mut world = world(4, ScaleDownPolicy::Explicit, AGES).accepted("r", &["web-a", "web-b", "web-c"]);
    let failure = PoolFailure { reason: FailureReason::FailedDelete, message: "denied".into() };
    world.memory.backoff_mut(ApplyStage::Remove).failed(failure, world.uptime, None, 0.0);
    let paused = world.plan();
    assert_eq!(deleted_machines(&paused), [""; 0]);
    assert!(paused.wants.remove && paused.requeue_after.is_some());
    world.uptime += Duration::from_secs(1);
    assert_eq!(deleted_machines(&world.plan()), ["web-a"], "one at first");
    world.memory.record_result(&fixture_id("web-a").name, true);
    assert_eq!(
        deleted_machines(&world.plan()),
        ["web-b"],
        "the machine whose deletion was refused is the last"
    );
}

#[test]
fn a_scale_down_deletes_only_selected_machines_and_reports_that_they_are_too_few() {
    let only = crate::selector::SelectorRequirement {
        key: "tier".into(),
        operator: crate::selector::Operator::Exists,
        values: Vec::new(),
    };
    let select = |world: PoolWorld, number: u64| {
        world.edit(&numbered_machine_name(number), |machine| {
            let labels = Some([("tier".to_owned(), "a".to_owned())].into());
            let selectable = crate::model::Selectable {
                instance_labels: labels,
                ..crate::model::Selectable::clone(&machine.selectable)
            };
            machine.selectable = Arc::new(selectable);
        })
    };
    let world = PoolWorld::desiring(1)
        .with_machines(4)
        .pool(|pool| pool.scale_down_selection.labels = crate::selector::Selector(vec![only]));
    let world = select(world, 0);
    let plan = world.plan();
    assert_eq!(
        deleted_machines(&plan),
        [numbered_machine_name(0)],
        "the oldest one, because it is the only one"
    );
    let failure = plan.failure.unwrap();
    assert_eq!(failure.reason, FailureReason::FailedDelete);
    assert!(failure.message.contains("3 machines are surplus"), "{}", failure.message);
    let enough = select(select(world, 1), 2).plan();
    assert_eq!((deleted_machines(&enough).len(), &enough.failure), (3, &None));
}
