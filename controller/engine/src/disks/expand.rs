//! Disk expansion: disks that are smaller than their template requires.

use super::allocation::FreeDisks;
use super::disk_size::disk_expansion;
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// Plans the expansion of ephemeral disks, which `of_machines` contains, and of all disks of the pool.
pub(crate) fn plan_disk_expansions(
    observed: &ObservedPool<'_>,
    free_disks: &FreeDisks<'_>,
    of_machines: Vec<PoolAction>,
    plan: &mut Plan,
) {
    // A field that cannot be read may be a size.
    if !observed.pool.validation_errors.is_empty() {
        return;
    }
    let mut growth = of_machines;
    for pool_disk in free_disks.all() {
        let template =
            observed.pool.disks.iter().find(|known| Some(&known.name) == pool_disk.disk.template.as_ref());
        growth.extend(template.and_then(|template| disk_expansion(template, pool_disk.disk)));
    }
    if growth.is_empty() {
        return;
    }
    plan.wants.expand_disks = true;
    let pace = observed.memory.backoff(ApplyStage::ExpandDisks).batch_size(observed.uptime);
    plan.extend_by(observed, ApplyStage::ExpandDisks, pace, growth);
}

#[cfg(test)]
mod tests;
