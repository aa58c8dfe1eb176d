//! Waits until the node is ready for Pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;

use super::{NODE, NodeCluster, components};
use crate::error::{Error, Result};
use crate::poll;
use crate::process;

/// How long a part of the node may take to become ready on a busy host.
const READY_DEADLINE: Duration = Duration::from_mins(2);

/// Timeout of one request to containerd.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

impl NodeCluster {
    pub(super) async fn until_containerd_answers(&self) -> Result<()> {
        let what = || "containerd answers".to_owned();
        poll::poll_until(what, READY_DEADLINE, async || {
            self.check()?;
            let mut command = components::ctr_command(self.namespaces(), &self.tools);
            command.arg("version");
            let output = process::command_output("ctr", command, ANSWER_DEADLINE).await?;
            let said = || String::from_utf8_lossy(&output.stderr).into_owned();
            Ok(if output.status.success() { Ok(()) } else { Err(said()) })
        })
        .await
    }

    pub(super) async fn until_ready(&self) -> Result<()> {
        let nodes = Api::<Node>::all(self.admin());
        poll::poll_until(
            || "the node is ready".to_owned(),
            READY_DEADLINE,
            async || {
                self.check()?;
                let node = nodes.get_opt(NODE).await.map_err(Error::api("reading the node"))?;
                Ok(match &node {
                    None => Err("the kubelet has not registered the node".to_owned()),
                    Some(node) if is_ready(node) => Ok(()),
                    Some(node) => Err(serde_json::to_string(&node.status).unwrap_or_default()),
                })
            },
        )
        .await
    }
}

/// Whether the node is Ready and has no taint. The taint of a new node is removed shortly after it becomes
/// Ready.
fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let ready = |type_: &str, status: &str| type_ == "Ready" && status == "True";
    taints.is_empty() && conditions.iter().any(|condition| ready(&condition.type_, &condition.status))
}
