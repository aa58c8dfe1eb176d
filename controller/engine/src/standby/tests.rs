use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::model::{Lifetime, Machine, MachineActivity, Naming, PoolDiskTemplate};
use crate::plan::{ApplyStage, DeleteReason, ObservedPool, PlanSettings, PoolAction};
use crate::protection::Protection;
use crate::recycling::{RecycleFacts, RecyclePolicy};
use crate::testing::{
    PoolWorld, created_machines, deleted_machines, fixture_id, numbered_machine_name, observation_time,
};
use crate::{Plan, plan_pass};

const SETTINGS: StandbySettings =
    StandbySettings { replicas: 2, warm_up: WarmUp::FirstReady, delay: Duration::from_mins(1) };

/// A pool with this many desired machines, this many active ones, and standby machines behind them.
fn world(desired: usize, active: u64, standby: u64) -> PoolWorld {
    let world = PoolWorld::desiring(desired).with_machines(active + standby);
    let world = world.pool(|pool| pool.standby = Some(SETTINGS));
    (active..active + standby).fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| stop(machine, StandbyPhase::Stopped))
    })
}

fn stop(machine: &mut Machine, phase: StandbyPhase) {
    let is_stopped = phase == StandbyPhase::Stopped;
    machine.standby = Some(Arc::new(StandbyState { phase, ready_since: None, kept_off: is_stopped }));
    machine.activity = if is_stopped { MachineActivity::Stopped } else { MachineActivity::NotRunning };
    machine.pool_uid_label = None;
}

/// Makes a machine warm up, ready for this number of seconds.
fn warm(world: PoolWorld, number: u64, seconds: i64) -> PoolWorld {
    world.edit(&numbered_machine_name(number), |machine| {
        let ready_since = Some(observation_time() - jiff::SignedDuration::from_secs(seconds));
        let phase = StandbyPhase::Warming;
        machine.standby = Some(Arc::new(StandbyState { phase, ready_since, kept_off: false }));
        machine.activity = MachineActivity::Running;
    })
}

fn activated_machines(plan: &Plan) -> Vec<&str> {
    let is_activation = |action: &&PoolAction| matches!(action, PoolAction::Activate { .. });
    plan.actions.iter().filter(is_activation).map(|action| &**action.object()).collect()
}

fn stopped_machines(plan: &Plan) -> Vec<&str> {
    let is_stop = |action: &&PoolAction| matches!(action, PoolAction::StopStandby { .. });
    plan.actions.iter().filter(is_stop).map(|action| &**action.object()).collect()
}

/// The names of the machines with these numbers, sorted as actions on them are.
fn names(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(numbered_machine_name).collect()
}

#[rstest]
#[case::the_least(json!({ "replicas": 0 }), Some((0, WarmUp::FirstReady, 60)))]
#[case::all_fields(json!({ "replicas": 3, "warmUp": "None", "warmUpDelay": "90s" }), Some((3, WarmUp::None, 90)))]
#[case::nulls(json!({ "replicas": 1, "warmUp": null, "warmUpDelay": null }), Some((1, WarmUp::FirstReady, 60)))]
#[case::no_number(json!({}), None)]
#[case::negative(json!({ "replicas": -1 }), None)]
#[case::a_text(json!({ "replicas": "2" }), None)]
#[case::huge(json!({ "replicas": 5_000_000_000_i64 }), None)]
#[case::another_warm_up(json!({ "replicas": 1, "warmUp": "Always" }), None)]
#[case::a_long_delay(json!({ "replicas": 1, "warmUpDelay": "61m" }), None)]
#[case::a_negative_delay(json!({ "replicas": 1, "warmUpDelay": "-1s" }), None)]
#[case::an_unknown_field(json!({ "replicas": 1, "warmup": "None" }), None)]
#[case::no_object(json!(2), None)]
fn a_setting_is_read(#[case] value: Value, #[case] expected: Option<(usize, WarmUp, u64)>) {
    let expected = expected.map(|(replicas, warm_up, seconds)| StandbySettings {
        replicas,
        warm_up,
        delay: Duration::from_secs(seconds),
    });
    assert_eq!(parse_standby(&value).ok(), expected);
    let mut messages = Vec::new();
    assert_eq!(read_standby(&value, None, &mut messages), expected);
    assert_eq!(messages.len(), usize::from(expected.is_none()));
    let annotations = [(STANDBY.to_owned(), value.to_string())].into();
    assert_eq!(read_standby(&Value::Null, Some(&annotations), &mut messages), expected);
}

