//! The handler of all webhooks.

use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use vmpool_engine::admission::scale::LoweredReplicas;
use vmpool_runtime::https::Peer;

use crate::body::{self, Received};
use crate::callers::Caller;
use crate::metrics::{Operation, Path, Verdict};
use crate::review::{self, ReviewAnswer, ReviewRequest};
use crate::state::{ReviewState, ServedWebhook};
use crate::types;
use crate::webhook::Reviewed;

/// The maximum length of a user name in the log, in characters.
const MAX_USER_LENGTH: usize = 256;

/// Handles one HTTP request: authenticates the client, decodes the review, and encodes, counts and logs the
/// answer.
pub(crate) async fn serve_review(
    Extract(served): Extract<ServedWebhook>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let ServedWebhook { state, webhook } = &served;
    let (kind, path) = (&webhook.kind, webhook.name);
    let start = state.env.uptime();
    let peer = peer.map(|Extension(peer)| peer);
    let received = match state.callers.authenticate(peer.as_ref()) {
        Ok(caller) => body::read_review_body(state, kind, peer.as_ref(), &headers, body)
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
        (ReviewAnswer::too_large(kind), Vec::new())
    } else {
        review_request(&served, &request, caller).await
    };
    state.metrics.answered(path, Operation::named(&request.operation), answer.verdict);
    log_answer(path, &request, &answer);
    log_lowered_scale(state, &request, &answer);
    let review = review::encode_review(kind, &request, &answer, &warnings).to_string();
    let response = ([(header::CONTENT_TYPE, "application/json")], review).into_response();
    drop((request, memory));
    state.metrics.took(path, state.env.uptime().saturating_sub(start));
    response
}

/// Logs an answer. The log line contains the UID of the request, which is also in the audit log of
/// kube-apiserver.
fn log_answer(path: Path, request: &ReviewRequest, answer: &ReviewAnswer) {
    let ReviewRequest { uid, operation, namespace, name, .. } = request;
    let path = path.as_str();
    let user = clip_user(request);
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

/// Logs who lowers the scale of a pool. The API server drops the field manager of a scale to 0, so the
/// activity of the pool does not always name the client.
fn log_lowered_scale(state: &ReviewState, request: &ReviewRequest, answer: &ReviewAnswer) {
    let Some(LoweredReplicas { from, to }) = answer.lowered.filter(|_| !request.dry_run) else { return };
    let Some(omitted) = state.scale_lines.take_line(state.env.uptime()) else { return };
    let ReviewRequest { uid, namespace, name, .. } = request;
    let user = clip_user(request);
    tracing::info!(uid, user, namespace, name, from, to, omitted, "lowered the scale of a pool");
}

/// The user of a request. kube-apiserver accepts longer names than a log line should contain.
fn clip_user(request: &ReviewRequest) -> String {
    request.user_info.username.chars().take(MAX_USER_LENGTH).collect()
}

/// Evaluates the rules of a webhook, and reads what they need.
async fn review_request(served: &ServedWebhook, request: &ReviewRequest, caller: Caller) -> Reviewed {
    let ServedWebhook { state, webhook } = served;
    let rules = |reads: &_| (webhook.rules)(request, reads);
    let (answer, mut warnings) = match state.reader.decide(&request.namespace, caller, rules).await {
        Ok(reviewed) => reviewed,
        Err(error) => return ReviewAnswer::undecided(&error.to_string()).into(),
    };
    let is_type = webhook.name == Path::Instancetype;
    if is_type && answer.verdict == Verdict::Allowed && caller == Caller::ApiServer {
        warnings.extend(types::edit_warning(&state.reader, request).await);
    }
    (answer, warnings)
}
