//! Requests of the controller without a response, and the users of disks.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, RequestBasis};
use super::revisions::MachineUpdate;
use crate::PoolAction;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{DiskDraft, DiskSource, Finalizer, Machine, ObjectId};
use crate::plan::DeleteReason;

/// A request in flight.
#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) action: PoolAction,
    pub(super) basis: RequestBasis,
    pub(super) sent: Duration,
    /// The version of the object that it requires, if any.
    pub(super) version: Option<u64>,
}

impl InFlight {
    /// Commits a late request, unless its timeout has passed.
    pub(super) fn land(self, api: &mut Api) -> Result<bool, BrokenInvariant> {
        if api.now >= self.sent + REQUEST_TIMEOUT {
            return Ok(false);
        }
        commit_unconfirmed_request(api, &self.action, self.basis, self.version, true)
    }
}

/// The same action after this disk was allocated.
pub(super) fn with_held(action: PoolAction, claimed: &ObjectId) -> PoolAction {
    let hold = |disk: &mut DiskDraft| {
        if disk.source == DiskSource::Free(claimed.clone()) {
            disk.source = DiskSource::Existing(claimed.clone());
        }
    };
    match action {
        PoolAction::Create { mut draft } => {
            draft.disks.iter_mut().for_each(hold);
            PoolAction::Create { draft }
        }
        PoolAction::Repoint { machine, position, from, mut to } => {
            hold(&mut to);
            PoolAction::Repoint { machine, position, from, to }
        }
        PoolAction::Update { machine, base, to, mut disks, disruption } => {
            disks.iter_mut().for_each(hold);
            PoolAction::Update { machine, base, to, disks, disruption }
        }
        other => other,
    }
}

/// The machines that refer to each disk.
#[expect(clippy::disallowed_types, reason = "as the engine takes it: looked up by name, never walked")]
pub(super) fn machines_by_disk(
    machines: &[Arc<Machine>],
) -> std::collections::HashMap<Arc<str>, Vec<Arc<str>>> {
    let mut users = std::collections::HashMap::<_, Vec<_>>::new();
    for machine in machines {
        for device in &machine.disks {
            users.entry(device.disk.clone()).or_default().push(machine.id.name.clone());
        }
    }
    users
}

/// Commits a request whose response is lost. Returns whether it had an effect.
pub(super) fn commit_unconfirmed_request(
    api: &mut Api,
    action: &PoolAction,
    basis: RequestBasis,
    version: Option<u64>,
    late: bool,
) -> Result<bool, BrokenInvariant> {
    api.taken.responses_lost += 1;
    // A write of a machine includes a live read, so only a late request can be outdated.
    let read = version.filter(|_| late);
    let version_of_disk = version.unwrap_or_default();
    Ok(match action {
        PoolAction::AddPoolFinalizer => api.set_pool_finalizer(Finalizer::Present).map(|()| true)?,
        PoolAction::RemovePoolFinalizer => api.set_pool_finalizer(Finalizer::Missing).map(|()| true)?,
        PoolAction::AddFinalizer { machine } => api.add_finalizer(machine, read).is_ok(),
        PoolAction::RemoveFinalizer { machine, preserve_storage } => {
            api.remove_finalizer(machine, *preserve_storage)?.is_ok()
        }
        // The second request of a restart names the instance, and requires no version.
        PoolAction::Restart { machine, instance, revision } => {
            match api.mark_restarting(machine, instance, revision, read) {
                Ok(Some(_marked)) => true,
                Ok(None) => api.delete_instance(machine, instance)?.is_ok(),
                Err(_refusal) => false,
            }
        }
        PoolAction::EndRestart { machine } => api.end_restart(machine, read).is_ok(),
        PoolAction::Relabel { machine } => api.relabel(machine).is_ok(),
        PoolAction::Release { machine, shared } => api.release(machine, shared)?.is_ok(),
        PoolAction::Repoint { machine, position, from, to } => {
            api.repoint(machine, *position, from, to).is_ok()
        }
        PoolAction::Detach { machine, position, disk } => api.detach(machine, *position, disk).is_ok(),
        PoolAction::CreateDisk { machine, disk } => api.create_disk(machine, disk, late)?.is_ok(),
        PoolAction::AnnotateDisk { disk, annotations, .. } => {
            api.annotate_disk(disk, version_of_disk, annotations)?.is_ok()
        }
        PoolAction::ExpandDisk { disk, to } => api.grow(disk, *to).is_ok(),
        PoolAction::DeleteDisk { disk, reason } => api.delete_disk(disk, version_of_disk, *reason)?.is_ok(),
        PoolAction::Delete { machine, reason: reason @ DeleteReason::StorageChanged { .. } } => {
            api.recreate(machine, version, *reason)?.is_ok()
        }
        PoolAction::Delete { machine, .. } => api.delete(machine, version, basis, late)?.is_ok(),
        PoolAction::ShortenProtection { machine, until } => api.shorten_protection(machine, *until).is_ok(),
        PoolAction::Update { machine, base, to, disks, disruption } => api
            .update(
                machine,
                &MachineUpdate { base: base.as_ref(), to, disks, disruption: *disruption },
                read,
            )?
            .is_ok(),
        PoolAction::RecordRevision { machine, instance: Some(instance), to } => {
            api.record_on_instance(machine, instance, to).is_ok()
        }
        PoolAction::RecordRevision { machine, instance: None, to } => api.advance(machine, to, read).is_ok(),
        PoolAction::StoreRevision { revision } => api.store(revision),
        // The model has neither copies nor restored disks.
        // The garbage collector of the model ends all deletions.
        PoolAction::RestoreCopies { .. }
        | PoolAction::DeleteCopy { .. }
        | PoolAction::AdoptDisk { .. }
        | PoolAction::EndDeletion { .. } => false,
        PoolAction::PruneRevision { revision } => api.prune(revision, late)?,
        PoolAction::OpenNameBlock { block } => api.open_block(*block, basis)?.is_ok(),
        PoolAction::Create { draft } => api.create(draft, basis)?.is_ok(),
        PoolAction::PruneRecord { gone, expired, block } => {
            let (gone, _) = api.confirm(gone);
            !(gone.is_empty() && expired.is_empty()) && api.settle(&gone, expired, *block, basis)?.is_ok()
        }
    })
}
