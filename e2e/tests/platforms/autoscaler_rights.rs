//! Who may write PoolAutoscalers: the controller scales pools with its own rights, and no user gains them.

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::autoscaler::GROUP;
use vmpool_e2e::autoscaling::{autoscaler_api, autoscaler_manifest};
use vmpool_e2e::world::condition::{desired_replicas, ready_replicas};
use vmpool_e2e::world::{PoolHandle, SETTLE, ScenarioWorld};
use vmpool_installation::workspace_root;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::pool_autoscalers::on_autoscaled;
use crate::protected::subresources;

/// A user who may write autoscalers and read pools, with these rights besides.
async fn tenant(world: &ScenarioWorld, name: &str, more: &[Value]) -> Result<Client> {
    let pools = world.platform().resource(TestedKind::Pool);
    let mut rules = vec![
        json!({ "apiGroups": [GROUP], "resources": ["poolautoscalers"], "verbs": ["create", "get", "patch"] }),
        json!({ "apiGroups": [pools.group], "resources": [pools.plural], "verbs": ["get"] }),
    ];
    rules.extend(more.iter().cloned());
    Ok(world.user_with(name, Value::Array(rules)).await?)
}

/// Creates an autoscaler with the rights of a user.
async fn create_as(world: &ScenarioWorld, client: &Client, name: &str, pool: &PoolHandle<'_>) -> Result<()> {
    world.user_actions().autoscaled.insert(pool.name().to_owned());
    let manifest = autoscaler_manifest(world, name, pool.name(), &json!({ "free": 2 }));
    let object = serde_json::from_value(manifest)?;
    autoscaler_api(world, client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// The API server forbids a request with a text that contains this part.
fn ensure_forbidden<T>(result: Result<T>, part: &str) -> Result<()> {
    let error = result.err().context("the request is accepted")?;
    let text = format!("{error:?}");
    ensure!(text.contains("403") && text.contains(part), "{text}");
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn an_autoscaler_gives_its_user_no_right(#[case] platform: TestedPlatform) {
    on_autoscaled(platform, "an autoscaler gives its user no right", async |world| {
        let pool = world.pool("web").replicas(0).create().await?;
        let group = platform.resource(TestedKind::Pool).group;
        let scale =
            json!({ "apiGroups": [group], "resources": ["virtualmachinepools/scale"], "verbs": ["update"] });
        let remove = json!({
            "apiGroups": [subresources(platform)],
            "resources": ["virtualmachinepools/scaledownwith"],
            "verbs": ["create"],
        });
        let none = tenant(world, "none", &[]).await?;
        ensure_forbidden(create_as(world, &none, "web", &pool).await, "virtualmachinepools/scale")?;
        let scales = tenant(world, "scales", std::slice::from_ref(&scale)).await?;
        ensure_forbidden(create_as(world, &scales, "web", &pool).await, "virtualmachinepools/scaledownwith")?;
        pool.holds(desired_replicas(0), SETTLE).await?;
        // With both rights, a user may create one, which others then cannot change.
        let both = tenant(world, "both", &[scale, remove]).await?;
        create_as(world, &both, "web", &pool).await?;
        pool.until(ready_replicas(2)).await?;
        let change = Patch::Merge(json!({ "spec": { "free": 6 } }));
        let changed = autoscaler_api(world, none).patch("web", &PatchParams::default(), &change).await;
        ensure_forbidden(changed.map_err(Into::into), "virtualmachinepools/scale")?;
        pool.holds(ready_replicas(2), SETTLE).await?;
        Ok(())
    });
}

#[test]
fn every_example_of_an_autoscaler_is_accepted() {
    on_autoscaled(TestedPlatform::Dvp, "every example of an autoscaler is accepted", async |world| {
        let mut found = 0;
        for entry in std::fs::read_dir(workspace_root().join("docs/examples/pool-autoscaler"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                world.kubectl(&["apply", "--dry-run=server", "-f", &path.to_string_lossy()]).await?;
                found += 1;
            }
        }
        ensure!(found >= 3, "only {found} examples");
        Ok(())
    });
}
