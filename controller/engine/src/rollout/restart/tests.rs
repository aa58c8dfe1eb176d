use std::sync::Arc;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::Plan;
use crate::draining::{DrainHook, DrainMark, Draining};
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{
    DisruptionBudget, MachineActivity, Membership, ObjectId, Preservation, ScaleDownPolicy, StatusContent,
    TemplateParts,
};
use crate::plan::Blocker;
use crate::revisions::{Fingerprint, LiveParts, RevisionId};
use crate::rollout::attempts::UpdateOutcome;
use crate::selector::Selector;
use crate::testing::{PoolWorld, deleted_machines, fixture_id, numbered_machine_name};

/// The parts of a template whose instance and storage have these versions.
fn parts(instance: u64, storage: u64) -> TemplateParts {
    let of = |version: u64| Fingerprint::of(&json!({ "version": version }));
    TemplateParts { instance: of(instance), live: LiveParts::default(), storage: of(storage) }
}

/// A pool of running machines to which the current revision `new` is written, and whose instances have
/// revision `r1`.
fn world(machines: u64, budget: DisruptionBudget, new: TemplateParts) -> PoolWorld {
    let desired = usize::try_from(machines).unwrap();
    let mut world = PoolWorld::desiring(desired).with_machines(machines).pool(|pool| {
        pool.disks.clear();
        pool.revision.id = "new".into();
        pool.membership = Membership::Selector(Selector::default());
        pool.status_content = StatusContent::FailureAndPause;
        pool.rollout.restarts = Restarts::ByController;
        pool.rollout.budget = budget;
        pool.revision.template_parts = [("r1".into(), parts(1, 1)), ("new".into(), new)].into();
    });
    for number in 0..machines {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.disks.clear();
            machine.written = Some("new".into());
            machine.instance = Some(instance(&machine.id, "r1", true));
        });
    }
    world.stored.push("new".into());
    world
}

fn instance(machine: &ObjectId, revision: &str, ready: bool) -> Arc<Instance> {
    Arc::new(Instance {
        id: ObjectId::new(&machine.name, &format!("instance-of-{}", machine.name)),
        machine: Some(machine.uid.clone()),
        terminating: false,
        revision: Some(RevisionId::from(revision)),
        live: LiveParts::default(),
        pending_update: None,
        ended: false,
        ready,
    })
}

fn restarted(plan: &Plan) -> Vec<&str> {
    let restarts = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Restart { machine, .. } => Some(&*machine.name),
        _ => None,
    });
    restarts.collect()
}

#[test]
fn a_changed_instance_is_restarted_within_the_budget_oldest_first() {
    let world = world(4, DisruptionBudget::Machines(2), parts(2, 1));
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(0), numbered_machine_name(1)]);
}

#[test]
fn a_machine_that_rejects_its_update_delays_no_restart_of_another_machine() {
    let world =
        world(2, DisruptionBudget::Machines(1), parts(2, 1)).edit(&numbered_machine_name(0), |machine| {
            machine.written = Some("r1".into());
        });
    let world = world.memory(|memory| {
        let failure = PoolFailure { reason: FailureReason::FailedTemplateUpdate, message: "denied".into() };
        memory.backoff_mut(ApplyStage::Update).failed(
            failure,
            std::time::Duration::from_secs(100),
            None,
            0.0,
        );
    });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[test]
fn a_machine_whose_guest_has_ended_is_not_started() {
    let ended = |machine: &mut Machine| {
        machine.activity = MachineActivity::Stopped;
        machine.instance = Some(instance(&machine.id, "r1", false));
    };
    let world = world(2, DisruptionBudget::Machines(2), parts(2, 1)).edit(&numbered_machine_name(0), ended);
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[rstest]
#[case::oldest(ScaleDownPolicy::OldestFirst, 0)]
#[case::newest(ScaleDownPolicy::NewestFirst, 2)]
#[case::lowest(ScaleDownPolicy::LowestOrdinalFirst, 0)]
#[case::highest(ScaleDownPolicy::HighestOrdinalFirst, 2)]
fn the_sort_policy_decides_which_guests_restart_first(#[case] policy: ScaleDownPolicy, #[case] first: u64) {
    let mut world =
        world(3, DisruptionBudget::Machines(1), parts(2, 1)).pool(|pool| pool.rollout.order = Some(policy));
    let ordinals =
        matches!(policy, ScaleDownPolicy::LowestOrdinalFirst | ScaleDownPolicy::HighestOrdinalFirst);
    for number in 0..3 {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.created = jiff::Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
            if ordinals {
                machine.id = ObjectId::new(&format!("web-{number}"), machine.id.uid.as_str());
            }
        });
    }
    let expected = if ordinals { format!("web-{first}") } else { numbered_machine_name(first) };
    assert_eq!(restarted(&world.plan()), [expected]);
}

