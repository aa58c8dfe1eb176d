//! Checking the invariants, after each step of a scenario.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::World;
use crate::cluster::{AuditEntry, AuditMark};
use crate::error::{Error, Result};
use crate::invariants::{self, Violation};
use crate::programs::Accounts;

/// The ConfigMap in which the simulator writes down what must never happen.
const VIOLATIONS: &str = "simulator-violations";

/// The part of the audit log that is about this namespace, as far as it was read.
pub(super) struct Audited {
    entries: Vec<AuditEntry>,
    next: AuditMark,
}

impl Audited {
    /// Nothing was read yet; what is in front of the mark never will be.
    pub(super) fn from_mark(next: AuditMark) -> Self {
        Self { entries: Vec::new(), next }
    }
}

impl World {
    /// The requests about this namespace since the scenario began, by anybody.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn audit(&self) -> Result<Vec<AuditEntry>> {
        let mut audited = self.audit.lock();
        let (new, next) = self.access.audit_of(&self.namespace, audited.next)?;
        audited.next = next;
        audited.entries.extend(new);
        Ok(audited.entries.clone())
    }

    /// Checks every invariant over everything that was recorded so far.
    ///
    /// # Errors
    /// [`Error::Invariants`] with every violation; [`Error::Exited`] if a program that it relies on is gone.
    pub async fn check(&self) -> Result<()> {
        self.installation.as_ref().map_or(Ok(()), |installation| installation.check())?;
        self.recorder.catch_up().await?;
        let audit = self.audit()?;
        let mut found = {
            let grounds = self.grounds();
            let history = self.recorder.history();
            invariants::violations(&history, &grounds, &audit, &Accounts::controller_user())
        };
        found.extend(self.simulator_violations().await?);
        fail_on(&found)
    }

    /// Forgets what is over: the history, the requests, the answers to removals by name. What others own stays known.
    ///
    /// For runs that are too long to keep all of it, at a moment at which it was checked and nothing is under way.
    pub fn forget(&self) {
        self.recorder.forget();
        self.audit.lock().entries.clear();
        self.grounds().removed.clear();
    }

    /// I3: what the simulator saw that must never happen.
    async fn simulator_violations(&self) -> Result<Vec<Violation>> {
        let maps = Api::<ConfigMap>::namespaced(self.client(), &self.namespace);
        let found =
            maps.get_opt(VIOLATIONS).await.map_err(Error::api("reading the simulator's violations"))?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        Ok(data
            .into_iter()
            .map(|(key, what)| Violation { invariant: "I3", what: format!("{key}: {what}") })
            .collect())
    }
}

/// One error for all violations, if there are any.
pub(super) fn fail_on(found: &[Violation]) -> Result<()> {
    if found.is_empty() {
        Ok(())
    } else {
        Err(Error::Invariants { violations: found.iter().map(ToString::to_string).collect() })
    }
}
