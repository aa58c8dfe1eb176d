//! What the writes of a pass depend on: the versions of the objects that the plan used, and a last live read
//! of the users of disks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::model::{DiskDraft, DiskSource};
use vmpool_engine::plan::{DeleteReason, PoolSnapshot, mark_superseded};
use vmpool_engine::{Disk, Machine, ObjectId, PassMemory, Pool, PoolAction, Uid};
use vmpool_platforms::{AttachmentOf, Disks, MachineStorage, Platform};

use super::overridden::Comparisons;
use super::storage_names::{self, StorageConflicts};
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::revisions::templates::Templates;

/// Names of disks, each with the name of a user.
type Users = BTreeMap<Arc<str>, Arc<str>>;

/// The versions of the objects that a plan uses, if the objects have not changed since the snapshot.
///
/// A write that requires such a version is rejected if the object has changed since the plan.
#[derive(Default)]
pub(super) struct PlanBasis {
    machines: BTreeMap<Uid, u64>,
    disks: BTreeMap<Uid, VersionedFacts<Disk>>,
    /// The users of the disks to delete, by disk; `Err` if a live read failed.
    users: Option<Result<Users, Arc<ReadError>>>,
    /// Machines that must not be created or updated; `Err` if a live read failed.
    storage_conflicts: Option<Result<StorageConflicts, Arc<ReadError>>>,
    /// The disks with several rejected machines in a row.
    suspected: BTreeSet<Arc<str>>,
    /// The templates that machines are created from.
    pub(super) templates: Templates,
    /// The comparisons of responses with what was sent.
    pub(super) comparisons: Comparisons,
    /// The uptime at which the writes of the plan began.
    pub(super) begun: Duration,
}

/// Why a live read has no result. Several actions of a plan can report the same failed read.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum UnreadBasisError {
    #[error(transparent)]
    Failed(Arc<ReadError>),
    #[error("its storage was not read")]
    StorageUnread,
    #[error("its users were not read")]
    UsersUnread,
}

impl PlanBasis {
    /// The versions that `actions` need.
    pub(super) fn of<P: Platform>(
        context: &PoolContext<P>,
        pool: &Pool,
        snapshot: &PoolSnapshot,
        actions: &[PoolAction],
        memory: &PassMemory,
    ) -> Self {
        let (mut machines, mut disks) = (BTreeSet::new(), BTreeSet::new());
        for action in actions {
            match action {
                PoolAction::Delete {
                    machine,
                    reason:
                        DeleteReason::Surplus { .. }
                        | DeleteReason::StorageChanged { .. }
                        | DeleteReason::Unhealthy
                        | DeleteReason::NotReady
                        | DeleteReason::Recycled { .. }
                        | DeleteReason::StandbySurplus
                        | DeleteReason::StandbyReplaced
                        | DeleteReason::Targeted { forced: false },
                } => {
                    machines.extend([&machine.uid]);
                }
                PoolAction::Update { disks: wanted, .. } | PoolAction::Activate { disks: wanted, .. } => {
                    disks.extend(free_disks_in_drafts(wanted).map(|disk| &disk.uid));
                }
                PoolAction::Create { draft } => {
                    disks.extend(free_disks_in_drafts(&draft.disks).map(|disk| &disk.uid));
                }
                PoolAction::Repoint { to, .. } => {
                    disks.extend(free_disks_in_drafts(std::slice::from_ref(to)).map(|disk| &disk.uid));
                }
                PoolAction::AnnotateDisk { disk, .. }
                | PoolAction::ExpandDisk { disk, .. }
                | PoolAction::DeleteDisk { disk, .. } => {
                    disks.insert(&disk.uid);
                }
                PoolAction::Relabel { .. }
                | PoolAction::Release { .. }
                | PoolAction::CreateDisk { .. }
                | PoolAction::AdoptDisk { .. }
                | PoolAction::Detach { .. }
                | PoolAction::RecordRevision { .. }
                | PoolAction::Delete { reason: DeleteReason::Targeted { forced: true }, .. }
                | PoolAction::AddPoolFinalizer
                | PoolAction::RemovePoolFinalizer
                | PoolAction::AddFinalizer { .. }
                | PoolAction::RemoveFinalizer { .. }
                | PoolAction::EndDeletion { .. }
                | PoolAction::Restart { .. }
                | PoolAction::EndRestart { .. }
                | PoolAction::BeginDrain { .. }
                | PoolAction::EndDrain { .. }
                | PoolAction::ShortenProtection { .. }
                | PoolAction::StartActivated { .. }
                | PoolAction::StopStandby { .. }
                | PoolAction::OpenNameBlock { .. }
                | PoolAction::StoreRevision { .. }
                | PoolAction::RestoreCopies { .. }
                | PoolAction::PruneRevision { .. }
                | PoolAction::DeleteCopy { .. }
                | PoolAction::PruneRecord { .. } => {}
            }
        }
        let suspected = memory.suspected_disks().cloned().collect();
        let comparisons = Comparisons::of(memory, snapshot);
        let mut basis =
            Self { suspected, comparisons, begun: context.leader.env.uptime(), ..Self::default() };
        if !machines.is_empty() {
            for planned in snapshot.machines.iter().filter(|machine| machines.contains(&machine.id.uid)) {
                let name = &planned.id.name;
                let known = memory.machines.written_as(name);
                let known = known.or_else(|| context.caches.machines.get(&pool.namespace, name));
                // Changes of other fields do not change the facts.
                if let Some(known) = known.filter(|known| is_same_machine(&known.facts, planned)) {
                    basis.machines.insert(planned.id.uid.clone(), known.version);
                }
            }
        }
        if !disks.is_empty() {
            let all = snapshot.pool_disks.iter().chain(snapshot.disks.values());
            for planned in all.filter(|disk| disks.contains(&disk.id.uid)) {
                let name = &planned.id.name;
                let known = memory.disks.written_as(name);
                let known = known.or_else(|| context.caches.disks.get(&pool.namespace, name));
                let Some(mut known) = known else { continue };
                mark_superseded(pool, &mut known.facts);
                if is_same(&known.facts, planned) {
                    basis.disks.insert(planned.id.uid.clone(), known);
                }
            }
        }
        basis
    }

