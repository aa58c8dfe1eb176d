//! The condition `ImageOutdated`: machines with disks from other content than the sources of the pool lead
//! to.

use std::sync::Arc;

use super::text::{list_some_names, machine_count_text};
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::image_refresh::{ImageRefresh, find_image_outdated, find_outdated_sources};
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// The condition; `None` if no machine is outdated by image.
pub(super) fn image_outdated_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    let machines: Vec<&Arc<Machine>> = find_image_outdated(observed).collect();
    if machines.is_empty() {
        return None;
    }
    let sources = find_outdated_sources(observed, &machines);
    let (sources, names) = (sources.iter().map(|source| &**source), machines.iter());
    let have = if machines.len() == 1 { "has" } else { "have" };
    Some(ComputedCondition {
        kind: ConditionType::ImageOutdated,
        holds: true,
        reason: ConditionReason::SourceChanged,
        message: format!(
            "{} {have} disks from earlier content of {}: {}; {}",
            machine_count_text(machines.len()),
            list_some_names(sources.collect()),
            list_some_names(names.map(|machine| &*machine.id.name).collect()),
            describe_refresh(observed.pool.image_refresh)
        ),
    })
}

/// What the controller does about them.
fn describe_refresh(refresh: ImageRefresh) -> &'static str {
    match refresh {
        ImageRefresh::Off | ImageRefresh::Report => {
            "the controller leaves them as they are: delete them, or set imageRefresh to Recreate"
        }
        ImageRefresh::Recreate => "the controller replaces them within the disruption budget",
    }
}
