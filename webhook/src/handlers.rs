//! The handlers of the two webhooks.

use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use vmpool_engine::admission::{self, Found, Kind, Outcome, Review, ScaleGuard, scale};
use vmpool_runtime::https::Peer;

use crate::body::{self, Received};
use crate::bounded_json::field;
use crate::callers::Caller;
use crate::metrics::{Operation, Path, Verdict};
use crate::review::{self, Answer, Request};
use crate::state::{PlatformState, State};

/// The maximum length of a user name in the log, in characters.
const MAX_USER_LENGTH: usize = 256;

/// Reviews creates and updates of pools.
pub(crate) async fn pool(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, state.rules.kind(), Path::Pool, peer, &headers, body, async |request, caller| {
        review_pool(&state, request, caller).await
    })
    .await
}

/// Reviews updates of the scale subresource of pools.
pub(crate) async fn scale(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, state.rules.kind(), Path::Scale, peer, &headers, body, async |request, caller| {
        (review_scale(&state, request, caller).await, Vec::new())
    })
    .await
}

/// Handles one HTTP request: authenticates the client, decodes the review, and encodes, counts and logs the answer.
pub(crate) async fn handle(
    state: &State,
    kind: Kind,
    path: Path,
    peer: Option<Extension<Peer>>,
    headers: &HeaderMap,
    body: Body,
    review: impl AsyncFnOnce(&Request, Caller) -> (Answer, Vec<String>),
) -> Response {
    let start = state.env.uptime();
    let peer = peer.map(|Extension(peer)| peer);
    let received = match state.callers.authenticate(peer.as_ref()) {
        Ok(caller) => {
            body::read(state, &kind, peer.as_ref(), headers, body).await.map(|received| (received, caller))
        }
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
        (Answer::too_large(&kind), Vec::new())
    } else {
        review(&request, caller).await
    };
    state.metrics.answered(path, Operation::named(&request.operation), answer.verdict);
    log(path, &request, &answer);
    let review = review::encode(&kind, &request, &answer, &warnings).to_string();
    let response = ([(header::CONTENT_TYPE, "application/json")], review).into_response();
    drop((request, memory));
    state.metrics.took(path, state.env.uptime().saturating_sub(start));
    response
}

/// Logs an answer. The log line contains the UID of the request, which is also in the audit log of kube-apiserver.
fn log(path: Path, request: &Request, answer: &Answer) {
    let Request { uid, operation, namespace, name, user_info, .. } = request;
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

async fn review_pool(state: &PlatformState, request: &Request, caller: Caller) -> (Answer, Vec<String>) {
    let kind = state.rules.kind().kind;
    let malformed = |message: String| (Answer::malformed(message), Vec::new());
    if !request.sub_resource.is_empty() {
        return (Answer::allowed(), Vec::new());
    }
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(&request.old_object),
        "UPDATE" => return malformed(format!("the request has no oldObject that is a {kind}")),
        _ => return (Answer::allowed(), Vec::new()),
    };
    if !request.object.is_object() {
        return malformed(format!("the request has no object that is a {kind}"));
    }
    let change = admission::Request { user: &request.user_info.username, old, new: &request.object };
    let verdict = match state.rules.review(change) {
        Review::Decided(verdict) => verdict,
        Review::NeedsFacts(mut pending) => {
            state.reader.gather(&request.namespace, &mut *pending, caller).await;
            pending.verdict()
        }
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    let answer = match verdict.outcome {
        Outcome::Allowed => Answer::allowed(),
        Outcome::Refused(refusals) => Answer::refused(refusals),
        Outcome::Malformed(reason) => Answer::malformed(reason),
        Outcome::Undecided(reason) => Answer::undecided(&reason),
    };
    (answer, warnings)
}

async fn review_scale(state: &PlatformState, request: &Request, caller: Caller) -> Answer {
    let Some(guard) = state.rules.scale_guard() else { return Answer::allowed() };
    if request.sub_resource != "scale" || request.operation != "UPDATE" {
        return Answer::allowed();
    }
    let shrink = match scale::compare(&request.old_object, &request.object) {
        Ok(scale::Step::Allow) => return Answer::allowed(),
        Ok(scale::Step::AskPolicy(shrink)) => shrink,
        Err(error) => return Answer::malformed(error.to_string()),
    };
    // kube-apiserver sends the UID of the stored pool. A client without permission to read the pool does not know the UID,
    // and gets the same response as for a pool that does not exist.
    let uid = field(&request.old_object, "/metadata/uid").as_str();
    if uid.is_none() && caller == Caller::Unauthenticated {
        return Answer::malformed("the request has no oldObject.metadata.uid");
    }
    let ScaleGuard { terms, lookup, is_explicit, .. } = guard;
    let Request { namespace, name, .. } = request;
    match state.reader.one(namespace, lookup(name)).await {
        Found::There(pool) if uid.is_some() && field(&pool, "/metadata/uid").as_str() != uid => {
            Answer::allowed()
        }
        Found::There(pool) => scale::judge(&terms, name, is_explicit(&pool), shrink)
            .map_or_else(Answer::allowed, |refusal| Answer::refused(refusal.into())),
        Found::Absent => Answer::allowed(),
        Found::Failed(reason) => {
            let policy = terms.policy.rsplit('.').next().unwrap_or_default();
            Answer::undecided(&format!("reading the {policy} of pool {namespace}/{name}: {reason}"))
        }
    }
}
