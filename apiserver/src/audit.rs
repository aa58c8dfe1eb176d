//! One line in the log for each removal: who asked for what, and what came of it.

use std::time::Duration;

use http::HeaderMap;
use vmpool_runtime::Env;

use crate::authentication::User;
use crate::error::Error;
use crate::metrics::Outcome;
use crate::removal::{Accepted, PoolName};

/// The header by which the API server tells the id of a request in its own audit log.
pub(crate) const AUDIT_ID: &str = "audit-id";
/// The longest id that is believed.
const LONGEST: usize = 128;

/// The id of a request: the API server's own, or one of ours.
pub(crate) fn request_id(headers: &HeaderMap, env: &Env) -> String {
    let theirs = headers.get(AUDIT_ID).and_then(|value| value.to_str().ok());
    match theirs.filter(|id| !id.is_empty() && id.len() <= LONGEST) {
        Some(id) => id.to_owned(),
        None => format!("{:016x}{:016x}", env.random(), env.random()),
    }
}

/// What is known about a removal before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    pub(crate) user: User,
    pub(crate) request: String,
}

/// What came of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// Machines that `replicas` went down for.
    pub(crate) counted: usize,
    replicas: Option<i64>,
    error: Option<String>,
}

impl Verdict {
    pub(crate) fn of(result: &Result<Accepted, Error>, dry_run: bool) -> Self {
        match result {
            Ok(accepted) => {
                let counted = accepted.machines.iter().filter(|machine| !machine.already).count();
                let outcome = match (dry_run, counted) {
                    (true, _) => Outcome::DryRun,
                    (false, 0) => Outcome::Repeated,
                    (false, _) => Outcome::Removed,
                };
                let counted = if dry_run { 0 } else { counted };
                Self { outcome, counted, replicas: accepted.replicas, error: None }
            }
            Err(error) => {
                let outcome = match error.code().as_u16() {
                    429 => Outcome::Full,
                    500.. => Outcome::Failed,
                    _ => Outcome::Refused,
                };
                Self { outcome, counted: 0, replicas: None, error: Some(error.to_string()) }
            }
        }
    }
}

impl Audit {
    /// Writes the line. Names of users come from outside: they are written with their control characters escaped.
    pub(crate) fn tell(&self, pool: &PoolName, targets: &[String], verdict: &Verdict, took: Duration) {
        tracing::info!(
            user = ?self.user.name,
            groups = self.user.groups.len(),
            request = ?self.request,
            namespace = pool.namespace,
            pool = pool.name,
            targets = targets.join(","),
            verdict = verdict.outcome.as_str(),
            removed = verdict.counted,
            replicas = verdict.replicas,
            error = verdict.error.as_ref().map(tracing::field::debug),
            milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "removal of named machines"
        );
    }
}

#[cfg(test)]
mod tests;