#[rstest]
#[case::of_a_ready_instance(true)]
#[case::of_an_instance_that_is_not_ready(false)]
fn a_requested_restart_is_not_requested_again(#[case] ready: bool) {
    let requested = format!("instance-of-{}", numbered_machine_name(0));
    let world = world(2, DisruptionBudget::Machines(2), parts(2, 1))
        .edit(&numbered_machine_name(0), |machine| {
            machine.instance = Some(instance(&machine.id, "r1", ready));
        })
        .memory(|memory| {
            memory.restarts.request(&requested.as_str().into(), std::time::Duration::from_secs(100));
        });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[test]
fn a_requested_restart_uses_budget_until_the_cache_shows_another_instance() {
    let world = world(4, DisruptionBudget::Machines(1), parts(2, 1)).memory(|memory| {
        let instance = format!("instance-of-{}", numbered_machine_name(0));
        memory.restarts.request(&instance.as_str().into(), std::time::Duration::from_secs(100));
    });
    assert_eq!(restarted(&world.plan()), [""; 0]);
    let other = |world: PoolWorld| {
        world.edit(&numbered_machine_name(0), |machine| {
            let mut fresh = Instance::clone(machine.instance.as_ref().unwrap());
            fresh.id = ObjectId::new(&machine.id.name, "another");
            fresh.revision = Some("new".into());
            machine.instance = Some(Arc::new(fresh));
        })
    };
    let mut world = other(world);
    world.memory.restarts.observe(world.machines.iter());
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[rstest]
#[case::it_may_be_carried_out(59, &[])]
#[case::it_was_lost(60, &[2])]
fn a_lost_request_is_repeated_before_another_machine_uses_the_budget(
    #[case] seconds: u64,
    #[case] expected: &[u64],
) {
    let marked = numbered_machine_name(2);
    let world = world(4, DisruptionBudget::Machines(1), parts(2, 1)).edit(&marked, protected(0, Some("new")));
    // The world has an uptime of 100 seconds.
    let sent = std::time::Duration::from_secs(100 - seconds);
    let world = world.memory(|memory| {
        memory.restarts.request_unconfirmed(&format!("instance-of-{marked}").as_str().into(), sent);
    });
    let expected: Vec<String> = expected.iter().map(|number| numbered_machine_name(*number)).collect();
    assert_eq!(restarted(&world.plan()), expected);
}

#[test]
fn the_pool_wakes_when_an_unconfirmed_update_uses_no_budget_any_more() {
    let updated = fixture_id(&numbered_machine_name(0));
    // The world has an uptime of 100 seconds.
    let sent = std::time::Duration::from_secs(70);
    let world = world(2, DisruptionBudget::Machines(1), parts(2, 1)).memory(|memory| {
        memory.rollout_attempts.record(&updated.uid, &"new".into(), UpdateOutcome::Unconfirmed, sent);
    });
    let plan = world.plan();
    assert_eq!(restarted(&plan), [""; 0]);
    assert_eq!(plan.requeue_after, Some(std::time::Duration::from_secs(30)));
}

#[test]
fn an_instance_that_is_not_ready_is_restarted_without_budget() {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1));
    let world = [1, 2].into_iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.instance = Some(instance(&machine.id, "r1", false));
        })
    });
    assert_eq!(
        restarted(&world.plan()),
        [numbered_machine_name(1), numbered_machine_name(2)],
        "both, and the ready one waits for them"
    );
}

