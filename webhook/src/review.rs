//! Decoding and encoding of `admission.k8s.io/v1` AdmissionReview, limited to the fields that the webhook
//! uses.

mod envelope;
mod request;

use json_patch::Patch;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde::de::DeserializeSeed as _;
use serde_json::{Value, json};
use vmpool_engine::admission::scale::LoweredReplicas;
use vmpool_engine::admission::{PoolKind, Refusals};

use crate::bounded_json::{Fields, MemoryBudget};
use crate::metrics::Verdict;
use envelope::ReviewEnvelope;

pub(crate) use request::ReviewRequest;

const API_VERSION: &str = "admission.k8s.io/v1";

/// The maximum length of the body of a review in bytes. A review contains up to two objects, and
/// kube-apiserver accepts requests of up to 3 MiB.
pub const MAX_LENGTH: usize = 8 << 20;

/// The message for an object that exceeds [`MAX_OBJECT_MEMORY`] or the maximum nesting.
pub(crate) fn too_large_message(kind: &PoolKind) -> String {
    format!(
        "the object has too many fields and list entries, or more than 100 levels of nesting: the webhook uses at most \
         8 MiB of memory for an object; shorten {}",
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
    "metadata.finalizers",
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.deletionTimestamp",
];

/// The fields of a status that rules read: the number of machines of a pool, the references of an image, and
/// what a machine uses of its instance type and its preference.
const STATUS: &[&str] = &[
    "status.replicas",
    "status.referenceCount",
    "status.poolReferenceCount",
    "status.cloneReferenceCount",
    "status.instancetypeRef",
    "status.preferenceRef",
];

/// The maximum memory that [`decode_review`] uses for a body of this length, in bytes.
pub(crate) fn max_memory(body: usize) -> usize {
    body.saturating_mul(EXPANSION).min(2 * MAX_OBJECT_MEMORY)
}

/// Decodes the body of a review of pools of this kind.
///
/// If only the old object is too large, it is decoded without its templates, so that an update can make the
/// pool smaller. The new templates are then validated completely, because there are no old ones to compare
/// with.
///
/// # Errors
/// [`ReviewError`] if the body is not a valid review.
pub(crate) fn decode_review(body: &[u8], kind: &PoolKind) -> Result<ReviewRequest, ReviewError> {
    let fields = [METADATA, STATUS, &["spec"]].concat();
    let without_templates = [METADATA, kind.small_fields].concat();
    let budgets = [MemoryBudget::new(MAX_OBJECT_MEMORY), MemoryBudget::new(MAX_OBJECT_MEMORY)];
    let complete = decode_review_fields(body, [&fields, &fields], &budgets);
    let [new, old] = &budgets;
    if !new.is_exceeded() && !old.is_exceeded() {
        return complete;
    }
    if !new.is_exceeded() {
        let budgets = [MemoryBudget::new(MAX_OBJECT_MEMORY), MemoryBudget::new(MAX_OBJECT_MEMORY)];
        let smaller = decode_review_fields(body, [&fields, &without_templates], &budgets);
        if !budgets.iter().any(MemoryBudget::is_exceeded) {
            return smaller;
        }
    }
    // Without objects. The response then says that the object is too large.
    let budgets = [MemoryBudget::new(MAX_OBJECT_MEMORY), MemoryBudget::new(MAX_OBJECT_MEMORY)];
    Ok(ReviewRequest { too_large: true, ..decode_review_fields(body, [&[], &[]], &budgets)? })
}

fn decode_review_fields(
    body: &[u8],
    fields: [&[&str]; 2],
    budgets: &[MemoryBudget; 2],
) -> Result<ReviewRequest, ReviewError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let objects = [Fields::new(fields[0], &budgets[0]), Fields::new(fields[1], &budgets[1])];
    let ReviewEnvelope { api_version, kind, request } =
        envelope::ReviewSeed(objects).deserialize(&mut json)?;
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
    Ok(ReviewRequest { memory: new.used() + old.used(), ..request })
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct ReviewAnswer {
    pub(crate) verdict: Verdict,
    /// The message for the user. Empty if the request is allowed.
    pub(crate) message: String,
    /// The violated rules, if rules refused the request.
    pub(crate) refusals: Option<Box<Refusals>>,
    /// The invalid fields, if rules without identifiers refused the request.
    pub(crate) causes: Vec<StatusCause>,
    /// The code of the response, if it is not that of the verdict.
    code: Option<(u16, &'static str)>,
    /// The JSON patch of the object; `None` if it stays as it is.
    pub(crate) patch: Option<Patch>,
    /// What an allowed request for the scale of a pool lowers.
    pub(crate) lowered: Option<LoweredReplicas>,
}

impl ReviewAnswer {
    /// The request is allowed.
    pub(crate) fn allowed() -> Self {
        Self::without_rule(Verdict::Allowed, String::new())
    }

    /// The request is allowed, and this patch changes its object.
    pub(crate) fn patched(patch: Patch) -> Self {
        Self { patch: Some(patch), ..Self::allowed() }
    }

    /// The same answer to a request that lowers a scale. It tells the log and the audit log by how much.
    pub(crate) fn with_lowered_scale(self, lowered: LoweredReplicas) -> Self {
        Self { lowered: Some(lowered), ..self }
    }

    /// Rules refuse the request.
    pub(crate) fn refused(refusals: Refusals) -> Self {
        let answer = Self::without_rule(Verdict::Refused, refusals.to_string());
        Self { refusals: Some(Box::new(refusals)), ..answer }
    }

    /// These fields are invalid.
    pub(crate) fn invalid(causes: Vec<StatusCause>) -> Self {
        let spelled = causes.iter().map(|cause| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{}: {}", text(&cause.field), text(&cause.message))
        });
        let message = spelled.collect::<Vec<_>>().join("; ");
        Self { causes, ..Self::without_rule(Verdict::Refused, message) }
    }

    /// As [`Self::invalid`], with code 400: the request does not say what it needs to.
    pub(crate) fn incomplete(causes: Vec<StatusCause>) -> Self {
        Self { code: Some((400, "BadRequest")), ..Self::invalid(causes) }
    }

    /// The review lacks an object or contains one of another kind.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::without_rule(Verdict::Malformed, message.into())
    }

    /// The object exceeds [`MAX_OBJECT_MEMORY`].
    pub(crate) fn too_large(kind: &PoolKind) -> Self {
        Self::without_rule(Verdict::TooLarge, too_large_message(kind))
    }

    /// The request cannot be validated now, because a read failed.
    pub(crate) fn undecided(message: &str) -> Self {
        Self::without_rule(Verdict::Undecided, format!("{message}; try again"))
    }

    fn without_rule(verdict: Verdict, message: String) -> Self {
        Self { verdict, message, refusals: None, causes: Vec::new(), code: None, patch: None, lowered: None }
    }

    /// The first invalid field.
    pub(crate) fn field(&self) -> Option<&str> {
        let of_rule = self.refusals.as_ref().map(|refusals| refusals.first().field.as_str());
        of_rule.or_else(|| self.causes.first()?.field.as_deref())
    }

    /// The identifiers of the violated rules, separated by commas.
    pub(crate) fn rules(&self) -> Option<String> {
        let rules = self.refusals.as_ref()?.iter().map(|refusal| refusal.rule.id());
        Some(rules.collect::<Vec<_>>().join(","))
    }
}

