//! The webhooks for images, wrappers and grants, and for the references to images in machines and pools.
//!
//! The rules are those of [`vmpool_diskimage::admission`]. This module decodes the objects, reads what a rule
//! needs, and spells the answer. Facts of other objects are read only for an API server that has
//! authenticated itself: otherwise a Pod could find out which images and grants exist. The controller
//! enforces the same rules.

mod objects;

use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::diskimage::finalizers::IMAGE_PROTECTION;
use vmpool_diskimage::admission::{self, AdmissionFinding, FindingSeverity, FoundImage};
use vmpool_diskimage::model::{NamedSource, NamedSourceKind, ObjectKey};
use vmpool_diskimage::read;
use vmpool_diskimage::source::SourceUrl;
use vmpool_engine::admission::{AdmissionRule, LookupOutcome, MessageOrder, PoolKind, Refusal, Refusals};
use vmpool_runtime::https::Peer;

use crate::callers::Caller;
use crate::finalizers;
use crate::handlers::serve_review;
use crate::metrics::Path;
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::state::ReviewState;

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

/// The most images whose deletion is looked up for one machine or pool.
const MAX_IMAGES: usize = 40;

/// The webhooks. The routes that the program has with the feature gate DiskImages.
pub(crate) fn image_routes(state: &ReviewState) -> Router {
    Router::new()
        .route(IMAGE_PATH, post(serve_image_review))
        .route(PROTECTION_PATH, post(serve_image_protection))
        .route(WRAPPER_PATH, post(serve_wrapper_review))
        .route(GRANT_PATH, post(serve_grant_review))
        .route(REFERENCES_PATH, post(serve_references_review))
        .with_state(state.clone())
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

type Reviewed = (ReviewAnswer, Vec<String>);

async fn serve_image_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(
        &state,
        image_review_kind("VMDiskImage"),
        Path::Image,
        peer,
        &headers,
        body,
        async |request, _| review_image(&state.allowed_urls, request),
    )
    .await
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

async fn serve_image_protection(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = image_review_kind("VMDiskImage");
    serve_review(&state, kind, Path::ImageProtection, peer, &headers, body, async |request, _| {
        (finalizers::answer_with_finalizer(request, IMAGE_PROTECTION), Vec::new())
    })
    .await
}

async fn serve_grant_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(
        &state,
        image_review_kind("VMDiskImageGrant"),
        Path::Grant,
        peer,
        &headers,
        body,
        async |request, _| review_parsed_objects(request, admission::review_grant),
    )
    .await
}

async fn serve_wrapper_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(
        &state,
        image_review_kind(WRAPPER),
        Path::Wrapper,
        peer,
        &headers,
        body,
        async |request, caller| (review_wrapper(&state, request, caller).await, Vec::new()),
    )
    .await
}

async fn review_wrapper(state: &ReviewState, request: &ReviewRequest, caller: Caller) -> ReviewAnswer {
    let (old, new) = match parse_reviewed_objects(request) {
        Ok(objects) => objects,
        Err(error) => return ReviewAnswer::malformed(error.to_string()),
    };
    let question =
        match admission::begin_wrapper_review(&request.namespace, old.as_ref(), &new, &state.allowed_urls) {
            Ok(Some(question)) if caller == Caller::ApiServer => question,
            Ok(_) => return ReviewAnswer::allowed(),
            Err(findings) => return answer_for_findings(findings),
        };
    match objects::read_question_facts(&state.reader, &request.namespace, &question).await {
        Ok(facts) => answer_for_findings(question.finish(&facts)),
        Err(error) => ReviewAnswer::undecided(&error.to_string()),
    }
}

async fn serve_references_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = image_review_kind("VMDiskImage");
    serve_review(&state, kind, Path::References, peer, &headers, body, async |request, caller| {
        (review_references(&state, request, caller).await, Vec::new())
    })
    .await
}

/// Refuses new references to images of the own namespace that are being deleted. Without a grant, the
/// deletion of an image in another namespace is not revealed; the controllers handle it. A machine that a
/// wrapper or a pool creates from an image that it refers to already is no new reference. A DataSource of the
/// namespace that leads to an image is a reference to it.
async fn review_references(state: &ReviewState, request: &ReviewRequest, caller: Caller) -> ReviewAnswer {
    let deleting = !request.object["metadata"]["deletionTimestamp"].is_null();
    if caller == Caller::Unauthenticated || deleting {
        return ReviewAnswer::allowed();
    }
    let before = read::named_sources(&request.namespace, &request.old_object);
    let named = read::named_sources(&request.namespace, &request.object);
    let is_own = |source: &&NamedSource| source.key.namespace == request.namespace;
    let new = named.difference(&before).filter(is_own);
    let known: BTreeSet<&ObjectKey> = before.iter().map(|source| &source.key).collect();
    let mut terminating = Vec::new();
    for source in new.take(MAX_IMAGES) {
        // An image that cannot be read is the controllers' business, too.
        let found = objects::read_image(&state.reader, &source.key).await;
        let is_image = matches!(found, LookupOutcome::There(_));
        terminating.extend(uid_if_terminating(found).map(|uid| (source.key.clone(), uid, BTreeSet::new())));
        if is_image || source.kind != NamedSourceKind::DataSource {
            continue;
        }
        let alias = BTreeSet::from([source.key.clone()]);
        for key in objects::images_behind(&state.reader, &source.key).await {
            if key.namespace == request.namespace && !known.contains(&key) {
                let found = objects::read_image(&state.reader, &key).await;
                terminating.extend(uid_if_terminating(found).map(|uid| (key, uid, alias.clone())));
            }
        }
    }
    for holder in admission::find_reference_holders(&request.object) {
        if terminating.is_empty() {
            break;
        }
        match objects::read_holder(&state.reader, &request.namespace, &holder).await {
            LookupOutcome::There(stored) => {
                terminating.retain(|(key, uid, aliases)| !holder.refers(&stored, key, uid, aliases));
            }
            LookupOutcome::Absent => {}
            // The controllers enforce the rule, too, and a refused machine would not be created.
            LookupOutcome::Failed(_) => return ReviewAnswer::allowed(),
        }
    }
    let terminating: Vec<_> = terminating.into_iter().map(|(key, ..)| key).collect();
    answer_for_findings(admission::review_new_references(&terminating))
}

/// The UID of an image, if it is being deleted.
fn uid_if_terminating(image: LookupOutcome<FoundImage>) -> Option<String> {
    match image {
        LookupOutcome::There(image) if image.deleting => Some(image.uid),
        _ => None,
    }
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