#[test]
fn the_field_overrides_the_annotation() {
    let annotations = [(STANDBY.to_owned(), "unreadable".to_owned())].into();
    let mut messages = Vec::new();
    let read = read_standby(&json!({ "replicas": 2 }), Some(&annotations), &mut messages);
    assert_eq!((read, messages.len()), (Some(SETTINGS), 0));
    assert_eq!(read_standby(&Value::Null, None, &mut messages), Some(StandbySettings::NONE));
}

#[test]
fn an_unknown_label_value_is_unreadable() {
    assert_eq!(StandbyPhase::read("warming"), StandbyPhase::Warming);
    assert_eq!(StandbyPhase::read("stopped"), StandbyPhase::Stopped);
    assert_eq!(StandbyPhase::read("Stopped"), StandbyPhase::Unreadable);
}

#[test]
fn a_settled_pool_with_standby_machines_plans_nothing() {
    assert_eq!(world(2, 2, 2).plan().actions, []);
}

#[test]
fn standby_machines_are_no_replicas() {
    let world = world(1, 1, 2);
    let snapshot = world.snapshot();
    let status = crate::compute_status(&world.observed(&snapshot), None);
    assert_eq!((status.summary.replicas, status.summary.ready, status.summary.updated), (1, 1, 1));
}

#[test]
fn missing_machines_are_activated_oldest_first() {
    let plan = world(3, 2, 2).plan();
    assert_eq!(activated_machines(&plan), names([2]));
    assert_eq!(created_machines(&plan), Vec::<&str>::new(), "the refill follows the activation");
}

#[test]
fn machines_beyond_the_standby_machines_are_created() {
    let plan = world(5, 2, 2).plan();
    assert_eq!(activated_machines(&plan), names([2, 3]));
    assert_eq!(created_machines(&plan), names([4]));
}

#[test]
fn the_lowest_ordinal_is_activated_first() {
    let mut world = PoolWorld::desiring(1).pool(|pool| {
        pool.naming = Naming::Ordinal;
        pool.standby = Some(SETTINGS);
    });
    for (ordinal, age) in [(10, 1), (9, 2)] {
        let name = format!("web-{ordinal}");
        world = world.with_machine(&name, age).edit(&name, |machine| stop(machine, StandbyPhase::Stopped));
    }
    assert_eq!(activated_machines(&world.plan()), ["web-9"]);
}

#[test]
fn an_unconfirmed_activation_counts_as_an_active_machine_and_is_repeated() {
    let world = world(3, 2, 2).memory(|memory| {
        let machine = fixture_id(&numbered_machine_name(3));
        memory.machines.activation_unconfirmed(&machine, Duration::from_secs(100));
    });
    let plan = world.plan();
    assert_eq!(activated_machines(&plan), names([3]), "not the other one");
    assert_eq!(created_machines(&plan), Vec::<&str>::new());
    let world = world.pool(|pool| pool.desired = 2);
    let plan = world.plan();
    assert_eq!(activated_machines(&plan), Vec::<&str>::new());
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new(), "only machines that exist are surplus");
}

