//! Autoscalers of pools, for scenarios that set metrics with [`vmpool_installation::metrics_api`].

use serde_json::{Value, json};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::Result;
use vmpool_test_cluster::control_plane::apply_manifests;

use crate::world::{PoolHandle, ScenarioWorld};

/// The target CPU usage of each machine, as a metric for [`create_pool_autoscaler`]: a tenth of a core.
pub fn cpu_metric() -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "100m" });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

/// Scaling rules without stabilization, so that an autoscaler follows the metric at once.
pub fn at_once() -> Value {
    let all = json!({ "type": "Percent", "value": 100, "periodSeconds": 1 });
    json!({ "stabilizationWindowSeconds": 0, "policies": [all] })
}

/// Creates a HorizontalPodAutoscaler for a pool, with one to five machines and immediate scale-up.
///
/// # Errors
/// The API server's error.
pub async fn create_pool_autoscaler(
    world: &ScenarioWorld,
    pool: &PoolHandle<'_>,
    metric: Value,
    scale_down: Value,
) -> Result<()> {
    let api_version = world.platform().resource(TestedKind::Pool).api_version;
    let hpa = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": pool.name() },
        "spec": {
            "scaleTargetRef": { "apiVersion": api_version, "kind": TestedKind::Pool.name(), "name": pool.name() },
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [metric],
            "behavior": { "scaleUp": { "stabilizationWindowSeconds": 0 }, "scaleDown": scale_down },
        },
    });
    apply_manifests(&world.client(), &[hpa], Some(world.namespace())).await
}
