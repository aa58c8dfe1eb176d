//! The webhooks for images, wrappers and grants, and for the references to images in machines and pools.
//!
//! The rules are those of [`vmpool_diskimage::admission`]. This module decodes the objects, reads what a rule needs, and
//! spells the answer. Facts of other objects are read only for an API server that has authenticated itself: otherwise a Pod
//! could find out which images and grants exist. The controller enforces the same rules.

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
use vmpool_diskimage::admission::{self, Finding, FoundImage, Severity};
use vmpool_diskimage::model::{Key, NamedSource, SourceKind};
use vmpool_diskimage::read;
use vmpool_diskimage::source::SourceUrl;
use vmpool_engine::admission::{Found, Kind, Refusal, Refusals, Rule};
use vmpool_runtime::https::Peer;

use crate::callers::Caller;
use crate::finalizers;
use crate::handlers::handle;
use crate::metrics::Path;
use crate::review::{Answer, Request};
use crate::state::State;

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
pub(crate) fn routes(state: &State) -> Router {
    Router::new()
        .route(IMAGE_PATH, post(image))
        .route(PROTECTION_PATH, post(protect))
        .route(WRAPPER_PATH, post(wrapper))
        .route(GRANT_PATH, post(grant))
        .route(REFERENCES_PATH, post(references))
        .with_state(state.clone())
}

fn kind(kind: &'static str) -> Kind {
    Kind {
        group: vmpool_api::diskimage::GROUP,
        kind,
        templates: "its spec",
        small_fields: &["spec"],
        pool_path: "",
        setup_warning: None,
    }
}

type Reviewed = (Answer, Vec<String>);

async fn image(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, kind("VMDiskImage"), Path::Image, peer, &headers, body, async |request, _| {
        review_image(&state.allowed_urls, request)
    })
    .await
}

fn review_image(allowed: &[SourceUrl], request: &Request) -> Reviewed {
    if request.operation == "DELETE" {
        // An image that cannot be read is deleted without a warning.
        let warning = parse(&request.old_object).ok().and_then(|image| admission::deletion(&image));
        return (Answer::allowed(), warnings(warning));
    }
    reviewed(request, |old, new| admission::image(old, new, allowed))
}

async fn protect(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind("VMDiskImage");
    handle(&state, kind, Path::ImageProtection, peer, &headers, body, async |request, _| {
        (finalizers::added(request, IMAGE_PROTECTION), Vec::new())
    })
    .await
}

async fn grant(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, kind("VMDiskImageGrant"), Path::Grant, peer, &headers, body, async |request, _| {
        reviewed(request, admission::grant)
    })
    .await
}

async fn wrapper(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, kind(WRAPPER), Path::Wrapper, peer, &headers, body, async |request, caller| {
        (review_wrapper(&state, request, caller).await, Vec::new())
    })
    .await
}

async fn review_wrapper(state: &State, request: &Request, caller: Caller) -> Answer {
    let (old, new) = match objects(request) {
        Ok(objects) => objects,
        Err(error) => return Answer::malformed(error),
    };
    let question = match admission::begin(&request.namespace, old.as_ref(), &new, &state.allowed_urls) {
        Ok(Some(question)) if caller == Caller::ApiServer => question,
        Ok(_) => return Answer::allowed(),
        Err(findings) => return refused(findings),
    };
    match objects::facts(&state.reader, &request.namespace, &question).await {
        Ok(facts) => refused(question.finish(&facts)),
        Err(error) => Answer::undecided(&error),
    }
}

async fn references(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind("VMDiskImage");
    handle(&state, kind, Path::References, peer, &headers, body, async |request, caller| {
        (review_references(&state, request, caller).await, Vec::new())
    })
    .await
}