#[rstest]
#[case::is_not_ready_yet(|machine: &mut Machine| machine.instance = Some(instance(&machine.id, "new", false)))]
#[case::does_not_exist(|machine: &mut Machine| machine.instance = None)]
fn a_machine_that_still_seems_ready_uses_budget_if_its_instance(#[case] change: fn(&mut Machine)) {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1)).edit(&numbered_machine_name(0), change);
    assert_eq!(restarted(&world.plan()), [""; 0]);
}

#[test]
fn surplus_machines_that_the_pool_keeps_add_no_budget() {
    let world = world(6, DisruptionBudget::Machines(1), parts(2, 1)).pool(|pool| {
        pool.desired = 3;
        pool.scale_down_policy = ScaleDownPolicy::Explicit;
    });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(0)]);
    let down = world.edit(&numbered_machine_name(0), |machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.instance = Some(instance(&machine.id, "new", false));
    });
    assert_eq!(restarted(&down.plan()), [""; 0]);
}

#[test]
fn a_machine_that_the_controller_cannot_restart_uses_no_budget() {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1))
        .edit(&numbered_machine_name(0), |machine| machine.restartable = false);
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[test]
fn a_machine_that_a_user_stopped_uses_no_budget() {
    let world =
        world(3, DisruptionBudget::Machines(1), parts(2, 1)).edit(&numbered_machine_name(0), |machine| {
            machine.activity = MachineActivity::Stopped;
            machine.instance = None;
        });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(1)]);
}

#[test]
fn a_change_of_labels_only_is_recorded_and_restarts_no_instance() {
    let plan = world(3, DisruptionBudget::Machines(1), parts(1, 1)).plan();
    let recorded =
        plan.actions.iter().filter(|action| matches!(action, PoolAction::RecordRevision { .. })).count();
    assert_eq!((restarted(&plan), recorded), (Vec::new(), 3));
}

#[rstest]
#[case::the_pool_preserves_no_storage(Preservation::Never, false)]
#[case::the_pool_does_not_preserve_changed_storage(Preservation::UnlessChanged, false)]
#[case::the_pool_preserves_changed_storage(Preservation::Always, true)]
fn a_change_of_storage_deletes_the_machine(#[case] preservation: Preservation, #[case] preserved: bool) {
    let world =
        world(2, DisruptionBudget::Machines(1), parts(2, 2)).pool(|pool| pool.preservation = preservation);
    let plan = world.plan();
    let deletes: Vec<_> =
        plan.actions.iter().filter(|action| matches!(action, PoolAction::Delete { .. })).collect();
    let expected = PoolAction::Delete {
        machine: fixture_id(&numbered_machine_name(0)),
        reason: DeleteReason::StorageChanged { preserved },
    };
    assert_eq!(deletes, [&expected]);
}

#[test]
fn an_instance_of_an_unknown_revision_is_restarted() {
    let world =
        world(1, DisruptionBudget::Machines(1), parts(1, 1)).edit(&numbered_machine_name(0), |machine| {
            machine.instance = Some(instance(&machine.id, "gone", true));
        });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(0)]);
}

#[test]
fn a_machine_with_a_stored_revision_of_the_same_template_is_current() {
    let world = world(2, DisruptionBudget::Machines(1), parts(1, 1))
        .pool(|pool| pool.revision.same_template = vec!["r1".into()]);
    let world = [0, 1].into_iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| machine.written = Some("r1".into()))
    });
    assert_eq!(world.plan().actions, []);
}

