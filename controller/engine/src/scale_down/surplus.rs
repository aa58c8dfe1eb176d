//! Machines above the desired number that the pool keeps, and what the status says about them.

use std::sync::Arc;

use crate::model::{Machine, Pool, StatusContent};
use crate::plan::observed::ObservedPool;
use crate::status::text::machine_count_text;

/// How many of the `live` machines are no targets of accepted removals.
pub(crate) fn count_staying_machines(observed: &ObservedPool<'_>, live: usize) -> usize {
    let named = observed.pool.record.accepted_uids();
    let leaving = |machine: &&Arc<Machine>| !machine.terminating && named.contains(&machine.id.uid);
    live - observed.pool_machines().filter(leaving).count()
}

/// Whether a surplus is as the spec describes it. Where a user chooses a strategy without scale-in by the
/// controller, the machines leave when clients delete them, and are not replaced. With the other strategy,
/// they leave when they are stopped.
pub(crate) fn keeps_surplus(pool: &Pool) -> bool {
    let policy = pool.scale_down_policy;
    if policy.deletes_only_targets() {
        return pool.status_content == StatusContent::FailureAndPause;
    }
    !policy.deletes_whole_surplus()
}

/// What to do about the surplus of an Explicit pool with this number of staying machines; `None` if it has
/// none, or if another policy deletes it.
pub(crate) fn explicit_surplus(pool: &Pool, staying: usize) -> Option<String> {
    let is_stuck = pool.scale_down_policy.deletes_only_targets() && staying > pool.desired;
    is_stuck.then(|| explicit_surplus_text(staying, pool.desired))
}

/// A targeted removal lowers `replicas`, but not below 0.
fn explicit_surplus_text(staying: usize, desired: usize) -> String {
    let surplus = staying - desired;
    let (exceed, all) = if staying == 1 { ("exceeds", "it") } else { ("exceed", "all") };
    let again = if desired == 0 {
        String::new()
    } else {
        format!(", which lowers replicas, and then set replicas to {desired} again")
    };
    format!(
        "{} {exceed} replicas: {desired}, and with scaleDownPolicy Explicit the controller deletes only the targets of \
         targeted removals: remove {} by name{again}; or set replicas to {staying} to keep {all}",
        machine_count_text(staying),
        machine_count_text(surplus)
    )
}
