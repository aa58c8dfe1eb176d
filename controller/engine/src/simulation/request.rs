//! Requests of the controller without a response, and the users of disks.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Basis, Broken};
use super::revisions::Written;
use crate::Action;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{DiskDraft, DiskSource, Finalizer, Machine, ObjectId};
use crate::plan::DeleteReason;

/// A request in flight.
#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) action: Action,
    pub(super) basis: Basis,
    pub(super) sent: Duration,
    /// The version of the object that it requires, if any.
    pub(super) version: Option<u64>,
}

impl InFlight {
    /// Commits a late request, unless its timeout has passed.
    pub(super) fn land(self, api: &mut Api) -> Result<bool, Broken> {
        if api.now >= self.sent + REQUEST_TIMEOUT {
            return Ok(false);
        }
        commit(api, &self.action, self.basis, self.version, true)
    }
}

/// The same action after this disk was allocated.
pub(super) fn with_held(action: Action, claimed: &ObjectId) -> Action {
    let hold = |disk: &mut DiskDraft| {
        if disk.source == DiskSource::Free(claimed.clone()) {
            disk.source = DiskSource::Existing(claimed.clone());
        }
    };
    match action {
        Action::Create { mut draft } => {
            draft.disks.iter_mut().for_each(hold);
            Action::Create { draft }
        }
        Action::Repoint { machine, position, from, mut to } => {
            hold(&mut to);
            Action::Repoint { machine, position, from, to }
        }
        Action::Update { machine, base, to, mut disks, disruption } => {
            disks.iter_mut().for_each(hold);
            Action::Update { machine, base, to, disks, disruption }
        }
        other => other,
    }
}

/// The machines that refer to each disk.
#[expect(clippy::disallowed_types, reason = "as the engine takes it: looked up by name, never walked")]
pub(super) fn users(machines: &[Arc<Machine>]) -> std::collections::HashMap<Arc<str>, Vec<Arc<str>>> {
    let mut users = std::collections::HashMap::<_, Vec<_>>::new();
    for machine in machines {
        for device in &machine.disks {
            users.entry(device.disk.clone()).or_default().push(machine.id.name.clone());
        }
    }
    users
}

/// Commits a request whose response is lost. Returns whether it had an effect.
pub(super) fn commit(
    api: &mut Api,
    action: &Action,
    basis: Basis,
    version: Option<u64>,
    late: bool,
) -> Result<bool, Broken> {
    api.taken.responses_lost += 1;
    // A write of a machine includes a live read, so only a late request can be outdated.
    let read = version.filter(|_| late);
    let version_of_disk = version.unwrap_or_default();
    Ok(match action {
        Action::AddPoolFinalizer => api.set_pool_finalizer(Finalizer::Present).map(|()| true)?,
        Action::RemovePoolFinalizer => api.set_pool_finalizer(Finalizer::Missing).map(|()| true)?,
        Action::AddFinalizer { machine } => api.add_finalizer(machine, read).is_ok(),
        Action::RemoveFinalizer { machine, preserve_storage } => {
            api.remove_finalizer(machine, *preserve_storage)?.is_ok()
        }
        // The second request of a restart names the instance, and requires no version.
        Action::Restart { machine, instance, revision } => {
            match api.mark_restarting(machine, instance, revision, read) {
                Ok(Some(_marked)) => true,
                Ok(None) => api.delete_instance(machine, instance)?.is_ok(),
                Err(_refusal) => false,
            }
        }
        Action::EndRestart { machine } => api.end_restart(machine, read).is_ok(),
        Action::Relabel { machine } => api.relabel(machine).is_ok(),
        Action::Release { machine, shared } => api.release(machine, shared)?.is_ok(),
        Action::Repoint { machine, position, from, to } => api.repoint(machine, *position, from, to).is_ok(),
        Action::Detach { machine, position, disk } => api.detach(machine, *position, disk).is_ok(),
        Action::CreateDisk { machine, disk } => api.create_disk(machine, disk, late)?.is_ok(),
        Action::AnnotateDisk { disk, annotations, .. } => {
            api.annotate_disk(disk, version_of_disk, annotations)?.is_ok()
        }
        Action::ExpandDisk { disk, to } => api.grow(disk, *to).is_ok(),
        Action::DeleteDisk { disk, reason } => api.delete_disk(disk, version_of_disk, *reason)?.is_ok(),
        Action::Delete { machine, reason: reason @ DeleteReason::StorageChanged { .. } } => {
            api.recreate(machine, version, *reason)?.is_ok()
        }
        Action::Delete { machine, .. } => api.delete(machine, version, basis, late)?.is_ok(),
        Action::ShortenProtection { machine, until } => api.shorten_protection(machine, *until).is_ok(),
        Action::Update { machine, base, to, disks, disruption } => api
            .update(machine, &Written { base: base.as_ref(), to, disks, disruption: *disruption }, read)?
            .is_ok(),
        Action::RecordRevision { machine, instance: Some(instance), to } => {
            api.record_on_instance(machine, instance, to).is_ok()
        }
        Action::RecordRevision { machine, instance: None, to } => api.advance(machine, to, read).is_ok(),
        Action::StoreRevision { revision } => api.store(revision),
        // The model has neither copies nor restored disks.
        Action::RestoreCopies { .. } | Action::DeleteCopy { .. } | Action::AdoptDisk { .. } => false,
        Action::PruneRevision { revision } => api.prune(revision, late)?,
        Action::OpenNameBlock { block } => api.open_block(*block, basis)?.is_ok(),
        Action::Create { draft } => api.create(draft, basis)?.is_ok(),
        Action::PruneRecord { gone, expired, block } => {
            let (gone, _) = api.confirm(gone);
            !(gone.is_empty() && expired.is_empty()) && api.settle(&gone, expired, *block, basis)?.is_ok()
        }
    })
}