#[test]
fn nothing_is_restarted_if_users_restart_or_the_pool_is_paused() {
    let by_user = world(2, DisruptionBudget::Machines(1), parts(2, 1))
        .pool(|pool| pool.rollout.restarts = Restarts::ByUser);
    assert_eq!(by_user.plan().actions, []);
    let paused = world(2, DisruptionBudget::Machines(1), parts(2, 1)).pool(|pool| pool.paused = true);
    assert_eq!(paused.plan().actions, []);
}

#[test]
fn machines_outside_the_selection_keep_their_instance() {
    let world = world(2, DisruptionBudget::Machines(2), parts(2, 1)).pool(|pool| {
        pool.rollout.selection.labels = Selector(vec![crate::selector::SelectorRequirement {
            key: "tier".into(),
            operator: crate::selector::Operator::Exists,
            values: Vec::new(),
        }]);
    });
    assert_eq!(restarted(&world.plan()), [""; 0]);
}

fn protected(seconds: i64, restarting: Option<&str>) -> impl FnOnce(&mut Machine) {
    let until = crate::testing::observation_time() + jiff::SignedDuration::from_secs(seconds);
    let until = (seconds != 0).then_some(crate::protection::ProtectionEnd::At(until));
    let restarting = restarting.map(RevisionId::from);
    let protection = crate::protection::Protection { until, restarting, ..Default::default() };
    |machine| machine.protection = Some(Arc::new(protection))
}

fn ended(plan: &Plan) -> Vec<&str> {
    let ended = plan.actions.iter().filter_map(|action| match action {
        PoolAction::EndRestart { machine } => Some(&*machine.name),
        _ => None,
    });
    ended.collect()
}

#[test]
fn the_instance_of_a_protected_machine_waits_and_uses_no_budget() {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1))
        .edit(&numbered_machine_name(0), protected(60, None));
    let plan = world.plan();
    assert_eq!(restarted(&plan), [numbered_machine_name(1)]);
    assert_eq!(plan.requeue_after, Some(std::time::Duration::from_secs(90)));
    let waits = |blocker: &Blocker| matches!(blocker, Blocker::Protection { machine, .. } if **machine == *numbered_machine_name(0));
    assert!(plan.blockers.iter().any(waits));
}

#[test]
fn a_protected_machine_keeps_its_storage_until_its_protection_ends() {
    let world = world(2, DisruptionBudget::Machines(2), parts(1, 2))
        .edit(&numbered_machine_name(0), protected(60, None));
    assert_eq!(crate::testing::deleted_machines(&world.plan()), [numbered_machine_name(1)]);
    let marked = world.edit(&numbered_machine_name(0), protected(60, Some("new")));
    assert_eq!(
        crate::testing::deleted_machines(&marked.plan()),
        [numbered_machine_name(1)],
        "a mark commits to a restart only"
    );
}

#[test]
fn a_machine_that_became_protected_after_its_mark_is_restarted() {
    let world = world(2, DisruptionBudget::Machines(1), parts(2, 1))
        .edit(&numbered_machine_name(0), protected(60, Some("new")));
    let plan = world.plan();
    assert_eq!(restarted(&plan), [numbered_machine_name(0)]);
    assert_eq!(ended(&plan), [""; 0]);
}

#[test]
fn the_mark_is_removed_when_the_revision_is_in_effect() {
    let world = world(2, DisruptionBudget::Machines(1), parts(2, 1))
        .edit(&numbered_machine_name(0), protected(0, Some("new")))
        .edit(&numbered_machine_name(0), |machine| {
            machine.instance = Some(instance(&machine.id, "new", true));
        });
    assert_eq!(ended(&world.plan()), [numbered_machine_name(0)]);
}

