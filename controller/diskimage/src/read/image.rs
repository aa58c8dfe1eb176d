//! Reads a stored image and its status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmpool_api::GoDuration;
use vmpool_api::diskimage::values::SourceType;
use vmpool_api::diskimage::{self, VmDiskImage, VmDiskImageStatus};

use crate::conditions::{ImageConditionReason, ImageConditionType, find_condition};
use crate::failure::DiskImageReason;
use crate::limits;
use crate::model::{
    DeletionBlocked, DiskImage, DiskImageStatus, ImageReference, ObjectKey, ReferenceCounts, ReferrerKind,
};
use crate::source::{SourceUrl, check_source_url};

/// A stored image. `allowed` are the URLs at which the URL of an image must begin.
pub fn read_image(stored: &VmDiskImage, allowed: &[SourceUrl]) -> DiskImage {
    let metadata = &stored.metadata;
    let annotation = |name| metadata.annotations.as_ref().and_then(|all| all.get(name));
    let finalizers = metadata.finalizers.iter().flatten();
    DiskImage {
        key: super::object_key(&stored.metadata),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        protected: finalizers.into_iter().any(|name| name == diskimage::finalizers::IMAGE_PROTECTION),
        force_release: annotation(diskimage::annotations::FORCE_RELEASE).is_some_and(|value| value == "true"),
        retry: annotation(diskimage::annotations::RETRY).map(|value| limits::shorten_retry_token(value)),
        ttl: stored.spec.ttl_after_unreferenced.as_ref().and_then(|text| {
            let duration: GoDuration = text.parse().ok()?;
            duration.to_std()
        }),
        blank: stored.spec.source_type == SourceType::Blank.to_string(),
        invalid: image_validation_error(stored, allowed),
        status: stored.status.as_ref().map(read_image_status).unwrap_or_default(),
    }
}

/// Why the image cannot be imported. The webhook refuses such an image, and it need not run.
fn image_validation_error(stored: &VmDiskImage, allowed: &[SourceUrl]) -> Option<String> {
    let spec = &stored.spec;
    let Ok(source) = spec.source_type.parse::<SourceType>() else {
        return Some(format!("the sourceType {} is unknown", spec.source_type));
    };
    match &spec.url {
        Some(url) => check_source_url(source, url, allowed).err().map(|error| error.to_string()),
        None => (source != SourceType::Blank).then(|| format!("the sourceType {source} needs a url")),
    }
}

fn parse_stored_time(text: Option<&String>) -> Option<Timestamp> {
    text.and_then(|text| text.parse().ok())
}

fn parse_stored_count(stored: Option<i32>) -> usize {
    stored.and_then(|count| count.try_into().ok()).unwrap_or_default()
}

/// The condition of this type.
fn image_condition(stored: &VmDiskImageStatus, kind: ImageConditionType) -> Option<&Condition> {
    find_condition(stored.conditions.as_ref(), kind.as_str())
}

fn read_image_status(stored: &VmDiskImageStatus) -> DiskImageStatus {
    let blocked = image_condition(stored, ImageConditionType::DeletionBlocked).map(|blocked| {
        if blocked.reason == ImageConditionReason::InUse.as_str() {
            DeletionBlocked::InUse
        } else {
            DeletionBlocked::CleanupPending
        }
    });
    DiskImageStatus {
        phase: stored.phase.as_ref().and_then(|phase| phase.parse().ok()),
        reason: image_condition(stored, ImageConditionType::Ready)
            .and_then(|ready| DiskImageReason::parse(&ready.reason)),
        message: stored.message.clone().unwrap_or_default(),
        failures: stored.failure_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
        last_failure: parse_stored_time(stored.last_failure_time.as_ref()),
        queued_at: parse_stored_time(stored.queued_at.as_ref()),
        sync_started_at: parse_stored_time(stored.sync_started_at.as_ref()),
        ready_at: parse_stored_time(stored.ready_at.as_ref()),
        progress: stored.progress.clone(),
        counts: ReferenceCounts {
            machines: parse_stored_count(stored.reference_count),
            pools: parse_stored_count(stored.pool_reference_count),
            clones: parse_stored_count(stored.clone_reference_count),
        },
        references: stored
            .references
            .iter()
            .flatten()
            .filter_map(|reference| {
                let is_ours = reference.api_group.as_deref() == Some(diskimage::GROUP);
                let kind = match (reference.kind.as_str(), is_ours) {
                    ("VirtualMachine", true) => ReferrerKind::Wrapper,
                    ("VirtualMachine", false) => ReferrerKind::Machine,
                    ("VirtualMachinePool", _) => ReferrerKind::Pool,
                    ("DataVolume", _) => ReferrerKind::DataVolume,
                    _ => return None,
                };
                let key = ObjectKey::new(&reference.namespace, &reference.name);
                Some(ImageReference { key, kind, uid: reference.uid.clone() })
            })
            .collect(),
        unreferenced_since: parse_stored_time(stored.unreferenced_since.as_ref()),
        expires_at: parse_stored_time(stored.expires_at.as_ref()),
        data_volume: stored.data_volume.as_ref().map(|object| object.uid.clone()),
        claim: stored.claim.as_ref().map(|object| object.uid.clone()),
        snapshot: stored.snapshot.as_ref().map(|object| object.uid.clone()),
        data_source: stored.data_source.as_ref().map(|object| object.uid.clone()),
        heal_count: stored.heal_count.and_then(|count| count.try_into().ok()).unwrap_or_default(),
        heal_times: stored.heal_times.iter().flatten().filter_map(|text| text.parse().ok()).collect(),
        retry_token: stored.retry_token.clone(),
        deletion: blocked,
        clone_conflict: image_condition(stored, ImageConditionType::ClonePermitted)
            .filter(|permitted| permitted.status == "False")
            .map(|permitted| permitted.message.clone()),
        source_volume_lost: image_condition(stored, ImageConditionType::SourceVolumeHealthy)
            .map(|healthy| healthy.status == "False"),
    }
}