#[test]
fn a_refused_activation_delays_no_create() {
    let refused = |world: PoolWorld| {
        world.memory(|memory| {
            let failure = crate::failure::PoolFailure {
                reason: crate::failure::FailureReason::FailedCreate,
                message: "no".to_owned(),
            };
            memory.backoff_mut(ApplyStage::Activate).failed(failure, Duration::from_secs(100), None, 0.5);
        })
    };
    let plan = refused(world(3, 2, 2)).plan();
    assert_eq!(activated_machines(&plan), Vec::<&str>::new());
    assert_eq!(created_machines(&plan), names([4]));
}

type Edit = fn(&mut Machine);

#[rstest]
#[case::warming(|machine: &mut Machine| stop(machine, StandbyPhase::Warming))]
#[case::unreadable(|machine: &mut Machine| stop(machine, StandbyPhase::Unreadable))]
#[case::stopping(|machine: &mut Machine| machine.activity = MachineActivity::Stopping)]
#[case::terminating(|machine: &mut Machine| machine.terminating = true)]
#[case::restoring(|machine: &mut Machine| machine.restoring = true)]
#[case::started_by_a_client(|machine: &mut Machine| {
    let state = StandbyState { phase: StandbyPhase::Stopped, ready_since: None, kept_off: false };
    machine.standby = Some(Arc::new(state));
})]
#[case::protected(|machine: &mut Machine| {
    let until = (observation_time() + jiff::SignedDuration::from_hours(1)).to_string();
    let annotations = [("vmpool.dev/protected-until".to_owned(), until)].into();
    machine.protection = Protection::read(Some(&annotations));
})]
fn a_machine_that_is_not_stopped_in_reserve_is_not_activated(#[case] edit: Edit) {
    let plan = world(2, 1, 1).edit(&numbered_machine_name(1), edit).plan();
    assert_eq!(activated_machines(&plan), Vec::<&str>::new());
    assert_eq!(created_machines(&plan).len(), 1);
}

#[test]
fn a_reserved_machine_is_neither_activated_nor_deleted() {
    let name = numbered_machine_name(1);
    let world = world(2, 1, 1).reserved("request", &[name.as_str()]).pool(|pool| {
        pool.standby = Some(StandbySettings { replicas: 0, ..SETTINGS });
    });
    let plan = world.plan();
    assert_eq!(activated_machines(&plan), Vec::<&str>::new());
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
}

#[rstest]
#[case::in_a_surplus(|world: PoolWorld| {
    world.pool(|pool| pool.standby = Some(StandbySettings { replicas: 0, ..SETTINGS }))
})]
#[case::requested(|world: PoolWorld| {
    let requested = Some(observation_time());
    let world = world.pool(|pool| pool.standby = Some(StandbySettings { replicas: 1, ..SETTINGS }));
    world.edit(&numbered_machine_name(1), |machine| {
        machine.recycling = Some(Arc::new(RecycleFacts { requested, ..RecycleFacts::default() }));
    })
})]
fn a_standby_machine_that_a_client_started_is_not_deleted(#[case] change: fn(PoolWorld) -> PoolWorld) {
    let name = numbered_machine_name(1);
    let started = |world: PoolWorld| {
        world.edit(&name, |machine| {
            let state = StandbyState { phase: StandbyPhase::Stopped, ready_since: None, kept_off: false };
            (machine.standby, machine.activity) = (Some(Arc::new(state)), MachineActivity::Running);
        })
    };
    let stopped = change(world(1, 1, 1));
    assert_eq!(deleted_machines(&stopped.plan()), [&*name]);
    assert_eq!(deleted_machines(&started(stopped).plan()), Vec::<&str>::new());
}

#[rstest]
#[case::ready_long_enough(60, true)]
#[case::not_yet(59, false)]
fn a_warming_machine_is_stopped_after_the_delay(#[case] seconds: i64, #[case] stops: bool) {
    let plan = warm(world(1, 1, 2), 2, seconds).plan();
    assert_eq!(stopped_machines(&plan), if stops { names([2]) } else { Vec::new() });
    if !stops {
        assert_eq!(plan.requeue_after, Some(Duration::from_secs(1)));
    }
}