#[test]
fn the_mark_stays_between_two_instances_and_is_removed_from_a_stopped_machine() {
    let world = world(1, DisruptionBudget::Machines(1), parts(2, 1))
        .edit(&numbered_machine_name(0), protected(0, Some("new")))
        .edit(&numbered_machine_name(0), |machine| {
            (machine.instance, machine.activity) = (None, MachineActivity::NotRunning);
        });
    assert_eq!(ended(&world.plan()), [""; 0]);
    let stopped =
        world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::Stopped);
    assert_eq!(ended(&stopped.plan()), [numbered_machine_name(0)]);
}

#[test]
fn the_mark_is_removed_if_the_rollout_is_paused_before_the_restart_was_requested() {
    let paused = |world: PoolWorld| world.pool(|pool| pool.rollout.paused = true);
    let world = paused(
        world(1, DisruptionBudget::Machines(1), parts(2, 1))
            .edit(&numbered_machine_name(0), protected(0, Some("new"))),
    );
    assert_eq!(ended(&world.plan()), [numbered_machine_name(0)]);
    let requested = world.memory(|memory| {
        let instance = format!("instance-of-{}", numbered_machine_name(0));
        memory.restarts.request(&instance.as_str().into(), std::time::Duration::from_secs(100));
    });
    assert_eq!(ended(&requested.plan()), [""; 0]);
}

#[test]
fn the_mark_is_removed_while_the_pool_is_paused_unless_its_restart_was_requested() {
    let world = world(2, DisruptionBudget::Machines(1), parts(2, 1)).pool(|pool| pool.paused = true);
    let world = [0, 1]
        .into_iter()
        .fold(world, |world, number| world.edit(&numbered_machine_name(number), protected(0, Some("new"))));
    let world = world.memory(|memory| {
        let instance = format!("instance-of-{}", numbered_machine_name(1));
        memory.restarts.request(&instance.as_str().into(), std::time::Duration::from_secs(100));
    });
    assert_eq!(ended(&world.plan()), [numbered_machine_name(0)]);
    assert_eq!(restarted(&world.plan()), [""; 0]);
}

#[test]
fn a_restart_is_planned_on_the_live_pool() {
    assert!(world(1, DisruptionBudget::Machines(1), parts(2, 1)).plan().needs_live_pool());
}

fn sockets(number: u64) -> LiveParts {
    LiveParts::of([("sockets", json!(number))].into_iter())
}

/// A pool on a platform with live updates, whose current revision changes only a live part of the instances.
fn live_world() -> PoolWorld {
    let live = |number| TemplateParts { live: sockets(number), ..parts(1, 1) };
    let world = world(2, DisruptionBudget::Machines(2), live(2)).pool(|pool| {
        pool.rollout.live_updates = true;
        pool.revision.template_parts.insert("r1".into(), live(1));
    });
    [0, 1].into_iter().fold(world, |world, number| has_sockets(world, number, 1))
}

/// The record of the current revision on the instance of a machine.
fn recorded(machine: u64) -> PoolAction {
    let name = numbered_machine_name(machine);
    let instance = Some(Uid::from(&*format!("instance-of-{name}")));
    PoolAction::RecordRevision { machine: fixture_id(&name), instance, to: "new".into() }
}

fn has_sockets(world: PoolWorld, machine: u64, number: u64) -> PoolWorld {
    world.edit(&numbered_machine_name(machine), |machine| {
        let instance = machine.instance.as_mut().unwrap();
        Arc::make_mut(instance).live = sockets(number);
    })
}

#[test]
fn a_live_update_is_awaited_and_recorded_when_the_instance_has_it() {
    assert_eq!(live_world().plan().actions, []);
    let plan = has_sockets(live_world(), 0, 2).plan();
    let expected = recorded(0);
    assert_eq!(plan.actions, [expected]);
}

