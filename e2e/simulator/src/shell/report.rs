//! Reports violations in the log, in a ConfigMap of the namespace, and over HTTP.

use super::write::FIELD_MANAGER;
use crate::shared::DiskViolation;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// ConfigMap with one key per violation.
const CONFIG_MAP: &str = "simulator-violations";
/// Maximum number of violations kept for HTTP. More are not useful: the first one fails the test.
const MOST_KEPT: usize = 1000;
const ATTEMPTS: u32 = 6;

/// Every violation of this run, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Violations(Arc<Mutex<Vec<DiskViolation>>>);

impl Violations {
    /// A copy of the list.
    pub fn list(&self) -> Vec<DiskViolation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, violation: DiskViolation) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MOST_KEPT {
            list.push(violation);
        }
    }
}

#[derive(Clone)]
pub(super) struct Reporter {
    client: Client,
    violations: Violations,
}

impl Reporter {
    pub(super) fn new(client: Client, violations: Violations) -> Self {
        Self { client, violations }
    }

    pub(super) async fn report(&self, violation: DiskViolation) {
        tracing::error!(
            namespace = violation.namespace,
            disk = violation.disk,
            machines = ?violation.machines,
            problem = ?violation.problem,
            "VIOLATION: a disk is mounted by several machines, or was deleted while it is mounted"
        );
        self.violations.add(violation.clone());
        let mut wait = Duration::from_millis(200);
        for attempt in 1..=ATTEMPTS {
            match self.store(&violation).await {
                Ok(()) => return,
                Err(error) if attempt == ATTEMPTS => {
                    tracing::error!(namespace = violation.namespace, %error, "the violation could not be written to the ConfigMap");
                }
                Err(_) => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
            }
        }
    }

    async fn store(&self, violation: &DiskViolation) -> Result<(), kube::Error> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &violation.namespace);
        let key = format!("{}.{}", violation.disk, violation.time.as_millisecond());
        let value = serde_json::to_string(violation).map_err(kube::Error::SerdeError)?;
        let patch = Patch::Merge(json!({"data": {key.as_str(): value.as_str()}}));
        match api.patch(CONFIG_MAP, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(CONFIG_MAP.to_owned());
                map.data = Some([(key, value)].into());
                let parameters =
                    kube::api::PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false };
                api.create(&parameters, &map).await.map(drop)
            }
            Err(error) => Err(error),
        }
    }
}
