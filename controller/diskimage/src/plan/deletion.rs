//! The deletion of an image: it waits for the references, then removes the data, then the finalizer.

use std::time::Duration;

use super::pass::Pass;
use super::types::ImageAction;
use crate::failure::DiskImageReason;
use crate::model::{DeletionBlocked, Transfer, name_references};

/// How often a deletion looks at references that no event announced.
const RECHECK: Duration = Duration::from_mins(1);

pub(super) fn plan_deletion(pass: &mut Pass<'_>) {
    let image = pass.world.image;
    if !image.protected {
        // The API server deletes the image as soon as it has no finalizer. A user who removed the finalizer
        // keeps the data.
        return;
    }
    observe_import(pass);
    pass.status.reason = Some(DiskImageReason::Terminating);
    pass.status.unreferenced_since = None;
    pass.status.expires_at = None;
    if image.force_release {
        if image.status.deletion != Some(DeletionBlocked::CleanupPending) {
            pass.event(
                "ForcedRelease",
                "the annotation releases the image, so its references are not counted",
            );
        }
        return clean_up(pass);
    }
    let references = pass.world.references;
    if !references.counts.is_zero() {
        let names = name_references(&references.list);
        pass.status.deletion = Some(DeletionBlocked::InUse);
        pass.status.message = format!("the deletion waits for {names}");
        return pass.again(RECHECK);
    }
    if !references.live {
        // The cache may not show a reference yet. Until the list, the status keeps its blocker.
        pass.reads.references = true;
        return pass.again(RECHECK);
    }
    clean_up(pass);
}

/// A running import continues while references block the deletion, and keeps its place in the queue: until
/// the transfer has ended, and for the longest duration of an attempt. After that, other images are imported.
fn observe_import(pass: &mut Pass<'_>) {
    let Some(started) = pass.status.sync_started_at else { return };
    let transfer = pass.world.backing.data_volume.ours().map(|volume| volume.transfer);
    let left = pass.world.settings.max_attempt_duration.saturating_sub(pass.since(started));
    if transfer == Some(Transfer::InProgress) && left > Duration::ZERO {
        return pass.again(left);
    }
    pass.status.sync_started_at = None;
    pass.status.progress = None;
}

/// Deletes the objects with the data, and after them the finalizer.
fn clean_up(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    let mut left = Vec::new();
    if let Some(source) = backing.data_source.ours() {
        left.push("DataSource");
        if !source.deleting {
            pass.act(ImageAction::DeleteDataSource { uid: source.uid.clone() });
        }
    }
    if let Some(snapshot) = backing.snapshot.ours() {
        left.push("VolumeSnapshot");
        if !snapshot.deleting {
            pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
        }
    }
    if let Some(volume) = backing.data_volume.ours() {
        left.push("DataVolume");
        if !volume.deleting {
            pass.act(ImageAction::DeleteDataVolume { uid: volume.uid.clone() });
        }
    }
    if backing.claim_is_leaving() {
        left.push("PersistentVolumeClaim");
    }
    if left.is_empty() && pass.world.backing_is_live {
        pass.status.deletion = None;
        "no object of the image is left".clone_into(&mut pass.status.message);
        if backing.claim.ours().is_some() {
            // A user has deleted its DataVolume with --cascade=orphan, or CDI has collected it.
            let name = &pass.world.image.key.name;
            let message = format!(
                "the PersistentVolumeClaim {name} has no owner, and stays; delete it before you create another image of this name"
            );
            pass.warn("ClaimKept", message);
        }
        return pass.act(ImageAction::Unprotect);
    }
    pass.status.deletion = Some(DeletionBlocked::CleanupPending);
    if left.is_empty() {
        pass.reads.backing = true;
    } else {
        pass.status.message = format!("the deletion waits until these objects are gone: {}", left.join(", "));
    }
    pass.again(RECHECK);
}
