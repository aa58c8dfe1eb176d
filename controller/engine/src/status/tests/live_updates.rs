//! Live updates that guests do not have yet, and machines that always require a restart.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::{condition, shown};
use crate::condition::ConditionType;
use crate::memory::PROBLEM_AGE;
use crate::model::{Instance, Membership, Restarts, StatusContent, TemplateParts};
use crate::revisions::{Fingerprint, LiveParts};
use crate::selector::Selector;
use crate::testing::{PoolWorld, fixture_id, numbered_machine_name};

const PENDING: &str = "HotVCPUChange: the guest does not have 2 CPU sockets yet";

fn sockets(number: u64) -> LiveParts {
    LiveParts::of([("sockets", json!(number))].into_iter())
}

/// Machines whose current revision `new` changes the sockets from 1 to 2. The guests of the numbered ones do
/// not have these for `age`, and the instances of the others have the revision.
fn updated(machines: u64, numbers: &[u64], age: Duration) -> PoolWorld {
    let parts = |number| TemplateParts {
        instance: Fingerprint::of(&json!(1)),
        live: sockets(number),
        storage: Fingerprint::of(&json!(1)),
    };
    let world = PoolWorld::desiring(usize::try_from(machines).unwrap()).with_machines(machines);
    let world = world.pool(|pool| {
        pool.disks.clear();
        pool.revision.id = "new".into();
        pool.membership = Membership::Selector(Selector::default());
        pool.status_content = StatusContent::FailureAndPause;
        (pool.rollout.restarts, pool.rollout.live_updates) = (Restarts::ByController, true);
        pool.revision.template_parts = [("r1".into(), parts(1)), ("new".into(), parts(2))].into();
    });
    let mut world = (0..machines).fold(world, |world, number| {
        let name = numbered_machine_name(number);
        let is_pending = numbers.contains(&number);
        world.edit(&name, |machine| {
            machine.disks.clear();
            machine.written = Some("new".into());
            machine.instance = Some(Arc::new(Instance {
                id: fixture_id(&format!("instance-of-{name}")),
                machine: Some(machine.id.uid.clone()),
                terminating: false,
                revision: Some(if is_pending { "r1" } else { "new" }.into()),
                live: sockets(if is_pending { 1 } else { 2 }),
                pending_update: is_pending.then(|| PENDING.into()),
                ended: false,
                ready: true,
            }));
        })
    });
    world.stored.push("new".into());
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    world.uptime += age;
    world.memory.observe_machines(machines.iter(), world.uptime);
    world
}

fn message(world: &PoolWorld, kind: ConditionType) -> String {
    condition(&shown(world), kind).expect("it is always there")
}

#[test]
fn a_live_update_that_lasts_is_named_and_restarts_no_guest() {
    let before = updated(2, &[1], PROBLEM_AGE.saturating_sub(Duration::from_millis(1)));
    assert_eq!(
        message(&before, ConditionType::Reconciling),
        "True RollingOut: the controller applies the current template"
    );
    assert_eq!(before.plan().requeue_after, Some(Duration::from_millis(1)));
    let after = updated(2, &[1], PROBLEM_AGE);
    let named = format!("machine {} waits for a live update: {PENDING}", numbered_machine_name(1));
    assert_eq!(
        message(&after, ConditionType::Reconciling),
        format!("True RollingOut: the controller applies the current template; {named}")
    );
    assert_eq!(
        message(&after, ConditionType::Ready),
        format!("False RollingOut: 1 of 2 machines are up to date; {named}")
    );
    assert!(
        message(&after, ConditionType::Stalled).starts_with("False RollingOut: if the live updates last")
    );
    assert_eq!(shown(&after).summary.updated, 1);
    assert_eq!(after.plan(), crate::Plan::default());
}

#[test]
fn three_of_the_waiting_machines_are_named() {
    let message = message(&updated(5, &[0, 1, 2, 3, 4], PROBLEM_AGE), ConditionType::Reconciling);
    assert_eq!(message.matches(PENDING).count(), 3, "{message}");
    assert!(message.ends_with("; 2 more machines wait for a live update"), "{message}");
}

#[test]
fn a_new_leader_names_a_machine_that_the_pool_has_named_before() {
    let before = updated(1, &[0], PROBLEM_AGE);
    let published = shown(&before).conditions;
    let mut world = before.pool(|pool| pool.published.conditions = published);
    world.memory = crate::PassMemory::default();
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    assert!(message(&world, ConditionType::Reconciling).contains(PENDING));
}

/// A user plugs in CPU sockets, and the rollout does not wait for them.
#[test]
fn a_hot_plug_of_a_user_is_not_named() {
    let world = updated(1, &[0], PROBLEM_AGE).edit(&numbered_machine_name(0), |machine| {
        Arc::make_mut(machine.instance.as_mut().unwrap()).revision = Some("new".into());
    });
    assert_eq!(
        message(&world, ConditionType::Reconciling),
        "False Ready: the pool is as its spec describes it"
    );
}

/// KubeVirt reports a required restart of a machine whose cpu has no sockets, also right after a restart.
#[rstest]
#[case::by_the_controller(Restarts::ByController)]
#[case::by_a_user(Restarts::ByUser)]
fn a_machine_that_always_requires_a_restart_is_up_to_date_after_one(#[case] restarts: Restarts) {
    let world = updated(2, &[], PROBLEM_AGE)
        .pool(|pool| pool.rollout.restarts = restarts)
        .edit(&numbered_machine_name(0), |machine| machine.restart_pending = true);
    assert_eq!(world.plan(), crate::Plan::default(), "it is not restarted again");
    assert_eq!(message(&world, ConditionType::Ready), "True Ready: 2 machines are ready and up to date");
    let summary = shown(&world).summary;
    assert_eq!((summary.updated, summary.restart_pending), (2, 0));
}
