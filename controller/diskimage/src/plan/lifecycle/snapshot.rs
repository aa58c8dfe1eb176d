//! The snapshot of complete data, the DataSource, and the phase Ready.

use vmpool_api::diskimage::values::ImagePhase;

use super::super::pass::Pass;
use super::super::types::ImageAction;
use super::attempt::{RECHECK, fail_attempt};
use crate::failure::{DiskImageReason, without_queries};
use crate::model::{BackingSnapshot, DataTarget};

/// The data is complete: takes the snapshot and publishes it.
pub(super) fn take_snapshot(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    pass.status.progress = None;
    if let Some(volume) = backing.data_volume.ours().filter(|volume| !volume.prepopulated) {
        pass.act(ImageAction::MarkPrepopulated { uid: volume.uid.clone() });
    }
    if !backing.snapshots_served {
        return publish_data_source(pass, DataTarget::Claim);
    }
    let Some(snapshot) = backing.snapshot.ours() else {
        pass.act(ImageAction::CreateSnapshot);
        pass.again(pass.world.settings.snapshot_timeout);
        return set_snapshot_pending(pass, "the snapshot is taken");
    };
    if snapshot.deleting {
        pass.again(RECHECK);
        return set_snapshot_pending(pass, "the controller waits until the former snapshot is gone");
    }
    if is_older_than_the_data(pass, snapshot) {
        pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
        pass.again(RECHECK);
        return set_snapshot_pending(pass, "the snapshot of an earlier import is deleted");
    }
    if snapshot.content_lost && !pass.world.backing_is_live {
        pass.reads.backing = true;
        pass.again(RECHECK);
        return set_snapshot_pending(pass, "the controller looks for the content of the snapshot");
    }
    if let Some(error) = snapshot_failure(pass, snapshot) {
        pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
        return fail_attempt(pass, DiskImageReason::SnapshotFailed, &error);
    }
    if snapshot.ready {
        return publish_data_source(pass, DataTarget::Snapshot);
    }
    let timeout = pass.world.settings.snapshot_timeout;
    pass.again(timeout.saturating_sub(snapshot.unready_for.unwrap_or_default()));
    set_snapshot_pending(pass, "the snapshot is taken");
}

/// Takes the first snapshot of an image that is ready from its claim. Whether the driver can take any is not
/// known, so the image does not depend on it: one that fails is taken again after a pause, and the image
/// stays ready.
pub(super) fn take_first_snapshot(pass: &mut Pass<'_>) {
    let settings = pass.world.settings;
    let problem = match pass.world.backing.snapshot.ours() {
        None => {
            pass.act(ImageAction::CreateSnapshot);
            pass.again(settings.snapshot_timeout);
            None
        }
        Some(snapshot) if snapshot.deleting => {
            pass.again(RECHECK);
            None
        }
        Some(snapshot) if snapshot.content_lost && !pass.world.backing_is_live => {
            pass.reads.backing = true;
            pass.again(RECHECK);
            None
        }
        Some(snapshot) => {
            let problem = snapshot_failure(pass, snapshot);
            let unready = snapshot.unready_for.unwrap_or_default();
            let timeout = settings.snapshot_timeout;
            let end = if problem.is_some() { timeout.max(settings.max_backoff) } else { timeout };
            if snapshot.content_lost || unready >= end {
                pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
                pass.again(RECHECK);
            } else {
                pass.again(end.saturating_sub(unready));
            }
            problem
        }
    };
    if pass.status.is_ready() {
        pass.status.message = ready_from_claim_message(problem.as_deref().unwrap_or("its snapshot is taken"));
    }
}

/// The message of an image that is ready from its claim although the cluster serves snapshots.
pub(crate) fn ready_from_claim_message(why: &str) -> String {
    without_queries(&format!("machines can clone the image from its claim: {why}"))
}

fn set_snapshot_pending(pass: &mut Pass<'_>, message: &str) {
    let reason = match pass.status.reason {
        Some(DiskImageReason::SnapshotLost) => DiskImageReason::SnapshotLost,
        _ => DiskImageReason::SnapshotPending,
    };
    pass.set(ImagePhase::Syncing, reason, message);
}

/// Both times are those of the API server.
fn is_older_than_the_data(pass: &Pass<'_>, snapshot: &BackingSnapshot) -> bool {
    pass.world.backing.data_volume.ours().is_some_and(|volume| snapshot.created < volume.created)
}

fn snapshot_failure(pass: &Pass<'_>, snapshot: &BackingSnapshot) -> Option<String> {
    if let Some(error) = &snapshot.error {
        return Some(format!("the snapshot failed: {error}"));
    }
    if snapshot.content_lost {
        return Some("the content of the snapshot is gone".to_owned());
    }
    let timeout = pass.world.settings.snapshot_timeout;
    // The creation time is that of the API server. If the clock of the controller is ahead, every new
    // snapshot would be too old.
    let late = !snapshot.ready && snapshot.unready_for.is_some_and(|unready| unready >= timeout);
    late.then(|| format!("the snapshot was not ready after {} minutes", timeout.as_secs() / 60))
}

/// Whether another client has changed the DataSource so often that its correction waits. Machines must not
/// clone what it points to meanwhile, so the image is not ready.
pub(super) fn is_contested(pass: &mut Pass<'_>, target: DataTarget) -> bool {
    let current = pass.world.backing.data_source.ours();
    let edited = current.filter(|source| !source.deleting && source.target != Some(target));
    let Some(left) = edited.and_then(|source| pass.correction_waits(&source.uid)) else { return false };
    let text = format!(
        "another client changes the DataSource {} again and again; stop that client, or delete the image and give it another name",
        pass.world.image.key.name
    );
    pass.set(ImagePhase::Syncing, DiskImageReason::NameConflict, text);
    pass.again(left);
    true
}

/// Points the DataSource to the data. The image is ready.
pub(super) fn publish_data_source(pass: &mut Pass<'_>, target: DataTarget) {
    let current = pass.world.backing.data_source.ours();
    if let Some(source) = current.filter(|source| source.deleting) {
        let uid = &source.uid;
        pass.again(RECHECK);
        return set_snapshot_pending(
            pass,
            &format!("the controller waits until the former DataSource {uid} is gone"),
        );
    }
    if is_contested(pass, target) {
        return;
    }
    if current.and_then(|source| source.target) != Some(target) {
        pass.act(ImageAction::ApplyDataSource { target });
    }
    let message = match target {
        DataTarget::Snapshot => "machines can clone the image",
        DataTarget::Claim => {
            "machines can clone the image from its claim, because the cluster does not serve snapshots"
        }
    };
    pass.set(ImagePhase::Ready, DiskImageReason::Synced, message);
    pass.status.ready_at = pass.status.ready_at.or(Some(pass.now()));
    pass.status.failures = 0;
    pass.status.last_failure = None;
    pass.status.sync_started_at = None;
    pass.status.queued_at = None;
}
