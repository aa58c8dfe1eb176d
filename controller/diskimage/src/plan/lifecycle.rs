//! The life cycle of an image that is not being deleted.

mod attempt;
mod heal;
mod import;
mod snapshot;

use vmpool_api::diskimage::values::ImagePhase;

use self::attempt::{RECHECK, enqueue, fail};
pub(super) use self::snapshot::from_claim;
use super::pass::Pass;
use super::types::Action;
use crate::failure::Reason;
use crate::model::Transfer;

pub(super) fn plan(pass: &mut Pass<'_>) {
    handle_retry(pass);
    let foreign = pass.world.backing.foreign();
    if !foreign.is_empty() {
        return conflict(pass, &foreign);
    }
    if pass.status.reason == Some(Reason::NameConflict) {
        end_conflict(pass);
    }
    let may_restore = matches!(
        pass.status.phase,
        Some(ImagePhase::Queued | ImagePhase::Syncing | ImagePhase::RetryableFailure)
    );
    if may_restore && heal::restore(pass) {
        return;
    }
    let waits = matches!(pass.status.phase, Some(ImagePhase::Queued | ImagePhase::RetryableFailure));
    if waits && attempt::end_in_time(pass) {
        return;
    }
    match pass.status.phase {
        None => {
            enqueue(pass, Reason::Queued, "the import waits for its turn");
            import::queued(pass);
        }
        Some(ImagePhase::Queued) => import::queued(pass),
        Some(ImagePhase::Syncing) => import::syncing(pass),
        Some(ImagePhase::Ready) => heal::ready(pass),
        Some(ImagePhase::RetryableFailure) => import::waiting(pass),
        Some(ImagePhase::Failed) => attempt::discard(pass),
    }
}

/// An object of that name is not ours: nothing is touched until it is gone.
fn conflict(pass: &mut Pass<'_>, foreign: &[&str]) {
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
    // Machines must not clone foreign data, so the image is not ready. Syncing finds the state of the own objects again.
    let phase = match pass.status.phase {
        None => {
            enqueue(pass, Reason::Queued, "");
            ImagePhase::Queued
        }
        Some(ImagePhase::Ready) => ImagePhase::Syncing,
        Some(phase) => phase,
    };
    pass.set(phase, Reason::NameConflict, message);
    pass.again(RECHECK);
}

/// The foreign object is gone. Phases that act find their reason again. Those that only wait get theirs from the other fields of
/// the status, because the conflict has replaced it.
fn end_conflict(pass: &mut Pass<'_>) {
    match pass.status.phase {
        // The deadline is that of failed attempts. A ready image, whose data is lost too often, has none.
        Some(ImagePhase::Failed) if pass.status.failures > 0 => {
            pass.set(ImagePhase::Failed, Reason::SyncDeadlineExceeded, "all attempts together took too long");
        }
        Some(ImagePhase::Failed) => heal::give_up(pass),
        Some(ImagePhase::RetryableFailure) => pass.set(
            ImagePhase::RetryableFailure,
            Reason::UnknownSyncFailure,
            "the last attempt failed; the import is tried again after the backoff",
        ),
        _ => {}
    }
}

/// A new value of the annotation starts a failed import again. In other phases it has no effect, also later.
fn handle_retry(pass: &mut Pass<'_>) {
    let retry = &pass.world.image.retry;
    if retry.is_none() || *retry == pass.status.retry_token {
        return;
    }
    pass.status.retry_token.clone_from(retry);
    if pass.status.phase == Some(ImagePhase::Failed) {
        pass.status.heal_times.clear();
        // Data that was lost too often may be there again. The reason does not tell, because a conflict replaces it.
        let kept = pass.status.ready_at;
        enqueue(pass, Reason::Queued, "the import was requested again");
        pass.status.ready_at = kept;
    }
}

/// The write of an import failed. Writes that restore or remove something are repeated in the next pass.
pub(super) fn write_failed(pass: &mut Pass<'_>, action: &Action, message: &str) {
    // After a failure, the plan begins again, and its status is that of the next attempt.
    let in_import = !matches!(pass.status.phase, Some(ImagePhase::Ready | ImagePhase::Failed));
    // Machines cannot clone a ready image whose snapshot is lost, unless they clone its claim.
    let restores = pass.status.phase == Some(ImagePhase::Ready)
        && *action == Action::CreateSnapshot
        && !heal::has_only_its_claim(pass);
    let reason = match action {
        Action::CreateDataVolume | Action::CreateSnapshot => Reason::ResourceCreationFailed,
        Action::ApplyDataSource { .. } | Action::MarkPrepopulated { .. } => Reason::ResourceUpdateFailed,
        Action::Protect
        | Action::Unprotect
        | Action::Disown { .. }
        | Action::Label { .. }
        | Action::DeleteDataVolume { .. }
        | Action::DeleteSnapshot { .. }
        | Action::DeleteDataSource { .. }
        | Action::Expire { .. } => return,
    };
    if !(in_import || restores) || pass.world.image.deleting {
        return;
    }
    if restores {
        heal::count(pass);
    }
    if pass.status.queued_at.is_none() {
        pass.status.queued_at = Some(pass.now());
    }
    fail(pass, reason, message);
}
