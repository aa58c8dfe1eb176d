//! Decoding and encoding of `admission.k8s.io/v1` AdmissionReview, limited to the fields that the webhook uses.

mod envelope;
mod request;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};
use vmpool_engine::admission::{Kind, Refusals};

use crate::bounded_json::{Budget, Fields};
use crate::metrics::Verdict;
use envelope::Review;

pub(crate) use request::Request;

const API_VERSION: &str = "admission.k8s.io/v1";

/// The maximum length of the body of a review in bytes. A review contains up to two objects, and kube-apiserver accepts
/// requests of up to 3 MiB.
pub const MAX_LENGTH: usize = 8 << 20;

/// The message for an object that exceeds [`MAX_OBJECT_MEMORY`] or the maximum nesting.
pub(crate) fn too_large(kind: &Kind) -> String {
    format!(
        "the pool has too many fields and list entries, or more than 100 levels of nesting: the webhook uses at most \
         8 MiB of memory for a pool; shorten {}",
        kind.templates
    )
}

/// Why a body is not a valid review.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// The body is not the JSON of a review.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// The body has another kind or version.
    #[error("the body is a {kind:?} of {version:?}; send an AdmissionReview of {API_VERSION}")]
    Kind { kind: String, version: String },
    /// A string is longer than in any review of kube-apiserver.
    #[error("request.{field} is longer than {max} bytes")]
    TooLong { field: &'static str, max: usize },
    /// The review has no request.
    #[error("the AdmissionReview has no request with a uid")]
    NoRequest,
}

/// The maximum memory for an object in bytes. The largest practical pools use less than a tenth.
pub(crate) const MAX_OBJECT_MEMORY: usize = 8 << 20;
/// The maximum number of bytes in memory for a byte of JSON.
const EXPANSION: usize = 100;

/// The fields of every object that rules read. `metadata.managedFields` is not among them.
const METADATA: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.uid",
    "metadata.annotations",
    "metadata.deletionTimestamp",
];

/// The fields of a status that rules read: the number of machines of a pool, and the references of an image.
const STATUS: &[&str] =
    &["status.replicas", "status.referenceCount", "status.poolReferenceCount", "status.cloneReferenceCount"];

/// The maximum memory that [`decode`] uses for a body of this length, in bytes.
pub(crate) fn max_memory(body: usize) -> usize {
    body.saturating_mul(EXPANSION).min(2 * MAX_OBJECT_MEMORY)
}

/// Decodes the body of a review of pools of this kind.
///
/// If only the old object is too large, it is decoded without its templates, so that an update can make the pool smaller.
/// The new templates are then validated completely, because there are no old ones to compare with.
///
/// # Errors
/// [`ReviewError`] if the body is not a valid review.
pub(crate) fn decode(body: &[u8], kind: &Kind) -> Result<Request, ReviewError> {
    let fields = [METADATA, STATUS, &["spec"]].concat();
    let without_templates = [METADATA, kind.small_fields].concat();
    let budgets = [Budget::new(MAX_OBJECT_MEMORY), Budget::new(MAX_OBJECT_MEMORY)];
    let complete = read(body, [&fields, &fields], &budgets);
    let [new, old] = &budgets;
    if !new.is_exceeded() && !old.is_exceeded() {
        return complete;
    }
    if !new.is_exceeded() {
        let budgets = [Budget::new(MAX_OBJECT_MEMORY), Budget::new(MAX_OBJECT_MEMORY)];
        let smaller = read(body, [&fields, &without_templates], &budgets);
        if !budgets.iter().any(Budget::is_exceeded) {
            return smaller;
        }
    }
    // Without objects. The response then says that the object is too large.
    let budgets = [Budget::new(MAX_OBJECT_MEMORY), Budget::new(MAX_OBJECT_MEMORY)];
    Ok(Request { too_large: true, ..read(body, [&[], &[]], &budgets)? })
}

