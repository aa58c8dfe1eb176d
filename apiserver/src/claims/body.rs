//! The bodies of claims and releases.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_engine::protection::{Claim, LONGEST_TEXT};

use super::model::{ClaimRequest, ReleaseAction, ReleaseRequest};
use crate::body::{is_dry_run, is_object};
use crate::error::Error;

/// The longest time for which a claim waits for a free machine.
const LONGEST_WAIT: u64 = 25;

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

/// Reads the body of a claim.
///
/// # Errors
/// [`Error::BadRequest`], whose text says how to correct the request.
pub(crate) fn read_claim_request(body: &[u8], dry_run_in_query: bool) -> Result<ClaimRequest, Error> {
    const EXAMPLE: &str = r#"{"id":"job-1","durationSeconds":3600}"#;
    let read = || {
        let body: ClaimBody = parse_claim_body(body, EXAMPLE)?;
        let id = require_claim_id(body.id, EXAMPLE)?;
        let seconds = body.duration_seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(|| format!("durationSeconds is missing or 0: send {EXAMPLE}"))?;
        if body.reason.as_ref().is_some_and(|reason| reason.len() > LONGEST_TEXT) {
            return Err(format!("reason has more than {LONGEST_TEXT} bytes: shorten it"));
        }
        let wait = body.wait_seconds.unwrap_or_default();
        if wait > LONGEST_WAIT {
            return Err(format!("waitSeconds is {wait}: use 0 to {LONGEST_WAIT}, and repeat the request"));
        }
        if let Some(machine) = body.machine.as_ref().filter(|machine| !is_dns_subdomain(machine)) {
            return Err(format!("machine {machine:?} is not a valid name of a virtual machine"));
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
    };
    read().map_err(Error::BadRequest)
}

/// Reads the body of a release.
///
/// # Errors
/// [`Error::BadRequest`], whose text says how to correct the request.
pub(crate) fn read_release_request(body: &[u8], dry_run_in_query: bool) -> Result<ReleaseRequest, Error> {
    const EXAMPLE: &str = r#"{"id":"job-1","machineUID":"<uid>","then":"Replace"}"#;
    let read = || {
        let body: ReleaseBody = parse_claim_body(body, EXAMPLE)?;
        let id = require_claim_id(body.id, EXAMPLE)?;
        let machine_uid = body.machine_uid.filter(|uid| !uid.is_empty());
        let machine_uid = machine_uid.ok_or_else(|| format!("machineUID is missing: send {EXAMPLE}"))?;
        let then = match body.then.as_deref() {
            Some("Keep") => ReleaseAction::Keep,
            Some("Remove") => ReleaseAction::Remove,
            Some("Replace") => ReleaseAction::Replace,
            other => {
                let other = other.map_or("missing".to_owned(), |other| format!("{other:?}"));
                return Err(format!("then is {other}: use Keep, Remove or Replace"));
            }
        };
        Ok(ReleaseRequest { id, machine_uid, then, dry_run: is_dry_run(body.dry_run)? || dry_run_in_query })
    };
    read().map_err(Error::BadRequest)
}

fn parse_claim_body<T: DeserializeOwned>(body: &[u8], example: &str) -> Result<T, String> {
    if !is_object(body) {
        return Err(format!("the body is not a JSON object: send {example}"));
    }
    serde_json::from_slice(body).map_err(|error| format!("the body is invalid: {error}; send {example}"))
}

fn require_claim_id(id: Option<String>, example: &str) -> Result<String, String> {
    let id = id.ok_or_else(|| format!("id is missing: send {example}"))?;
    Claim::check_id(&id)?;
    Ok(id)
}
