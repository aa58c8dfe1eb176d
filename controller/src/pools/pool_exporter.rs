//! Whether another program exports metrics of KubeVirt pools under the names of KubeVirt.
//!
//! KubeVirt's observability controller does. No object says so, and the controller may not read Deployments.
//! But each way to install that program creates a ClusterRole with a fixed name. If the role allows listing
//! pools, the program exports their metrics: its first versions did neither.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::Resource as _;
use serde_json::Value;
use vmpool_platforms::{KubeVirt, Platform, ReferencedObject};

use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::settings::KubevirtMetrics;

/// Time between two reads of the roles.
const PAUSE: Duration = Duration::from_mins(5);

/// The ClusterRoles of the observability controller: with KubeVirt's cluster operator, and with its own
/// manifest.
const ROLES: [&str; 2] = ["virt-observability-controller", "virt-observability-controller-manager-role"];

/// Whether the policy leaves it to the cluster whether this platform has metrics under KubeVirt's names.
pub(super) fn follows_pool_exporter<P: Platform>(policy: KubevirtMetrics) -> bool {
    policy == KubevirtMetrics::Auto && P::NAME == <KubeVirt as Platform>::NAME
}

/// Keeps [`PoolContext::has_kubevirt_names`] equal to the absence of another exporter. Before the first
/// response, and if the roles were never readable, the metrics are off: dashboards would count each pool
/// twice.
pub(super) async fn follow_pool_exporter<P: Platform>(context: Arc<PoolContext<P>>) {
    let mut known = None;
    loop {
        match find_pool_exporter(&context).await {
            Ok(exporter) if known.replace(exporter) != Some(exporter) => show_exporter(&context, exporter),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot find out whether KubeVirt's observability controller exports metrics of pools"
            ),
        }
        context.leader.env.sleep(PAUSE).await;
    }
}

fn show_exporter<P: Platform>(context: &PoolContext<P>, role: Option<&str>) {
    context.has_kubevirt_names.store(role.is_none(), Ordering::Relaxed);
    match role {
        None => tracing::info!("this leader exports metrics of KubeVirt pools under the names of KubeVirt"),
        Some(role) => tracing::info!(
            role,
            "KubeVirt's observability controller exports metrics of pools, so this leader does not"
        ),
    }
}

/// The first role with which the observability controller may list pools.
async fn find_pool_exporter<P: Platform>(
    context: &PoolContext<P>,
) -> Result<Option<&'static str>, ReadError> {
    for name in ROLES {
        let reference = ReferencedObject {
            kind: "ClusterRole",
            collection: "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            name: name.to_owned(),
            cross_namespace: None,
        };
        if context
            .get_referenced(&reference)
            .await?
            .is_some_and(|role| may_list_pools(&role, &P::Pool::group(&())))
        {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether a rule of the role allows listing the pools of this group.
fn may_list_pools(role: &Value, group: &str) -> bool {
    role["rules"].as_array().into_iter().flatten().any(|rule| {
        contains_value(&rule["apiGroups"], group)
            && contains_value(&rule["resources"], "virtualmachinepools")
            && contains_value(&rule["verbs"], "list")
    })
}

/// Whether a list of a rule contains the value, or the wildcard.
fn contains_value(list: &Value, value: &str) -> bool {
    list.as_array().into_iter().flatten().any(|item| item == value || item == "*")
}
