//! `admission.k8s.io/v1` AdmissionReview, as much of it as is used.

mod envelope;

use serde::Deserialize;
use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};
use vmpool_engine::admission::{Kind, Refusal};

use crate::tree::{Budget, Fields};
use envelope::Review;

const API_VERSION: &str = "admission.k8s.io/v1";

/// The message about a pool that takes more memory than [`LARGEST_OBJECT`], or is nested too deeply.
pub(crate) fn too_large(kind: &Kind) -> String {
    format!(
        "the pool has too many lists and fields to be judged, or is nested more than 100 levels deep: the webhook \
         spends at most 8 MiB of memory on a pool; shorten {}",
        kind.templates
    )
}

/// A body is no review.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// It is not the JSON of a review.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another kind or version.
    #[error("the body is {kind:?} of {version:?}, and this answers AdmissionReview of {API_VERSION}")]
    Kind { kind: String, version: String },
    /// A text in it is longer than the API server sends it.
    #[error("request.{field} has more than {most} bytes")]
    TooLong { field: &'static str, most: usize },
    /// It asks nothing.
    #[error("the AdmissionReview has no request with a uid")]
    Empty,
}

/// What the API server asks. Absent parts are empty.
#[derive(Debug, Default)]
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
    /// The object takes more memory than [`LARGEST_OBJECT`]: both objects are left out.
    pub(crate) too_large: bool,
    /// Memory that the two objects take, at most.
    pub(crate) weight: usize,
}

/// Who is behind the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserInfo {
    pub(crate) username: String,
}

/// Most memory that an object may take. The largest pool of any use takes less than a tenth.
pub(crate) const LARGEST_OBJECT: usize = 8 << 20;
/// Memory that values take for a byte of their text, at most.
const EXPANSION: usize = 100;

/// What rules read of a pool or a Scale. Above all `metadata.managedFields` is not among it.
const NEEDED: &[&str] = &[
    "kind",
    "metadata.name",
    "metadata.uid",
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "spec",
    "status.replicas",
];
/// The same without the templates. An old object that is too large is read this way, so that it can be made smaller; as
/// no template is known, the new ones are judged in full.
const NEEDED_OF_A_LARGE_ONE: &[&str] = &[
    "kind",
    "metadata.name",
    "metadata.uid",
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "spec.replicas",
    "spec.scaleDownPolicy",
    "spec.rollout",
    "spec.revisionHistoryLimit",
    "status.replicas",
];

/// Memory that [`decode`] may take for a body of so many bytes.
pub(crate) fn most_memory(body: usize) -> usize {
    body.saturating_mul(EXPANSION).min(2 * LARGEST_OBJECT)
}

/// Reads a body.
pub(crate) fn decode(body: &[u8]) -> Result<Request, ReviewError> {
    let budgets = [Budget::new(LARGEST_OBJECT), Budget::new(LARGEST_OBJECT)];
    let first = read(body, [NEEDED, NEEDED], &budgets);
    let [new, old] = &budgets;
    if !new.is_exceeded() && !old.is_exceeded() {
        return first;
    }
    if !new.is_exceeded() {
        let budgets = [Budget::new(LARGEST_OBJECT), Budget::new(LARGEST_OBJECT)];
        let second = read(body, [NEEDED, NEEDED_OF_A_LARGE_ONE], &budgets);
        if !budgets.iter().any(Budget::is_exceeded) {
            return second;
        }
    }
    // Who asked, and what: the answer says that the object is too large.
    let budgets = [Budget::new(LARGEST_OBJECT), Budget::new(LARGEST_OBJECT)];
    Ok(Request { too_large: true, ..read(body, [&[], &[]], &budgets)? })
}

fn read(body: &[u8], fields: [&[&str]; 2], budgets: &[Budget; 2]) -> Result<Request, ReviewError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let objects = [Fields::new(fields[0], &budgets[0]), Fields::new(fields[1], &budgets[1])];
    let Review { api_version, kind, request } = envelope::Envelope(objects).deserialize(&mut json)?;
    json.end()?;
    if api_version != API_VERSION || kind != "AdmissionReview" {
        let cut = |text: String| text.chars().take(100).collect();
        return Err(ReviewError::Kind { kind: cut(kind), version: cut(api_version) });
    }
    let request = request.filter(|request| !request.uid.is_empty()).ok_or(ReviewError::Empty)?;
    if let Some((field, most)) = request.too_long() {
        return Err(ReviewError::TooLong { field, most });
    }
    let [new, old] = budgets;
    Ok(Request { weight: new.used() + old.used(), ..request })
}

impl Request {
    /// The first text that is longer than the API server sends it, and how long it may be.
    fn too_long(&self) -> Option<(&'static str, usize)> {
        let texts = [
            ("uid", &self.uid, 128),
            ("operation", &self.operation, 32),
            ("namespace", &self.namespace, 63),
            ("name", &self.name, 253),
            ("subResource", &self.sub_resource, 253),
            ("userInfo.username", &self.user_info.username, 64 << 10),
        ];
        texts.into_iter().find_map(|(field, text, most)| (text.len() > most).then_some((field, most)))
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Allowed,
    /// By a rule.
    Refused(Box<Refusal>),
    /// The request cannot be understood: 400 in the review.
    Malformed(String),
    /// The object takes more memory than is spent on one: 413 in the review.
    TooLarge,
    /// The request cannot be judged now: 500 in the review.
    Undecided(String),
}

/// The review that answers `request`.
pub(crate) fn encode(kind: &Kind, request: &Request, answer: &Answer, warnings: &[String]) -> Value {
    let mut response = json!({ "uid": request.uid, "allowed": matches!(answer, Answer::Allowed) });
    if let Some(status) = status(kind, request, answer) {
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

fn status(kind: &Kind, request: &Request, answer: &Answer) -> Option<Value> {
    let failure = |code: u16, reason: &str, message: &str| json!({ "status": "Failure", "code": code, "reason": reason, "message": message });
    let details = |refusal: &Refusal| {
        json!({
            "name": request.name,
            "group": kind.group,
            "kind": kind.kind,
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
        Answer::TooLarge => Some(failure(413, "RequestEntityTooLarge", &too_large(kind))),
        Answer::Undecided(message) => Some(failure(500, "InternalError", &format!("{message}; try again"))),
    }
}
