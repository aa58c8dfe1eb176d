//! Standby machines whose warm-up has ended, that are surplus, or that another one replaces.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::activation::is_outdated;
use super::setting::StandbySettings;
use super::state::{StandbyPhase, StandbyState};
use crate::ids::Uid;
use crate::membership::loss_limits::allows_recreation;
use crate::model::{Machine, MachineActivity};
use crate::plan::action::{ApplyStage, DeleteReason, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected::replan_after_protection;
use crate::recycling::find_time_until_due;

pub(crate) fn plan_standby(observed: &ObservedPool<'_>, plan: &mut Plan) {
    plan_starts(observed, plan);
    let Some(settings) = observed.standby_settings() else { return };
    let all: Vec<&Arc<Machine>> =
        observed.standby_machines().filter(|machine| !observed.is_activating(machine)).collect();
    if all.is_empty() {
        return;
    }
    let activated: BTreeSet<Uid> = plan.activated().cloned().collect();
    let staying: Vec<&Arc<Machine>> = all
        .iter()
        .copied()
        .filter(|machine| !machine.terminating && !activated.contains(&machine.id.uid))
        .collect();
    let changeable: Vec<&Arc<Machine>> =
        staying.iter().copied().filter(|machine| may_change(observed, machine)).collect();
    let surplus = staying.len().saturating_sub(settings.replicas);
    let waits =
        |machine: &Machine| surplus > 0 || machine.is_warming() || must_be_replaced(observed, machine);
    for machine in staying.iter().filter(|machine| machine.is_protected(observed.now) && waits(machine)) {
        replan_after_protection(observed, plan, machine);
    }
    let mut actions = delete_surplus(observed, &changeable, surplus);
    if surplus == 0 {
        // The next one is created before another one leaves.
        let is_settled = all.iter().all(|machine| !machine.terminating) && staying.len() >= settings.replicas;
        actions.extend(replace_one(observed, &changeable, is_settled, plan));
    }
    let leaving: BTreeSet<Uid> = actions.iter().filter_map(PoolAction::deleted_machine).cloned().collect();
    for machine in changeable.into_iter().filter(|machine| !leaving.contains(&machine.id.uid)) {
        actions.extend(stop_warm(observed, settings, machine, plan));
    }
    if actions.is_empty() {
        return;
    }
    plan.wants.standby = true;
    let pace = observed.memory.backoff(ApplyStage::Standby).batch_size(observed.uptime);
    plan.extend_by(observed, ApplyStage::Standby, pace, actions);
}

/// Starts activated machines that the platform does not start. Each is requested once.
fn plan_starts(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let awaits = |machine: &&Arc<Machine>| {
        machine.awaits_start && !machine.terminating && !observed.memory.is_start_requested(&machine.id.uid)
    };
    let starts: Vec<PoolAction> = observed
        .pool_machines()
        .filter(awaits)
        .map(|machine| PoolAction::StartActivated { machine: machine.id.clone() })
        .collect();
    if starts.is_empty() || !observed.settings.keeps_standby {
        return;
    }
    plan.wants.activate = true;
    let pace = observed.memory.backoff(ApplyStage::Activate).batch_size(observed.uptime);
    plan.extend_by(observed, ApplyStage::Activate, pace, starts);
}

/// Whether the controller may stop or delete the standby machine: a protected or reserved one stays as it is,
/// and one that a client started, whose guest may do work.
fn may_change(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let is_reserved = || observed.pool.record.reserved().any(|target| target.uid == machine.id.uid);
    let is_changeable =
        |state: &StandbyState| state.phase != StandbyPhase::Unreadable && !state.is_started_by_client();
    !machine.is_protected(observed.now)
        && machine.standby.as_deref().is_none_or(is_changeable)
        && !is_reserved()
}

/// Deletes this many machines: those with an unconfirmed deletion first, then warming ones, then the newest.
fn delete_surplus(
    observed: &ObservedPool<'_>,
    machines: &[&Arc<Machine>],
    surplus: usize,
) -> Vec<PoolAction> {
    let mut ordered = machines.to_vec();
    let sure = |machine: &Machine| !observed.memory.is_delete_unconfirmed(&machine.id.uid, observed.uptime);
    ordered.sort_unstable_by(|a, b| {
        let key = |machine: &Machine| (sure(machine), !machine.is_warming(), Reverse(machine.created));
        key(a).cmp(&key(b)).then_with(|| b.id.cmp(&a.id))
    });
    let leaving = ordered.into_iter().take(surplus);
    leaving.map(|machine| delete_standby(machine, DeleteReason::StandbySurplus)).collect()
}

fn delete_standby(machine: &Machine, reason: DeleteReason) -> PoolAction {
    PoolAction::Delete { machine: machine.id.clone(), reason }
}

/// Replaces one machine that does not warm up in time, has other disks than the revision needs, or is due for
/// its replacement, if no other one is being replaced.
fn replace_one(
    observed: &ObservedPool<'_>,
    machines: &[&Arc<Machine>],
    is_settled: bool,
    plan: &mut Plan,
) -> Option<PoolAction> {
    for machine in machines.iter().filter(|machine| is_starting(machine)) {
        if let Some(left) = warm_up_left(observed, machine) {
            plan.requeue_in(left);
        }
    }
    if let Some(next) = find_next_due(observed, machines) {
        plan.requeue_in(next);
    }
    if !is_settled || !can_create_others(observed, plan) {
        return None;
    }
    let (mut outdated, others): (Vec<&Arc<Machine>>, Vec<&Arc<Machine>>) =
        machines.iter().copied().partition(|machine| must_be_replaced(observed, machine));
    // A machine that warms up may be the one that takes the place of another.
    if others.iter().any(|machine| machine.is_warming()) {
        return None;
    }
    outdated.sort_unstable_by(|a, b| {
        let key = |machine: &Machine| (!machine.is_warming(), Reverse(machine.created));
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    outdated.first().map(|machine| delete_standby(machine, DeleteReason::StandbyReplaced))
}

/// Whether the controller creates a machine in the place of a deleted one: not of an invalid pool, and not
/// while other clients take away what the pool creates.
fn can_create_others(observed: &ObservedPool<'_>, plan: &mut Plan) -> bool {
    observed.pool.validation_errors.is_empty() && allows_recreation(observed, plan)
}

/// The time until one more of the machines may be due for its replacement.
fn find_next_due(observed: &ObservedPool<'_>, machines: &[&Arc<Machine>]) -> Option<Duration> {
    let times = machines.iter().filter_map(|machine| find_time_until_due(observed, machine));
    times.filter(|left| !left.is_zero()).min()
}

fn must_be_replaced(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    is_starting(machine) && warm_up_left(observed, machine).is_none() || is_outdated(observed, machine)
}

/// Whether the machine warms up and its guest neither is ready nor has shut down.
fn is_starting(machine: &Machine) -> bool {
    let is_between = matches!(machine.activity, MachineActivity::NotRunning | MachineActivity::Stopping);
    machine.is_warming() && is_between
}

/// The time that a warming machine has until it is replaced; `None` if that is over. The clock of the
/// controller may be ahead of that of the API server, so that a new machine seems to be old. Therefore this
/// leader must have known the machine for that long.
fn warm_up_left(observed: &ObservedPool<'_>, machine: &Machine) -> Option<Duration> {
    let known_for = observed.memory.warming_for(&machine.id.uid, observed.uptime);
    let age = observed.age_of(machine).min(known_for);
    observed.pool.start_timeout().checked_sub(age).filter(|left| !left.is_zero())
}

/// Stops a machine whose warm-up has ended. If its guest is ready, plans a pass for the end.
fn stop_warm(
    observed: &ObservedPool<'_>,
    settings: StandbySettings,
    machine: &Machine,
    plan: &mut Plan,
) -> Option<PoolAction> {
    let state = machine.standby.as_deref().filter(|state| state.phase == StandbyPhase::Warming)?;
    let stop = || PoolAction::StopStandby { machine: machine.id.clone() };
    match machine.activity {
        // Its guest has shut down by itself.
        MachineActivity::Stopped => Some(stop()),
        MachineActivity::Running => {
            let left = settings.delay.saturating_sub(ready_for(observed, machine, state));
            if left.is_zero() {
                return Some(stop());
            }
            plan.requeue_in(left);
            None
        }
        MachineActivity::Stopping | MachineActivity::NotRunning => None,
    }
}

/// For how long the guest has been ready. If the platform does not report it, since the creation.
fn ready_for(observed: &ObservedPool<'_>, machine: &Machine, state: &StandbyState) -> Duration {
    let since = state.ready_since.unwrap_or(machine.created);
    Duration::try_from(observed.now.duration_since(since)).unwrap_or_default()
}