#[test]
fn a_guest_that_shuts_down_by_itself_has_ended_its_warm_up() {
    let world = world(1, 1, 2).edit(&numbered_machine_name(2), |machine| {
        stop(machine, StandbyPhase::Warming);
        machine.activity = MachineActivity::Stopped;
    });
    assert_eq!(stopped_machines(&world.plan()), names([2]));
}

#[test]
fn no_active_machine_is_stopped() {
    let plan = warm(world(1, 1, 2), 2, 600).plan();
    for name in stopped_machines(&plan) {
        assert_ne!(name, numbered_machine_name(0));
    }
}

#[test]
fn of_a_surplus_warming_machines_leave_first_and_then_the_newest() {
    let warming = |world: PoolWorld| {
        world.edit(&numbered_machine_name(1), |machine| stop(machine, StandbyPhase::Warming))
    };
    let leaving = |replicas: usize| {
        let world = warming(world(1, 1, 4)).pool(|pool| {
            pool.standby = Some(StandbySettings { replicas, ..SETTINGS });
        });
        let mut names: Vec<String> =
            deleted_machines(&world.plan()).into_iter().map(ToOwned::to_owned).collect();
        names.sort_unstable();
        names
    };
    let sorted = |numbers: &[u64]| {
        let mut names = names(numbers.iter().copied());
        names.sort_unstable();
        names
    };
    assert_eq!(leaving(3), sorted(&[1]));
    assert_eq!(leaving(2), sorted(&[1, 4]));
    assert_eq!(leaving(0), sorted(&[1, 2, 3, 4]));
}

#[test]
fn an_unreadable_setting_a_pause_and_the_gate_leave_standby_machines() {
    let unreadable = world(3, 2, 4).pool(|pool| pool.standby = None).plan();
    assert_eq!(activated_machines(&unreadable), Vec::<&str>::new());
    assert_eq!((created_machines(&unreadable).len(), deleted_machines(&unreadable).len()), (1, 0));
    assert_eq!(world(3, 2, 4).pool(|pool| pool.paused = true).plan().actions, []);
    let world = warm(world(3, 2, 4), 2, 600);
    let snapshot = world.snapshot();
    let settings = PlanSettings { keeps_standby: false, ..PlanSettings::default() };
    let observed = ObservedPool::new(&snapshot, &world.pool, &world.stored, settings, &world.memory, &world);
    let plan = plan_pass(&observed);
    assert_eq!((activated_machines(&plan), stopped_machines(&plan)), (Vec::new(), Vec::new()));
    assert_eq!((created_machines(&plan).len(), deleted_machines(&plan).len()), (1, 0));
}

