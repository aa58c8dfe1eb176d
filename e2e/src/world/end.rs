//! The end of a scenario: the world settles with a correct status, and nothing remains.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use vmpool_installation::programs::{Accounts, ControllerProgram};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder::RecordedHistory;
use vmpool_invariants::{Violation, disk_collection, finalizers, leftovers, settled, shared_disks};
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::error::{Error, Result};

use super::check::fail_on;
use super::state::{DEADLINE, SETTLE, ScenarioWorld};

/// Poll interval while the world has not settled.
const POLL: Duration = Duration::from_millis(100);

impl ScenarioWorld {
    /// Waits until every pool's status is correct and the controller has stopped writing, then checks for a
    /// while that this does not change (I8).
    ///
    /// # Errors
    /// [`Error::Violations`] if the world does not settle before the deadline.
    pub async fn settles(&self) -> Result<()> {
        let deadline = Deadline::after(DEADLINE);
        loop {
            self.recorder().catch_up().await?;
            let written = self.audit()?.len();
            let mut found = self.errors();
            if found.is_empty() {
                tokio::time::sleep(SETTLE).await;
                self.recorder().catch_up().await?;
                found = self.errors();
                found.extend(settled::check_settled_writes(
                    &self.audit()?[written..],
                    &Accounts::controller_user(),
                ));
            }
            if found.is_empty() || deadline.is_over() {
                return fail_on(&found);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Errors in the status of pools, and disks that should have been garbage-collected.
    fn errors(&self) -> Vec<Violation> {
        let history = self.recorder().history();
        let state = history.state();
        let pools = state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating());
        let errors = pools.flat_map(|pool| settled::status_errors(pool, &state.machines_of_pool(pool.uid())));
        let shared = shared_disks::check_shared_disks(state);
        errors
            .chain(finalizers::check_finalizers(state))
            .chain(disk_collection::check_disk_garbage_collection(state, Timestamp::now()))
            .chain(shared)
            .collect()
    }

    /// What would be wrong if nothing changed any more: errors in the status of pools, and what is left of
    /// deleted ones.
    pub fn errors_at_rest(&self) -> Vec<Violation> {
        let mut found = self.errors();
        found.extend(leftovers::check_leftovers(&self.recorder().history()));
        found
    }

    /// Waits until nothing remains of deleted pools (I9).
    pub(super) async fn until_nothing_is_left(&self) -> Result<()> {
        let nothing_left = |history: &RecordedHistory| leftovers::check_leftovers(history).is_empty();
        if self.recorder().until(DEADLINE, nothing_left).await?.is_err() {
            fail_on(&leftovers::check_leftovers(&self.recorder().history()))?;
        }
        self.check().await
    }

    /// Deletes every remaining pool, and waits until nothing remains of it (I9).
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`], [`Error::Violations`].
    pub async fn clear(&self) -> Result<()> {
        let pools: Vec<JsonObject> =
            self.recorder().history().state().all(TestedKind::Pool).cloned().collect();
        for pool in &pools {
            let deleted = self.api(TestedKind::Pool).delete(pool.name(), &DeleteParams::background()).await;
            match deleted {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(Error::api(format!("deleting pool {}", pool.name()))(error)),
            }
        }
        self.recorder().catch_up().await?;
        self.until_nothing_is_left().await
    }

    /// Stops the controllers with SIGTERM, and checks that each exits successfully.
    ///
    /// # Errors
    /// [`Error::NotInTime`] if one had to be killed, [`Error::Unexpected`] if one failed.
    pub async fn stop_controllers(&self) -> Result<()> {
        for controller in self.controllers() {
            stop(&controller).await?;
        }
        Ok(())
    }

    /// Deletes the namespace without waiting for the end of the deletion.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn delete_namespace(&self) -> Result<()> {
        let deleted =
            Api::<Namespace>::all(self.client()).delete(self.namespace(), &DeleteParams::default()).await;
        deleted.map(drop).map_err(Error::api(format!("deleting the namespace {}", self.namespace())))
    }
}

async fn stop(controller: &Arc<ControllerProgram>) -> Result<()> {
    match controller.stop().await? {
        Some(status) if !status.success() => Err(Error::Unexpected {
            what: format!("{} exits successfully after SIGTERM", controller.identity()),
            last: format!("{status}\n{}", controller.log_tail(20)),
        }),
        _ => Ok(()),
    }
}
