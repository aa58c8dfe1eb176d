//! What admission refuses: claims that the aggregated API did not write (the policy `vmpool-claims`), numbers
//! of claims that it did not count (`vmpool-claim-counts`), marks of drains (`vmpool-drains`) and records of
//! disks (`vmpool-disk-sources`) that the controller did not write, and limits out of bounds.

use anyhow::{Result, ensure};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::ScenarioWorld;
use vmpool_engine::draining::{HOOK_PREFIX, MARK};
use vmpool_engine::image_refresh::DISK_SOURCES;
use vmpool_engine::protection::{CLAIM, MAX_PROTECTION, UNTIL};
use vmpool_engine::recycling::{CLAIMS, REQUEST};
use vmpool_installation::programs::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{claim_of, from_now, machine, uid_in};

fn api(world: &ScenarioWorld, client: &Client) -> Api<DynamicObject> {
    world.platform().api(TestedKind::Machine, client.clone(), world.namespace())
}

async fn patch(
    world: &ScenarioWorld,
    client: &Client,
    machine: &JsonObject,
    key: &str,
    value: Value,
) -> Result<(), kube::Error> {
    let patch = json!({ "metadata": { "annotations": { key: value } } });
    let params = PatchParams::default();
    api(world, client).patch(machine.name(), &params, &Patch::Merge(&patch)).await.map(drop)
}

/// The refusal of a request, which must be that of the policy.
fn refused<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Result<()> {
    refused_with(result, &["vmpool-claims", "virtualmachinepools/NAME/claim", UNTIL])
}