#[test]
fn a_removed_live_part_is_awaited_as_an_added_one() {
    let tolerations = |kept: &[&str]| LiveParts::of(kept.iter().map(|key| ("tolerations", json!(key))));
    let parts = |kept: &[&str]| TemplateParts { live: tolerations(kept), ..parts(1, 1) };
    let world = |has: &[&str]| {
        let world = live_world().pool(|pool| {
            pool.revision.template_parts.insert("r1".into(), parts(&["gpu", "spot"]));
            pool.revision.template_parts.insert("new".into(), parts(&["gpu"]));
        });
        [0, 1].into_iter().fold(world, |world, number| {
            world.edit(&numbered_machine_name(number), |machine| {
                Arc::make_mut(machine.instance.as_mut().unwrap()).live = tolerations(has);
            })
        })
    };
    assert_eq!(world(&["gpu", "spot"]).plan().actions, [], "the platform has not removed it yet");
    assert_eq!(world(&["gpu"]).plan().actions.len(), 2);
    let refused =
        world(&["gpu", "spot"]).edit(&numbered_machine_name(0), |machine| machine.restart_pending = true);
    assert_eq!(restarted(&refused.plan()), [numbered_machine_name(0)]);
}

#[test]
fn a_live_update_is_recorded_although_a_user_changed_another_live_part() {
    let of = |sockets: u64, guest: &str| {
        LiveParts::of([("sockets", json!(sockets)), ("guest", json!(guest))].into_iter())
    };
    let world = |sockets: u64| {
        let world = live_world().pool(|pool| {
            for (revision, sockets) in [("r1", 1), ("new", 2)] {
                let parts = TemplateParts { live: of(sockets, "1Gi"), ..parts(1, 1) };
                pool.revision.template_parts.insert(revision.into(), parts);
            }
        });
        [0, 1].into_iter().fold(world, |world, number| {
            world.edit(&numbered_machine_name(number), |machine| {
                Arc::make_mut(machine.instance.as_mut().unwrap()).live = of(sockets, "2Gi");
            })
        })
    };
    assert_eq!(world(1).plan().actions, [], "the platform applies the change");
    assert_eq!(world(2).plan().actions, [recorded(0), recorded(1)]);
}

#[test]
fn an_instance_gets_the_revision_of_its_machine_also_after_a_change_of_the_count() {
    // The count has changed after the update, so the current revision has another name and the same template.
    let scaled = |stored: bool| {
        has_sockets(live_world(), 0, 2).pool(|pool| {
            pool.revision.id = "newer".into();
            pool.revision.same_template = vec!["new".into()];
            if stored {
                let equal = pool.revision.template_parts[&RevisionId::from("new")].clone();
                pool.revision.template_parts.insert("newer".into(), equal);
            }
        })
    };
    for stored in [false, true] {
        let expected = recorded(0);
        assert_eq!(scaled(stored).plan().actions, [expected], "stored: {stored}");
        // An instance with the name of the current revision has that template, too.
        let other = scaled(stored).edit(&numbered_machine_name(0), |machine| {
            Arc::make_mut(machine.instance.as_mut().unwrap()).revision = Some("newer".into());
        });
        let expected = recorded(0);
        assert_eq!(other.plan().actions, [expected], "stored: {stored}");
    }
}

#[test]
fn no_guest_restarts_and_no_machine_is_deleted_while_the_pool_is_invalid() {
    for new in [parts(2, 1), parts(2, 2)] {
        let invalid = world(2, DisruptionBudget::Percent(100), new)
            .pool(|pool| pool.validation_errors.push("odd".into()));
        assert_eq!(invalid.plan().actions, []);
    }
}

#[test]
fn a_guest_that_ends_uses_budget_although_its_machine_still_seems_ready() {
    let ends = |machine: &mut Machine| Arc::make_mut(machine.instance.as_mut().unwrap()).terminating = true;
    let world = |change: &dyn Fn(&mut Machine)| {
        world(2, DisruptionBudget::Machines(1), parts(2, 1))
            .edit(&numbered_machine_name(0), |machine| change(machine))
    };
    assert_eq!(restarted(&world(&ends).plan()), [""; 0]);
    // Another leader has marked the machine and deleted its instance.
    let gone = |machine: &mut Machine| {
        protected(0, Some("new"))(machine);
        machine.instance = None;
    };
    assert_eq!(restarted(&world(&gone).plan()), [""; 0]);
}

