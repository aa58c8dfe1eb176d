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
use crate::source::headers::check_extra_header;
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
        upload: stored.spec.source_type == SourceType::Upload.to_string(),
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
    let mut headers = spec.extra_headers.iter().flatten();
    if let Some(error) = headers.find_map(|header| check_extra_header(header).err()) {
        return Some(error.to_string());
    }
    if source.has_source_name() {
        return source_name_error(stored, source);
    }
    match &spec.url {
        Some(url) => check_source_url(source, url, allowed).err().map(|error| error.to_string()),
        None => source.has_url().then(|| format!("the sourceType {source} needs a url")),
    }
}

/// Why the object that an image names cannot be cloned. The objects of the image have its own name.
fn source_name_error(stored: &VmDiskImage, source: SourceType) -> Option<String> {
    let Some(name) = &stored.spec.source_name else {
        return Some(format!("the sourceType {source} needs a sourceName"));
    };
    (stored.metadata.name.as_ref() == Some(name)).then(|| {
        "sourceName is the name of the image, which its own objects need; create an image with another name"
            .to_owned()
    })
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

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::http(json!({"sourceType": "http", "url": "https://images.example.com/a"}), None)]
    #[case::gcs(json!({"sourceType": "gcs", "url": "gs://bucket/a"}), None)]
    #[case::upload(json!({"sourceType": "upload"}), None)]
    #[case::a_claim(json!({"sourceType": "pvc", "sourceName": "golden"}), None)]
    #[case::a_claim_without_a_name(json!({"sourceType": "pvc"}), Some("needs a sourceName"))]
    #[case::its_own_snapshot(
        json!({"sourceType": "snapshot", "sourceName": "debian"}), Some("the name of the image"))]
    #[case::gcs_without_a_url(json!({"sourceType": "gcs"}), Some("needs a url"))]
    #[case::a_bucket_that_is_a_metadata_service(
        json!({"sourceType": "gcs", "url": "https://metadata.google.internal/a"}), Some("metadata address"))]
    #[case::a_token_in_a_header(
        json!({"sourceType": "http", "url": "https://images.example.com/a", "extraHeaders": ["X-Token: 1"]}),
        Some("secretExtraHeaders"))]
    fn an_image_is_imported_only_if_its_source_is_valid(#[case] spec: Value, #[case] problem: Option<&str>) {
        let mut stored = json!({
            "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage",
            "metadata": {"name": "debian", "namespace": "images"}, "spec": spec,
        });
        stored["spec"]["diskSize"] = json!("1Gi");
        let invalid = read_image(&serde_json::from_value(stored).unwrap(), &[]).invalid;
        match (invalid, problem) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }
}
