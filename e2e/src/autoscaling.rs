//! Autoscalers of pools: HorizontalPodAutoscalers, for scenarios that set metrics with
//! [`vmpool_installation::metrics_api`], and PoolAutoscalers.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmpool_api::autoscaler::{API_VERSION, KIND, PoolAutoscaler};
use vmpool_api::conditions::find_condition;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::apply_manifests;
use vmpool_test_cluster::{Error, Result, poll};

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

/// How long a scenario waits for an autoscaler.
const DEADLINE: Duration = Duration::from_secs(90);

/// The manifest of a PoolAutoscaler of this pool, with at most six machines and a short delay, and with these
/// fields of the spec.
pub fn autoscaler_manifest(world: &ScenarioWorld, name: &str, pool: &str, fields: &Value) -> Value {
    let api_version = world.platform().resource(TestedKind::Pool).api_version;
    let mut spec = json!({
        "poolRef": { "apiVersion": api_version, "kind": TestedKind::Pool.name(), "name": pool },
        "maxReplicas": 6,
        "scaleDown": { "delay": "4s" },
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": name }, "spec": spec })
}

/// A PoolAutoscaler of a scenario.
#[derive(Clone, Copy)]
pub struct AutoscalerHandle<'w> {
    world: &'w ScenarioWorld,
    name: &'w str,
}

impl<'w> AutoscalerHandle<'w> {
    /// Creates an autoscaler of a pool, and lets the invariants know that the controller may scale the pool.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn create(
        world: &'w ScenarioWorld,
        name: &'w str,
        pool: &PoolHandle<'_>,
        fields: &Value,
    ) -> Result<Self> {
        world.user_actions().autoscaled.insert(pool.name().to_owned());
        let manifest = autoscaler_manifest(world, name, pool.name(), fields);
        apply_manifests(&world.client(), &[manifest], Some(world.namespace())).await?;
        Ok(Self { world, name })
    }

    fn api(&self) -> Api<PoolAutoscaler> {
        autoscaler_api(self.world, self.world.client())
    }

    /// Changes the spec with a merge patch.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn edit(&self, fields: &Value) -> Result<()> {
        let patch = json!({ "spec": fields });
        let patched = self.api().patch(self.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map_err(Error::api(format!("changing the autoscaler {}", self.name)))?;
        self.world.check().await
    }

    /// Deletes the autoscaler.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn delete(&self) -> Result<()> {
        let deleted = self.api().delete(self.name, &DeleteParams::background()).await;
        deleted.map_err(Error::api(format!("deleting the autoscaler {}", self.name)))?;
        self.world.check().await
    }

    /// Waits until the autoscaler fulfills a condition.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last state.
    pub async fn until(&self, what: &str, holds: impl Fn(&PoolAutoscaler) -> bool) -> Result<()> {
        let look = async || {
            let object = self.api().get(self.name).await;
            let object = object.map_err(Error::api(format!("reading the autoscaler {}", self.name)))?;
            Ok::<_, Error>(if holds(&object) { Ok(()) } else { Err(format!("{:?}", object.status)) })
        };
        poll::poll_until(|| format!("the autoscaler {}: {what}", self.name), DEADLINE, look).await?;
        self.world.check().await
    }

    /// Waits until a condition has this status and this reason.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last state.
    pub async fn until_condition(&self, kind: &str, status: &str, reason: &str) -> Result<()> {
        let holds = |object: &PoolAutoscaler| {
            let conditions = object.status.as_ref().and_then(|status| status.conditions.as_deref());
            let found = conditions.and_then(|conditions| find_condition(conditions, kind));
            found.is_some_and(|found| found.status == status && found.reason == reason)
        };
        self.until(&format!("{kind} is {status} with {reason}"), holds).await
    }
}

/// The PoolAutoscalers of the scenario's namespace, with the rights of a client.
pub fn autoscaler_api(world: &ScenarioWorld, client: Client) -> Api<PoolAutoscaler> {
    Api::namespaced(client, world.namespace())
}
