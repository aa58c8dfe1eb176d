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

/// Lets the simulator write statuses as often as virt-controller, and apply no change to a running guest.
async fn write_often(world: &KubeVirtWorld<'_>) -> Result<()> {
    let knobs = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "simulator-knobs" },
        "data": { "status-writes": "10", "live-update": "false" },
    });
    let maps = format!("/api/v1/namespaces/{}/configmaps", world.place.namespace);
    world.place.ask(Method::POST, &maps, &knobs).await.map(drop)
}

/// The patches of machines, without the marks of restarts. These require the version, so that no machine is
/// restarted that became protected.
fn patches_of_machines(world: &KubeVirtWorld<'_>) -> Result<Vec<AuditEntry>> {
    let mut writes = world.writes()?;
    writes.retain(|entry| {
        entry.verb == "patch"
            && entry.resource == "virtualmachines"
            && entry.subresource.is_empty()
            && !entry.body["metadata"]["annotations"][RESTARTING].is_string()
    });
    Ok(writes)
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
        for guest in ["2Gi", "3Gi", "4Gi"] {
            world.patch("p", &memory(guest)).await?;
            world.until_memory(&names, guest).await?;
        }
        world.is_settled().await?;

        // then the API server accepts nearly all patches at the first attempt.
        let patches = patches_of_machines(&world)?;
        ensure!(patches.len() >= 3 * names.len(), "each template is written to each machine: {patches:#?}");
        let refused: Vec<_> = patches.iter().filter(|entry| entry.code >= 400).collect();
        ensure!(
            refused.len() * PATCHES_OF_A_REFUSAL <= patches.len(),
            "{} of {} patches were refused: {refused:#?}",
            refused.len(),
            patches.len()
        );
        Ok(())
    });
}
