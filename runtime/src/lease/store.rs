//! Requests for the Lease, each with a deadline.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};

use super::health::LeaseHealth;
use super::{LeaseConfig, LeaseError, record};
use crate::env::{Elapsed, Env};

/// The Lease on the server.
pub(super) struct Store {
    api: Api<Lease>,
    pub(super) config: LeaseConfig,
    pub(super) env: Env,
    pub(super) health: LeaseHealth,
}

/// What the server did with a write.
pub(super) enum Written {
    /// It is stored, and this is the result.
    Stored(Box<Lease>),
    /// The Lease is not the one that was read: read again.
    Stale,
}

impl Store {
    pub(super) fn new(client: Client, config: LeaseConfig, env: Env) -> Self {
        let health = LeaseHealth::new(env.clone());
        Self { api: Api::namespaced(client, &config.namespace), config, env, health }
    }

    /// Reads the Lease from the server's storage, not from its cache.
    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        let answer = self.bounded(self.api.get_opt(&self.config.name)).await?;
        let lease =
            answer.map_err(|source| LeaseError::Read { lease: self.object(), source: source.into() })?;
        self.health.contacted();
        Ok(lease)
    }

    /// Creates the Lease if it has no resourceVersion, else replaces exactly the version that was read.
    ///
    /// The uid goes with it: the server creates a missing Lease even on a replace, unless a uid is named.
    pub(super) async fn write(&self, lease: &Lease) -> Result<Written, LeaseError> {
        let parameters =
            PostParams { field_manager: Some(self.config.name.clone()), ..PostParams::default() };
        let answer = if lease.metadata.resource_version.is_some() {
            self.bounded(self.api.replace(&self.config.name, &parameters, lease)).await?
        } else {
            self.bounded(self.api.create(&parameters, lease)).await?
        };
        match answer {
            Ok(stored) => {
                self.health.contacted();
                self.health.held_by(record::holder(&stored));
                Ok(Written::Stored(stored.into()))
            }
            // Not found: deleted since, or, on a create, a namespace that is not there, which the next read cannot tell.
            Err(kube::Error::Api(status)) if status.code == 409 || is_gone(&status, lease) => {
                self.health.contacted();
                Ok(Written::Stale)
            }
            Err(source) => Err(LeaseError::Write { lease: self.object(), source: source.into() }),
        }
    }

    /// The Lease in words.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.name)
    }

    async fn bounded<T>(&self, request: impl Future<Output = T>) -> Result<T, LeaseError> {
        let limit = self.config.request_deadline;
        self.env
            .timeout(limit, request)
            .await
            .map_err(|Elapsed(limit)| LeaseError::Deadline { lease: self.object(), limit })
    }
}

/// Whether a replace failed because the Lease was deleted. A create that is "not found" lacks its namespace: an error.
fn is_gone(status: &kube::core::Status, lease: &Lease) -> bool {
    status.code == 404 && lease.metadata.resource_version.is_some()
}
