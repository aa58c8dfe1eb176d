//! The handlers of the two webhooks.

use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use vmpool_engine::admission::{self, AdmissionDecision, LookupOutcome, PoolKind, ScaleGuard, scale};
use vmpool_runtime::https::Peer;

use crate::body::{self, Received};
use crate::bounded_json::field_at_pointer;
use crate::callers::Caller;
use crate::metrics::{Operation, Path, Verdict};
use crate::review::{self, ReviewAnswer, ReviewRequest};
use crate::state::{PlatformState, ReviewState};

/// The maximum length of a user name in the log, in characters.
const MAX_USER_LENGTH: usize = 256;

/// Reviews creates and updates of pools.
pub(crate) async fn serve_pool_review(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(&state, state.rules.kind(), Path::Pool, peer, &headers, body, async |request, caller| {
        review_pool(&state, request, caller).await
    })
    .await
}

/// Reviews updates of the scale subresource of pools.
pub(crate) async fn serve_scale_review(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(&state, state.rules.kind(), Path::Scale, peer, &headers, body, async |request, caller| {
        (review_scale(&state, request, caller).await, Vec::new())
    })
    .await
}

/// Handles one HTTP request: authenticates the client, decodes the review, and encodes, counts and logs the
/// answer.
pub(crate) async fn serve_review(
    state: &ReviewState,
    kind: PoolKind,
    path: Path,
    peer: Option<Extension<Peer>>,
    headers: &HeaderMap,
    body: Body,
    review: impl AsyncFnOnce(&ReviewRequest, Caller) -> (ReviewAnswer, Vec<String>),
) -> Response {
    let start = state.env.uptime();
    let peer = peer.map(|Extension(peer)| peer);
    let received = match state.callers.authenticate(peer.as_ref()) {
        Ok(caller) => body::read_review_body(state, &kind, peer.as_ref(), headers, body)
            .await
            .map(|received| (received, caller)),
        Err(error) => Err(error),
    };
    let (Received { request, memory }, caller) = match received {
        Ok(received) => received,
        Err((status, message)) => {
            tracing::warn!(
                path = path.as_str(),
                status = status.as_u16(),
                message,
                "refused an HTTP request"
            );
            state.metrics.answered(path, Operation::Unknown, Verdict::Unreadable);
            return (status, message).into_response();
        }
    };
    let (answer, warnings) = if request.too_large {
        (ReviewAnswer::too_large(&kind), Vec::new())
    } else {
        review(&request, caller).await
    };
    state.metrics.answered(path, Operation::named(&request.operation), answer.verdict);
    log_answer(path, &request, &answer);
    let review = review::encode_review(&kind, &request, &answer, &warnings).to_string();
    let response = ([(header::CONTENT_TYPE, "application/json")], review).into_response();
    drop((request, memory));
    state.metrics.took(path, state.env.uptime().saturating_sub(start));
    response
}

/// Logs an answer. The log line contains the UID of the request, which is also in the audit log of
/// kube-apiserver.
fn log_answer(path: Path, request: &ReviewRequest, answer: &ReviewAnswer) {
    let ReviewRequest { uid, operation, namespace, name, user_info, .. } = request;
    let path = path.as_str();
    // kube-apiserver accepts longer names than a log line should contain.
    let user = user_info.username.chars().take(MAX_USER_LENGTH).collect::<String>();
    let message = &answer.message;
    if let Some(field) = answer.field() {
        let rule = answer.rules().unwrap_or_default();
        tracing::info!(path, uid, user, operation, namespace, name, rule, field, message, "refused");
    } else if answer.verdict == Verdict::Allowed {
        tracing::debug!(path, uid, user, operation, namespace, name, "allowed");
    } else {
        let verdict = answer.verdict.as_str();
        tracing::warn!(path, uid, user, operation, namespace, name, verdict, message, "not validated");
    }
}

async fn review_pool(
    state: &PlatformState,
    request: &ReviewRequest,
    caller: Caller,
) -> (ReviewAnswer, Vec<String>) {
    let kind = state.rules.kind().kind;
    let malformed = |message: String| (ReviewAnswer::malformed(message), Vec::new());
    if !request.sub_resource.is_empty() {
        return (ReviewAnswer::allowed(), Vec::new());
    }
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(&request.old_object),
        "UPDATE" => return malformed(format!("the request has no oldObject that is a {kind}")),
        _ => return (ReviewAnswer::allowed(), Vec::new()),
    };
    if !request.object.is_object() {
        return malformed(format!("the request has no object that is a {kind}"));
    }
    let change = admission::PoolRequest { user: &request.user_info.username, old, new: &request.object };
    let reviewed =
        state.reader.decide(&request.namespace, caller, |reads| state.rules.review(change, reads)).await;
    let verdict = match reviewed {
        Ok(verdict) => verdict,
        Err(error) => return (ReviewAnswer::undecided(&error.to_string()), Vec::new()),
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    let answer = match verdict.outcome {
        AdmissionDecision::Allowed => ReviewAnswer::allowed(),
        AdmissionDecision::Refused(refusals) => ReviewAnswer::refused(refusals),
        AdmissionDecision::Malformed(reason) => ReviewAnswer::malformed(reason),
        AdmissionDecision::Undecided(reason) => ReviewAnswer::undecided(&reason),
    };
    (answer, warnings)
}

async fn review_scale(state: &PlatformState, request: &ReviewRequest, caller: Caller) -> ReviewAnswer {
    let Some(guard) = state.rules.scale_guard() else { return ReviewAnswer::allowed() };
    if request.sub_resource != "scale" || request.operation != "UPDATE" {
        return ReviewAnswer::allowed();
    }
    let shrink = match scale::compare_scales(&request.old_object, &request.object) {
        Ok(scale::ScaleChange::Allow) => return ReviewAnswer::allowed(),
        Ok(scale::ScaleChange::AskPolicy(shrink)) => shrink,
        Err(error) => return ReviewAnswer::malformed(error.to_string()),
    };
    // kube-apiserver sends the UID of the stored pool. A client without permission to read the pool does not
    // know the UID, and gets the same response as for a pool that does not exist.
    let uid = field_at_pointer(&request.old_object, "/metadata/uid").as_str();
    if uid.is_none() && caller == Caller::Unauthenticated {
        return ReviewAnswer::malformed("the request has no oldObject.metadata.uid");
    }
    let ScaleGuard { terms, lookup, is_explicit, .. } = guard;
    let ReviewRequest { namespace, name, .. } = request;
    match state.reader.read_lookup(namespace, lookup(name)).await {
        LookupOutcome::There(pool)
            if uid.is_some() && field_at_pointer(&pool, "/metadata/uid").as_str() != uid =>
        {
            ReviewAnswer::allowed()
        }
        LookupOutcome::There(pool) => scale::scale_guard_refusal(&terms, name, is_explicit(&pool), shrink)
            .map_or_else(ReviewAnswer::allowed, |refusal| ReviewAnswer::refused(refusal.into())),
        LookupOutcome::Absent => ReviewAnswer::allowed(),
        LookupOutcome::Failed(reason) => {
            let policy = terms.policy.rsplit('.').next().unwrap_or_default();
            ReviewAnswer::undecided(&format!("reading the {policy} of pool {namespace}/{name}: {reason}"))
        }
    }
}
