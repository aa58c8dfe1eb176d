//! Whether pools have the conditions in the meaning of kstatus.
//!
//! Clients of KubeVirt know two conditions of a pool, and some compare the whole list. With KubeVirt's own
//! definition, a pool therefore has only those, unless a flag says otherwise.

use vmpool_engine::model::StatusContent;
use vmpool_platforms::Platform;

use crate::pools::pool_entry::PoolEntry;
use crate::settings::KubevirtConditions;

/// Whether the status of a pool has the conditions in the meaning of kstatus.
pub(crate) fn has_kstatus_conditions<P: Platform, R>(
    policy: KubevirtConditions,
    pool: &PoolEntry<P, R>,
) -> bool {
    match (pool.facts.status_content, policy) {
        (StatusContent::Complete, _) | (StatusContent::FailureAndPause, KubevirtConditions::Always) => true,
        (StatusContent::FailureAndPause, KubevirtConditions::Never) => false,
        (StatusContent::FailureAndPause, KubevirtConditions::Auto) => {
            P::has_definition_of_vmpool(&pool.object)
        }
    }
}
