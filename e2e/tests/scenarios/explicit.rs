//! An `Explicit` pool cannot be scaled down through `replicas` by any client or request.

use anyhow::ensure;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    live_machine_count, machine_count, pool_condition, ready_replicas, status_number,
};
use vmpool_e2e::world::{PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioWorld};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::error::error_with_causes;

/// The text of a refusal.
fn refusal<T>(what: &str, outcome: Result<T, impl Into<anyhow::Error>>) -> anyhow::Result<String> {
    match outcome {
        Ok(_) => anyhow::bail!("{what} was accepted"),
        Err(error) => Ok(error_with_causes(error.into().as_ref())),
    }
}

/// A manifest as a user keeps it in a repository.
fn manifest(pool: &Value, replicas: Option<i64>) -> Value {
    let mut spec = pool["spec"].clone();
    match replicas {
        Some(replicas) => spec["replicas"] = json!(replicas),
        None => {
            spec.as_object_mut().map(|spec| spec.remove("replicas"));
        }
    }
    json!({
        "apiVersion": API_VERSION, "kind": TestedKind::Pool.name(),
        "metadata": { "name": pool["metadata"]["name"] }, "spec": spec })
}

async fn apply(
    world: &ScenarioWorld,
    pool: &PoolHandle<'_>,
    manager: &str,
    manifest: &Value,
) -> kube::Result<()> {
    let params = PatchParams::apply(manager).force();
    world.api(TestedKind::Pool).patch(pool.name(), &params, &Patch::Apply(manifest)).await.map(drop)
}

#[test]
fn an_explicit_pool_is_never_scaled_down_through_replicas() {
    define_scenario("an Explicit pool is never scaled down through replicas").guarded().run(async |world| {
        // Given an Explicit pool of three machines, whose `replicas` belongs to an applied manifest,
        let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let stored = pool.get().await?.value().clone();
        apply(world, &pool, "owner", &manifest(&stored, Some(3))).await?;
        pool.until(ready_replicas(3)).await?;
        let api = world.api(TestedKind::Pool);
        let merge = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
        let drops = Patch::Merge(json!({ "spec": { "replicas": null } }));
        let json_patch: json_patch::Patch =
            serde_json::from_value(json!([{ "op": "replace", "path": "/spec/replicas", "value": 0 }]))?;
        let hidden = json!({ "spec": { "replicas": 1, "virtualMachineTemplate": { "spec": {
            "memory": { "size": "1Gi" } } } } });
        let leaving = json!({ "spec": { "replicas": 1, "scaleDownPolicy": "NewestFirst" } });
        let entering = json!({ "spec": { "replicas": 1, "scaleDownPolicy": "Explicit" } });
        let params = PatchParams::default();
        let mut replaced: kube::api::DynamicObject = api.get(pool.name()).await?;
        replaced.data["spec"]["replicas"] = json!(1);
        // when a client lowers `replicas` with any kind of request,
        let refusals = [
            refusal("kubectl scale", pool.scale(2).await)?,
            refusal("a patch of the scale", pool.scale_by_api(0).await)?,
            refusal("a merge patch", api.patch(pool.name(), &params, &merge).await)?,
            refusal("a patch that removes replicas", api.patch(pool.name(), &params, &drops).await)?,
            refusal("a JSON patch", api.patch(pool.name(), &params, &Patch::Json::<()>(json_patch)).await)?,
            refusal("an update", api.replace(pool.name(), &PostParams::default(), &replaced).await)?,
            refusal("an apply", apply(world, &pool, "owner", &manifest(&stored, Some(1))).await)?,
            refusal(
                "an apply that removes replicas",
                apply(world, &pool, "owner", &manifest(&stored, None)).await,
            )?,
            refusal("an edit of several fields", pool.edit(&hidden).await)?,
            refusal("an edit that sets the same policy", pool.edit(&entering).await)?,
        ];
        // then the webhook refuses the request and says what to do instead,
        for refusal in &refusals {
            ensure!(refusal.contains("Explicit") && refusal.contains("runners"), "{refusal}");
            ensure!(refusal.to_lowercase().contains("scaledownwith"), "{refusal}");
        }
        pool.holds(live_machine_count(3), SETTLE).await?;
        // while scale-up, an unchanged `replicas`, and edits of labels are allowed,
        pool.edit(&json!({ "metadata": { "labels": { "team": "blue" } } })).await?;
        pool.scale(3).await?;
        pool.scale(4).await?;
        pool.until(ready_replicas(4)).await?;
        // and so is a change to another policy.
        pool.edit(&leaving).await?;
        pool.until(ready_replicas(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_simultaneous_change_to_explicit_and_fewer_replicas_is_refused() {
    define_scenario("a simultaneous change to Explicit and fewer replicas is refused").guarded().run(
        async |world| {
            let pool = world.pool("web").replicas(2).ready().await?;
            let both = json!({ "spec": { "replicas": 1, "scaleDownPolicy": "Explicit" } });
            let refusal = refusal("fewer replicas with the new policy", pool.edit(&both).await)?;
            ensure!(refusal.contains("Explicit"), "{refusal}");
            pool.edit(&json!({ "spec": { "scaleDownPolicy": "Explicit" } })).await?;
            pool.holds(live_machine_count(2), SETTLE).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn an_explicit_pool_keeps_surplus_machines() {
    define_scenario("an Explicit pool keeps surplus machines").run(async |world| {
        // Given an Explicit pool of three machines,
        let pool = world.pool("runners").policy(PoolScaleDownPolicy::Explicit).replicas(3).ready().await?;
        // when `replicas` is lowered,
        pool.edit(&json!({ "spec": { "replicas": 1 } })).await?;
        // then no machine is removed, and the condition says what to do.
        pool.until(status_number("readyReplicas", 3).and(pool_condition(
            "Progressing",
            "True",
            "ReplicasProgressing",
        )))
        .await?;
        pool.holds(live_machine_count(3), SETTLE).await?;
        let message = pool.get().await?.condition("Progressing").cloned().unwrap_or_default();
        let message = message["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("by name"), "{message}");
        // A machine that a user deletes is not replaced while there is a surplus.
        world.delete(&pool.machine(0).await?).await?;
        pool.until(machine_count(2).and(status_number("replicas", 2))).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}
