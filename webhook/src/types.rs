//! The webhooks for instance types, preferences, and the machines that name them.
//!
//! The rules are those of the platform. This module decodes the objects and spells the answer. Facts of
//! objects in namespaces are read only for an API server that has authenticated itself, as for all rules.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_decision::{AdmissionRead, AdmissionReads, LookupOutcome, Step};
use vmpool_engine::admission::PoolKind;
use vmpool_platforms::kubevirt::protection::{self, FINALIZER};
use vmpool_platforms::kubevirt::type_admission::{
    self as rules, COMPLETE_PATH, EXAMINED_USERS, MACHINE_PATH, OBJECT_PATH, POOL_PATH, PROTECT_PATH,
    TypeReviewDecision, TypeUserKind, USERS_IN_A_PAGE,
};
use vmpool_runtime::https::Peer;

use crate::callers::Caller;
use crate::finalizers;
use crate::handlers::serve_review;
use crate::metrics::{Path, Resource};
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::state::ReviewState;

/// The webhooks for the four kinds. Beside KubeVirt's own webhooks, these validate nothing.
pub(crate) fn object_routes(state: &ReviewState) -> Router {
    Router::new()
        .route(OBJECT_PATH, post(serve_instancetype_review))
        .route(PROTECT_PATH, post(serve_instancetype_protection))
        .with_state(state.clone())
}

/// The webhooks for machines, which the program has without KubeVirt's own webhooks.
pub(crate) fn machine_routes(state: &ReviewState) -> Router {
    Router::new()
        .route(MACHINE_PATH, post(serve_machine_review))
        .route(COMPLETE_PATH, post(serve_machine_completion))
        .with_state(state.clone())
}

/// The webhook for pools whose template names an instance type or a preference.
pub(crate) fn pool_routes(state: &ReviewState) -> Router {
    Router::new().route(POOL_PATH, post(serve_pool_instancetype_review)).with_state(state.clone())
}

/// The group of the pools that these webhooks review.
pub(crate) const POOL_GROUP: &str = rules::POOL_GROUP;

fn review_kind(group: &'static str, kind: &'static str) -> PoolKind {
    let templates = "its spec";
    PoolKind { group, kind, templates, small_fields: &[], pool_path: "", setup_warning: None }
}

type Reviewed = (ReviewAnswer, Vec<String>);

async fn serve_instancetype_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // The review says which of the four kinds it is.
    let kind = review_kind(rules::GROUP, "");
    serve_review(&state, kind, Path::Instancetype, peer, &headers, body, async |request, caller| {
        let Some((old, new)) = reviewed_objects(request) else {
            return (ReviewAnswer::allowed(), Vec::new());
        };
        let judged = if state.types {
            rules::review_type_object(old, new)
        } else {
            Ok(TypeReviewDecision::Allowed { machine: None, warnings: Vec::new() })
        };
        let decision = match judged {
            Ok(decision) => decision,
            Err(error) => return (ReviewAnswer::malformed(error.to_string()), Vec::new()),
        };
        let is_allowed = matches!(decision, TypeReviewDecision::Allowed { .. });
        let (answer, mut warnings) = answer_for_decision(&request.object, decision);
        if is_allowed && caller != Caller::Unauthenticated {
            warnings.extend(edit_warning(&state, &request.namespace, old, new).await);
        }
        (answer, warnings)
    })
    .await
}

/// The warning about machines and pools that will use an edited object when their copies are made. What
/// cannot be read gives no warning.
async fn edit_warning(
    state: &ReviewState,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
) -> Option<String> {
    let (kind, object) = rules::find_edited_type(namespace, old, new)?;
    if !kind.is_cluster() && !is_dns_subdomain(namespace) {
        return None;
    }
    let mut awaited_by = Vec::new();
    for users in TypeUserKind::ALL {
        let mut after = String::new();
        for _ in 0..EXAMINED_USERS / USERS_IN_A_PAGE {
            let path = users.page(kind, namespace, &after);
            let resource = Resource::of(users.subject());
            let LookupOutcome::There(page) = state.reader.page(&path, users.fields(), resource).await else {
                break;
            };
            awaited_by.extend(users.awaiting(&object, &page));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut after);
            if after.is_empty() {
                break;
            }
        }
    }
    protection::edit_warning(kind, &awaited_by)
}

