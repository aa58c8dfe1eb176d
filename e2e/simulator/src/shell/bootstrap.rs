//! Creates the nodes and storage classes that the simulator needs.

use super::{
    config::{Error, SimulatorConfig},
    write::FIELD_MANAGER,
};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Node, storage::v1::StorageClass};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Label of the nodes that the simulator has created.
const NODE_LABEL: &str = "simulator.vmpool.dev/node";
const CLASSES: &[(&str, &str)] = &[("sim-immediate", "Immediate"), ("sim-wait", "WaitForFirstConsumer")];
const RETRY: Duration = Duration::from_millis(300);

/// Minimum interval of a node's heartbeats.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

/// Creates missing nodes and storage classes. While the API server does not respond, or the roles do not
/// exist yet, it retries.
pub(super) async fn create_nodes_and_classes(
    client: &Client,
    config: &SimulatorConfig,
    since: Timestamp,
) -> Result<(), Error> {
    let deadline = Instant::now() + config.bootstrap_timeout;
    for name in &config.settings.nodes {
        let make = async || {
            create_node(client, name).await?;
            report_node_ready(client, name, since).await
        };
        retry_until_created(deadline, format!("Node {name}"), make).await?;
    }
    for (name, binding) in CLASSES {
        retry_until_created(deadline, format!("StorageClass {name}"), || {
            create_storage_class(client, name, binding)
        })
        .await?;
    }
    Ok(())
}

/// Sends heartbeats of the nodes, as a kubelet does. Without heartbeats, a node lifecycle controller would
/// mark the nodes as not ready, and their Pods as well.
pub(super) async fn send_node_heartbeats(
    client: Client,
    nodes: Vec<String>,
    since: Timestamp,
    every: Duration,
) -> &'static str {
    let mut beats = tokio::time::interval(every.max(SHORTEST_HEARTBEAT));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        for name in &nodes {
            if let Err(error) = report_node_ready(&client, name, since).await {
                tracing::debug!(name, %error, "a heartbeat failed");
            }
        }
    }
}

async fn retry_until_created(
    deadline: Instant,
    what: String,
    make: impl AsyncFn() -> Result<(), kube::Error>,
) -> Result<(), Error> {
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

/// The taint keeps schedulers from assigning other Pods to these nodes. The machines' Pods are not scheduled.
async fn create_node(client: &Client, name: &str) -> Result<(), kube::Error> {
    let node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {NODE_LABEL: "true", "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": NODE_LABEL, "value": "true", "effect": "NoSchedule"}]},
    }))
    .map_err(kube::Error::SerdeError)?;
    ignore_already_exists(Api::<Node>::all(client.clone()).create(&manager(), &node).await)
}

/// Reports that a node has been ready `since` then.
async fn report_node_ready(client: &Client, name: &str, since: Timestamp) -> Result<(), kube::Error> {
    let room = json!({"cpu": "100k", "memory": "100Ti", "pods": "100k"});
    let seconds = crate::objects::format_seconds;
    let status = json!({
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Simulated",
                "message": "a node of the platform simulator",
                "lastHeartbeatTime": seconds(Timestamp::now()),
                "lastTransitionTime": seconds(since),
            }],
        },
    });
    let api = Api::<Node>::all(client.clone());
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

async fn create_storage_class(client: &Client, name: &str, binding: &str) -> Result<(), kube::Error> {
    let class = serde_json::from_value(json!({
        "metadata": {"name": name},
        "provisioner": "simulator.vmpool.dev/none",
        "volumeBindingMode": binding,
        "allowVolumeExpansion": true,
        "reclaimPolicy": "Delete",
    }))
    .map_err(kube::Error::SerdeError)?;
    ignore_already_exists(Api::<StorageClass>::all(client.clone()).create(&manager(), &class).await)
}

fn ignore_already_exists<K>(created: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}
