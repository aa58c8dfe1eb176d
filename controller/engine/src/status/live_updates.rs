//! Live updates that the guests of machines do not have yet, although their machines have the revision.

use super::problem::find_stuck_machines;
use super::text::join_message_parts;
use crate::model::{InstanceTransition, Machine, Pool};
use crate::plan::observed::ObservedPool;
use crate::rollout::progress::required_transition;

/// Maximum number of machines that [`describe_pending_updates`] names.
const NAMED: usize = 3;

/// The machines that the rollout waits for because their guests have lacked a live update for
/// [`PROBLEM_AGE`](crate::memory::PROBLEM_AGE), with the message of the platform. `None` if there are none.
pub(super) fn describe_pending_updates(observed: &ObservedPool<'_>) -> Option<String> {
    let mut waiting =
        find_stuck_machines(observed, |machine| pending_update(observed.pool, machine).is_some());
    waiting.sort_unstable_by(|one, other| one.id.name.cmp(&other.id.name));
    let more = waiting.len().saturating_sub(NAMED);
    let named = waiting.iter().take(NAMED).filter_map(|machine| {
        let message = pending_update(observed.pool, machine)?;
        Some(format!("machine {} waits for a live update: {message}", machine.id.name))
    });
    let others = match more {
        0 => None,
        1 => Some("1 more machine waits for a live update".to_owned()),
        more => Some(format!("{more} more machines wait for a live update")),
    };
    let parts: Vec<String> = named.chain(others).collect();
    (!parts.is_empty()).then(|| join_message_parts(parts))
}

/// Why the guest of a machine with the current revision does not have it yet, if the platform applies it
/// without a restart.
fn pending_update<'a>(pool: &Pool, machine: &'a Machine) -> Option<&'a str> {
    let message = machine.instance.as_ref()?.pending_update.as_deref()?;
    let written = machine.written.as_ref().filter(|written| pool.is_current(written))?;
    let is_live = required_transition(pool, machine, written) == InstanceTransition::LiveUpdate;
    (is_live && pool.rollout.selection.includes(machine)).then_some(message)
}