async fn serve_instancetype_protection(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = review_kind(rules::GROUP, "");
    serve_review(&state, kind, Path::Protection, peer, &headers, body, async |request, _| {
        (finalizers::answer_with_finalizer(request, FINALIZER), Vec::new())
    })
    .await
}

async fn serve_machine_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = review_kind(rules::MACHINE_GROUP, rules::MACHINE_KIND);
    serve_review(&state, kind, Path::Machine, peer, &headers, body, async |request, caller| {
        let review =
            |(old, new), reads: &AdmissionReads| rules::review_machine(&request.namespace, old, new, reads);
        review_with_reads(&state, request, caller, review).await
    })
    .await
}

async fn serve_pool_instancetype_review(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = review_kind(rules::POOL_GROUP, rules::POOL_KIND);
    serve_review(&state, kind, Path::PoolInstancetypes, peer, &headers, body, async |request, caller| {
        let review = |(old, new), reads: &AdmissionReads| {
            rules::review_pool_template(&request.namespace, old, new, reads)
        };
        review_with_reads(&state, request, caller, review).await
    })
    .await
}

async fn serve_machine_completion(
    Extract(state): Extract<ReviewState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = review_kind(rules::MACHINE_GROUP, rules::MACHINE_KIND);
    serve_review(&state, kind, Path::Completion, peer, &headers, body, async |request, caller| {
        let review =
            |(_, new), reads: &AdmissionReads| rules::complete_machine(&request.namespace, new, reads);
        review_with_reads(&state, request, caller, review).await
    })
    .await
}

/// The old object of an update, and the new one. `None` for other operations, which are not reviewed.
fn reviewed_objects(request: &ReviewRequest) -> Option<(Option<&Value>, &Value)> {
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" => Some(&request.old_object),
        _ => return None,
    };
    request.sub_resource.is_empty().then_some((old, &request.object))
}

/// Reviews a machine or a pool.
async fn review_with_reads<'a>(
    state: &ReviewState,
    request: &'a ReviewRequest,
    caller: Caller,
    review: impl Fn((Option<&'a Value>, &'a Value), &AdmissionReads) -> Step<TypeReviewDecision, AdmissionRead>,
) -> Reviewed {
    let Some(objects) = reviewed_objects(request) else { return (ReviewAnswer::allowed(), Vec::new()) };
    if !is_dns_subdomain(&request.namespace) {
        return (ReviewAnswer::malformed("the namespace of the request is invalid"), Vec::new());
    }
    match state.reader.decide(&request.namespace, caller, |reads| review(objects, reads)).await {
        Ok(decision) => answer_for_decision(objects.1, decision),
        Err(error) => (ReviewAnswer::undecided(&error.to_string()), Vec::new()),
    }
}

/// The answer for a decision about an object.
fn answer_for_decision(object: &Value, decision: TypeReviewDecision) -> Reviewed {
    match decision {
        TypeReviewDecision::Allowed { machine: None, warnings } => (ReviewAnswer::allowed(), warnings),
        TypeReviewDecision::Allowed { machine: Some(machine), warnings } => {
            (ReviewAnswer::patched(json_patch::diff(object, &machine)), warnings)
        }
        TypeReviewDecision::Refused { causes, warnings } => {
            (ReviewAnswer::invalid(to_status_causes(causes)), warnings)
        }
        TypeReviewDecision::NotInferred(causes) => {
            (ReviewAnswer::incomplete(to_status_causes(causes)), Vec::new())
        }
        TypeReviewDecision::Undecided(message) => (ReviewAnswer::undecided(&message), Vec::new()),
    }
}

fn to_status_causes(causes: Vec<rules::StatusCause>) -> Vec<StatusCause> {
    let spelled = causes.into_iter().map(|cause| StatusCause {
        reason: Some(format!("{:?}", cause.reason)),
        field: Some(cause.field),
        message: Some(cause.message),
    });
    spelled.collect()
}