#[test]
fn a_live_update_restarts_if_the_platform_has_none_or_requires_a_restart() {
    let off = live_world().pool(|pool| pool.rollout.live_updates = false);
    assert_eq!(restarted(&off.plan()), [numbered_machine_name(0), numbered_machine_name(1)]);
    let required = live_world().edit(&numbered_machine_name(1), |machine| machine.restart_pending = true);
    assert_eq!(restarted(&required.plan()), [numbered_machine_name(1)]);
}

#[test]
fn a_tolerated_surplus_does_not_block_the_rollout() {
    let world = world(4, DisruptionBudget::Machines(1), parts(2, 1)).pool(|pool| {
        pool.desired = 2;
        pool.scale_down_policy = crate::model::ScaleDownPolicy::Explicit;
    });
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(0)]);
}

/// Each pass resets the backoffs of what it does not want.
#[test]
fn a_rejected_deletion_for_changed_storage_is_repeated_with_a_backoff_and_after_the_others() {
    let mut world = world(2, DisruptionBudget::Machines(1), parts(2, 2));
    let planned = |world: &PoolWorld| {
        deleted_machines(&world.plan()).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(planned(&world), [numbered_machine_name(0)]);
    let plan = world.plan();
    let action = plan.actions.iter().find(|action| matches!(action, PoolAction::Delete { .. })).unwrap();
    let failure = PoolFailure { reason: FailureReason::FailedDelete, message: "denied".into() };
    let uptime = world.uptime;
    world.memory.backoff_mut(action.stage()).failed(failure, uptime, None, 0.0);
    world.memory.record_result(action.object(), true);
    let waiting = world.plan();
    assert_eq!(deleted_machines(&waiting), [""; 0]);
    world.memory.reset_unwanted(waiting.wants);
    let left = waiting.requeue_after.expect("it is repeated");
    assert_eq!(planned(&world), [""; 0], "the backoff stays");
    world.uptime += left;
    assert_eq!(planned(&world), [numbered_machine_name(1)]);
}

/// A machine to which revision `new` with other storage templates is written, and whose storage is of
/// revision `r1`.
fn of_former_storage(machine: &mut Machine) {
    machine.storage_revision = Some("r1".into());
}

#[test]
fn a_machine_that_has_never_run_gets_the_storage_of_the_current_template() {
    let world =
        world(3, DisruptionBudget::Machines(1), parts(2, 2)).edit(&numbered_machine_name(0), |machine| {
            of_former_storage(machine);
            machine.activity = MachineActivity::NotRunning;
            machine.instance = None;
        });
    let world = world.edit(&numbered_machine_name(1), |machine| {
        machine.instance = Some(instance(&machine.id, "new", true));
    });
    let world = world.edit(&numbered_machine_name(2), |machine| {
        machine.instance = Some(instance(&machine.id, "new", true));
    });
    assert_eq!(deleted_machines(&world.plan()), [numbered_machine_name(0)], "it uses no budget");
}

#[test]
fn a_guest_that_a_user_restarted_has_the_former_storage() {
    let world = world(2, DisruptionBudget::Machines(1), parts(2, 2));
    let restarted = |machine: &mut Machine| {
        of_former_storage(machine);
        machine.instance = Some(instance(&machine.id, "new", true));
    };
    let world = world.edit(&numbered_machine_name(0), restarted).edit(&numbered_machine_name(1), restarted);
    assert_eq!(deleted_machines(&world.plan()), [numbered_machine_name(0)]);
}

#[rstest]
#[case::taken_back(|world: PoolWorld| world.pool(|pool| {
    pool.revision.template_parts.insert("new".into(), parts(2, 1));
}))]
#[case::unknown_revision(|world: PoolWorld| world.edit(&numbered_machine_name(0), |machine| {
    machine.storage_revision = Some("gone".into());
}))]
#[case::restarts_by_users(|world: PoolWorld| world.pool(|pool| pool.rollout.restarts = Restarts::ByUser))]
#[case::stopped(|world: PoolWorld| world.edit(&numbered_machine_name(0), |machine| {
    machine.activity = MachineActivity::Stopped;
    machine.instance = None;
}))]
#[case::protected(|world: PoolWorld| world.edit(&numbered_machine_name(0), protected(300, None)))]
fn storage_is_kept_where_the_rollout_does_not_replace_it(#[case] change: fn(PoolWorld) -> PoolWorld) {
    let world =
        world(1, DisruptionBudget::Machines(1), parts(2, 2)).edit(&numbered_machine_name(0), |machine| {
            of_former_storage(machine);
            machine.instance = Some(instance(&machine.id, "new", true));
        });
    assert_eq!(deleted_machines(&world.plan()), [numbered_machine_name(0)]);
    assert_eq!(deleted_machines(&change(world).plan()), Vec::<String>::new());
}

