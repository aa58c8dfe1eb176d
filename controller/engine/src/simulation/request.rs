//! Requests of the controller, which the model of the API server commits, and the users of disks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, RequestBasis, RequestRefusal};
use super::revisions::MachineUpdate;
use super::standby::StandbyDeletion;
use crate::PoolAction;
use crate::ledger::{REQUEST_TIMEOUT, VersionedFacts};
use crate::model::{Disk, DiskDraft, DiskSource, Finalizer, Machine, ObjectId};
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
pub(super) fn machines_by_disk(machines: &[Arc<Machine>]) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
    let mut users = BTreeMap::<_, Vec<_>>::new();
    for machine in machines {
        for device in &machine.disks {
            users.entry(device.disk.clone()).or_default().push(machine.id.name.clone());
        }
    }
    users
}

/// What the API server has committed.
pub(super) enum CommittedRequest {
    Machine(VersionedFacts<Machine>),
    MachineDeleted(VersionedFacts<Machine>),
    Disk(VersionedFacts<Disk>),
    DiskDeleted(VersionedFacts<Disk>),
    /// A request whose response has no facts, and whether it changed anything.
    Other {
        changed: bool,
    },
}

impl CommittedRequest {
    const CHANGED: Self = Self::Other { changed: true };

    fn has_effect(&self) -> bool {
        !matches!(self, Self::Other { changed: false })
    }
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
    let answer = commit_request(api, action, basis, version, late)?;
    Ok(answer.is_ok_and(|committed| committed.has_effect()))
}

/// Commits a request. `version` is that of its object, as the controller knows it.
pub(super) fn commit_request(
    api: &mut Api,
    action: &PoolAction,
    basis: RequestBasis,
    version: Option<u64>,
    late: bool,
) -> Result<Result<CommittedRequest, RequestRefusal>, BrokenInvariant> {
    use CommittedRequest as Committed;
    // A write of a machine includes a live read, so only a late request can be outdated.
    let read = version.filter(|_| late);
    let version_of_disk = version.unwrap_or_default();
    let other = |changed| Ok(Committed::Other { changed });
    Ok(match action {
        PoolAction::AddPoolFinalizer | PoolAction::RemovePoolFinalizer => {
            let is_added = *action == PoolAction::AddPoolFinalizer;
            api.set_pool_finalizer(if is_added { Finalizer::Present } else { Finalizer::Missing })?;
            Ok(Committed::CHANGED)
        }
        PoolAction::AddFinalizer { machine } => api.add_finalizer(machine, read).map(Committed::Machine),
        PoolAction::RemoveFinalizer { machine, preserve_storage } => {
            api.remove_finalizer(machine, *preserve_storage)?.map(Committed::Machine)
        }
        // The second request of a restart names the instance, and requires no version.
        PoolAction::Restart { machine, instance, revision } => {
            match api.mark_restarting(machine, instance, revision, read) {
                Ok(Some(marked)) => Ok(Committed::Machine(marked)),
                Ok(None) => api.delete_instance(machine, instance)?.map(|()| Committed::CHANGED),
                Err(refusal) => Err(refusal),
            }
        }
        PoolAction::EndRestart { machine } => api.end_restart(machine, read).map(Committed::Machine),
        PoolAction::Relabel { machine } => api.relabel(machine).map(Committed::Machine),
        PoolAction::Release { machine, shared } => api.release(machine, shared)?.map(Committed::Machine),
        PoolAction::Repoint { machine, position, from, to } => {
            api.repoint(machine, *position, from, to).map(Committed::Machine)
        }
        PoolAction::Detach { machine, position, disk } => {
            api.detach(machine, *position, disk).map(Committed::Machine)
        }
        PoolAction::CreateDisk { machine, disk } => {
            api.create_disk(machine, disk, late)?.map(Committed::Disk)
        }
        PoolAction::AnnotateDisk { disk, annotations, .. } => {
            api.annotate_disk(disk, version_of_disk, annotations)?.map(Committed::Disk)
        }
        PoolAction::ExpandDisk { disk, to } => api.grow(disk, *to).map(Committed::Disk),
        PoolAction::DeleteDisk { disk, reason } => {
            api.delete_disk(disk, version_of_disk, *reason)?.map(Committed::DiskDeleted)
        }
        PoolAction::Delete { machine, reason: reason @ DeleteReason::StorageChanged { .. } } => {
            api.recreate(machine, version, *reason)?.map(Committed::MachineDeleted)
        }
        PoolAction::Delete { machine, reason: DeleteReason::NotReady } => {
            api.heal(machine, version, basis)?.map(Committed::MachineDeleted)
        }
        PoolAction::Delete { machine, reason: DeleteReason::Recycled { .. } } => {
            api.replace(machine, version, basis)?.map(Committed::MachineDeleted)
        }
        PoolAction::Delete {
            machine,
            reason: reason @ (DeleteReason::StandbySurplus | DeleteReason::StandbyReplaced),
        } => {
            let is_surplus = *reason == DeleteReason::StandbySurplus && !late;
            let kind = if is_surplus { StandbyDeletion::Surplus } else { StandbyDeletion::Other };
            api.delete_standby(machine, version, basis, kind)?.map(Committed::MachineDeleted)
        }
        PoolAction::Delete { machine, .. } => {
            api.delete(machine, version, basis, late)?.map(Committed::MachineDeleted)
        }
        PoolAction::BeginDrain { machine, mark } => {
            api.begin_drain(machine, mark, read).map(Committed::Machine)
        }
        PoolAction::EndDrain { machine } => api.end_drain(machine, read).map(Committed::Machine),
        PoolAction::ShortenProtection { machine, until } => {
            api.shorten_protection(machine, *until).map(Committed::Machine)
        }
        PoolAction::Update { machine, base, to, disks, disruption } => {
            let write = MachineUpdate { base: base.as_ref(), to, disks, disruption: *disruption };
            api.update(machine, &write, read)?.map(Committed::Machine)
        }
        PoolAction::RecordRevision { machine, instance: Some(instance), to } => {
            api.record_on_instance(machine, instance, to).map(Committed::Machine)
        }
        PoolAction::RecordRevision { machine, instance: None, to } => {
            api.advance(machine, to, read).map(Committed::Machine)
        }
        PoolAction::StoreRevision { revision } => other(api.store(revision)),
        PoolAction::PruneRevision { revision } => other(api.prune(revision, late)?),
        // The model has neither copies nor restored disks.
        PoolAction::RestoreCopies { .. } | PoolAction::DeleteCopy { .. } | PoolAction::AdoptDisk { .. } => {
            other(false)
        }
        // The garbage collector of the model ends all deletions.
        PoolAction::EndDeletion { .. } => Err(RequestRefusal::NotFound),
        PoolAction::Activate { machine, to, .. } => {
            api.activate(machine, to, read, basis)?.map(Committed::Machine)
        }
        PoolAction::StartActivated { machine } => api.request_start(machine).map(|()| Committed::CHANGED),
        PoolAction::StopStandby { machine } => api.stop_standby(machine, read).map(Committed::Machine),
        PoolAction::OpenNameBlock { block } => api.open_block(*block, basis)?.map(|()| Committed::CHANGED),
        PoolAction::Create { draft } => api.create(draft, basis)?.map(Committed::Machine),
        PoolAction::PruneRecord { gone, expired, block } => {
            let (gone, _) = api.confirm(gone);
            if gone.is_empty() && expired.is_empty() {
                return Ok(Err(RequestRefusal::Conflict));
            }
            api.settle(&gone, expired, *block, basis)?.map(|()| Committed::CHANGED)
        }
    })
}