    /// The version of a machine that the plan used; `None` if the machine is known to have changed.
    pub(super) fn machine(&self, machine: &ObjectId) -> Option<u64> {
        self.machines.get(&machine.uid).copied()
    }

    /// A disk as the plan used it; `None` if the disk is known to have changed.
    pub(super) fn disk(&self, disk: &ObjectId) -> Option<&VersionedFacts<Disk>> {
        self.disks.get(&disk.uid)
    }

    /// Lists all machines and attachments of the namespace live, and records which of them use the disks that
    /// `batch` deletes. They include every use that began before the disk was marked, independent of the
    /// delay of the caches.
    pub(super) async fn read_disk_users<P: Platform>(
        &mut self,
        context: &PoolContext<P>,
        pool: &PoolEntry<P>,
        batch: &[PoolAction],
    ) {
        let doomed: BTreeSet<&Arc<str>> = batch
            .iter()
            .filter_map(|action| match action {
                PoolAction::DeleteDisk { disk, .. } => Some(&disk.name),
                _ => None,
            })
            .collect();
        if doomed.is_empty() {
            return;
        }
        let namespace = &*pool.facts.namespace;
        let mut users = BTreeMap::new();
        let mut read_users = async || {
            let by_machine = |machine: P::Machine| {
                let machine = P::read_machine(&machine);
                for disk in machine.held_disks().filter(|disk| doomed.contains(disk)) {
                    users.insert(disk.clone(), machine.id.name.clone());
                }
            };
            context.list_live::<P::Machine>(namespace, by_machine).await?;
            if P::Disks::HAS_ATTACHMENTS {
                let by_attachment = |attachment: AttachmentOf<P>| {
                    let attachment = P::Disks::read_attachment(&attachment);
                    if let Some(disk) = attachment.disk.filter(|disk| doomed.contains(disk)) {
                        users.insert(disk, attachment.id.name);
                    }
                };
                context.list_live::<AttachmentOf<P>>(namespace, by_attachment).await?;
            }
            Ok(())
        };
        let read: Result<(), ReadError> = read_users().await;
        self.users = Some(read.map(|()| users).map_err(Arc::new));
    }

    /// Reads whether storage has the names that the machines which `batch` creates or updates would use.
    pub(super) async fn read_storage_names<P: Platform>(
        &mut self,
        context: &PoolContext<P>,
        pool: &PoolEntry<P>,
        batch: &[PoolAction],
    ) {
        if !P::Storage::EXIST {
            self.storage_conflicts = Some(Ok(StorageConflicts::new()));
        } else if batch
            .iter()
            .any(|action| matches!(action, PoolAction::Create { .. } | PoolAction::Update { .. }))
        {
            let read = storage_names::find_storage_conflicts(context, pool, &self.templates, batch).await;
            self.storage_conflicts = Some(read.map_err(Arc::new));
        }
    }

    /// Why this machine must not be created or updated; `None` if nothing is against it.
    ///
    /// # Errors
    /// The live read failed.
    pub(super) fn storage_conflict(&self, machine: &str) -> Result<Option<&String>, UnreadBasisError> {
        match &self.storage_conflicts {
            Some(Ok(conflicts)) => Ok(conflicts.get(machine)),
            Some(Err(error)) => Err(UnreadBasisError::Failed(error.clone())),
            None => Err(UnreadBasisError::StorageUnread),
        }
    }

    /// The user of a disk to delete.
    ///
    /// # Errors
    /// The live read failed.
    pub(super) fn user_of(&self, disk: &str) -> Result<Option<&Arc<str>>, UnreadBasisError> {
        match &self.users {
            Some(Ok(users)) => Ok(users.get(disk)),
            Some(Err(error)) => Err(UnreadBasisError::Failed(error.clone())),
            None => Err(UnreadBasisError::UsersUnread),
        }
    }
}

impl PlanBasis {
    /// Whether one of the existing disks among `disks` has several rejected machines in a row.
    pub(super) fn suspects(&self, disks: &[DiskDraft]) -> bool {
        disks.iter().any(|disk| disk.source != DiskSource::New && self.suspected.contains(&disk.name))
    }
}

/// Whether a machine has not changed since the plan. The snapshot adds the instance, which is another object,
/// and what only earlier versions of the machine show.
fn is_same_machine(known: &Arc<Machine>, planned: &Arc<Machine>) -> bool {
    if is_same(known, planned) {
        return true;
    }
    let mut planned = Machine::clone(planned);
    planned.been_ready = known.been_ready;
    if planned.instance.take().is_some() {
        planned.revision.clone_from(&known.revision);
    }
    **known == planned
}

fn is_same<T: PartialEq>(known: &Arc<T>, planned: &Arc<T>) -> bool {
    Arc::ptr_eq(known, planned) || known == planned
}

/// The free disks among `disks`, which must be allocated first.
pub(super) fn free_disks_in_drafts(disks: &[DiskDraft]) -> impl Iterator<Item = &ObjectId> {
    disks.iter().filter_map(|draft| match &draft.source {
        DiskSource::Free(disk) => Some(disk),
        DiskSource::New | DiskSource::Existing(_) => None,
    })
}
