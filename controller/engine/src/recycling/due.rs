//! Which machines are due: the pool replaces them as soon as it may.

use std::time::Duration;

use super::cause::RecycleCause;
use crate::image_refresh::{ImageRefresh, is_outdated_by_image};
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// Why the machine is due; `None` if it is not. What hooks released is no part of this answer.
pub(crate) fn find_recycle_cause(observed: &ObservedPool<'_>, machine: &Machine) -> Option<RecycleCause> {
    let pool = observed.pool;
    let is_requested =
        || machine.recycling.as_ref().and_then(|known| known.requested) > Some(machine.created);
    let is_too_old = || find_remaining_lifetime(observed, machine).is_some_and(|left| left.is_zero());
    if is_requested() {
        Some(RecycleCause::Requested)
    } else if !pool.has_claims_left(machine) {
        Some(RecycleCause::Claims)
    } else if is_too_old() {
        Some(RecycleCause::Lifetime)
    } else {
        let recreates = pool.image_refresh == ImageRefresh::Recreate;
        (recreates && is_outdated_by_image(observed, machine)).then_some(RecycleCause::Image)
    }
}

/// The time until the machine is too old or one more source counts; `None` if neither happens.
pub(crate) fn find_time_until_due(observed: &ObservedPool<'_>, machine: &Machine) -> Option<Duration> {
    let lifetime = find_remaining_lifetime(observed, machine);
    lifetime.into_iter().chain(observed.memory.contents.next_settled(observed.uptime)).min()
}

/// The time until the machine is too old; zero if it is. `None` if it never is.
pub(super) fn find_remaining_lifetime(observed: &ObservedPool<'_>, machine: &Machine) -> Option<Duration> {
    let lifetime = observed.pool.recycle.lifetime_of(&machine.id.uid)?;
    Some(lifetime.saturating_sub(observed.time_since_timestamp(machine.created)))
}
