//! Disks because of which the API server rejects a machine.
//!
//! The text of a rejection is for people, and every platform and every webhook writes its own. The controller
//! therefore finds out by a trial: after a few rejections of the same disks it sends the create again, as a
//! dry run and with disks that do not exist yet. If the API server accepts that, the disks are the reason,
//! and the next plan uses others.

use std::sync::Arc;

use vmpool_engine::PassMemory;
use vmpool_engine::memory::SUSPICIONS;
use vmpool_engine::model::{DiskDraft, DiskSource, Draft};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::Platform;

use super::basis::PlanBasis;
use super::outcome::Effect;
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::pool_entry::PoolEntry;

/// What a rejected create says about the disks of its draft.
pub(super) async fn judge_disks<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    draft: &Draft,
    error: &WriteError,
) -> Effect {
    let disks = draft.disks.clone();
    if !(is_verdict(error) && basis.suspects(&disks)) {
        return Effect::DisksFailed(disks);
    }
    let others = draft.disks.iter().map(|disk| match disk.source {
        DiskSource::New => disk.clone(),
        DiskSource::Free(_) | DiskSource::Existing(_) => {
            let name: Arc<str> = format!("{}-{}", draft.name, disk.template).into();
            DiskDraft::new(name, disk.template.clone())
        }
    });
    let trial = Draft { disks: others.collect(), ..draft.clone() };
    let body = P::machine(&pool.object, &basis.templates.wanted.value(), &trial);
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    let rehearsed =
        context.leader.writer.rehearse_create::<P::Machine>(WriteKind::RehearseMachine, path, body);
    match rehearsed.await {
        Ok(_) => Effect::DisksRejected(disks),
        // A webhook with side effects supports no dry run, so other disks must be tried.
        Err(WriteError::Refused { status, .. }) if status.code == 400 => Effect::DisksRejected(disks),
        Err(error) if is_verdict(&error) => Effect::DisksAccepted(disks),
        Err(_) => Effect::DisksFailed(disks),
    }
}

/// What a rejected patch of a machine says about the disks that it adds. The controller creates a disk only
/// for a machine that refers to it, so the attempt with another disk costs none.
pub(super) fn judge_patched_disks(basis: &PlanBasis, disks: Vec<DiskDraft>, error: &WriteError) -> Effect {
    let is_rejected = is_verdict(error) && basis.suspects(&disks);
    if is_rejected { Effect::DisksRejected(disks) } else { Effect::DisksFailed(disks) }
}

/// Records a rejected write of a machine with these disks.
pub(super) fn record_failed_disks(memory: &mut PassMemory, disks: &[DiskDraft], error: &WriteError) {
    if is_verdict(error) {
        memory.suspect_disks(existing_disk_names(disks));
    }
}

/// Records that the disks are the reason for rejections.
pub(super) fn record_rejected_disks(
    memory: &mut PassMemory,
    disks: &[DiskDraft],
    uptime: std::time::Duration,
) {
    for disk in existing_disk_names(disks) {
        tracing::warn!(
            disk = &**disk,
            rejections = SUSPICIONS,
            "machines are rejected because of a disk: the controller uses another disk"
        );
        memory.refuse_disk(disk, uptime);
    }
}

/// The disks that existed before the write.
fn existing_disk_names(disks: &[DiskDraft]) -> impl Iterator<Item = &Arc<str>> {
    disks.iter().filter(|draft| draft.source != DiskSource::New).map(|draft| &draft.name)
}

/// Whether the API server judged the machine. It does not if the client may not write, if the namespace is
/// gone, if the object has changed, or if the server is busy.
fn is_verdict(error: &WriteError) -> bool {
    matches!(error, WriteError::Refused { status, .. } if !matches!(status.code, 401 | 404 | 409 | 429))
}
