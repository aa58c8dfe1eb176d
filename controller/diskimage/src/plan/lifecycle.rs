//! The life cycle of an image that is not being deleted.

mod attempt;
mod import;
mod restore;
mod snapshot;

use vmpool_api::diskimage::values::ImagePhase;

use self::attempt::{RECHECK, enqueue_import, fail_attempt};
pub(super) use self::snapshot::ready_from_claim_message;
use super::pass::Pass;
use super::types::ImageAction;
use crate::failure::DiskImageReason;
use crate::model::Transfer;

pub(super) fn plan_lifecycle(pass: &mut Pass<'_>) {
    apply_retry_request(pass);
    let foreign = pass.world.backing.foreign();
    if !foreign.is_empty() {
        return set_name_conflict(pass, &foreign);
    }
    if pass.status.reason == Some(DiskImageReason::NameConflict) {
        end_conflict(pass);
    }
    let may_restore = matches!(
        pass.status.phase,
        Some(ImagePhase::Queued | ImagePhase::Syncing | ImagePhase::RetryableFailure)
    );
    if may_restore && restore::restore_ready_phase(pass) {
        return;
    }
    let waits = matches!(pass.status.phase, Some(ImagePhase::Queued | ImagePhase::RetryableFailure));
    if waits && attempt::end_import_at_deadline(pass) {
        return;
    }
    match pass.status.phase {
        None => {
            enqueue_import(pass, DiskImageReason::Queued, "the import waits for its turn");
            import::plan_queued_import(pass);
        }
        Some(ImagePhase::Queued) => import::plan_queued_import(pass),
        Some(ImagePhase::Syncing) => import::plan_syncing_import(pass),
        Some(ImagePhase::Ready) => restore::plan_ready_image(pass),
        Some(ImagePhase::RetryableFailure) => import::plan_next_attempt(pass),
        Some(ImagePhase::Failed) => attempt::delete_failed_data_volume(pass),
    }
}

/// An object of that name is not ours: nothing is touched until it is gone.
fn set_name_conflict(pass: &mut Pass<'_>, foreign: &[&str]) {
    let name = &pass.world.image.key.name;
    let message = format!(
        "objects named {name} exist and do not belong to the image: {}. Delete them, or rename the image; if they have the data of this \
         image from a backup, `kubectl vmpool adopt-image {name}` keeps them",
        foreign.join(", ")
    );
    // The transfer of an own DataVolume continues, with its place in the queue and its limits.
    let running =
        pass.world.backing.data_volume.ours().filter(|volume| volume.transfer == Transfer::InProgress);
    match running.filter(|volume| !volume.deleting && pass.status.phase == Some(ImagePhase::Syncing)) {
        Some(volume) if import::exceeds_limits(pass, volume) => return,
        Some(_) => {}
        None => pass.status.sync_started_at = None,
    }
    // Machines must not clone foreign data, so the image is not ready. Syncing finds the state of the own
    // objects again.
    let phase = match pass.status.phase {
        None => {
            enqueue_import(pass, DiskImageReason::Queued, "");
            ImagePhase::Queued
        }
        Some(ImagePhase::Ready) => ImagePhase::Syncing,
        Some(phase) => phase,
    };
    pass.set(phase, DiskImageReason::NameConflict, message);
    pass.again(RECHECK);
}

/// The foreign object is gone. Phases that act find their reason again. Those that only wait get theirs from
/// the other fields of the status, because the conflict has replaced it.
fn end_conflict(pass: &mut Pass<'_>) {
    match pass.status.phase {
        // The deadline is that of failed attempts. A ready image, whose data is lost too often, has none.
        Some(ImagePhase::Failed) if pass.status.failures > 0 => {
            pass.set(
                ImagePhase::Failed,
                DiskImageReason::SyncDeadlineExceeded,
                "all attempts together took too long",
            );
        }
        Some(ImagePhase::Failed) => restore::set_heal_limit_exceeded(pass),
        Some(ImagePhase::RetryableFailure) => pass.set(
            ImagePhase::RetryableFailure,
            DiskImageReason::UnknownSyncFailure,
            "the last attempt failed; the import is tried again after the backoff",
        ),
        _ => {}
    }
}

/// A new value of the annotation starts a failed import again. In other phases it has no effect, also later.
fn apply_retry_request(pass: &mut Pass<'_>) {
    let retry = &pass.world.image.retry;
    if retry.is_none() || *retry == pass.status.retry_token {
        return;
    }
    pass.status.retry_token.clone_from(retry);
    if pass.status.phase == Some(ImagePhase::Failed) {
        pass.status.heal_times.clear();
        // Data that was lost too often may be there again. The reason does not tell, because a conflict
        // replaces it.
        let kept = pass.status.ready_at;
        enqueue_import(pass, DiskImageReason::Queued, "the import was requested again");
        pass.status.ready_at = kept;
    }
}

/// The write of an import failed. Writes that restore or remove something are repeated in the next pass.
pub(super) fn fail_attempt_after_write(pass: &mut Pass<'_>, action: &ImageAction, message: &str) {
    // After a failure, the plan begins again, and its status is that of the next attempt.
    let in_import = !matches!(pass.status.phase, Some(ImagePhase::Ready | ImagePhase::Failed));
    // Machines cannot clone a ready image whose snapshot is lost, unless they clone its claim.
    let restores = pass.status.phase == Some(ImagePhase::Ready)
        && *action == ImageAction::CreateSnapshot
        && !restore::has_only_its_claim(pass);
    let reason = match action {
        ImageAction::CreateDataVolume | ImageAction::CreateSnapshot => {
            DiskImageReason::ResourceCreationFailed
        }
        ImageAction::ApplyDataSource { .. } | ImageAction::MarkPrepopulated { .. } => {
            DiskImageReason::ResourceUpdateFailed
        }
        ImageAction::Protect
        | ImageAction::Unprotect
        | ImageAction::Disown { .. }
        | ImageAction::Label { .. }
        | ImageAction::DeleteDataVolume { .. }
        | ImageAction::DeleteSnapshot { .. }
        | ImageAction::DeleteDataSource { .. }
        | ImageAction::Expire { .. } => return,
    };
    if !(in_import || restores) || pass.world.image.deleting {
        return;
    }
    if restores {
        restore::count_restoration(pass);
    }
    if pass.status.queued_at.is_none() {
        pass.status.queued_at = Some(pass.now());
    }
    fail_attempt(pass, reason, message);
}
