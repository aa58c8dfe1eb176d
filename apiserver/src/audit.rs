//! The log line of each removal: the caller, the targets and the result.

use std::time::Duration;

use http::HeaderMap;
use vmpool_runtime::Env;

use crate::authentication::AuthenticatedUser;
use crate::error::Error;
use crate::metrics::Outcome;
use crate::removal::{Accepted, PoolName};

/// The header in which kube-apiserver passes the id of a request in its audit log.
pub(crate) const AUDIT_ID: &str = "audit-id";
/// The maximum length of an accepted id.
const MAX_ID_LENGTH: usize = 128;

/// The id of a request: that of kube-apiserver, or a random one.
pub(crate) fn request_id(headers: &HeaderMap, env: &Env) -> String {
    let given = headers.get(AUDIT_ID).and_then(|value| value.to_str().ok());
    match given.filter(|id| !id.is_empty() && id.len() <= MAX_ID_LENGTH) {
        Some(id) => id.to_owned(),
        None => format!("{:016x}{:016x}", env.random(), env.random()),
    }
}

/// The caller and the id of a removal.
#[derive(Clone, Debug)]
pub(crate) struct AuditInfo {
    pub(crate) user: AuthenticatedUser,
    pub(crate) request: String,
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemovalSummary {
    pub(crate) outcome: Outcome,
    /// The number by which `replicas` was decremented.
    pub(crate) removed: usize,
    replicas: Option<i64>,
    error: Option<String>,
}

impl RemovalSummary {
    pub(crate) fn of(result: &Result<Accepted, Error>, dry_run: bool) -> Self {
        match result {
            Ok(accepted) => {
                let removed = accepted.targets.iter().filter(|target| !target.already_removed).count();
                let outcome = match (dry_run, removed) {
                    (true, _) => Outcome::DryRun,
                    (false, 0) => Outcome::Repeated,
                    (false, _) => Outcome::Removed,
                };
                let removed = if dry_run { 0 } else { removed };
                Self { outcome, removed, replicas: accepted.replicas, error: None }
            }
            Err(error) => {
                let outcome = match error.code().as_u16() {
                    429 => Outcome::Full,
                    500.. => Outcome::Failed,
                    _ => Outcome::Refused,
                };
                Self { outcome, removed: 0, replicas: None, error: Some(error.to_string()) }
            }
        }
    }
}

impl AuditInfo {
    /// Writes the log line. User names are external input, so their control characters are escaped.
    pub(crate) fn log(
        &self,
        pool: &PoolName,
        targets: &[String],
        summary: &RemovalSummary,
        duration: Duration,
    ) {
        tracing::info!(
            user = ?self.user.name,
            groups = self.user.groups.len(),
            request = ?self.request,
            namespace = pool.namespace,
            pool = pool.name,
            targets = targets.join(","),
            verdict = summary.outcome.as_str(),
            removed = summary.removed,
            replicas = summary.replicas,
            error = summary.error.as_ref().map(tracing::field::debug),
            milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            "targeted removal"
        );
    }

    /// Writes the log line of a claim or a release.
    pub(crate) fn log_claim(
        &self,
        pool: &PoolName,
        id: &str,
        machine: Option<&str>,
        verdict: &'static str,
        error: Option<&Error>,
        duration: Duration,
    ) {
        tracing::info!(
            user = ?self.user.name,
            groups = self.user.groups.len(),
            request = ?self.request,
            namespace = pool.namespace,
            pool = pool.name,
            claim = id,
            machine,
            verdict,
            error = error.map(|error| tracing::field::debug(error.to_string())),
            milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            "claim of a machine"
        );
    }
}

#[cfg(test)]
mod tests;