#[test]
fn a_change_of_storage_that_was_taken_back_deletes_no_storage() {
    // The instance was started between the two updates.
    let mut world =
        world(1, DisruptionBudget::Machines(1), parts(2, 1)).edit(&numbered_machine_name(0), |machine| {
            of_former_storage(machine);
            machine.instance = Some(instance(&machine.id, "between", true));
        });
    world = world.pool(|pool| {
        pool.revision.template_parts.insert("between".into(), parts(2, 2));
    });
    let plan = world.plan();
    assert_eq!((deleted_machines(&plan), restarted(&plan)), (Vec::new(), vec![&*numbered_machine_name(0)]));
}

fn drained(machine: &mut Machine) {
    let since = crate::testing::observation_time() - jiff::SignedDuration::from_secs(30);
    let deadline = since + std::time::Duration::from_mins(10);
    let mark = DrainMark { id: "d1".to_owned(), reason: DrainReason::Rollout, since, deadline };
    let hook = DrainHook { name: "job".into(), value: "d1".into() };
    machine.draining = Some(Arc::new(Draining { hooks: vec![hook], mark: Some(mark) }));
}

/// Its guest still serves.
#[rstest]
#[case::of_an_instance(parts(2, 1))]
#[case::of_a_machine(parts(1, 2))]
fn the_restart_after_a_drain_waits_while_the_budget_is_exceeded(#[case] new: TemplateParts) {
    let changed = |plan: &Plan| (restarted(plan).len(), deleted_machines(plan).len());
    let world = world(3, DisruptionBudget::Machines(1), new).edit(&numbered_machine_name(0), drained);
    assert_ne!(changed(&world.plan()), (0, 0));
    let exceeded = world.edit(&numbered_machine_name(1), |machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.instance = Some(instance(&machine.id, "new", false));
        machine.storage_revision = Some("new".into());
    });
    let plan = exceeded.plan();
    assert_eq!(changed(&plan), (0, 0));
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::EndDrain { .. })));
}

#[test]
fn drained_machines_are_restarted_one_after_the_other_if_the_budget_became_smaller() {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1));
    let world = world.edit(&numbered_machine_name(0), drained).edit(&numbered_machine_name(1), drained);
    assert_eq!(restarted(&world.plan()), [numbered_machine_name(0)]);
}

#[test]
fn an_unconfirmed_deletion_uses_budget() {
    let world = world(3, DisruptionBudget::Machines(1), parts(2, 1)).memory(|memory| {
        let target = fixture_id(&numbered_machine_name(2));
        // The world has an uptime of 100 seconds.
        memory.delete_unconfirmed(&target.uid, std::time::Duration::from_secs(95));
    });
    assert_eq!(restarted(&world.plan()), [""; 0]);
}
