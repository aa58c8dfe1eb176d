//! Autohealing by the status that KubeVirt prints: its time, its backoff, and what it leaves alone.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;
use vmpool_e2e::wait::throughout;
use vmpool_invariants::object::JsonObject;

use crate::Unknown;
use crate::orphans::until_garbage_is_collected;
use crate::pools::{add_data_volume, bare};
use crate::world::{KubeVirtWorld, all_of, text, with_world};

/// How long a machine must fail.
const FAILING: Duration = Duration::from_secs(3);

/// The time between the first and the second replacement under one ordinal, in seconds.
const BACKOFF: i64 = 20;

fn healing(pool: &str, replicas: usize) -> Value {
    let mut spec = bare(pool, replicas);
    spec["autohealing"] = json!({ "minFailingToStartDuration": "3s", "startUpFailureThreshold": 100 });
    spec
}

fn knob(name: &str, value: &Value) -> Value {
    json!({ "metadata": { "annotations": { format!("simulator.vmpool.dev/{name}"): value } } })
}

/// Ends the guest of a machine, which then starts again with this knob.
pub(crate) async fn fail(world: &KubeVirtWorld<'_>, machine: &str, name: &str, value: &str) -> Result<()> {
    world.patch_machine(machine, &knob(name, &json!(value))).await?;
    world.place.delete(API_VERSION, "VirtualMachineInstance", machine).await
}

async fn until_status(world: &KubeVirtWorld<'_>, machine: &str, status: &str) -> Result<()> {
    world
        .until(&format!("{machine} is {status}"), async || {
            let machines = world.machines().await?;
            let is = machines.get(machine).map(|found| text(found, "/status/printableStatus") == status);
            Ok(is.filter(|is| *is).map(drop))
        })
        .await
}

async fn until_another(world: &KubeVirtWorld<'_>, machine: &str, former: &str) -> Result<String> {
    Ok(text(&world.until_another(machine, former).await?, "/metadata/uid").to_owned())
}

/// When a former machine with this name was deleted.
async fn deletion_of(world: &KubeVirtWorld<'_>, machine: &str, uid: &str) -> Result<Timestamp> {
    let states = world.states_of(machine).await?;
    let deleted = states.iter().find(|state| state.uid() == uid && state.is_terminating());
    let deleted = deleted.with_context(|| format!("{machine} was not deleted"))?;
    Ok(deleted.text("/metadata/deletionTimestamp").parse()?)
}

/// Machines with each of these states are replaced after its time. One that runs and is not ready is not.
async fn after_its_time(world: &KubeVirtWorld<'_>) -> Result<()> {
    world.create("heal", &healing("heal", 4)).await?;
    let before = world.until_ordinals("heal", &[0, 1, 2, 3]).await?;
    let failures = [
        ("heal-0", "unschedulable", "true", "ErrorUnschedulable"),
        ("heal-1", "image-pull-error", "ImagePullBackOff", "ImagePullBackOff"),
        ("heal-2", "missing-claim", "true", "ErrorPvcNotFound"),
    ];
    world.patch_machine("heal-3", &knob("node-loss", &json!("true"))).await?;
    for (machine, name, value, _) in failures {
        fail(world, machine, name, value).await?;
    }
    for (machine, _, _, status) in failures {
        until_status(world, machine, status).await?;
    }
    for (machine, ..) in failures {
        let uid = text(&before[machine], "/metadata/uid");
        until_another(world, machine, uid).await?;
        let failing = |state: &JsonObject| {
            let is_failing =
                failures.iter().any(|failure| state.text("/status/printableStatus") == failure.3);
            let ready = state.condition("Ready").filter(|_| is_failing)?;
            text(ready, "/lastTransitionTime").parse().ok()
        };
        let states = world.states_of(machine).await?;
        let since: Option<Timestamp> = states.iter().filter(|state| state.uid() == uid).find_map(failing);
        let since = since.context("it never failed")?;
        let lasted = deletion_of(world, machine, uid).await?.duration_since(since);
        // Both times are in whole seconds.
        ensure!(
            lasted.as_secs() + 1 >= FAILING.as_secs().cast_signed(),
            "{machine} was replaced after {lasted:?}"
        );
    }
    let lost = world.until_ordinals_but("heal", "heal-3").await?;
    ensure!(lost["heal-3"]["metadata"]["uid"] == before["heal-3"]["metadata"]["uid"], "heal-3 was replaced");
    world.patch_machine("heal-3", &knob("node-loss", &Value::Null)).await?;
    world.until_ordinals("heal", &[0, 1, 2, 3]).await.map(drop)
}