#[test]
fn a_machine_with_other_disks_than_the_revision_needs_is_replaced_one_at_a_time() {
    let changed = |standby: u64| {
        world(1, 1, standby).pool(|pool| {
            pool.disks.push(PoolDiskTemplate::new("scratch", Lifetime::Ephemeral));
            pool.rollout.paused = true;
        })
    };
    let replaced = |plan: &Plan| {
        let is_replaced = |action: &&PoolAction| {
            matches!(action, PoolAction::Delete { reason: DeleteReason::StandbyReplaced, .. })
        };
        plan.actions.iter().filter(is_replaced).map(|action| action.object().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(replaced(&changed(2).plan()), names([2]), "the newest");
    let terminating = changed(2).edit(&numbered_machine_name(2), |machine| machine.terminating = true);
    assert_eq!(replaced(&terminating.plan()), Vec::<String>::new(), "one is being replaced");
    assert_eq!(replaced(&changed(1).plan()), Vec::<String>::new(), "one is missing");
    let activated = changed(2).pool(|pool| pool.desired = 2).plan();
    assert_eq!(activated_machines(&activated), Vec::<&str>::new(), "the activation could not bring the disk");
    assert_eq!(created_machines(&activated).len(), 1);
}

#[test]
fn a_machine_that_is_too_old_is_replaced_and_not_activated() {
    let limited = |hours: u64, desired: usize| {
        let young = observation_time() - jiff::SignedDuration::from_hours(2);
        world(desired, 1, 2).edit(&numbered_machine_name(2), |machine| machine.created = young).pool(|pool| {
            let max_lifetime = Some(Duration::from_hours(hours));
            pool.recycle = RecyclePolicy { max_lifetime, jitter: 0, ..RecyclePolicy::default() };
            pool.rollout.paused = true;
        })
    };
    let both = limited(1, 1).edit(&numbered_machine_name(0), |machine| machine.created = observation_time());
    assert_eq!(deleted_machines(&both.plan()), names([2]), "one at a time, the newest");
    let invalid = both.pool(|pool| pool.validation_errors = vec!["invalid".into()]).plan();
    assert_eq!(deleted_machines(&invalid), Vec::<&str>::new(), "no other one could be created");
    let plan = limited(1, 2).plan();
    assert_eq!(activated_machines(&plan), Vec::<&str>::new());
    assert_eq!(created_machines(&plan).len(), 1);
    let later = limited(3, 2).edit(&numbered_machine_name(0), |machine| machine.created = observation_time());
    assert_eq!(activated_machines(&later.plan()), names([2]), "the older one is too old");
    assert_eq!(later.pool(|pool| pool.desired = 1).plan().requeue_after, Some(Duration::from_hours(1)));
}

#[test]
fn a_requested_replacement_concerns_a_standby_machine() {
    let facts = RecycleFacts { requested: Some(observation_time()), ..RecycleFacts::default() };
    let requested = world(1, 1, 2)
        .edit(&numbered_machine_name(1), |machine| machine.recycling = Some(Arc::new(facts.clone())));
    assert_eq!(deleted_machines(&requested.plan()), names([1]));
    let until = (observation_time() + jiff::SignedDuration::from_hours(1)).to_string();
    let annotations = [("vmpool.dev/protected-until".to_owned(), until)].into();
    let protected = requested.edit(&numbered_machine_name(2), |machine| {
        machine.protection = Protection::read(Some(&annotations));
    });
    assert_eq!(deleted_machines(&protected.plan()), names([1]), "a protected one is no missing one");
}

#[test]
fn a_machine_that_does_not_warm_up_in_time_is_replaced() {
    let mut old =
        world(1, 1, 2).edit(&numbered_machine_name(2), |machine| stop(machine, StandbyPhase::Warming));
    old.memory.observe_machines(old.machines.clone().iter(), old.uptime);
    old.uptime += Duration::from_mins(30);
    assert_eq!(deleted_machines(&old.plan()), names([2]));
    let young = old.edit(&numbered_machine_name(2), |machine| {
        machine.created = observation_time() - jiff::SignedDuration::from_mins(29);
    });
    let plan = young.plan();
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
    assert_eq!(plan.requeue_after, Some(Duration::from_mins(1)));
}

/// The clock of the controller is ahead by more than the time that a machine may take: without a time of its
/// own, the controller would delete each new machine at once.
#[test]
fn a_new_machine_that_seems_old_has_its_time_to_warm_up() {
    let mut world =
        world(1, 1, 2).edit(&numbered_machine_name(2), |machine| stop(machine, StandbyPhase::Warming));
    assert_eq!(deleted_machines(&world.plan()), Vec::<&str>::new());
    world.memory.observe_machines(world.machines.clone().iter(), world.uptime);
    world.uptime += Duration::from_mins(29);
    let plan = world.plan();
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
    assert_eq!(plan.requeue_after, Some(Duration::from_mins(1)));
}

#[test]
fn an_activation_in_the_future_counts_as_absent() {
    let machine = |hours: i64| {
        let mut machine = Machine::blank(fixture_id("web-a"));
        machine.activated = Some(observation_time() + jiff::SignedDuration::from_hours(hours));
        machine
    };
    let world = PoolWorld::desiring(0);
    let snapshot = world.snapshot();
    let observed = world.observed(&snapshot);
    assert_eq!(observed.age_of(&machine(-1)), Duration::from_hours(1));
    assert!(observed.age_of(&machine(1)) > Duration::from_hours(24));
    let mut forged = machine(-1);
    forged.created = observation_time() - jiff::SignedDuration::from_mins(30);
    assert_eq!(observed.age_of(&forged), Duration::from_mins(30), "no machine starts before it is created");
    assert_eq!(read_activated_at(Some(&[(ACTIVATED_AT.to_owned(), "soon".to_owned())].into())), None);
}

#[test]
fn an_accepted_target_leaves_although_it_is_a_standby_machine() {
    let name = numbered_machine_name(1);
    let plan = world(1, 1, 2).accepted("request", &[name.as_str()]).plan();
    assert!(deleted_machines(&plan).contains(&&*name));
}

/// A world with machines in random states, from one number for each.
fn random_world(desired: usize, replicas: usize, states: &[u8]) -> PoolWorld {
    let count = u64::try_from(states.len()).expect("few");
    let world = PoolWorld::desiring(desired).with_machines(count).pool(|pool| {
        pool.standby = Some(StandbySettings { replicas, ..SETTINGS });
    });
    (0..count).zip(states).fold(world, |world, (number, state)| {
        world.edit(&numbered_machine_name(number), |machine| match state {
            0 => stop(machine, StandbyPhase::Stopped),
            1 => stop(machine, StandbyPhase::Warming),
            2 => {
                stop(machine, StandbyPhase::Warming);
                machine.activity = MachineActivity::Running;
            }
            3 => stop(machine, StandbyPhase::Unreadable),
            4 => machine.activity = MachineActivity::Stopped,
            5 => {
                stop(machine, StandbyPhase::Stopped);
                machine.terminating = true;
            }
            _ => {}
        })
    })
}

proptest! {
    /// I17: standby stops no active machine, and no standby machine counts as a replica.
    #[test]
    fn standby_machines_and_replicas_are_apart(
        desired in 0usize..6,
        replicas in 0usize..4,
        states in proptest::collection::vec(0u8..9, 0..8),
    ) {
        let world = random_world(desired, replicas, &states);
        let snapshot = world.snapshot();
        let is_standby = |name: &str| {
            snapshot.machines.iter().any(|machine| &*machine.id.name == name && machine.standby.is_some())
        };
        let active = snapshot.machines.iter().filter(|machine| machine.standby.is_none()).count();
        let plan = world.plan();
        for action in &plan.actions {
            let name = &**action.object();
            match action {
                PoolAction::StopStandby { .. }
                | PoolAction::Activate { .. }
                | PoolAction::Delete {
                    reason: DeleteReason::StandbySurplus | DeleteReason::StandbyReplaced, ..
                } => prop_assert!(is_standby(name), "{action:?}"),
                PoolAction::Delete { .. } | PoolAction::Update { .. } => prop_assert!(!is_standby(name), "{action:?}"),
                _ => {}
            }
        }
        let is_active_create =
            |action: &&PoolAction| matches!(action, PoolAction::Create { draft } if draft.standby.is_none());
        let created = plan.actions.iter().filter(is_active_create).count();
        let added = activated_machines(&plan).len() + created;
        prop_assert!(active + added <= desired.max(active), "{added} are added to {active} of {desired}");
        let status = crate::compute_status(&world.observed(&snapshot), None);
        prop_assert_eq!(status.summary.replicas, active);
        prop_assert_eq!(status.summary.standby.total, snapshot.machines.len() - active);
    }
}
