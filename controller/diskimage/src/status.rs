//! The status of an image as it is stored.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmpool_api::diskimage::vm_disk_image::{
    VmDiskImageStatusClaim, VmDiskImageStatusDataSource, VmDiskImageStatusDataVolume,
    VmDiskImageStatusReferences, VmDiskImageStatusSnapshot,
};
use vmpool_api::diskimage::{self, VmDiskImageStatus};
use vmpool_api::kubevirt;

use crate::conditions::{ConditionBuilder, ImageConditionReason, ImageConditionType};
use crate::failure::DiskImageReason;
use crate::limits;
use crate::model::{
    BackingObjects, DeletionBlocked, DiskImage, DiskImageStatus, ImageReference, ReferenceCounts,
    ReferrerKind, name_references,
};

#[cfg(test)]
mod tests;

/// The status to store. `stored` is the status of the image, `planned` the one of the plan, and `references`
/// are all that were counted. A status that did not change is equal to the stored one.
pub fn render_image_status(
    image: &DiskImage,
    stored: Option<&VmDiskImageStatus>,
    planned: &DiskImageStatus,
    backing: &BackingObjects,
    references: &[ImageReference],
    now: Timestamp,
) -> VmDiskImageStatus {
    let name = image.key.name.clone();
    let named = |uid: &Option<String>| uid.clone().map(|uid| (name.clone(), uid));
    let snapshot = backing.snapshot.ours();
    let conditions = render_image_conditions(image, stored, planned, references, now);
    VmDiskImageStatus {
        phase: planned.phase.map(|phase| phase.to_string()),
        message: Some(limits::shorten_message(&planned.message)).filter(|message| !message.is_empty()),
        conditions: Some(conditions),
        failure_count: Some(saturating_i32(planned.failures)),
        last_failure_time: time_text(planned.last_failure),
        observed_generation: Some(image.generation),
        queued_at: time_text(planned.queued_at),
        sync_started_at: time_text(planned.sync_started_at),
        ready_at: time_text(planned.ready_at),
        progress: planned.progress.as_deref().map(limits::shorten_progress),
        reference_count: Some(saturating_i32(planned.counts.machines)),
        pool_reference_count: Some(saturating_i32(planned.counts.pools)),
        clone_reference_count: Some(saturating_i32(planned.counts.clones)),
        references: Some(planned.references.iter().map(render_reference).collect::<Vec<_>>())
            .filter(|references| !references.is_empty()),
        unreferenced_since: time_text(planned.unreferenced_since),
        expires_at: time_text(planned.expires_at),
        data_volume: named(&planned.data_volume).map(|(name, uid)| VmDiskImageStatusDataVolume { name, uid }),
        claim: named(&planned.claim).map(|(name, uid)| VmDiskImageStatusClaim { name, uid }),
        snapshot: named(&planned.snapshot).map(|(name, uid)| VmDiskImageStatusSnapshot {
            name,
            ready_to_use: snapshot.map(|snapshot| snapshot.ready),
            restore_size: snapshot.and_then(|snapshot| snapshot.restore_size.clone()),
            uid,
        }),
        data_source: named(&planned.data_source).map(|(name, uid)| VmDiskImageStatusDataSource { name, uid }),
        heal_count: Some(saturating_i32(planned.heal_count)),
        last_heal_time: time_text(planned.heal_times.last().copied())
            .or_else(|| stored.and_then(|stored| stored.last_heal_time.clone())),
        heal_times: Some(planned.heal_times.iter().map(ToString::to_string).collect::<Vec<_>>())
            .filter(|times| !times.is_empty()),
        retry_token: planned.retry_token.clone(),
    }
}

fn saturating_i32(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

fn time_text(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}

fn render_reference(reference: &ImageReference) -> VmDiskImageStatusReferences {
    let (group, kind) = group_and_kind(reference.kind);
    VmDiskImageStatusReferences {
        api_group: Some(group.to_owned()),
        kind: kind.to_owned(),
        name: reference.key.name.clone(),
        namespace: reference.key.namespace.clone(),
        uid: reference.uid.clone(),
    }
}

fn group_and_kind(kind: ReferrerKind) -> (&'static str, &'static str) {
    match kind {
        ReferrerKind::Wrapper => (diskimage::GROUP, diskimage::WRAPPER_KIND),
        ReferrerKind::Machine => ("kubevirt.io", "VirtualMachine"),
        ReferrerKind::Pool => (kubevirt::POOL_GROUP, "VirtualMachinePool"),
        ReferrerKind::DataVolume => ("cdi.kubevirt.io", "DataVolume"),
    }
}

fn render_image_conditions(
    image: &DiskImage,
    stored: Option<&VmDiskImageStatus>,
    planned: &DiskImageStatus,
    references: &[ImageReference],
    now: Timestamp,
) -> Vec<Condition> {
    let stored = stored.and_then(|stored| stored.conditions.as_ref());
    let all = ConditionBuilder { stored, generation: Some(image.generation), now };
    let condition = |kind: ImageConditionType, holds: bool, reason: &str, message: String| {
        all.condition(kind.as_str(), holds, reason, message)
    };
    let mut conditions = Vec::new();
    if let Some(reason) = planned.reason {
        let holds = reason == DiskImageReason::Synced;
        conditions.push(condition(
            ImageConditionType::Ready,
            holds,
            reason.as_str(),
            limits::shorten_message(&planned.message),
        ));
    }
    let in_use = !planned.counts.is_zero();
    let reason = if in_use { ImageConditionReason::Referenced } else { ImageConditionReason::Unreferenced };
    conditions.push(condition(
        ImageConditionType::InUse,
        in_use,
        reason.as_str(),
        describe_reference_counts(planned.counts),
    ));
    if let Some(blocked) = planned.deletion {
        let (reason, message) = match blocked {
            DeletionBlocked::InUse => (
                ImageConditionReason::InUse,
                format!("the deletion waits for {}", name_references(references)),
            ),
            DeletionBlocked::CleanupPending => {
                (ImageConditionReason::CleanupPending, limits::shorten_message(&planned.message))
            }
        };
        conditions.push(condition(ImageConditionType::DeletionBlocked, true, reason.as_str(), message));
    }
    if let Some(lost) = planned.source_volume_lost {
        let (reason, message) = if lost {
            (
                ImageConditionReason::SourceVolumeLost,
                "the claim is lost, and machines still clone the snapshot",
            )
        } else {
            (ImageConditionReason::Bound, "the claim is bound")
        };
        conditions.push(condition(
            ImageConditionType::SourceVolumeHealthy,
            !lost,
            reason.as_str(),
            message.to_owned(),
        ));
    }
    if let Some(conflict) = &planned.clone_conflict {
        conditions.push(condition(
            ImageConditionType::ClonePermitted,
            false,
            DiskImageReason::NameConflict.as_str(),
            conflict.clone(),
        ));
    }
    conditions
}

fn describe_reference_counts(counts: ReferenceCounts) -> String {
    let ReferenceCounts { machines, pools, clones } = counts;
    format!("{machines} machines, {pools} pools and {clones} unfinished clones refer to the image")
}
