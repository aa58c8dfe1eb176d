//! Machines that provision, and how many creates the limits on provisioning leave.
//!
//! A machine provisions from its creation until it has been ready, is stopped, or is as old as the start
//! timeout of the pool. A machine that is broken therefore delays a pool and does not stop it. An unconfirmed
//! create provisions as well, because its machine may exist.
//!
//! A pool has a limit of its own. The limit over all pools concerns storage classes, and only the program
//! knows all pools, so it passes the creates that this limit leaves as a fact
//! ([`ClassSlots`](super::class_slots::ClassSlots)).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Machine, MachineActivity};
use crate::plan::action::PoolAction;
use crate::plan::blocker::{Blocker, LimitedProvisioning, ProvisioningScope};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::scale_up::class_slots::SLOT_AGE;

/// How many creates the limits leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProvisioningRoom {
    /// Repeated creates. Their machines count already.
    pub(super) repeated: usize,
    /// Further creates.
    pub(super) fresh: usize,
}

impl ProvisioningRoom {
    const UNLIMITED: Self = Self { repeated: usize::MAX, fresh: usize::MAX };
}

/// Whether a machine is live, not stopped, and has not been ready yet.
fn has_not_started(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    !machine.terminating
        && machine.activity != MachineActivity::Stopped
        && observed.activation_of(machine).is_none()
        && !observed.has_been_ready(machine)
}

/// The time until the machine is as old as the start timeout; `None` if it is.
fn start_time_left(observed: &ObservedPool<'_>, machine: &Machine) -> Option<Duration> {
    observed.pool.start_timeout().checked_sub(observed.age_of(machine)).filter(|left| !left.is_zero())
}

/// The machines of the pool that provision, each with the time until it no longer counts.
pub fn list_provisioning_machines<'a>(
    observed: &'a ObservedPool<'_>,
) -> impl Iterator<Item = (&'a Arc<Machine>, Duration)> {
    let waiting = observed.owned_machines().filter(|machine| has_not_started(observed, machine));
    waiting.filter_map(|machine| Some((machine, start_time_left(observed, machine)?)))
}

/// Number of machines of the pool that provision, with unconfirmed creates.
pub fn count_provisioning(observed: &ObservedPool<'_>) -> usize {
    list_provisioning_machines(observed).count() + observed.unconfirmed_creates.len()
}

/// The uptime at which a machine no longer uses slots of its storage classes; `None` if it uses none.
pub fn find_slot_end(machine: &Machine, now: Timestamp, uptime: Duration) -> Option<Duration> {
    let is_starting = !machine.terminating
        && !machine.runs()
        && !machine.been_ready
        && machine.activated.is_none_or(|activated| activated > now)
        && machine.activity != MachineActivity::Stopped;
    let age = Duration::try_from(now.duration_since(machine.created)).unwrap_or_default();
    let left = SLOT_AGE.checked_sub(age).filter(|left| is_starting && !left.is_zero())?;
    Some(uptime + left)
}

/// The uptimes at which machines of the pool no longer use slots of its storage classes, with unconfirmed
/// creates.
pub fn list_slot_ends(observed: &ObservedPool<'_>) -> Vec<Duration> {
    let confirmed =
        observed.owned_machines().filter_map(|machine| find_slot_end(machine, observed.now, observed.uptime));
    let unconfirmed = observed.unconfirmed_creates.iter().map(|create| create.since + SLOT_AGE);
    confirmed.chain(unconfirmed).collect()
}

/// The machines of the pool that are older than the start timeout and have not been ready.
pub(crate) fn list_overdue_machines<'a>(
    observed: &'a ObservedPool<'_>,
) -> impl Iterator<Item = &'a Arc<Machine>> {
    let waiting = observed.pool_machines().filter(|machine| has_not_started(observed, machine));
    waiting.filter(|machine| start_time_left(observed, machine).is_none())
}

/// How many further machines `plan` creates. Creates that it repeats are not further ones.
pub fn count_fresh_creates(observed: &ObservedPool<'_>, plan: &Plan) -> usize {
    let is_fresh = |action: &&PoolAction| match action {
        PoolAction::Create { draft } => {
            !observed.unconfirmed_creates.iter().any(|unconfirmed| unconfirmed.name == draft.name)
        }
        _ => false,
    };
    plan.actions.iter().filter(is_fresh).count()
}

/// The creates that the limits leave. If they are fewer than `repeated` and `missing`, the plan reports the
/// limit, and asks for a pass when the next machine no longer counts.
pub(super) fn limit_provisioning(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    repeated: usize,
    missing: usize,
) -> ProvisioningRoom {
    let mut room = limit_in_pool(observed, plan, repeated, missing);
    if let Some(slots) = &observed.class_slots
        && slots.free < missing.min(room.fresh)
    {
        room.fresh = slots.free;
        report_limit(
            plan,
            Some(slots.next),
            LimitedProvisioning {
                scope: ProvisioningScope::StorageClass(slots.class.clone()),
                limit: slots.limit,
                provisioning: slots.provisioning,
            },
        );
    }
    room
}

fn limit_in_pool(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    repeated: usize,
    missing: usize,
) -> ProvisioningRoom {
    let Some(limit) = observed.provisioning_limit() else { return ProvisioningRoom::UNLIMITED };
    let (mut confirmed, mut next) = (0, None);
    for (_, left) in list_provisioning_machines(observed) {
        confirmed += 1;
        next = Some(next.map_or(left, |sooner: Duration| sooner.min(left)));
    }
    let unconfirmed = observed.unconfirmed_creates.len();
    let repeats = limit.saturating_sub(confirmed);
    let room = ProvisioningRoom { repeated: repeats, fresh: repeats.saturating_sub(unconfirmed) };
    if room.repeated < repeated || room.fresh < missing {
        // An unconfirmed create ends without an event if the API server never carries it out.
        let settled = (unconfirmed > 0).then_some(REQUEST_TIMEOUT);
        report_limit(
            plan,
            next.into_iter().chain(settled).min(),
            LimitedProvisioning {
                scope: ProvisioningScope::Pool,
                limit,
                provisioning: confirmed + unconfirmed,
            },
        );
    }
    room
}

fn report_limit(plan: &mut Plan, next: Option<Duration>, limited: LimitedProvisioning) {
    plan.blockers.push(Blocker::Provisioning(limited));
    if let Some(next) = next {
        plan.requeue_in(next);
    }
}

/// Plans a pass for the time at which the next machine counts as overdue, which the status then reports.
pub(super) fn await_start_timeout(observed: &ObservedPool<'_>, plan: &mut Plan) {
    if observed.provisioning_limit().is_none() {
        return;
    }
    if let Some(left) = list_provisioning_machines(observed).map(|(_, left)| left).min() {
        plan.requeue_in(left);
    }
}

#[cfg(test)]
mod tests;
