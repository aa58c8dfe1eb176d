//! Autohealing: which machines the controller replaces because they do not start.
//!
//! A machine is replaced after a number of failed starts, or when the platform has reported a failing state for a time. The
//! next machine with its name gets new storage. Each ordinal has a backoff of its own, and at most as many machines as the
//! disruption budget allows are replaced at the same time, so that a template that never starts costs few machines.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::action::{Action, DeleteReason, Stage};
use super::blocker::ProtectedStep;
use super::observed::Observed;
use super::protected;
use super::result::Plan;
use crate::ids::Uid;
use crate::model::{Activity, Autohealing, Machine};

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let (pool, failures) = (observed.pool, &observed.memory.start_failures);
    let Some(healing) = pool.autohealing else { return };
    // The controller could create no machine in the place of a deleted one.
    if !pool.validation_errors.is_empty() {
        return;
    }
    let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
    let (mut due, mut replacing) = (Vec::new(), 0);
    let (mut existing, mut staying, mut replaced) = (0, 0, 0);
    for machine in observed.pool_machines() {
        existing += 1;
        let is_replacement = failures.is_replacement(&machine.id.name);
        replaced += usize::from(is_replacement);
        replacing += usize::from(is_being_replaced(machine, is_replacement));
        if machine.terminating || leaving.contains(&machine.id.uid) {
            continue;
        }
        staying += 1;
        let Some(left) = remaining(observed, healing, machine) else { continue };
        if left.is_zero() {
            due.push(machine);
        } else {
            plan.requeue_in(left);
        }
    }
    // The deletion of a machine of a surplus that the pool keeps is a scale-in: none would follow it.
    if staying > pool.desired {
        return;
    }
    // Machines that are gone, and whose successors are not created yet.
    let missing = pool.desired.saturating_sub(existing);
    replacing += failures.replaced_count().saturating_sub(replaced).min(missing);
    let (protected, mut due): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|machine| machine.is_protected(observed.now));
    protected::block(observed, plan, ProtectedStep::Replacement, &protected);
    if due.is_empty() {
        return;
    }
    plan.wants.remove = true;
    let width = match observed.memory.removing.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(Stage::Remove, left),
    };
    due.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let is_fresh = |machine: &&Arc<Machine>| !failures.is_replacement(&machine.id.name);
    let (fresh, repeated): (Vec<_>, Vec<_>) = due.into_iter().partition(is_fresh);
    // A machine that is replaced again was among those that are being replaced, and uses budget once.
    let again = repeated.iter().filter(|machine| is_being_replaced(machine, true)).count();
    let budget = pool.rollout.budget.of(pool.desired).saturating_sub(replacing.saturating_sub(again));
    let chosen = repeated.into_iter().chain(fresh).take(budget).take(width);
    plan.actions.extend(
        chosen.map(|machine| Action::Delete { machine: machine.id.clone(), reason: DeleteReason::Unhealthy }),
    );
}

/// Whether the replacement of a machine is not complete. After a change of leaders, only the deletion shows that the
/// controller replaces a machine.
fn is_being_replaced(machine: &Machine, is_replacement: bool) -> bool {
    if machine.terminating {
        return machine.discards_storage || is_replacement && machine.activity != Activity::Running;
    }
    // A user may stop it for ever.
    is_replacement && !matches!(machine.activity, Activity::Running | Activity::Stopped)
}

