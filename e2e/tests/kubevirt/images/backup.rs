//! An image that a backup tool creates again beside its data has another UID than the labels of the data say.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vmpool_api::diskimage::API_VERSION;
use vmpool_api::kubevirt::DATA_VOLUME_API_VERSION;

use super::{Images, blank, condition, with_images};

/// Runs the kubectl plugin as the administrator.
async fn plugin(world: &Images<'_>, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = std::process::Command::new(vmpool_test_cluster::binaries::find_program(
        "kubectl-vmpool",
        "VMPOOL_PLUGIN",
    )?);
    command.args(arguments).args(["-n", world.place.namespace]).env_remove("KUBECONFIG");
    command.arg("--kubeconfig").arg(world.place.cluster.kubeconfig());
    let deadline = std::time::Duration::from_mins(1);
    let output = vmpool_test_cluster::process::command_output("kubectl-vmpool", command, deadline).await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

async fn volume(world: &Images<'_>) -> Result<Value> {
    Ok(world.place.object(DATA_VOLUME_API_VERSION, "DataVolume", "debian").await?.unwrap_or_default())
}

#[test]
fn a_restored_image_adopts_its_restored_data_without_a_download() {
    with_images("image-backup", &[], async |world| {
        world.place.put(blank("debian")).await?;
        world.until_ready("debian").await?;
        let before = volume(&world).await?;
        // The data stays with the labels of the former image, as after the restoration of a backup. A running
        // controller would delete it.
        world.controller.kill();
        let without_finalizer = json!({ "metadata": { "finalizers": null } });
        world.place.patch(API_VERSION, "VMDiskImage", "debian", &without_finalizer).await?;
        world.place.delete(API_VERSION, "VMDiskImage", "debian").await?;
        world.until_gone(API_VERSION, "VMDiskImage", "debian").await?;
        world.place.put(blank("debian")).await?;
        world.controller.restart().await?;
        let conflict = world.until_phase("debian", "Queued", "NameConflict").await?;
        let message = condition(&conflict, "Ready")["message"].as_str().unwrap_or_default().to_owned();
        ensure!(message.contains("kubectl vmpool adopt-image debian"), "{message}");

        let (well, dry) = plugin(&world, &["adopt-image", "debian", "--dry-run"]).await?;
        ensure!(well && dry.contains("nothing was changed"), "{dry}");
        let (well, output) = plugin(&world, &["adopt-image", "debian"]).await?;
        ensure!(well, "{output}");
        world.until_ready("debian").await?;
        let after = volume(&world).await?;
        ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "{after}");
        ensure!(world.count("create datavolumes")? == 1);
        Ok(())
    });
}
