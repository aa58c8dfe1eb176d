//! One pass of an image: from what is observed to the writes, the status and the next pass.
//!
//! ```text
//!                 (created)                                  attempt failed
//!        None ──> Queued ──> Syncing ──> Ready      Syncing ────────────────> RetryableFailure ──(backoff)──> Queued
//!                   ▲           ▲          │                                         │
//!                   └───────────┴──────────┘ data lost                               └──(deadline)──> Failed ──(retry)──> Queued
//! ```
//!
//! A plan that removes data or the image itself first requests a live read ([`ImagePlan::reads`]). The shell
//! reads, and plans again.

mod deletion;
mod expiry;
mod lifecycle;
mod pass;
#[cfg(test)]
mod tests;
mod types;

use std::time::Duration;

use crate::failure::DiskImageReason;
use crate::model::DiskImage;

pub use self::types::{ImageAction, ImagePassInput, ImagePlan, PlannedEvent, QueueDecision, RequiredReads};
use crate::model::DeletionBlocked;

/// How often a pass looks at an object of another owner, which no event announces.
const RECHECK: Duration = Duration::from_mins(1);

/// Plans a pass.
pub fn plan_image(world: &ImagePassInput<'_>) -> ImagePlan {
    let mut pass = pass::Pass::begin(world);
    if world.image.deleting {
        deletion::plan_deletion(&mut pass);
    } else {
        if !world.image.protected {
            pass.act(ImageAction::Protect);
        }
        lifecycle::plan_lifecycle(&mut pass);
        expiry::plan_expiry(&mut pass);
        plan_label_corrections(&mut pass);
    }
    plan_owner_removals(&mut pass);
    pass.end()
}

/// Removes the owner references to the image that the objects with the data have from their creation. If the
/// image was deleted in the foreground, the garbage collector would delete these objects although the image
/// is in use.
fn plan_owner_removals(pass: &mut pass::Pass<'_>) {
    // The objects are deleted now.
    if pass.status.deletion == Some(DeletionBlocked::CleanupPending) {
        return;
    }
    for (kind, uid) in &pass.world.backing.owned {
        pass.act(ImageAction::Disown { kind: *kind, uid: uid.clone() });
    }
}

/// Writes the labels of the objects that stay.
fn plan_label_corrections(pass: &mut pass::Pass<'_>) {
    for (kind, uid) in &pass.world.backing.mislabeled {
        if let Some(left) = pass.correction_waits(uid) {
            pass.again(left);
        } else if !pass.deletes(uid) {
            pass.act(ImageAction::Label { kind: *kind, uid: uid.clone() });
        }
    }
}

/// Adds to a plan whether the permission to clone the image was given: `conflict` describes the Role or
/// RoleBinding of another owner that prevents it. Only the writes of the pass show it.
pub fn with_clone_conflict(plan: &mut ImagePlan, image: &DiskImage, conflict: Option<String>) {
    if let Some(message) = conflict.as_ref().filter(|_| image.status.clone_conflict.is_none()) {
        let reason = DiskImageReason::NameConflict.as_str();
        plan.events.push(PlannedEvent { warning: true, reason, message: message.clone() });
    }
    if conflict.is_some() {
        plan.again = Some(plan.again.map_or(RECHECK, |again| again.min(RECHECK)));
    }
    plan.status.clone_conflict = conflict;
}

/// Whether nothing depends on a write, so that the plan stays valid if it is refused: labels, and the first
/// snapshot of an image that is ready from its claim.
pub fn is_optional(plan: &ImagePlan, action: &ImageAction) -> bool {
    match action {
        ImageAction::Label { .. } => true,
        ImageAction::CreateSnapshot => plan.status.is_ready(),
        _ => false,
    }
}

/// Adds to a plan why the first snapshot of an image that is ready from its claim is not taken.
pub fn with_refused_snapshot(plan: &mut ImagePlan, message: &str) {
    plan.status.message = lifecycle::ready_from_claim_message(message);
}

/// The status after a write of an import failed, with the reason `ResourceCreationFailed` or
/// `ResourceUpdateFailed`.
///
/// A conflict of versions is no failure: the shell reads again and plans again.
pub fn plan_after_failed_write(world: &ImagePassInput<'_>, action: &ImageAction, message: &str) -> ImagePlan {
    let mut pass = pass::Pass::begin(world);
    lifecycle::fail_attempt_after_write(&mut pass, action, message);
    pass.end()
}