/// Refuses new references to images of the own namespace that are being deleted. Without a grant, the deletion of an image in
/// another namespace is not revealed; the controllers handle it. A machine that a wrapper or a pool creates from an image that it
/// refers to already is no new reference. A DataSource of the namespace that leads to an image is a reference to it.
async fn review_references(state: &State, request: &Request, caller: Caller) -> Answer {
    let deleting = !request.object["metadata"]["deletionTimestamp"].is_null();
    if caller == Caller::Unauthenticated || deleting {
        return Answer::allowed();
    }
    let before = read::named_sources(&request.namespace, &request.old_object);
    let named = read::named_sources(&request.namespace, &request.object);
    let is_own = |source: &&NamedSource| source.key.namespace == request.namespace;
    let new = named.difference(&before).filter(is_own);
    let known: BTreeSet<&Key> = before.iter().map(|source| &source.key).collect();
    let mut terminating = Vec::new();
    for source in new.take(MAX_IMAGES) {
        // An image that cannot be read is the controllers' business, too.
        let found = objects::image(&state.reader, &source.key).await;
        let is_image = matches!(found, Found::There(_));
        terminating.extend(found_terminating(found).map(|uid| (source.key.clone(), uid, BTreeSet::new())));
        if is_image || source.kind != SourceKind::DataSource {
            continue;
        }
        let alias = BTreeSet::from([source.key.clone()]);
        for key in objects::images_behind(&state.reader, &source.key).await {
            if key.namespace == request.namespace && !known.contains(&key) {
                let found = objects::image(&state.reader, &key).await;
                terminating.extend(found_terminating(found).map(|uid| (key, uid, alias.clone())));
            }
        }
    }
    for holder in admission::find_holders(&request.object) {
        if terminating.is_empty() {
            break;
        }
        match objects::read_holder(&state.reader, &request.namespace, &holder).await {
            Found::There(stored) => {
                terminating.retain(|(key, uid, aliases)| !holder.refers(&stored, key, uid, aliases));
            }
            Found::Absent => {}
            // The controllers enforce the rule, too, and a refused machine would not be created.
            Found::Failed(_) => return Answer::allowed(),
        }
    }
    let terminating: Vec<_> = terminating.into_iter().map(|(key, ..)| key).collect();
    refused(admission::references(&terminating))
}

/// The UID of an image, if it is being deleted.
fn found_terminating(image: Found<FoundImage>) -> Option<String> {
    match image {
        Found::There(image) if image.deleting => Some(image.uid),
        _ => None,
    }
}

/// Reviews a create or an update.
fn reviewed<T: DeserializeOwned>(
    request: &Request,
    review: impl FnOnce(Option<&T>, &T) -> Vec<Finding>,
) -> Reviewed {
    let answer = match objects(request) {
        Ok((old, new)) => refused(review(old.as_ref(), &new)),
        Err(error) => Answer::malformed(error),
    };
    (answer, Vec::new())
}

/// The old object of an update, and the new object. Objects of other operations are not reviewed.
fn objects<T: DeserializeOwned>(request: &Request) -> Result<(Option<T>, T), String> {
    let old = match request.operation.as_str() {
        // An object that was stored by an older version may be unreadable. All of the new one is then reviewed.
        "UPDATE" => parse(&request.old_object).ok(),
        _ => None,
    };
    Ok((old, parse(&request.object)?))
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<T, String> {
    T::deserialize(object).map_err(|error| format!("reading the object: {error}"))
}

fn refused(findings: Vec<Finding>) -> Answer {
    let refusals = findings.into_iter().map(|finding| Refusal {
        rule: rule(&finding),
        field: finding.field,
        // Never the value: the query of a URL can be a secret.
        value: "...".to_owned(),
        detail: format!("{}; {}", finding.reason, finding.way_out),
    });
    Refusals::new(refusals).map_or_else(Answer::allowed, Answer::refused)
}

fn warnings(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
    let spelled = findings.into_iter().map(|finding| {
        format!("{}: {}; {} (rule {})", finding.field, finding.reason, finding.way_out, finding.rule.id())
    });
    spelled.collect()
}

fn rule(finding: &Finding) -> Rule {
    let severity = match finding.rule.severity() {
        Severity::Invalid => vmpool_engine::admission::Severity::Invalid,
        Severity::Forbidden => vmpool_engine::admission::Severity::Forbidden,
        Severity::Warning => vmpool_engine::admission::Severity::Warning,
    };
    Rule::new(finding.rule.id(), severity)
}
