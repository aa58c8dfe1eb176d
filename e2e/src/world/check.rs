//! Checks the invariants after each step of a scenario.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::{self, UserActions, Violation};
use vmpool_test_cluster::control_plane::AuditEntry;
use vmpool_test_cluster::error::{Error, Result};

use super::state::ScenarioWorld;

/// The ConfigMap in which the simulator records violations.
const VIOLATIONS: &str = "simulator-violations";

impl ScenarioWorld {
    /// All requests that concern this namespace since the start of the scenario.
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

    /// The controllers' requests for objects of a kind since the start of the scenario, without those for
    /// subresources.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn controller_requests(&self, kind: TestedKind) -> Result<Vec<AuditEntry>> {
        let (user, resource) = (Accounts::controller_user(), self.platform.resource(kind));
        let mut entries = self.audit()?;
        entries.retain(|entry| {
            entry.user == user
                && entry.group == resource.group
                && entry.resource == resource.plural
                && entry.subresource.is_empty()
        });
        Ok(entries)
    }

    /// The accepted writes among the [requests](ScenarioWorld::controller_requests) of the controllers.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn controller_writes(&self, kind: TestedKind) -> Result<Vec<AuditEntry>> {
        let mut entries = self.controller_requests(kind)?;
        entries.retain(|entry| entry.is_write() && entry.is_success());
        Ok(entries)
    }

    /// Checks every invariant over the recorded history, if the steps of this world do so.
    ///
    /// # Errors
    /// [`Error::Violations`] with every violation; [`Error::Exited`] if a shared program has exited.
    pub async fn check(&self) -> Result<()> {
        self.installation.as_ref().map_or(Ok(()), |installation| installation.check())?;
        if !self.checks_steps {
            return Ok(());
        }
        let actions = self.user_actions().clone();
        self.check_with(&actions).await
    }

    /// Checks every invariant over the recorded history, with these actions of users.
    ///
    /// # Errors
    /// [`Error::Violations`] with every violation.
    pub async fn check_with(&self, actions: &UserActions) -> Result<()> {
        self.recorder.catch_up().await?;
        let audit = self.audit()?;
        let mut found = {
            let history = self.recorder.history();
            vmpool_invariants::check_history(&history, actions, &audit, &Accounts::controller_user())
        };
        found.extend(self.simulator_violations().await?);
        fail_on(&found)
    }

    /// The recorded states of the machine with this name, in their order. A state in which it was removed is
    /// the last one before.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn states_of(&self, machine: &str) -> Result<Vec<JsonObject>> {
        self.recorder.catch_up().await?;
        let history = self.recorder.history();
        let of = history.changes().iter().filter(|change| change.kind == TestedKind::Machine);
        Ok(of.map(|change| change.object.clone()).filter(|object| object.name() == machine).collect())
    }

    /// Drops old history, requests and results of targeted removals. Foreign objects stay recorded.
    ///
    /// For long runs, after the history was checked and no request is open.
    pub fn forget(&self) {
        self.recorder.forget();
        self.audit.lock().entries.clear();
        self.user_actions().completed_removals.clear();
    }

    /// I3: the violations that the simulator has recorded.
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
        Err(Error::Violations { violations: found.iter().map(ToString::to_string).collect() })
    }
}
