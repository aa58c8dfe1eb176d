//! Admission of images, wrappers and grants: the rules that the schemas cannot state.
//!
//! Nothing here blocks a deletion, and an update is checked only for what it changes: an object that became
//! invalid can still be labeled, released and deleted. The controllers check the same rules again, because
//! the webhook need not run.

mod existing;
mod finding;
mod reads;
mod references;
mod wrapper;

#[cfg(test)]
mod tests;

use vmpool_api::diskimage::{VmDiskImage, VmDiskImageGrant, values::SourceType};

pub use finding::{AdmissionFinding, FindingSeverity, ImageRule};
pub use reads::FactReadError;
pub use references::review_references;
pub use wrapper::{review_wrapper, review_wrapper_passwords};

use crate::source::{SourceUrl, check_source_url};

/// Reviews the creation of an image, or its update.
pub fn review_image(
    old: Option<&VmDiskImage>,
    new: &VmDiskImage,
    allowed: &[SourceUrl],
) -> Vec<AdmissionFinding> {
    let unchanged =
        old.is_some_and(|old| old.spec.url == new.spec.url && old.spec.source_type == new.spec.source_type);
    if new.metadata.deletion_timestamp.is_some() || unchanged {
        return Vec::new();
    }
    let url = review_image_url("spec.url", &new.spec.source_type, new.spec.url.as_deref(), allowed);
    url.into_iter().collect()
}

/// The finding about the URL of an image. It does not contain the URL, whose query can be a secret.
fn review_image_url(
    field: &str,
    source: &str,
    url: Option<&str>,
    allowed: &[SourceUrl],
) -> Option<AdmissionFinding> {
    // The schema refuses unknown source types.
    let source: SourceType = source.parse().ok()?;
    let error = check_source_url(source, url?, allowed).err()?;
    Some(AdmissionFinding::new(
        ImageRule::Url,
        field,
        error.to_string(),
        "use a URL that the controller may import",
    ))
}

/// Warns about the deletion of an image that is in use. The deletion itself is never refused.
pub fn review_image_deletion(image: &VmDiskImage) -> Option<AdmissionFinding> {
    let status = image.status.as_ref()?;
    let count = |value: Option<i32>| i64::from(value.unwrap_or(0));
    let counts =
        [status.reference_count, status.pool_reference_count, status.clone_reference_count].map(count);
    let total: i64 = counts.iter().sum();
    (total > 0).then(|| {
        let [machines, pools, clones] = counts;
        let counts =
            format!("{machines} machines, {pools} pools and {clones} unfinished clones use the image");
        AdmissionFinding::new(
            ImageRule::Deletion,
            "metadata.name",
            counts,
            "it stays in Terminating until they are gone",
        )
    })
}

/// Reviews the creation of a grant, or its update.
pub fn review_grant(old: Option<&VmDiskImageGrant>, new: &VmDiskImageGrant) -> Vec<AdmissionFinding> {
    let prefixes = |grant: &VmDiskImageGrant| {
        grant.spec.create.as_ref().and_then(|create| create.url_prefixes.clone()).unwrap_or_default()
    };
    let wanted = prefixes(new);
    if new.metadata.deletion_timestamp.is_some() || old.is_some_and(|old| prefixes(old) == wanted) {
        return Vec::new();
    }
    let refused = wanted.iter().enumerate().filter_map(|(at, prefix)| {
        let error = SourceUrl::parse(prefix).err()?;
        let field = format!("spec.create.urlPrefixes[{at}]");
        Some(AdmissionFinding::new(
            ImageRule::Prefix,
            &field,
            error.to_string(),
            "the controller would ignore the entry",
        ))
    });
    refused.collect()
}
