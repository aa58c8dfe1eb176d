//! A recorded demand in a file: a JSON list of claims.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

/// A claim of a recorded demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedClaim {
    /// When the claim is made.
    pub at: Timestamp,
    /// How long its machine is busy.
    pub duration: Duration,
}

/// A recorded demand cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a history is a JSON list of claims, each with the fields at and durationSeconds")]
pub struct RecordedClaimsError(#[from] serde_json::Error);

/// A claim in a file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileClaim {
    at: Timestamp,
    duration_seconds: u64,
}

/// Reads the claims of a history, in any order. Returns them in the order of time.
///
/// # Errors
/// [`RecordedClaimsError`].
pub fn parse_recorded_claims(text: &str) -> Result<Vec<RecordedClaim>, RecordedClaimsError> {
    let claims: Vec<FileClaim> = serde_json::from_str(text)?;
    let claim = |claim: FileClaim| RecordedClaim {
        at: claim.at,
        duration: Duration::from_secs(claim.duration_seconds),
    };
    let mut claims: Vec<RecordedClaim> = claims.into_iter().map(claim).collect();
    claims.sort_by_key(|claim| claim.at);
    Ok(claims)
}
