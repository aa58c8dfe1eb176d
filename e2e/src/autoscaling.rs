//! Autoscalers of pools, for scenarios that set metrics with [`vmpool_installation::metrics_api`].

use serde_json::{Value, json};
use vmpool_invariants::object::Kind;
use vmpool_test_cluster::Result;
use vmpool_test_cluster::control_plane::apply;

use crate::world::{Pool, World};

/// The target CPU usage of each machine, as a metric for [`autoscale`]: a tenth of a core.
pub fn cpu() -> Value {
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
pub async fn autoscale(world: &World, pool: &Pool<'_>, metric: Value, scale_down: Value) -> Result<()> {
    let api_version = world.platform().resource(Kind::Pool).api_version;
    let hpa = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": pool.name() },
        "spec": {
            "scaleTargetRef": { "apiVersion": api_version, "kind": Kind::Pool.name(), "name": pool.name() },
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [metric],
            "behavior": { "scaleUp": { "stabilizationWindowSeconds": 0 }, "scaleDown": scale_down },
        },
    });
    apply(&world.client(), &[hpa], Some(world.namespace())).await
}
