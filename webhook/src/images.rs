//! The webhooks for images, wrappers and grants, and for the references to images in machines and pools.
//!
//! The rules are those of [`vmpool_diskimage::admission`]. This module decodes the objects and spells the
//! answer. Facts of other objects are read only for an API server that has authenticated itself: otherwise a
//! Pod could find out which images and grants exist. The controller enforces the same rules.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::diskimage::finalizers::IMAGE_PROTECTION;
use vmpool_decision::{AdmissionRead, AdmissionReads, Step};
use vmpool_diskimage::admission::{self, AdmissionFinding, FindingSeverity};
use vmpool_diskimage::source::SourceUrl;
use vmpool_engine::admission::{AdmissionRule, MessageOrder, PoolKind, Refusal, Refusals};

use crate::finalizers;
use crate::metrics::Path;
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::webhook::{Reviewed, WebhookEntry};

/// The path of the webhook for images.
pub(crate) const IMAGE_PATH: &str = "/validate-vmpool-dev-v1alpha1-vmdiskimage";
/// The path of the webhook that adds the finalizer to images.
pub(crate) const PROTECTION_PATH: &str = "/mutate-vmpool-dev-v1alpha1-vmdiskimage";
/// The path of the webhook for wrappers.
pub(crate) const WRAPPER_PATH: &str = "/validate-vmpool-dev-v1alpha1-wrapper";
/// The path of the webhook for grants.
pub(crate) const GRANT_PATH: &str = "/validate-vmpool-dev-v1alpha1-vmdiskimagegrant";
/// The path of the webhook for machines and pools that name images.
pub(crate) const REFERENCES_PATH: &str = "/validate-disk-image-references";

/// The kind of wrappers. Its name is also that of a kind of the platforms.
const WRAPPER: &str = vmpool_api::diskimage::WRAPPER_KIND;

/// The webhooks that the program has with the feature gate DiskImages.
pub(crate) fn image_webhooks(allowed: &Arc<[SourceUrl]>) -> Vec<WebhookEntry> {
    let (of_images, of_wrappers) = (Arc::clone(allowed), Arc::clone(allowed));
    let (image, grant) = (image_review_kind("VMDiskImage"), image_review_kind("VMDiskImageGrant"));
    vec![
        WebhookEntry::without_reads(IMAGE_PATH, Path::Image, image, move |request| {
            review_image(&of_images, request)
        }),
        WebhookEntry::without_reads(PROTECTION_PATH, Path::ImageProtection, image, |request| {
            finalizers::answer_with_finalizer(request, IMAGE_PROTECTION).into()
        }),
        WebhookEntry::new(WRAPPER_PATH, Path::Wrapper, image_review_kind(WRAPPER), move |request, reads| {
            review_wrapper(&of_wrappers, request, reads)
        }),
        WebhookEntry::without_reads(GRANT_PATH, Path::Grant, grant, |request| {
            review_parsed_objects(request, admission::review_grant)
        }),
        WebhookEntry::new(REFERENCES_PATH, Path::References, image, |request, reads| {
            let ReviewRequest { namespace, object, old_object, .. } = request;
            let findings = admission::review_references(namespace, old_object, object, reads)?;
            Ok(answer_for_findings(findings).into())
        }),
    ]
}

fn image_review_kind(kind: &'static str) -> PoolKind {
    PoolKind {
        group: vmpool_api::diskimage::GROUP,
        kind,
        templates: "its spec",
        small_fields: &["spec"],
        pool_path: "",
        setup_warning: None,
    }
}

fn review_image(allowed: &[SourceUrl], request: &ReviewRequest) -> Reviewed {
    if request.operation == "DELETE" {
        // An image that cannot be read is deleted without a warning.
        let warning =
            parse_object(&request.old_object).ok().and_then(|image| admission::review_image_deletion(&image));
        return (ReviewAnswer::allowed(), finding_warnings(warning));
    }
    review_parsed_objects(request, |old, new| admission::review_image(old, new, allowed))
}

fn review_wrapper(
    allowed: &[SourceUrl],
    request: &ReviewRequest,
    reads: &AdmissionReads,
) -> Step<Reviewed, AdmissionRead> {
    let (old, new) = match parse_reviewed_objects(request) {
        Ok(objects) => objects,
        Err(error) => return Ok(ReviewAnswer::malformed(error.to_string()).into()),
    };
    let found = admission::review_wrapper(&request.namespace, old.as_ref(), &new, allowed, reads)?;
    let warning = admission::review_wrapper_passwords(old.as_ref(), &new);
    Ok(match found {
        Ok(findings) => (answer_for_findings(findings), finding_warnings(warning)),
        Err(error) => ReviewAnswer::undecided(&error.to_string()).into(),
    })
}

/// Reviews a create or an update.
fn review_parsed_objects<T: DeserializeOwned>(
    request: &ReviewRequest,
    review: impl FnOnce(Option<&T>, &T) -> Vec<AdmissionFinding>,
) -> Reviewed {
    let answer = match parse_reviewed_objects(request) {
        Ok((old, new)) => answer_for_findings(review(old.as_ref(), &new)),
        Err(error) => ReviewAnswer::malformed(error.to_string()),
    };
    (answer, Vec::new())
}

/// A reviewed object is not of its kind. The client receives this text alone, so it contains the cause.
#[derive(Debug, thiserror::Error)]
#[error("reading the object: {0}")]
struct ReviewedObjectError(#[source] serde_json::Error);

/// The old object of an update, and the new object. Objects of other operations are not reviewed.
fn parse_reviewed_objects<T: DeserializeOwned>(
    request: &ReviewRequest,
) -> Result<(Option<T>, T), ReviewedObjectError> {
    let old = match request.operation.as_str() {
        // An object that was stored by an older version may be unreadable. All of the new one is then
        // reviewed.
        "UPDATE" => parse_object(&request.old_object).ok(),
        _ => None,
    };
    Ok((old, parse_object(&request.object)?))
}

fn parse_object<T: DeserializeOwned>(object: &Value) -> Result<T, ReviewedObjectError> {
    T::deserialize(object).map_err(ReviewedObjectError)
}

fn answer_for_findings(findings: Vec<AdmissionFinding>) -> ReviewAnswer {
    let refusals = findings.into_iter().map(|finding| Refusal {
        rule: rule_of_finding(&finding),
        field: finding.field,
        // Never the value: the query of a URL can be a secret.
        value: "...".to_owned(),
        detail: format!("{}; {}", finding.reason, finding.way_out),
        order: MessageOrder::FieldFirst,
    });
    Refusals::new(refusals).map_or_else(ReviewAnswer::allowed, ReviewAnswer::refused)
}

fn finding_warnings(findings: impl IntoIterator<Item = AdmissionFinding>) -> Vec<String> {
    let spelled = findings.into_iter().map(|finding| {
        format!("{}: {}; {} (rule {})", finding.field, finding.reason, finding.way_out, finding.rule.id())
    });
    spelled.collect()
}

fn rule_of_finding(finding: &AdmissionFinding) -> AdmissionRule {
    let severity = match finding.rule.severity() {
        FindingSeverity::Invalid => vmpool_engine::admission::RuleSeverity::Invalid,
        FindingSeverity::Forbidden => vmpool_engine::admission::RuleSeverity::Forbidden,
        FindingSeverity::Warning => vmpool_engine::admission::RuleSeverity::Warning,
    };
    AdmissionRule::new(finding.rule.id(), severity)
}
