//! Activation: stopped standby machines that become active because machines are missing.
//!
//! An unconfirmed activation counts as an active machine, and the plan repeats it first. The repetition reads
//! the machine live, so that nothing replaces a machine that is active by now.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::state::{StandbyPhase, StandbyState};
use crate::disks::allocation::FreeDisks;
use crate::model::{InstanceTransition, Machine, Naming};
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::recycling::find_recycle_cause;
use crate::rollout::progress::leftover_devices;
use crate::rollout::{draft_machine_disks, find_merge_base, lacks_device};
use crate::scale_up::names::ordinal_of;

/// The number of machines with an unconfirmed activation.
pub(crate) fn count_activating(observed: &ObservedPool<'_>) -> usize {
    list_activating(observed).count()
}

fn list_activating<'a>(observed: &'a ObservedPool<'_>) -> impl Iterator<Item = &'a Arc<Machine>> {
    observed.standby_machines().filter(|machine| !machine.terminating && observed.is_activating(machine))
}

/// Plans the activation of standby machines. Of the unconfirmed ones, `repeated` are repeated, and `missing`
/// further machines are missing. Returns how many of the latter need no create.
pub(crate) fn plan_activations(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    repeated: usize,
    missing: usize,
    plan: &mut Plan,
) -> usize {
    if observed.standby_settings().is_none() {
        return 0;
    }
    let repeats: Vec<&Arc<Machine>> = list_activating(observed).take(repeated).collect();
    let candidates = if missing == 0 { Vec::new() } else { list_candidates(observed) };
    if repeats.is_empty() && candidates.is_empty() {
        return 0;
    }
    plan.wants.activate = true;
    // Other machines are created meanwhile.
    let width = match observed.memory.backoff(ApplyStage::Activate).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => {
            plan.back_off(ApplyStage::Activate, left);
            return 0;
        }
    };
    let repeats: Vec<PoolAction> =
        repeats.into_iter().filter_map(|machine| plan_activation(observed, free_disks, machine)).collect();
    let drafted = candidates.into_iter().filter_map(|machine| plan_activation(observed, free_disks, machine));
    let fresh: Vec<PoolAction> = drafted.take(missing).collect();
    let covered = fresh.len();
    if repeats.len() + covered > width {
        plan.requeue_in(Duration::ZERO);
    }
    plan.actions.extend(repeats.into_iter().chain(fresh).take(width));
    covered
}

/// The activation of a machine; `None` if its disks need a repair first.
fn plan_activation(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Arc<Machine>,
) -> Option<PoolAction> {
    if free_disks.is_repaired(&machine.id.name) {
        return None;
    }
    Some(PoolAction::Activate {
        machine: machine.id.clone(),
        base: find_merge_base(observed, machine),
        to: observed.pool.revision.id.clone(),
        disks: draft_machine_disks(observed, free_disks, machine).ok()?,
    })
}

/// The machines that can be activated, in the order of their activation. Those that rejected their last
/// activation come last.
fn list_candidates<'a>(observed: &'a ObservedPool<'_>) -> Vec<&'a Arc<Machine>> {
    let named = observed.pool.record.target_uids();
    let is_candidate =
        |machine: &&Arc<Machine>| can_be_activated(observed, machine) && !named.contains(&machine.id.uid);
    let mut candidates: Vec<&Arc<Machine>> = observed.standby_machines().filter(is_candidate).collect();
    let refused = |machine: &Machine| observed.memory.was_refused(&machine.id.name);
    candidates.sort_unstable_by(|a, b| {
        refused(a).cmp(&refused(b)).then_with(|| compare_activation_order(observed, a, b))
    });
    candidates
}

fn can_be_activated(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let is_stopped =
        |state: &StandbyState| state.phase == StandbyPhase::Stopped && state.kept_off && machine.is_off();
    machine.standby.as_deref().is_some_and(is_stopped)
        && !machine.terminating
        && !machine.restoring
        && !machine.is_protected(observed.now)
        && !observed.is_activating(machine)
        && !observed.memory.is_delete_unconfirmed(&machine.id.uid, observed.uptime)
        && !is_outdated(observed, machine)
}

/// The lowest ordinal first, or else the oldest.
fn compare_activation_order(observed: &ObservedPool<'_>, a: &Machine, b: &Machine) -> Ordering {
    let ordinal = |machine: &Machine| match observed.pool.naming {
        Naming::Ordinal => ordinal_of(&observed.pool.id.name, &machine.id.name),
        Naming::Random => None,
    };
    let key = |machine: &Machine| (ordinal(machine), machine.created);
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}

/// Whether another standby machine must take its place before an activation: the current revision needs other
/// disks than it has, so that the activation cannot bring the revision, or the pool would recycle it at once.
pub(super) fn is_outdated(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    needs_other_disks(observed, machine) || find_recycle_cause(observed, machine).is_some()
}

fn needs_other_disks(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let pool = observed.pool;
    let transition = || pool.transition(machine.written.as_ref(), &pool.revision.id);
    leftover_devices(pool, machine).next().is_some()
        || lacks_device(observed, machine)
        || !pool.storage_templates.is_empty() && transition() == InstanceTransition::Recreation
}
