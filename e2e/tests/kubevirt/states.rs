//! States of machines and guests that only KubeVirt has: what pools show, and what rollouts do.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;

use crate::pools::{bare, memory};
use crate::world::{KubeVirtWorld, with_world};

/// Sets or removes a knob of a machine.
async fn set_knob(world: &KubeVirtWorld<'_>, machine: &str, name: &str, value: Value) -> Result<()> {
    let knob = json!({ "metadata": { "annotations": { format!("simulator.vmpool.dev/{name}"): value } } });
    world.patch_machine(machine, &knob).await
}

/// Waits until the status of a machine has this value in a field.
async fn until_field(world: &KubeVirtWorld<'_>, machine: &str, field: &str, value: &str) -> Result<()> {
    world
        .until(&format!("{field} of {machine} is {value}"), async || {
            let machines = world.machines().await?;
            let status = machines.get(machine).map(|found| &found["status"]);
            Ok(status.filter(|status| status[field] == value).map(drop))
        })
        .await
}

fn requires_restart(machine: &Value) -> bool {
    let conditions = machine["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "RestartRequired")
}

async fn delete_instance(world: &KubeVirtWorld<'_>, machine: &str) -> Result<()> {
    let path = format!("{}/{machine}", world.place.path(API_VERSION, "VirtualMachineInstance")?);
    world.place.ask(Method::DELETE, &path, &Value::Null).await.map(drop)
}

#[test]
fn a_rollout_restarts_each_guest_once_in_any_state() {
    with_world("kubevirt-states", async |world| {
        // Given machines of which one always requires a restart, one is paused and one migrates,
        world.without_live_updates().await?;
        world.create("p", &bare("p", 3)).await?;
        let names = ["p-0", "p-1", "p-2"];
        world.until_ready(&names).await?;
        set_knob(&world, "p-0", "restart-required", json!("true")).await?;
        set_knob(&world, "p-0", "snapshot-in-progress", json!("nightly")).await?;
        set_knob(&world, "p-1", "guest-state", json!("Paused")).await?;
        set_knob(&world, "p-2", "guest-state", json!("Migrating")).await?;
        until_field(&world, "p-0", "snapshotInProgress", "nightly").await?;
        until_field(&world, "p-1", "printableStatus", "Paused").await?;
        until_field(&world, "p-2", "printableStatus", "Migrating").await?;
        world.is_settled().await?;
        ensure!(requires_restart(&world.machines().await?["p-0"]), "p-0 requires a restart");
        world.until_condition("p", "Ready", "3 machines are ready and up to date").await?;

        // when the template changes, then each guest is restarted once, and the pool is up to date.
        world.patch("p", &memory("2Gi")).await?;
        world.until_memory(&names, "2Gi").await?;
        world.until_condition("p", "Ready", "3 machines are ready and up to date").await?;
        world.is_settled().await?;
        let mut restarted = world.requested("p", "delete", "virtualmachineinstances")?;
        restarted.sort();
        ensure!(restarted == names, "{restarted:?}");
        ensure!(requires_restart(&world.machines().await?["p-0"]), "p-0 requires a restart again");
        let status = world.until_status("p", 3).await?["status"].clone();
        let pending = status["restartPendingReplicas"].as_u64().unwrap_or_default();
        ensure!(status["updatedReplicas"] == 3 && pending == 0, "{status:#}");
        world.is_settled().await
    });
}

#[test]
fn a_pool_says_why_a_machine_that_is_off_does_not_start() {
    with_world("kubevirt-off", async |world| {
        // Given a machine that is being restored, and one whose guest shuts down,
        let mut rerun = bare("rerun", 1);
        rerun["virtualMachineTemplate"]["spec"]["runStrategy"] = json!("RerunOnFailure");
        world.create("rerun", &rerun).await?;
        world.create("back", &bare("back", 1)).await?;
        world.until_ordinals("rerun", &[0]).await?;
        world.until_ordinals("back", &[0]).await?;
        set_knob(&world, "rerun-0", "shutdown", json!("now")).await?;
        set_knob(&world, "back-0", "restore-in-progress", json!("monday")).await?;
        until_field(&world, "back-0", "restoreInProgress", "monday").await?;
        delete_instance(&world, "back-0").await?;

        // then their pools say so, and leave them as they are.
        world.until_condition("rerun", "Ready", "its guest was shut down").await?;
        world.until_condition("back", "Ready", "VirtualMachineRestore monday is in progress").await?;
        for pool in ["rerun", "back"] {
            let ready = world.pool(pool).await?["status"]["readyReplicas"].as_u64().unwrap_or_default();
            ensure!(ready == 0, "{pool} has {ready} ready replicas");
            ensure!(world.requested(pool, "delete", "virtualmachines")?.is_empty(), "{pool}");
        }

        // When the restore has ended, then the machine starts.
        set_knob(&world, "back-0", "restore-in-progress", Value::Null).await?;
        world.until_ordinals("back", &[0]).await?;
        world.until_condition("back", "Ready", "1 machine is ready and up to date").await?;
        world.is_settled().await
    });
}
