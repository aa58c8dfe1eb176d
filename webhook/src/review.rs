//! `admission.k8s.io/v1` AdmissionReview, as much of it as is used.

use serde::Deserialize;
use serde_json::{Value, json};
use vmpool_engine::admission::Refusal;

const API_VERSION: &str = "admission.k8s.io/v1";

/// A body is no review.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// It is not the JSON of a review.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another kind or version.
    #[error("the body is {kind:?} of {version:?}, and this answers AdmissionReview of {API_VERSION}")]
    Kind { kind: String, version: String },
    /// It asks nothing.
    #[error("the AdmissionReview has no request with a uid")]
    Empty,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// What the API server asks. Absent parts are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Request {
    /// Names the question, and returns with the answer.
    pub(crate) uid: String,
    pub(crate) operation: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) sub_resource: String,
    pub(crate) user_info: UserInfo,
    pub(crate) object: Value,
    pub(crate) old_object: Value,
}

/// Who is behind the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserInfo {
    pub(crate) username: String,
}

/// Reads a body.
pub(crate) fn decode(body: &[u8]) -> Result<Request, ReviewError> {
    let Review { api_version, kind, request } = serde_json::from_slice(body)?;
    if api_version != API_VERSION || kind != "AdmissionReview" {
        let cut = |text: String| text.chars().take(100).collect();
        return Err(ReviewError::Kind { kind: cut(kind), version: cut(api_version) });
    }
    request.filter(|request| !request.uid.is_empty()).ok_or(ReviewError::Empty)
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Allowed,
    /// By a rule.
    Refused(Box<Refusal>),
    /// The request cannot be understood: 400 in the review.
    Malformed(String),
    /// The request cannot be judged now: 500 in the review.
    Undecided(String),
}

/// The review that answers `request`.
pub(crate) fn encode(request: &Request, answer: &Answer, warnings: &[String]) -> Value {
    let mut response = json!({ "uid": request.uid, "allowed": matches!(answer, Answer::Allowed) });
    if let Some(status) = status(request, answer) {
        response["status"] = status;
    }
    if let Answer::Refused(refusal) = answer {
        response["auditAnnotations"] = json!({ "rule": refusal.rule.id() });
    }
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    json!({ "apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response })
}

fn status(request: &Request, answer: &Answer) -> Option<Value> {
    let failure = |code: u16, reason: &str, message: &str| json!({ "status": "Failure", "code": code, "reason": reason, "message": message });
    let details = |refusal: &Refusal| {
        json!({
            "name": request.name,
            "group": "virtualization.deckhouse.io",
            "kind": "VirtualMachinePool",
            "causes": [{
                "reason": if refusal.is_forbidden() { "FieldValueForbidden" } else { "FieldValueInvalid" },
                "field": refusal.field,
                "message": refusal.cause(),
            }],
        })
    };
    match answer {
        Answer::Allowed => None,
        Answer::Refused(refusal) => {
            let (code, reason) = if refusal.is_forbidden() { (403, "Forbidden") } else { (422, "Invalid") };
            let mut status = failure(code, reason, &refusal.to_string());
            status["details"] = details(refusal);
            Some(status)
        }
        Answer::Malformed(message) => Some(failure(400, "BadRequest", message)),
        Answer::Undecided(message) => Some(failure(500, "InternalError", &format!("{message}; try again"))),
    }
}
