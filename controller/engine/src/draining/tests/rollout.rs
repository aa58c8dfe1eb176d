//! Drains before the restarts of a rollout.

use super::{DrainHook, DrainReason, begun, draining, ended, hook, mark, world};
use crate::model::Restarts;
use crate::testing::{PoolWorld, deleted_machines};
use crate::{Plan, PoolAction};

/// A rollout of a DVP pool: `web-c` has an earlier revision and restarts by itself.
fn rollout() -> PoolWorld {
    world(3).pool(|pool| pool.rollout.restarts = Restarts::ByPlatform).edit("web-c", |machine| {
        machine.written = Some("r0".into());
        machine.revision = machine.written.clone();
        machine.restarts_itself = true;
    })
}

fn drains_for_rollout(world: PoolWorld, hooks: &[DrainHook]) -> PoolWorld {
    let draining = draining(hooks, Some(mark(DrainReason::Rollout, 30)));
    world.edit("web-c", |machine| machine.draining = draining)
}

#[test]
fn a_rollout_drains_a_machine_that_the_platform_would_restart() {
    let world = rollout().edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], None));
    let plan = world.plan();
    assert_eq!(begun(&plan), [("web-c", DrainReason::Rollout)]);
    let updates = |plan: &Plan| plan.actions.iter().any(|action| matches!(action, PoolAction::Update { .. }));
    assert!(!updates(&plan));
    assert!(updates(&drains_for_rollout(rollout(), &[hook("job", "d1")]).plan()));
}

#[test]
fn a_paused_rollout_keeps_the_mark() {
    let world = drains_for_rollout(rollout(), &[hook("job", "d1")]).pool(|pool| pool.rollout.paused = true);
    assert_eq!(world.plan().actions, []);
}

/// The write that records the revision removes the mark. The machine has restarted, so its agent runs again.
#[test]
fn a_restarted_machine_is_not_replaced() {
    let world = drains_for_rollout(rollout(), &[hook("job", "d1")]);
    let current = world.pool.revision.id.clone();
    let plan = world.edit("web-c", |machine| machine.written = Some(current)).plan();
    assert_eq!((deleted_machines(&plan), ended(&plan)), (Vec::new(), Vec::new()));
    assert!(plan.actions.iter().any(|action| matches!(action, PoolAction::RecordRevision { .. })));
}

#[test]
fn a_machine_that_restarts_only_by_approval_drains_no_longer() {
    let world = drains_for_rollout(rollout(), &[hook("job", "")]);
    let plan = world.edit("web-c", |machine| machine.restarts_itself = false).plan();
    assert_eq!(ended(&plan), ["web-c"]);
}

/// Otherwise the rollout and the replacement would each use the same budget.
#[test]
fn a_replacement_waits_while_the_rollout_uses_the_budget() {
    let released = draining(&[hook("job", "d1")], Some(mark(DrainReason::ScaleDown, 30)));
    let world = rollout().edit("web-a", |machine| machine.draining = released);
    let plan = world.plan();
    assert!(plan.actions.iter().any(|action| matches!(action, PoolAction::Update { .. })));
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
}

/// Nothing could follow the drain.
#[test]
fn without_its_template_a_rollout_drains_no_machine() {
    let world = rollout().edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], None));
    let mut plan = world.plan();
    plan.withhold_template(false);
    assert_eq!(begun(&plan), []);
    let mut drained = drains_for_rollout(rollout(), &[hook("job", "d1")]).plan();
    assert_eq!(drained.finished_drains.len(), 1);
    drained.withhold_template(false);
    assert_eq!(drained.finished_drains, [], "the machine does not restart");
}