/// A refusal whose message has these parts.
fn refused_with<T: std::fmt::Debug>(result: Result<T, kube::Error>, known: &[&str]) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let complete = known.iter().all(|part| status.message.contains(*part));
            ensure!(complete, "another refusal: {}", status.message);
            Ok(())
        }
        other => anyhow::bail!("the policy does not refuse: {other:?}"),
    }
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn only_the_aggregated_api_writes_claims(#[case] platform: TestedPlatform) {
    on(platform, "only the aggregated API writes claims", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let resources = |kind| platform.resource(kind);
        let rules = json!([
            {
                "apiGroups": [resources(TestedKind::Machine).group], "resources": ["virtualmachines"],
                "verbs": ["create", "get", "patch", "update", "delete"],
            },
            { "apiGroups": [resources(TestedKind::Pool).group], "resources": ["virtualmachinepools"], "verbs": ["get"] },
        ]);
        let ann = world.user_with("ann", rules).await?;
        let claimed = machine(&pool, &uid_in(&pool.claim("a").send().await?)?).await?;
        let machines = pool.machines().await?;
        let free = machines.iter().find(|machine| claim_of(machine).is_none());
        let free = free.ok_or_else(|| anyhow::anyhow!("both machines are claimed"))?;
        let forged = json!({ "id": "x", "user": world.user_name("ann"), "poolUID": pool.uid() }).to_string();
        let controller = world.cluster().service_account_client(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let admin = world.client();

        for client in [&ann, &controller, &admin] {
            refused(patch(world, client, free, CLAIM, json!(forged)).await)?;
            refused(patch(world, client, &claimed, CLAIM, json!(forged)).await)?;
            refused(patch(world, client, &claimed, CLAIM, Value::Null).await)?;
        }
        // A full update that changes or drops the claim, and a new machine that has one, are refused, too.
        let mut stored = api(world, &ann).get(claimed.name()).await?;
        let annotations = stored.metadata.annotations.get_or_insert_default();
        annotations.remove(CLAIM);
        refused(api(world, &ann).replace(claimed.name(), &PostParams::default(), &stored).await)?;
        let mut new = api(world, &ann).get(claimed.name()).await?;
        let mut metadata = json!({ "name": "forged", "namespace": world.namespace() });
        metadata["annotations"] = json!({ CLAIM: forged });
        new.metadata = serde_json::from_value(metadata)?;
        refused(api(world, &ann).create(&PostParams::default(), &new).await)?;

        // Protection needs no claim, and a write that leaves the claim as it is passes.
        let until = from_now(600);
        for machine in [free, &claimed] {
            patch(world, &ann, machine, UNTIL, json!(until)).await?;
            patch(world, &ann, machine, "example.com/note", json!("x")).await?;
        }
        ensure!(claim_of(&machine(&pool, claimed.uid()).await?).as_deref() == Some("a"));
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn only_the_controller_writes_marks_of_drains(#[case] platform: TestedPlatform) {
    on(platform, "only the controller writes marks of drains", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let machines = pool.machines().await?;
        let machine = machines.first().ok_or_else(|| anyhow::anyhow!("the pool has no machine"))?;
        let apiserver = world.cluster().service_account_client(SYSTEM_NAMESPACE, "vmpool-apiserver").await?;
        for client in [&apiserver, &world.client()] {
            let written = patch(world, client, machine, MARK, json!("{}")).await;
            refused_with(written, &["vmpool-drains", MARK, UNTIL])?;
        }
        // Any client that may patch the machine sets hooks.
        patch(world, &world.client(), machine, &format!("{HOOK_PREFIX}job"), json!("")).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn only_the_controller_writes_what_disks_are_created_from(#[case] platform: TestedPlatform) {
    on(platform, "only the controller writes what disks are created from", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let machines = pool.machines().await?;
        let machine = machines.first().ok_or_else(|| anyhow::anyhow!("the pool has no machine"))?;
        let apiserver = world.cluster().service_account_client(SYSTEM_NAMESPACE, "vmpool-apiserver").await?;
        for client in [&apiserver, &world.client()] {
            let written = patch(world, client, machine, DISK_SOURCES, json!("{}")).await;
            refused_with(written, &["vmpool-disk-sources", DISK_SOURCES, UNTIL])?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn only_the_aggregated_api_counts_claims(#[case] platform: TestedPlatform) {
    on(platform, "only the aggregated API counts claims", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let machines = pool.machines().await?;
        let machine = machines.first().ok_or_else(|| anyhow::anyhow!("the pool has no machine"))?;
        let controller = world.cluster().service_account_client(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        for client in [&controller, &world.client()] {
            let written = patch(world, client, machine, CLAIMS, json!("9")).await;
            refused_with(written, &["vmpool-claim-counts", CLAIMS, REQUEST])?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_longest_protection_is_from_one_minute_to_thirty_days(#[case] platform: TestedPlatform) {
    on(platform, "the longest protection is from one minute to thirty days", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let pools: Api<DynamicObject> = platform.api(TestedKind::Pool, world.client(), world.namespace());
        let field = |text: &str| json!({ "spec": { "maxProtection": text } });
        let annotation = |text: &str| json!({ "metadata": { "annotations": { MAX_PROTECTION: text } } });
        let patch = async |patch: Value| {
            pools.patch(pool.name(), &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        };
        for text in ["59s", "721h", "soon"] {
            for wrong in [field(text), annotation(text)] {
                match patch(wrong.clone()).await {
                    Err(kube::Error::Api(status)) if status.message.contains("from 1m to 720h") => {}
                    other => anyhow::bail!("{wrong}: {other:?}"),
                }
            }
        }
        // The field wins. Where the definition of pools drops it, the annotation applies.
        patch(annotation("1h")).await?;
        patch(field("2h")).await?;
        let claim = async |seconds: u64| {
            pool.claim("a")
                .with("durationSeconds", json!(seconds))
                .with("dryRun", json!(["All"]))
                .send()
                .await
        };
        ensure!(claim(7200).await?.is_success() && claim(7201).await?.code == 400, "the field limits claims");
        patch(json!({ "spec": { "maxProtection": null } })).await?;
        ensure!(
            claim(3600).await?.is_success() && claim(3601).await?.code == 400,
            "the annotation limits claims"
        );
        Ok(())
    });
}
