//! What stays when machines leave.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::pools::spec;
use crate::world::{KubeVirtWorld, text, with_world};

const VOLUME: (&str, &str) = ("cdi.kubevirt.io/v1beta1", "DataVolume");

/// The UIDs of the DataVolumes, by name.
async fn volumes(world: &KubeVirtWorld<'_>) -> Result<BTreeMap<String, String>> {
    let volumes = world.all(VOLUME.0, VOLUME.1).await?;
    Ok(volumes.into_iter().map(|(name, volume)| (name, text(&volume, "/metadata/uid").to_owned())).collect())
}

/// A patch of a pool with this spec: larger storage.
pub(crate) fn larger(spec: &Value) -> Value {
    let mut templates = spec["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"].clone();
    templates[0]["spec"]["storage"]["resources"]["requests"]["storage"] = json!("2Gi");
    json!({ "spec": { "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": templates } } } })
}

#[test]
fn only_a_replacement_for_changed_storage_discards_preserved_storage() {
    with_world("kubevirt-new-storage", async |world| {
        let mut spec = spec(2);
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        world.create("p", &spec).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        // When a user deletes a machine, then the next one with its name uses its storage.
        let before = volumes(&world).await?;
        world.delete_machine("p-1").await?;
        world.until_another("p-1", text(&machines["p-1"], "/metadata/uid")).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        ensure!(volumes(&world).await? == before);
        // When the DataVolume templates change, then all machines get new storage.
        world.patch("p", &larger(&spec)).await?;
        world.until_another("p-0", text(&machines["p-0"], "/metadata/uid")).await?;
        world.until_another("p-1", text(&machines["p-1"], "/metadata/uid")).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let after = volumes(&world).await?;
        ensure!(after.keys().eq(before.keys()), "{before:#?} {after:#?}");
        for (name, uid) in &after {
            ensure!(before[name] != *uid, "{name} was not replaced");
        }
        world.until_status("p", 2).await?;
        world.is_settled().await
    });
}
