//! Conflicts with writes of statuses: virt-controller writes the status of a machine several times for each
//! change of its state.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;
use vmpool_engine::protection::RESTARTING;
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pools::{bare, memory};
use crate::world::{KubeVirtWorld, with_world};

/// One patch of this number may be refused. With the version in each patch, it was one in five.
const PATCHES_OF_A_REFUSAL: usize = 20;

/// The memory of each template. Each is written to each machine, so that the share has enough patches.
const TEMPLATES: [&str; 5] = ["2Gi", "3Gi", "4Gi", "5Gi", "6Gi"];

/// Lets the simulator write statuses as often as virt-controller, and apply no change to a running guest.
async fn write_often(world: &KubeVirtWorld<'_>) -> Result<()> {
    let knobs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "simulator-knobs" },
        "data": { "status-writes": "10", "live-update": "false" },
    });
    let maps = format!("/api/v1/namespaces/{}/configmaps", world.place.namespace);
    world.place.ask(Method::POST, &maps, &knobs).await.map(drop)
}

/// All patches of machines by the controller.
fn patches_of_machines(world: &KubeVirtWorld<'_>) -> Result<Vec<AuditEntry>> {
    let mut writes = world.writes()?;
    writes.retain(|entry| {
        entry.verb == "patch" && entry.resource == "virtualmachines" && entry.subresource.is_empty()
    });
    Ok(writes)
}

/// Whether a patch marks the restart of a machine. It requires the version, so that no machine is restarted
/// that became protected.
fn is_restart_mark(entry: &AuditEntry) -> bool {
    entry.body["metadata"]["annotations"][RESTARTING].is_string()
}

/// The refused ones among these patches.
fn refused(patches: &[AuditEntry]) -> Vec<&AuditEntry> {
    patches.iter().filter(|entry| entry.code >= 400).collect()
}

/// The share of refused patches, for example `1 of 40 (2.5 %)`.
fn describe_share(patches: &[AuditEntry]) -> String {
    let (refused, all) = (refused(patches).len(), patches.len());
    let thousandths = refused * 1000 / all.max(1);
    format!("{refused} of {all} ({}.{} %)", thousandths / 10, thousandths % 10)
}

#[test]
fn writes_of_statuses_conflict_with_few_patches_of_machines() {
    with_world("kubevirt-status-writes", async |world| {
        // Given a pool on a platform that writes each status ten times,
        write_often(&world).await?;
        world.create("p", &bare("p", 6)).await?;
        let names = ["p-0", "p-1", "p-2", "p-3", "p-4", "p-5"];
        world.until_ready(&names).await?;

        // when its template changes several times,
        for guest in TEMPLATES {
            world.patch("p", &memory(guest)).await?;
            world.until_memory(&names, guest).await?;
        }
        world.is_settled().await?;

        // then the API server accepts nearly all patches at the first attempt.
        let (marks, patches): (Vec<_>, Vec<_>) =
            patches_of_machines(&world)?.into_iter().partition(is_restart_mark);
        // `--nocapture` shows the measured shares.
        println!("refused patches of machines: {}", describe_share(&patches));
        println!("refused marks of restarts, which require the version: {}", describe_share(&marks));
        ensure!(
            patches.len() >= TEMPLATES.len() * names.len(),
            "each template is written to each machine: {patches:#?}"
        );
        let refusals = refused(&patches);
        ensure!(
            refusals.len() * PATCHES_OF_A_REFUSAL <= patches.len(),
            "{} patches were refused: {refusals:#?}",
            describe_share(&patches)
        );
        Ok(())
    });
}
