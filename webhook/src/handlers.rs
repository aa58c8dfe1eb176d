//! The two webhooks.

use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use serde_json::Value;
use vmpool_engine::admission::{self, Found, Outcome, Review, scale};
use vmpool_runtime::https::Peer;

use crate::State;
use crate::arrival::{self, Arrived};
use crate::callers::Caller;
use crate::metrics::{Operation, Path, Verdict};
use crate::review::{self, Answer, Request};

/// Letters of a user's name in the log.
const MOST_OF_A_NAME: usize = 256;

/// Creates and updates of pools.
pub(crate) async fn pool(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve(&state, Path::Pool, peer, &headers, body, async |request, caller| {
        judge_pool(&state, request, caller).await
    })
    .await
}

/// Updates of the scale of pools.
pub(crate) async fn scale(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve(&state, Path::Scale, peer, &headers, body, async |request, caller| {
        (judge_scale(&state, request, caller).await, Vec::new())
    })
    .await
}

/// One exchange: what comes in becomes a question, the answer is told, counted and, if it is no, logged.
async fn serve(
    state: &State,
    path: Path,
    peer: Option<Extension<Peer>>,
    headers: &HeaderMap,
    body: Body,
    judge: impl AsyncFnOnce(&Request, Caller) -> (Answer, Vec<String>),
) -> Response {
    let begun = state.env.uptime();
    let peer = peer.map(|Extension(peer)| peer);
    let arrived = match state.callers.caller(peer.as_ref()) {
        Ok(caller) => {
            arrival::read(state, peer.as_ref(), headers, body).await.map(|arrived| (arrived, caller))
        }
        Err(refusal) => Err(refusal),
    };
    let (Arrived { request, taken }, caller) = match arrived {
        Ok(arrived) => arrived,
        Err((status, message)) => {
            tracing::warn!(path = path.as_str(), status = status.as_u16(), message, "not a review");
            state.metrics.answered(path, Operation::Unknown, Verdict::Unreadable);
            return (status, message).into_response();
        }
    };
    let (answer, warnings) =
        if request.too_large { (Answer::TooLarge, Vec::new()) } else { judge(&request, caller).await };
    let operation = Operation::named(&request.operation);
    state.metrics.answered(path, operation, Verdict::of(&answer));
    log(path, &request, &answer);
    let answer = review::encode(&state.rules.kind(), &request, &answer, &warnings).to_string();
    let response = ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
    drop((request, taken));
    state.metrics.took(path, state.env.uptime().saturating_sub(begun));
    response
}

/// Whoever was refused should be found in the logs by the uid that the API server's audit has, too.
fn log(path: Path, request: &Request, answer: &Answer) {
    let Request { uid, operation, namespace, name, user_info, .. } = request;
    let path = path.as_str();
    // A name may be as long as the API server accepts it, and a line of a log not.
    let user = user_info.username.chars().take(MOST_OF_A_NAME).collect::<String>();
    match answer {
        Answer::Allowed => tracing::debug!(path, uid, user, operation, namespace, name, "allowed"),
        Answer::Refused(refusal) => {
            let (rule, field, message) = (refusal.rule.id(), &refusal.field, refusal.to_string());
            tracing::info!(path, uid, user, operation, namespace, name, rule, field, message, "refused");
        }
        Answer::Malformed(message) => {
            tracing::warn!(path, uid, user, operation, namespace, name, message, "not understood");
        }
        Answer::TooLarge => {
            tracing::warn!(path, uid, user, operation, namespace, name, "too large");
        }
        Answer::Undecided(message) => {
            tracing::warn!(path, uid, user, operation, namespace, name, message, "not decided");
        }
    }
}

async fn judge_pool(state: &State, request: &Request, caller: Caller) -> (Answer, Vec<String>) {
    let malformed = |message: &str| (Answer::Malformed(message.to_owned()), Vec::new());
    if !request.sub_resource.is_empty() {
        return (Answer::Allowed, Vec::new());
    }
    let kind = state.rules.kind().kind;
    let missing = |part: &str| malformed(&format!("the request has no {part} that is a {kind}"));
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(&request.old_object),
        "UPDATE" => return missing("oldObject"),
        _ => return (Answer::Allowed, Vec::new()),
    };
    if !request.object.is_object() {
        return missing("object");
    }
    let question = admission::Request { user: &request.user_info.username, old, new: &request.object };
    let verdict = match state.rules.review(question) {
        Review::Decided(verdict) => verdict,
        Review::NeedsFacts(mut pending) => {
            state.reader.gather(&request.namespace, &mut *pending, caller).await;
            pending.verdict()
        }
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    let answer = match verdict.outcome {
        Outcome::Allowed => Answer::Allowed,
        Outcome::Refused(refusal) => Answer::Refused(Box::new(refusal)),
        Outcome::Undecided(reason) => Answer::Undecided(reason),
    };
    (answer, warnings)
}

async fn judge_scale(state: &State, request: &Request, caller: Caller) -> Answer {
    let Some(guard) = state.rules.scale_guard() else { return Answer::Allowed };
    if request.sub_resource != "scale" || request.operation != "UPDATE" {
        return Answer::Allowed;
    }
    let shrink = match scale::compare(&request.old_object, &request.object) {
        Ok(scale::Step::Allow) => return Answer::Allowed,
        Ok(scale::Step::AskPolicy(shrink)) => shrink,
        Err(error) => return Answer::Malformed(error.to_string()),
    };
    // The API server sends the UID of the stored pool. A client that cannot read the pool does not know it, and learns
    // nothing: the answer is the same as for a pool that does not exist.
    let uid = field(&request.old_object, "/metadata/uid").as_str();
    if uid.is_none() && caller == Caller::Unknown {
        return Answer::Malformed("the request has no oldObject.metadata.uid".to_owned());
    }
    match state.reader.pool(&request.namespace, (guard.lookup)(&request.name)).await {
        Found::There(pool) if uid.is_some() && field(&pool, "/metadata/uid").as_str() != uid => {
            Answer::Allowed
        }
        Found::There(pool) => scale::judge(&guard.terms, &request.name, (guard.is_explicit)(&pool), shrink)
            .map_or(Answer::Allowed, |refusal| Answer::Refused(Box::new(refusal))),
        Found::Absent => Answer::Allowed,
        Found::Failed(reason) => {
            let Request { namespace, name, .. } = request;
            Answer::Undecided(format!("reading the policy of pool {namespace}/{name}: {reason}"))
        }
    }
}

/// A field of an object, `null` where there is none.
pub(crate) fn field<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    static NULL: Value = Value::Null;
    object.pointer(pointer).unwrap_or(&NULL)
}
