//! Requests for the Lease. Each has a deadline.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};

use super::config::LeaseConfig;
use super::error::LeaseError;
use super::health::LeaseHealth;
use super::record;
use crate::env::{Env, TimeoutElapsed};

/// The Lease on the server.
pub(super) struct LeaseStore {
    api: Api<Lease>,
    pub(super) config: LeaseConfig,
    pub(super) env: Env,
    pub(super) health: LeaseHealth,
}

/// The result of a write.
pub(super) enum LeaseWriteResult {
    /// The API server stored this Lease.
    Stored(Box<Lease>),
    /// The Lease differs from the one that was read and must be read again.
    Stale,
}

impl LeaseStore {
    pub(super) fn new(client: Client, config: LeaseConfig, env: Env) -> Self {
        let health = LeaseHealth::new(env.clone());
        Self { api: Api::namespaced(client, &config.namespace), config, env, health }
    }

    /// Reads the most recent Lease, not from the cache of the API server.
    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        let response = self.bounded(self.api.get_opt(&self.config.name)).await?;
        let lease =
            response.map_err(|source| LeaseError::Read { lease: self.object(), source: source.into() })?;
        self.health.record_contact();
        Ok(lease)
    }

    /// Creates the Lease if it has no resource version. Otherwise replaces the version that was read.
    ///
    /// A replace carries the UID, because the API server creates a missing Lease on a replace without a UID.
    pub(super) async fn write(&self, lease: &Lease) -> Result<LeaseWriteResult, LeaseError> {
        let parameters =
            PostParams { field_manager: Some(self.config.name.clone()), ..PostParams::default() };
        let response = if lease.metadata.resource_version.is_some() {
            self.bounded(self.api.replace(&self.config.name, &parameters, lease)).await?
        } else {
            self.bounded(self.api.create(&parameters, lease)).await?
        };
        match response {
            Ok(stored) => {
                self.health.record_contact();
                self.health.set_holder(record::lease_holder(&stored));
                Ok(LeaseWriteResult::Stored(stored.into()))
            }
            // A replace that is not found: the Lease was deleted. A create that is not found: the namespace
            // is missing, which is an error.
            Err(kube::Error::Api(status)) if status.code == 409 || is_gone(&status, lease) => {
                self.health.record_contact();
                Ok(LeaseWriteResult::Stale)
            }
            Err(source) => Err(LeaseError::Write { lease: self.object(), source: source.into() }),
        }
    }

    /// The Lease, as `namespace/name`.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    async fn bounded<T>(&self, request: impl Future<Output = T>) -> Result<T, LeaseError> {
        let limit = self.config.request_deadline;
        self.env
            .timeout(limit, request)
            .await
            .map_err(|TimeoutElapsed(limit)| LeaseError::Deadline { lease: self.object(), limit })
    }
}

/// Whether a replace failed because the Lease was deleted.
fn is_gone(status: &kube::core::Status, lease: &Lease) -> bool {
    status.code == 404 && lease.metadata.resource_version.is_some()
}
