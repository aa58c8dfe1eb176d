//! The bodies of claims and releases.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_api::subresources::ReleaseAction;
use vmpool_engine::protection::{Claim, ClaimIdError, LONGEST_TEXT};

use super::model::{ClaimRequest, ReleaseRequest};
use crate::body::{DryRunValueError, is_dry_run, is_object};
use crate::error::Error;

/// The longest time for which a claim waits for a free machine.
const LONGEST_WAIT: u64 = vmpool_api::subresources::LONGEST_WAIT.as_secs();

// The fields of every object are accepted if their types are right, and their values are ignored.

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimBody {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    id: Option<String>,
    duration_seconds: Option<u64>,
    reason: Option<String>,
    wait_seconds: Option<u64>,
    machine: Option<String>,
    renew: Option<bool>,
    dry_run: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseBody {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    id: Option<String>,
    #[serde(rename = "machineUID")]
    machine_uid: Option<String>,
    then: Option<String>,
    dry_run: Option<Vec<String>>,
}

/// Why the body of a claim or of a release is invalid, and how to correct it.
///
/// The caller receives this text alone, so it contains the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimBodyError {
    /// The body is no JSON object.
    #[error("the body is not a JSON object: send {example}")]
    NotAnObject { example: &'static str },
    /// The body is an object of another form.
    #[error("the body is invalid: {source}; send {example}")]
    Malformed { example: &'static str, source: serde_json::Error },
    /// The body has no id.
    #[error("id is missing: send {example}")]
    NoId { example: &'static str },
    /// The id is invalid. The text says what is allowed.
    #[error(transparent)]
    Id(#[from] ClaimIdError),
    /// A claim says for how long it is.
    #[error("durationSeconds is missing or 0: send {example}")]
    NoDuration { example: &'static str },
    /// The reason is too long to be stored.
    #[error("reason has more than {LONGEST_TEXT} bytes: shorten it")]
    LongReason,
    /// The caller would wait for too long.
    #[error("waitSeconds is {0}: use 0 to {LONGEST_WAIT}, and repeat the request")]
    LongWait(u64),
    /// No machine can have this name.
    #[error("machine {0:?} is not a valid name of a virtual machine")]
    MachineName(String),
    /// A release names the machine by its UID.
    #[error("machineUID is missing: send {example}")]
    NoMachineUid { example: &'static str },
    /// A release says what happens to the machine.
    #[error("then is missing: use Keep, Remove or Replace")]
    NoAction,
    /// There is no such action.
    #[error("then is {0:?}: use Keep, Remove or Replace")]
    UnknownAction(String),
    /// The body asks for a dry run in an unknown way.
    #[error(transparent)]
    DryRun(#[from] DryRunValueError),
}

impl From<ClaimBodyError> for Error {
    fn from(error: ClaimBodyError) -> Self {
        Self::BadRequest(error.to_string())
    }
}

/// Reads the body of a claim.
///
/// # Errors
/// [`ClaimBodyError`].
pub(crate) fn read_claim_request(
    body: &[u8],
    dry_run_in_query: bool,
) -> Result<ClaimRequest, ClaimBodyError> {
    const EXAMPLE: &str = r#"{"id":"job-1","durationSeconds":3600}"#;
    let body: ClaimBody = parse_claim_body(body, EXAMPLE)?;
    let id = require_claim_id(body.id, EXAMPLE)?;
    let seconds = body.duration_seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or(ClaimBodyError::NoDuration { example: EXAMPLE })?;
    if body.reason.as_ref().is_some_and(|reason| reason.len() > LONGEST_TEXT) {
        return Err(ClaimBodyError::LongReason);
    }
    let wait = body.wait_seconds.unwrap_or_default();
    if wait > LONGEST_WAIT {
        return Err(ClaimBodyError::LongWait(wait));
    }
    if let Some(machine) = body.machine.as_ref().filter(|machine| !is_dns_subdomain(machine)) {
        return Err(ClaimBodyError::MachineName(machine.clone()));
    }
    Ok(ClaimRequest {
        id,
        duration: Duration::from_secs(seconds),
        reason: body.reason,
        wait: Duration::from_secs(wait),
        machine: body.machine,
        renew: body.renew.unwrap_or_default(),
        dry_run: is_dry_run(body.dry_run)? || dry_run_in_query,
    })
}

/// Reads the body of a release.
///
/// # Errors
/// [`ClaimBodyError`].
pub(crate) fn read_release_request(
    body: &[u8],
    dry_run_in_query: bool,
) -> Result<ReleaseRequest, ClaimBodyError> {
    const EXAMPLE: &str = r#"{"id":"job-1","machineUID":"<uid>","then":"Replace"}"#;
    let body: ReleaseBody = parse_claim_body(body, EXAMPLE)?;
    let id = require_claim_id(body.id, EXAMPLE)?;
    let machine_uid = body.machine_uid.filter(|uid| !uid.is_empty());
    let machine_uid = machine_uid.ok_or(ClaimBodyError::NoMachineUid { example: EXAMPLE })?;
    let then = body.then.ok_or(ClaimBodyError::NoAction)?;
    let then = then.parse::<ReleaseAction>().map_err(|error| ClaimBodyError::UnknownAction(error.found))?;
    Ok(ReleaseRequest { id, machine_uid, then, dry_run: is_dry_run(body.dry_run)? || dry_run_in_query })
}

fn parse_claim_body<T: DeserializeOwned>(body: &[u8], example: &'static str) -> Result<T, ClaimBodyError> {
    if !is_object(body) {
        return Err(ClaimBodyError::NotAnObject { example });
    }
    serde_json::from_slice(body).map_err(|source| ClaimBodyError::Malformed { example, source })
}

fn require_claim_id(id: Option<String>, example: &'static str) -> Result<String, ClaimBodyError> {
    let id = id.ok_or(ClaimBodyError::NoId { example })?;
    Claim::check_id(&id)?;
    Ok(id)
}
