//! What the simulator brings along: nodes to run on and storage classes to choose from.

use super::{Config, Error, write::FIELD_MANAGER};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Node, storage::v1::StorageClass};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Label of the nodes that the simulator made.
const NODE_LABEL: &str = "simulator.vmpool.dev/node";
const CLASSES: &[(&str, &str)] = &[("sim-immediate", "Immediate"), ("sim-wait", "WaitForFirstConsumer")];
const RETRY: Duration = Duration::from_millis(300);

/// Makes what is missing. An API server that is not up yet, or roles that are not there yet, are waited for.
pub(super) async fn run(client: &Client, config: &Config) -> Result<(), Error> {
    let deadline = Instant::now() + config.bootstrap_timeout;
    for name in &config.settings.nodes {
        patiently(deadline, format!("Node {name}"), || node(client, name)).await?;
    }
    for (name, binding) in CLASSES {
        patiently(deadline, format!("StorageClass {name}"), || class(client, name, binding)).await?;
    }
    Ok(())
}

async fn patiently<F>(deadline: Instant, what: String, make: impl Fn() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    loop {
        match make().await {
            Ok(()) => return Ok(()),
            Err(source) if Instant::now() + RETRY > deadline => {
                return Err(Error::Bootstrap { what, source });
            }
            Err(error) => {
                tracing::debug!(what, %error, "not yet");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

fn manager() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run: false }
}

async fn node(client: &Client, name: &str) -> Result<(), kube::Error> {
    let api = Api::<Node>::all(client.clone());
    let node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {NODE_LABEL: "true", "kubernetes.io/hostname": name}},
    }))
    .map_err(kube::Error::SerdeError)?;
    unless_there(api.create(&manager(), &node).await)?;
    let room = json!({"cpu": "100k", "memory": "100Ti", "pods": "100k"});
    let now = crate::objects::seconds(Timestamp::now());
    let status = json!({
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Simulated",
                "message": "a node of the platform simulator",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
        },
    });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

async fn class(client: &Client, name: &str, binding: &str) -> Result<(), kube::Error> {
    let class = serde_json::from_value(json!({
        "metadata": {"name": name},
        "provisioner": "simulator.vmpool.dev/none",
        "volumeBindingMode": binding,
        "allowVolumeExpansion": true,
        "reclaimPolicy": "Delete",
    }))
    .map_err(kube::Error::SerdeError)?;
    unless_there(Api::<StorageClass>::all(client.clone()).create(&manager(), &class).await)
}

fn unless_there<K>(created: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}