/// The time until the machine is replaced; `None` if it does not fail.
fn remaining(observed: &Observed<'_>, healing: Autohealing, machine: &Machine) -> Option<Duration> {
    let (health, failures) = (&machine.start_health, &observed.memory.start_failures);
    let delay = failures.delay(&machine.id.name, observed.uptime);
    if health.failed_starts >= healing.failed_starts {
        return Some(delay);
    }
    if !health.failing {
        return None;
    }
    // The time that the platform reports begins again whenever the reason changes, so the longer one counts.
    let reported = health.not_ready_since.map(|since| observed.now.duration_since(since));
    let reported = reported.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
    let failing = failures.failing_for(&machine.id.uid, observed.uptime).max(reported);
    Some(healing.after.saturating_sub(failing).max(delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Budget, ScaleDownPolicy, StartHealth};
    use crate::testing::{World, deleted, name};

    const AFTER: Duration = Duration::from_mins(5);

    /// A pool of machines of which all but the first do not start.
    fn world(health: &StartHealth, budget: Budget) -> World {
        let world = World::desiring(4).with_machines(4).pool(|pool| {
            pool.autohealing = Some(Autohealing { failed_starts: 3, after: AFTER });
            pool.rollout.budget = budget;
        });
        (1..4).fold(world, |world, number| {
            world.edit(&name(number), |machine| {
                machine.activity = Activity::NotRunning;
                machine.start_health = health.clone();
            })
        })
    }

    fn starts(failed_starts: u32) -> StartHealth {
        StartHealth { failed_starts, ..StartHealth::default() }
    }

    fn observed(mut world: World, after: Duration) -> World {
        let machines = world.machines.clone();
        world.memory.start_failures.observe(machines.iter(), world.uptime);
        world.uptime += after;
        world
    }

    #[test]
    fn machines_with_too_many_failed_starts_are_replaced_within_the_budget() {
        assert_eq!(deleted(&world(&starts(2), Budget::Machines(2)).plan()), [""; 0]);
        let mut expected = [name(1), name(2), name(3)];
        expected.sort();
        assert_eq!(deleted(&world(&starts(3), Budget::Machines(2)).plan()), expected[..2]);
    }

    #[test]
    fn a_machine_that_is_being_deleted_is_not_deleted_again() {
        let leaving =
            world(&starts(3), Budget::Machines(3)).edit(&name(1), |machine| machine.terminating = true);
        let mut expected = [name(2), name(3)];
        expected.sort();
        assert_eq!(deleted(&leaving.plan()), expected);
    }

    #[test]
    fn no_machine_is_replaced_without_the_setting_or_in_a_paused_pool() {
        let off = world(&starts(3), Budget::Machines(2)).pool(|pool| pool.autohealing = None);
        assert_eq!(deleted(&off.plan()), [""; 0]);
        let paused = world(&starts(3), Budget::Machines(2)).pool(|pool| pool.paused = true);
        assert_eq!(deleted(&paused.plan()), [""; 0]);
    }

    #[test]
    fn a_failing_state_must_last_and_the_controller_wakes_when_it_has() {
        let failing = StartHealth { failing: true, not_ready: true, ..StartHealth::default() };
        let early = observed(world(&failing, Budget::Machines(3)), Duration::from_secs(299)).plan();
        assert_eq!((deleted(&early), early.requeue_after), (Vec::new(), Some(Duration::from_secs(1))));
        let due = observed(world(&failing, Budget::Machines(3)), AFTER).plan();
        assert_eq!(deleted(&due).len(), 3);
    }

    #[test]
    fn a_machine_that_alternates_between_a_failing_and_another_state_has_failed_all_the_time() {
        let failing = StartHealth { failing: true, not_ready: true, ..StartHealth::default() };
        let starting = StartHealth { failing: false, ..failing.clone() };
        let ready = StartHealth { not_ready: false, ..starting.clone() };
        for (between, replaced) in [(starting, 3), (ready, 0)] {
            let mut world = observed(world(&failing, Budget::Machines(3)), AFTER / 2);
            for (health, after) in [(between, Duration::ZERO), (failing.clone(), AFTER / 2)] {
                for number in 1..4 {
                    world = world.edit(&name(number), |machine| machine.start_health = health.clone());
                }
                world = observed(world, after);
            }
            assert_eq!(deleted(&world.plan()).len(), replaced);
        }
    }

    #[test]
    fn the_time_that_the_platform_reports_counts_after_a_change_of_leaders() {
        let since = Some(crate::testing::now() - jiff::SignedDuration::from_secs(300));
        let failing =
            StartHealth { failing: true, not_ready: true, not_ready_since: since, ..StartHealth::default() };
        assert_eq!(deleted(&world(&failing, Budget::Machines(3)).plan()).len(), 3);
    }

    #[test]
    fn the_same_ordinal_is_replaced_with_growing_delays_until_it_has_run() {
        let mut world = world(&starts(3), Budget::Machines(3));
        let first: Arc<str> = name(1).into();
        for delay in [20, 40, 80, 160, 320, 600, 600] {
            world.memory.start_failures.replaced(&first, world.uptime);
            world.uptime += Duration::from_secs(delay - 1);
            assert!(!deleted(&world.plan()).contains(&&*first), "not before {delay} s");
            world.uptime += Duration::from_secs(1);
            assert!(deleted(&world.plan()).contains(&&*first), "after {delay} s");
        }
        world = world.edit(&first, |machine| machine.activity = Activity::Running);
        world = observed(world, Duration::from_mins(10));
        world = observed(world, Duration::ZERO);
        assert_eq!(world.memory.start_failures.delay(&first, world.uptime), Duration::ZERO);
    }

    #[test]
    fn a_replaced_machine_that_is_gone_uses_budget_until_its_successor_is_created() {
        let mut world = world(&starts(3), Budget::Machines(1));
        let gone: Arc<str> = name(1).into();
        world.memory.start_failures.replaced(&gone, world.uptime);
        world.machines.retain(|machine| machine.id.name != gone);
        assert_eq!(deleted(&world.plan()), [""; 0]);
        // A pool that was scaled down has no successor.
        let smaller = world.pool(|pool| pool.desired = 3);
        assert_eq!(deleted(&smaller.plan()).len(), 1);
    }

    #[test]
    fn a_replacement_that_a_user_has_stopped_uses_no_budget() {
        let mut world = world(&starts(3), Budget::Machines(1)).edit(&name(1), |machine| {
            machine.activity = Activity::Stopped;
            machine.start_health = StartHealth::default();
        });
        world.memory.start_failures.replaced(&name(1).into(), world.uptime);
        assert_eq!(deleted(&world.plan()).len(), 1);
        let leaves = world.edit(&name(1), |machine| machine.terminating = true);
        assert_eq!(deleted(&leaves.plan()), [""; 0]);
    }

    #[test]
    fn no_machine_is_replaced_while_a_pool_keeps_a_surplus() {
        let surplus = |desired: usize| {
            world(&starts(3), Budget::Machines(2)).pool(|pool| {
                pool.scale_down_policy = ScaleDownPolicy::Explicit;
                pool.desired = desired;
            })
        };
        assert_eq!(deleted(&surplus(3).plan()), [""; 0]);
        assert_eq!(deleted(&surplus(4).plan()).len(), 2);
        let leaves = surplus(3).edit(&name(1), |machine| machine.terminating = true);
        assert_eq!(deleted(&leaves.plan()).len(), 2);
    }

    #[test]
    fn no_machine_is_replaced_while_the_pool_is_invalid() {
        let invalid =
            world(&starts(3), Budget::Machines(2)).pool(|pool| pool.validation_errors.push("odd".into()));
        assert_eq!(deleted(&invalid.plan()), [""; 0]);
    }

    #[test]
    fn machines_that_fail_again_are_replaced_within_the_budget() {
        let mut world = world(&StartHealth::default(), Budget::Machines(1));
        for number in 1..4 {
            world.memory.start_failures.replaced(&name(number).into(), world.uptime);
            world = world.edit(&name(number), |machine| machine.activity = Activity::Running);
        }
        world = observed(world, Duration::from_mins(5));
        for number in 1..4 {
            world = world.edit(&name(number), |machine| {
                machine.activity = Activity::NotRunning;
                machine.start_health = starts(3);
            });
        }
        let world = observed(world, Duration::ZERO);
        assert_eq!(deleted(&world.plan()).len(), 1);
    }

    #[test]
    fn a_machine_that_another_leader_replaces_uses_budget() {
        let replaced = |discards_storage: bool| {
            world(&starts(3), Budget::Machines(1)).edit(&name(1), |machine| {
                machine.terminating = true;
                machine.discards_storage = discards_storage;
            })
        };
        assert_eq!(deleted(&replaced(true).plan()), [""; 0]);
        assert_eq!(deleted(&replaced(false).plan()).len(), 1, "a user deleted it");
    }

    #[test]
    fn replacements_that_do_not_run_yet_use_budget() {
        let mut world = world(&starts(3), Budget::Machines(1));
        world.memory.start_failures.replaced(&name(1).into(), world.uptime);
        assert_eq!(deleted(&world.plan()), [""; 0]);
    }
}