/// The review with the response to `request`, about a pool of this kind.
pub(crate) fn encode_review(
    kind: &PoolKind,
    request: &ReviewRequest,
    answer: &ReviewAnswer,
    warnings: &[String],
) -> Value {
    let status = refusal_status(kind, request, answer);
    let mut response = json!({ "uid": request.uid, "allowed": status.is_none() });
    if let Some(status) = status {
        response["status"] = json!(status);
    }
    if let Some(rules) = answer.rules() {
        response["auditAnnotations"] = json!({ "rule": rules });
    }
    if let Some(LoweredReplicas { from, to }) = answer.lowered {
        response["auditAnnotations"] = json!({ "scaled": format!("from {from} to {to}") });
    }
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    if let Some(patch) = &answer.patch {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(json!(patch).to_string().into_bytes()));
    }
    json!({ "apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response })
}

fn refusal_status(kind: &PoolKind, request: &ReviewRequest, answer: &ReviewAnswer) -> Option<Status> {
    let forbidden = answer.refusals.as_ref().is_some_and(|refusals| refusals.first().is_forbidden());
    let (code, reason) = match answer.verdict {
        Verdict::Allowed => return None,
        _ if answer.code.is_some() => answer.code?,
        Verdict::Refused if forbidden => (403, "Forbidden"),
        Verdict::Refused => (422, "Invalid"),
        Verdict::Malformed | Verdict::Unreadable => (400, "BadRequest"),
        Verdict::TooLarge => (413, "RequestEntityTooLarge"),
        Verdict::Undecided => (500, "InternalError"),
    };
    Some(Status {
        status: Some("Failure".to_owned()),
        code: Some(code.into()),
        reason: Some(reason.to_owned()),
        message: Some(answer.message.clone()),
        details: refusal_details(kind, request, answer),
        ..Status::default()
    })
}

fn refusal_details(kind: &PoolKind, request: &ReviewRequest, answer: &ReviewAnswer) -> Option<StatusDetails> {
    let refusals = answer.refusals.iter().flat_map(|refusals| refusals.iter());
    let of_rules = refusals.map(|refusal| StatusCause {
        reason: Some(refusal.reason().to_owned()),
        field: Some(refusal.field.clone()),
        message: Some(refusal.cause()),
    });
    let causes: Vec<_> = of_rules.chain(answer.causes.iter().cloned()).collect();
    (!causes.is_empty()).then(|| StatusDetails {
        name: Some(request.name.clone()),
        group: Some(kind.group.to_owned()),
        kind: Some(request.object["kind"].as_str().unwrap_or(kind.kind).to_owned()),
        causes: Some(causes),
        ..StatusDetails::default()
    })
}
