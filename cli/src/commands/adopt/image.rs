//! `adopt-image`: an image that was restored from a backup gets the objects with its data that were restored with it.
//!
//! They have the label with the UID of the former image, so the restored one reports `NameConflict` and touches none of them.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::VmDiskImage;
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_api::kubevirt::{DataSource, DataVolume, VolumeSnapshot};
use vmpool_platforms::ApiObject;

use super::{metadata, name_of, patch_at};
use crate::arguments::AdoptImageArguments;
use crate::cluster::Cluster;
use crate::explain::explain;
use crate::output::write;

/// Gives the image the objects with its data.
///
/// # Errors
/// An object belongs to something else, the data is not complete, or a request failed.
pub(crate) async fn run(cluster: &Cluster, arguments: &AdoptImageArguments) -> Result<()> {
    let name = &arguments.image;
    let image = cluster.get::<VmDiskImage>(name).await?;
    let image = image.with_context(|| {
        format!("image {name} not found in namespace {}; choose another namespace with -n", cluster.namespace)
    })?;
    let uid = image["metadata"]["uid"].as_str().unwrap_or_default();
    let volume = find::<DataVolume>(cluster, name, uid).await?;
    let claim = find::<PersistentVolumeClaim>(cluster, name, uid).await?;
    let snapshot = find::<VolumeSnapshot>(cluster, name, uid).await?;
    let source = find::<DataSource>(cluster, name, uid).await?;
    // The controller deletes a DataVolume of the image whose import did not succeed, and imports the data again.
    let phase = volume.as_ref().map(|volume| volume["status"]["phase"].as_str().unwrap_or_default());
    ensure!(
        phase == Some("Succeeded"),
        "the DataVolume {name} {}: the controller would import the data again. Restore it, and wait until CDI reports the phase \
         Succeeded; nothing was changed",
        phase.map_or("is missing".to_owned(), |phase| format!("is in the phase {phase:?}"))
    );
    ensure!(
        claim.as_ref().is_some_and(|claim| claim["status"]["phase"] == "Bound"),
        "the PersistentVolumeClaim {name} is missing or not bound, so the image would have no data; nothing was changed"
    );
    if let Some(snapshot) = &snapshot {
        ensure!(
            snapshot["status"]["readyToUse"] == true,
            "the VolumeSnapshot {name} is not ready to use. Wait until it is, or delete it, and the controller takes another one; \
             nothing was changed"
        );
    }
    let dry_run = arguments.dry_run;
    // The DataVolume comes last: the controller touches none of the objects before all belong to the image.
    adopt::<PersistentVolumeClaim>(cluster, claim.as_ref(), uid, dry_run).await?;
    adopt::<VolumeSnapshot>(cluster, snapshot.as_ref(), uid, dry_run).await?;
    adopt::<DataSource>(cluster, source.as_ref(), uid, dry_run).await?;
    adopt::<DataVolume>(cluster, volume.as_ref(), uid, dry_run).await?;
    let end = if dry_run { "nothing was changed" } else { "the controller manages its data from now on" };
    write(&format!("image {name}: {end}\n"))
}

/// The object of this kind with the name of the image, if it has the label of an image and no other controller.
async fn find<K: ApiObject>(cluster: &Cluster, name: &str, uid: &str) -> Result<Option<Value>> {
    let kind = K::kind(&());
    let found = match cluster.api::<K>().get(name).await {
        Ok(found) => serde_json::to_value(&found).context("reading an object")?,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(explain(&cluster.attempt::<K>("get", name), &error)),
    };
    let label = found["metadata"]["labels"][IMAGE_UID].as_str();
    let Some(label) = label else {
        bail!("the {kind} {name} has no label {IMAGE_UID}, so it was not of an image; nothing was changed");
    };
    let metadata = metadata(&found);
    let controller = OwnerIdentity::of_controller(&metadata);
    // The claim of a restored DataVolume has it as its controller again.
    let is_free =
        controller.is_none_or(|owner| [uid, label].contains(&owner.uid) || owner.kind == "DataVolume");
    ensure!(is_free, "the {kind} {name} has another controller; nothing was changed");
    Ok(Some(found))
}

async fn adopt<K: ApiObject>(
    cluster: &Cluster,
    object: Option<&Value>,
    uid: &str,
    dry_run: bool,
) -> Result<()> {
    let Some(object) = object else { return Ok(()) };
    if object["metadata"]["labels"][IMAGE_UID] != uid && !dry_run {
        patch_at::<K>(cluster, object, json!({ "metadata": { "labels": { IMAGE_UID: uid } } })).await?;
    }
    let done = if dry_run { "would be adopted" } else { "adopted" };
    write(&format!("{} {}: {done}\n", K::kind(&()), name_of(object)))
}