fn read(body: &[u8], fields: [&[&str]; 2], budgets: &[Budget; 2]) -> Result<Request, ReviewError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let objects = [Fields::new(fields[0], &budgets[0]), Fields::new(fields[1], &budgets[1])];
    let Review { api_version, kind, request } = envelope::ReviewSeed(objects).deserialize(&mut json)?;
    json.end()?;
    if api_version != API_VERSION || kind != "AdmissionReview" {
        let shorten = |text: String| text.chars().take(100).collect();
        return Err(ReviewError::Kind { kind: shorten(kind), version: shorten(api_version) });
    }
    let request = request.filter(|request| !request.uid.is_empty()).ok_or(ReviewError::NoRequest)?;
    if let Some((field, max)) = request.too_long() {
        return Err(ReviewError::TooLong { field, max });
    }
    let [new, old] = budgets;
    Ok(Request { memory: new.used() + old.used(), ..request })
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// The message for the user. Empty if the request is allowed.
    pub(crate) message: String,
    /// The violated rules, if rules refused the request.
    pub(crate) refusals: Option<Box<Refusals>>,
}

impl Answer {
    /// The request is allowed.
    pub(crate) fn allowed() -> Self {
        Self::without_rule(Verdict::Allowed, String::new())
    }

    /// Rules refuse the request.
    pub(crate) fn refused(refusals: Refusals) -> Self {
        Self { verdict: Verdict::Refused, message: refusals.to_string(), refusals: Some(Box::new(refusals)) }
    }

    /// The review lacks an object or contains one of another kind.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::without_rule(Verdict::Malformed, message.into())
    }

    /// The object exceeds [`MAX_OBJECT_MEMORY`].
    pub(crate) fn too_large(kind: &Kind) -> Self {
        Self::without_rule(Verdict::TooLarge, too_large(kind))
    }

    /// The request cannot be validated now, because a read failed.
    pub(crate) fn undecided(message: &str) -> Self {
        Self::without_rule(Verdict::Undecided, format!("{message}; try again"))
    }

    fn without_rule(verdict: Verdict, message: String) -> Self {
        Self { verdict, message, refusals: None }
    }

    /// The identifiers of the violated rules, separated by commas.
    pub(crate) fn rules(&self) -> Option<String> {
        let rules = self.refusals.as_ref()?.iter().map(|refusal| refusal.rule.id());
        Some(rules.collect::<Vec<_>>().join(","))
    }
}

/// The review with the response to `request`, about a pool of this kind.
pub(crate) fn encode(kind: &Kind, request: &Request, answer: &Answer, warnings: &[String]) -> Value {
    let status = status(kind, request, answer);
    let mut response = json!({ "uid": request.uid, "allowed": status.is_none() });
    if let Some(status) = status {
        response["status"] = json!(status);
    }
    if let Some(rules) = answer.rules() {
        response["auditAnnotations"] = json!({ "rule": rules });
    }
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    json!({ "apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response })
}

fn status(kind: &Kind, request: &Request, answer: &Answer) -> Option<Status> {
    let forbidden = answer.refusals.as_ref().is_some_and(|refusals| refusals.first().is_forbidden());
    let (code, reason) = match answer.verdict {
        Verdict::Allowed => return None,
        Verdict::Refused if forbidden => (403, "Forbidden"),
        Verdict::Refused => (422, "Invalid"),
        Verdict::Malformed | Verdict::Unreadable => (400, "BadRequest"),
        Verdict::TooLarge => (413, "RequestEntityTooLarge"),
        Verdict::Undecided => (500, "InternalError"),
    };
    Some(Status {
        status: Some("Failure".to_owned()),
        code: Some(code),
        reason: Some(reason.to_owned()),
        message: Some(answer.message.clone()),
        details: answer.refusals.as_ref().map(|refusals| details(kind, request, refusals)),
        ..Status::default()
    })
}

fn details(kind: &Kind, request: &Request, refusals: &Refusals) -> StatusDetails {
    let causes = refusals.iter().map(|refusal| StatusCause {
        reason: Some(refusal.reason().to_owned()),
        field: Some(refusal.field.clone()),
        message: Some(refusal.cause()),
    });
    StatusDetails {
        name: Some(request.name.clone()),
        group: Some(kind.group.to_owned()),
        kind: Some(kind.kind.to_owned()),
        causes: Some(causes.collect()),
        ..StatusDetails::default()
    }
}
