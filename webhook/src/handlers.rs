//! The two webhooks.

use axum::body::{self, Body};
use axum::extract::State as Extract;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use http_body_util::LengthLimitError;
use serde_json::Value;
use vmpool_engine::admission::{self, Outcome, Stage, scale};
use vmpool_runtime::telemetry;

use crate::metrics::{Operation, Path, Verdict};
use crate::reads::Policy;
use crate::review::{self, Answer, Request};
use crate::{LARGEST_BODY, State};

/// Creates and updates of pools.
pub(crate) async fn pool(Extract(state): Extract<State>, headers: HeaderMap, body: Body) -> Response {
    serve(&state, Path::Pool, &headers, body, async |request| judge_pool(&state, request).await).await
}

/// Updates of the scale of pools.
pub(crate) async fn scale(Extract(state): Extract<State>, headers: HeaderMap, body: Body) -> Response {
    serve(&state, Path::Scale, &headers, body, async |request| {
        (judge_scale(&state, request).await, Vec::new())
    })
    .await
}

/// One exchange: what comes in becomes a question, the answer is told, counted and, if it is no, logged.
async fn serve(
    state: &State,
    path: Path,
    headers: &HeaderMap,
    body: Body,
    judge: impl AsyncFnOnce(&Request) -> (Answer, Vec<String>),
) -> Response {
    let begun = state.env.uptime();
    let request = match read(headers, body).await {
        Ok(request) => request,
        Err((status, message)) => {
            tracing::warn!(path = path.as_str(), status = status.as_u16(), message, "not a review");
            state.metrics.answered(path, Operation::Unknown, Verdict::Unreadable);
            return (status, message).into_response();
        }
    };
    let (answer, warnings) = judge(&request).await;
    let operation = Operation::named(&request.operation);
    state.metrics.answered(path, operation, Verdict::of(&answer));
    log(path, &request, &answer);
    let answer = review::encode(&request, &answer, &warnings).to_string();
    let response = ([(header::CONTENT_TYPE, "application/json")], answer).into_response();
    state.metrics.took(path, state.env.uptime().saturating_sub(begun));
    response
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Request, (StatusCode, String)> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "reviews are application/json".to_owned()));
    }
    let body = body::to_bytes(body, LARGEST_BODY).await.map_err(|error| {
        if error.into_inner().is::<LengthLimitError>() {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("reviews have at most {LARGEST_BODY} bytes"))
        } else {
            (StatusCode::BAD_REQUEST, "the body did not arrive".to_owned())
        }
    })?;
    review::decode(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

/// Whoever was refused should be found in the logs by the uid that the API server's audit has, too.
fn log(path: Path, request: &Request, answer: &Answer) {
    let Request { uid, operation, namespace, name, user_info, .. } = request;
    let (path, user) = (path.as_str(), user_info.username.as_str());
    match answer {
        Answer::Allowed => tracing::debug!(path, uid, user, operation, namespace, name, "allowed"),
        Answer::Refused(refusal) => {
            let (rule, field, message) = (refusal.rule.id(), &refusal.field, refusal.to_string());
            tracing::info!(path, uid, user, operation, namespace, name, rule, field, message, "refused");
        }
        Answer::Malformed(message) => {
            tracing::warn!(path, uid, user, operation, namespace, name, message, "not understood");
        }
        Answer::Undecided(message) => {
            tracing::warn!(path, uid, user, operation, namespace, name, message, "not decided");
        }
    }
}

async fn judge_pool(state: &State, request: &Request) -> (Answer, Vec<String>) {
    let malformed = |message: &str| (Answer::Malformed(message.to_owned()), Vec::new());
    if !request.sub_resource.is_empty() {
        return (Answer::Allowed, Vec::new());
    }
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(&request.old_object),
        "UPDATE" => return malformed("the request has no oldObject that is a VirtualMachinePool"),
        _ => return (Answer::Allowed, Vec::new()),
    };
    if !request.object.is_object() {
        return malformed("the request has no object that is a VirtualMachinePool");
    }
    let question = admission::Request { user: &request.user_info.username, old, new: &request.object };
    let verdict = match admission::begin(&state.settings, question) {
        Stage::Done(verdict) => verdict,
        Stage::Look(look) => {
            let facts = state.reader.facts(&request.namespace, look.needs()).await;
            look.finish(&facts)
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

async fn judge_scale(state: &State, request: &Request) -> Answer {
    if request.sub_resource != "scale" || request.operation != "UPDATE" {
        return Answer::Allowed;
    }
    let shrink = match scale::compare(&request.old_object, &request.object) {
        Ok(scale::Step::Allow) => return Answer::Allowed,
        Ok(scale::Step::AskPolicy(shrink)) => shrink,
        Err(error) => return Answer::Malformed(error.to_string()),
    };
    match state.reader.policy(&request.namespace, &request.name).await {
        Ok(Policy::NoPool) => Answer::Allowed,
        Ok(Policy::Of(policy)) => scale::judge(&request.name, policy.as_deref(), shrink)
            .map_or(Answer::Allowed, |refusal| Answer::Refused(Box::new(refusal))),
        Err(reason) => {
            let Request { namespace, name, .. } = request;
            Answer::Undecided(format!("reading the policy of pool {namespace}/{name}: {reason}"))
        }
    }
}

/// The text of an error for a message, with its causes.
pub(crate) fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => telemetry::with_causes(other),
    }
}

/// A field of an object, `null` where there is none.
pub(crate) fn field<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    static NULL: Value = Value::Null;
    object.pointer(pointer).unwrap_or(&NULL)
}
