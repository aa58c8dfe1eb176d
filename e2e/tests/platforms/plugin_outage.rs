//! The kubectl plugin while a program of vmpool does not work.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::wait::eventually;
use vmpool_e2e::world::condition::ready_replicas;
use vmpool_e2e::world::{DEADLINE, ScenarioWorld};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::plugin::{Plugin, builder, platform_rules};
use crate::slow_webhooks::black_hole;
use crate::{REPLICAS, on};

/// The plugin of a user who may read leases, too.
async fn plugin_of_lease_reader(world: &ScenarioWorld) -> Result<Plugin<'_>> {
    let mut rules = platform_rules(world.platform());
    let leases = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"] });
    rules.as_array_mut().context("the rules are no list")?.push(leases);
    Plugin::of(world, "ed", &["edit"], Some(rules)).await
}

/// The output of a command once it contains `expected`.
async fn eventual_output(plugin: &Plugin<'_>, arguments: &[&str], expected: &str) -> Result<String> {
    eventually(&format!("the output contains {expected}"), DEADLINE, async || {
        let output = plugin.output(arguments).await?;
        Ok(if output.contains(expected) { Ok(output) } else { Err(output) })
    })
    .await
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_plugin_says_that_no_controller_observes_a_pool(#[case] platform: TestedPlatform) {
    let scenario = define_scenario("the plugin names the silent leader").on(platform).controllers(0);
    scenario.run(async |world| {
        let _shared = REPLICAS.read().await;
        let controller = world.add_short_leased("a").await?;
        let pool = builder(world).replicas(2).ready().await?;
        let plugin = plugin_of_lease_reader(world).await?;
        let viewer = Plugin::of(world, "vera", &["vmpool-viewer"], None).await?;
        let system = ["--system-namespace", world.namespace()];
        let status = [&["status", "web"][..], &system].concat();
        let before = plugin.output(&status).await?;
        ensure!(!before.contains("not observed") && !before.contains("has been silent"), "{before}");

        // The controller exits without releasing its lease, and a user scales the pool.
        controller.kill();
        pool.scale(5).await?;
        let silent = eventual_output(&plugin, &status, "the leader a has been silent for").await?;
        ensure!(silent.contains(": NotObserved (was Ready)"), "{silent}");
        ensure!(silent.contains("of the pool is not observed"), "{silent}");
        ensure!(silent.contains("state and conditions are those of generation"), "{silent}");
        let (code, list, notes) = plugin.run(&[&["list"][..], &system].concat()).await?;
        ensure!(code == Some(0) && list.contains("NotObserved (was Ready)"), "{list}");
        ensure!(notes.contains("the leader a has been silent for"), "{notes}");
        // A user who may not read the lease sees the first half.
        let status_of_viewer = viewer.output(&status).await?;
        ensure!(status_of_viewer.contains("of the pool is not observed"), "{status_of_viewer}");
        ensure!(!status_of_viewer.contains("has been silent"), "{status_of_viewer}");
        // Programs read the same.
        let data = plugin.output(&[&status[..], &["-o", "json"]].concat()).await?;
        let data: Value = serde_json::from_str(&data)?;
        ensure!(data["leader"]["state"] == "Silent" && data["leader"]["holder"] == "a", "{data}");

        controller.restart().await?;
        pool.until(ready_replicas(5)).await?;
        let after = plugin.output(&status).await?;
        ensure!(!after.contains("not observed") && !after.contains("has been silent"), "{after}");
        Ok(())
    });
}

/// A webhook of the pools of the scenario that never answers, as that of vmpool if its program hangs.
fn hanging_webhook(world: &ScenarioWorld, port: u16) -> Result<ValidatingWebhookConfiguration> {
    let pools = world.platform().resource(TestedKind::Pool);
    let webhook = json!({
        "name": "hanging.webhook.vmpool.dev",
        "clientConfig": { "url": format!("https://127.0.0.1:{port}/") },
        "rules": [{
            "apiGroups": [pools.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": ["virtualmachinepools", "virtualmachinepools/scale"],
        }],
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": world.namespace() } },
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    });
    let configuration =
        json!({ "metadata": { "name": format!("hanging-{}", world.namespace()) }, "webhooks": [webhook] });
    Ok(serde_json::from_value(configuration)?)
}

/// Runs `doctor` until it succeeds or fails as expected. The API server notices new webhooks after a while.
async fn eventual_doctor(plugin: &Plugin<'_>, expected: i32) -> Result<String> {
    eventually(&format!("doctor exits with {expected}"), DEADLINE, async || {
        let (code, output, errors) = plugin.run(&["doctor"]).await?;
        let is_expected = code == Some(expected);
        Ok(if is_expected { Ok(output) } else { Err(format!("{code:?}:\n{output}\n{errors}")) })
    })
    .await
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_doctor_fails_while_a_webhook_hangs(#[case] platform: TestedPlatform) {
    on(platform, "the doctor fails while a webhook hangs", async |world| {
        let pool = builder(world).replicas(1).ready().await?;
        let plugin = Plugin::of(world, "ed", &["edit"], Some(platform_rules(platform))).await?;
        let title = if platform == TestedPlatform::Dvp { "DVP" } else { "KubeVirt" };
        let healthy = eventual_doctor(&plugin, 0).await?;
        for part in ["API service:", "webhook: refuses an invalid pool", "scale-down: a dry run for pool web"]
        {
            ensure!(healthy.contains(&format!("ok       {title} {part}")), "{part}: {healthy}");
        }

        let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client());
        let hanging = hanging_webhook(world, black_hole()?)?;
        api.create(&PostParams::default(), &hanging).await?;
        let failed = eventual_doctor(&plugin, 1).await;
        let name = hanging.metadata.name.as_deref().unwrap_or_default();
        api.delete(name, &DeleteParams::default()).await?;
        let failed = failed?;
        for part in ["webhook: no response within 5 s", "scale-down: no response within 5 s"] {
            ensure!(failed.contains(&format!("failed   {title} {part}")), "{part}: {failed}");
        }
        // Nothing was changed.
        ensure!(pool.get().await?.number("/spec/replicas") == Some(1));
        eventual_doctor(&plugin, 0).await.map(drop)
    });
}