/// A machine that no template lets start is replaced, and again only after the backoff.
async fn with_backoff(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = healing("loop", 1);
    spec["virtualMachineTemplate"]["metadata"]["annotations"] =
        json!({ "simulator.vmpool.dev/unschedulable": "true" });
    world.create("loop", &spec).await?;
    let first = until_another(world, "loop-0", "").await?;
    let second = until_another(world, "loop-0", &first).await?;
    let third = until_another(world, "loop-0", &second).await?;
    let deleted = [deletion_of(world, "loop-0", &first).await?, deletion_of(world, "loop-0", &second).await?];
    let waited = deleted[1].duration_since(deleted[0]);
    // Both times are in whole seconds.
    ensure!(waited.as_secs() + 1 >= BACKOFF, "it was replaced again after {waited:?}");
    // The new template can start.
    let mut patch = knob("unschedulable", &Value::Null);
    patch = json!({ "spec": { "virtualMachineTemplate": patch } });
    world.patch("loop", &patch).await?;
    let machines = world.until_ordinals("loop", &[0]).await?;
    ensure!(text(&machines["loop-0"], "/metadata/uid") == third);
    Ok(())
}

/// A machine whose data cannot be imported is replaced with new storage, also if the pool preserves storage.
async fn with_a_failing_import(world: &KubeVirtWorld<'_>) -> Result<()> {
    const KNOB: &str = "simulator.vmpool.dev/import-error";
    let mut spec = healing("import", 1);
    add_data_volume(&mut spec, "import");
    let data = &mut spec["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0];
    data["metadata"]["annotations"] = json!({ KNOB: "Error" });
    spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
    world.create("import", &spec).await?;
    let first = until_another(world, "import-0", "").await?;
    until_status(world, "import-0", "DataVolumeError").await?;
    let data_of = async || -> Result<Option<String>> {
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        Ok(volumes.get("import-0").map(|found| text(found, "/metadata/uid").to_owned()))
    };
    let data = data_of().await?.context("import-0 has no DataVolume")?;
    until_another(world, "import-0", &first).await?;
    let another = async || Ok(data_of().await?.filter(|found| *found != data));
    world.until("import-0 has new storage", another).await?;
    // The source can be read again.
    let repaired = json!({ "metadata": { "annotations": { KNOB: null } } });
    world.place.patch("cdi.kubevirt.io/v1beta1", "DataVolume", "import-0", &repaired).await?;
    world.until_ordinals("import", &[0]).await.map(drop)
}

/// A paused pool replaces none, and no pool replaces a machine that is not its own.
async fn not_these(world: &KubeVirtWorld<'_>) -> Result<()> {
    world.create("idle", &healing("idle", 1)).await?;
    let before = world.until_ordinals("idle", &[0]).await?;
    world.patch("idle", &json!({ "spec": { "paused": true } })).await?;
    world.until_condition("idle", "ReplicaPaused", "").await?;
    let template = healing("idle", 1)["virtualMachineTemplate"].clone();
    let mut stranger = json!({
        "apiVersion": API_VERSION, "kind": "VirtualMachine",
        "metadata": { "name": "stranger", "labels": template["metadata"]["labels"] },
        "spec": template["spec"],
    });
    stranger["metadata"]["annotations"] = json!({ "simulator.vmpool.dev/unschedulable": "true" });
    let created = world.place.write(&stranger, Unknown::Refused).await?;
    let created = created.map_err(|status| anyhow::anyhow!("{}", status.message))?;
    fail(world, "idle-0", "unschedulable", "true").await?;
    until_status(world, "idle-0", "ErrorUnschedulable").await?;
    until_status(world, "stranger", "ErrorUnschedulable").await?;
    throughout("neither machine is replaced", FAILING * 2, async || {
        let machines = world.machines().await?;
        let same = |name: &str, object: &Value| {
            machines.get(name).is_some_and(|found| found["metadata"]["uid"] == object["metadata"]["uid"])
        };
        let both = same("idle-0", &before["idle-0"]) && same("stranger", &created);
        Ok(if both { Ok(()) } else { Err(format!("{machines:#?}")) })
    })
    .await?;
    // When the pool continues, then it replaces its machine only.
    world.patch("idle", &json!({ "spec": { "paused": false } })).await?;
    until_another(world, "idle-0", text(&before["idle-0"], "/metadata/uid")).await?;
    world.until_ordinals("idle", &[0]).await?;
    ensure!(text(&world.machines().await?["stranger"], "/metadata/uid") == text(&created, "/metadata/uid"));
    Ok(())
}

#[test]
fn autohealing_waits_backs_off_and_replaces_only_machines_of_the_pool() {
    with_world("kubevirt-healing", async |world| {
        // Replaced machines are deleted in the foreground.
        until_garbage_is_collected(&world).await?;
        let results = tokio::join!(
            after_its_time(&world),
            with_backoff(&world),
            with_a_failing_import(&world),
            not_these(&world),
        );
        all_of(<[_; 4]>::from(results))?;
        world.is_settled().await
    });
}
