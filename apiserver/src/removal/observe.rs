//! Reads the pool and the targets of a removal, and refuses what no write could make valid.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use vmpool_engine::protection::{Protection, timestamp_text};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::standby::STANDBY;
use vmpool_engine::{ObjectId, Uid};
use vmpool_runtime::Env;

use super::errors::{
    machine_standby, machines_protected, name_returned_error, pool_deleting, pool_not_found,
    removal_conflict_error, target_not_found,
};
use super::model::{Accepted, PoolName, RemovalTarget, TargetDeletion};
use crate::body::RequestedTarget;
use crate::cluster::{CallError, ClusterClient, MachineFields, PoolFields};
use crate::error::{Error, ProtectedTarget};

/// Reads of machines that one batch has in flight.
const CONCURRENT_READS: usize = 16;

/// Machines by name. A machine that does not exist is `None`.
pub(super) type Machines = BTreeMap<String, Result<Option<MachineFields>, CallError>>;

/// A pool, its removal record, and machines.
pub(super) struct RemovalObservation {
    pub(super) pool: PoolFields,
    removals: Removals,
    machines: Machines,
}

/// What a pool stores about its removals.
pub(super) struct Removals {
    /// The removals in progress.
    pub(super) record: RemovalRecord,
    /// The last targets that were deleted, if the names of machines return.
    removed: RemovedMachines,
}

impl Removals {
    /// What the annotations of the pool contain.
    ///
    /// # Errors
    /// [`Error::Internal`] if the removal record cannot be read.
    pub(super) fn of(pool: &PoolFields, name: &PoolName) -> Result<Self, Error> {
        let removed = name.stored.removed.and_then(|annotation| pool.metadata.annotations.get(annotation));
        let removed = removed.map(|text| RemovedMachines::parse(text)).unwrap_or_default();
        Ok(Self { record: removal_record(pool, name)?, removed })
    }

    /// The targets of this name whose removal was accepted, also if they are gone.
    fn accepted<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ObjectId> {
        let in_progress = self.record.accepted().filter(move |target| *target.name == *name);
        in_progress.chain(self.removed.of_name(name))
    }

    /// The UID of an earlier target whose name this machine has. A request that contains only the name may be
    /// a repeated request for that target. Another request for this machine has the right to count, so its
    /// entry does not matter.
    pub(super) fn earlier_target<'a>(&'a self, machine: &'a ObjectId) -> Option<&'a Uid> {
        if self.record.is_accepted(&machine.uid) {
            return None;
        }
        self.accepted(&machine.name).map(|target| &target.uid).find(|uid| **uid != machine.uid)
    }
}

/// Reads a pool and machines concurrently.
///
/// # Errors
/// [`Error::PoolNotFound`], [`Error::Internal`] if the pool cannot be read.
pub(super) async fn observe_pool_and_machines(
    cluster: &ClusterClient,
    name: &PoolName,
    names: BTreeSet<String>,
) -> Result<RemovalObservation, Error> {
    let (pool, machines) = futures::join!(read_pool(cluster, name), read_machines(cluster, name, names));
    let pool = pool?;
    let removals = Removals::of(&pool, name)?;
    Ok(RemovalObservation { pool, removals, machines })
}

/// Reads the stored pool.
///
/// # Errors
/// [`Error::PoolNotFound`], [`Error::Internal`].
pub(super) async fn read_pool(cluster: &ClusterClient, name: &PoolName) -> Result<PoolFields, Error> {
    match cluster.pool(name.stored, &name.namespace, &name.name).await {
        Ok(pool) => Ok(pool),
        Err(error) if error.is_not_found() => Err(pool_not_found(name)),
        Err(error) => Err(Error::Internal(format!("reading pool \"{}\": {error}", name.name))),
    }
}

/// Reads the stored machines.
pub(super) async fn read_machines(
    cluster: &ClusterClient,
    pool: &PoolName,
    names: BTreeSet<String>,
) -> Machines {
    let read = async |name: String| {
        let machine = match cluster.machine(pool.stored, &pool.namespace, &name).await {
            Ok(machine) => Ok(Some(machine)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        };
        (name, machine)
    };
    stream::iter(names).map(read).buffer_unordered(CONCURRENT_READS).collect().await
}

/// The removal record of a pool.
///
/// # Errors
/// [`Error::Internal`] if the annotation is not a removal record.
pub(super) fn removal_record(pool: &PoolFields, name: &PoolName) -> Result<RemovalRecord, Error> {
    let annotation = name.stored.record;
    let Some(text) = pool.metadata.annotations.get(annotation) else {
        return Ok(RemovalRecord::default());
    };
    RemovalRecord::parse(text).map_err(|error| {
        Error::Internal(format!(
            "reading the removal record of pool \"{}\": annotation {annotation} was changed by another client: \
             {error}; remove the annotation",
            name.name
        ))
    })
}

/// The machine with this name, if it exists.
///
/// # Errors
/// [`Error::TargetNotInPool`] if the pool does not own the machine, [`Error::Internal`] if it could not be
/// read.
pub(super) fn owned_machine<'a>(
    machines: &'a Machines,
    target: &str,
    pool_uid: &str,
    name: &PoolName,
) -> Result<Option<&'a MachineFields>, Error> {
    let machine = match machines.get(target) {
        Some(Ok(Some(machine))) => machine,
        Some(Ok(None)) | None => return Ok(None),
        Some(Err(error)) => {
            return Err(Error::Internal(format!("reading virtual machine \"{target}\": {error}")));
        }
    };
    let pool = ObjectId::new(&name.name, pool_uid);
    if !name.stored.is_controlled_by(&machine.metadata.owner_references, &pool) {
        return Err(Error::TargetNotInPool {
            stored: name.stored,
            target: target.to_owned(),
            pool: name.name.clone(),
        });
    }
    Ok(Some(machine))
}

/// The machine with this name as a protected target, if it is protected.
pub(super) fn protected_target(
    machines: &Machines,
    index: usize,
    name: &str,
    now: Timestamp,
) -> Option<ProtectedTarget> {
    let Some(Ok(Some(machine))) = machines.get(name) else { return None };
    let protection = Protection::read(Some(&machine.metadata.annotations))?;
    let until = protection.end().map(timestamp_text);
    protection.protects(now).then(|| ProtectedTarget { index, machine: name.to_owned(), until })
}

impl RemovalObservation {
    /// The targets of a request, each once, including those that earlier requests removed. With `force`,
    /// protected machines are targets, too.
    ///
    /// # Errors
    /// The reason why the request cannot be granted.
    pub(super) fn targets(
        &self,
        name: &PoolName,
        requested: &[RequestedTarget],
        force: bool,
        pool_uid: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<RemovalTarget>, Error> {
        let meta = &self.pool.metadata;
        if let Some(required) = pool_uid.filter(|required| *required != meta.uid) {
            return Err(removal_conflict_error(name, uid_mismatch(required, &meta.uid)));
        }
        if meta.deletion_timestamp.is_some() {
            return Err(pool_deleting(name));
        }
        let mut known = BTreeSet::new();
        let mut targets = Vec::with_capacity(requested.len());
        let mut protected = Vec::new();
        for (index, requested) in requested.iter().enumerate() {
            let target = self.target(name, requested, force)?;
            if !(target.already_removed || target.deleted) && self.is_standby(&target.id) {
                return Err(machine_standby(name, index, &target.id.name));
            }
            if !(force || target.already_removed || target.deleted) {
                protected.extend(protected_target(&self.machines, index, &target.id.name, now));
            }
            if known.insert(target.id.uid.clone()) {
                targets.push(target);
            }
        }
        if protected.is_empty() { Ok(targets) } else { Err(machines_protected(name, protected)) }
    }

    /// Whether the machine is a standby machine. Its removal would lower `replicas`, which does not count it.
    fn is_standby(&self, machine: &ObjectId) -> bool {
        let Some(Ok(Some(found))) = self.machines.get(&*machine.name) else { return false };
        found.metadata.labels.contains_key(STANDBY)
    }

    fn target(
        &self,
        name: &PoolName,
        requested: &RequestedTarget,
        force: bool,
    ) -> Result<RemovalTarget, Error> {
        let pool_uid = &self.pool.metadata.uid;
        if let (Some(Ok(Some(machine))), Some(required)) =
            (self.machines.get(&requested.name), &requested.uid)
        {
            let uid = &machine.metadata.uid;
            if required != uid {
                if let Some(target) = self.removed_target(requested) {
                    return Ok(target);
                }
                let why = format!("virtual machine \"{}\": {}", requested.name, uid_mismatch(required, uid));
                return Err(removal_conflict_error(name, why));
            }
        }
        if let Some(machine) = owned_machine(&self.machines, &requested.name, pool_uid, name)? {
            let id = ObjectId::new(&requested.name, &machine.metadata.uid);
            let already_removed = self.removals.record.is_accepted(&id.uid);
            if requested.uid.is_none()
                && let Some(earlier) = self.removals.earlier_target(&id)
            {
                return Err(name_returned_error(name, earlier, &id));
            }
            let deleted = machine.metadata.deletion_timestamp.is_some();
            let deletion = TargetDeletion::of(machine, force);
            return Ok(RemovalTarget { id, already_removed, deleted, deletion });
        }
        self.removed_target(requested).ok_or_else(|| target_not_found(&requested.name, name))
    }

    /// The target of an earlier request that this one repeats. It may already be gone, and another machine
    /// may have its name.
    fn removed_target(&self, requested: &RequestedTarget) -> Option<RemovalTarget> {
        let matches = |id: &&ObjectId| requested.uid.as_deref().is_none_or(|uid| uid == id.uid.as_str());
        let removed = self.removals.accepted(&requested.name).find(matches)?;
        let deletion = TargetDeletion::ByController;
        Some(RemovalTarget { id: removed.clone(), already_removed: true, deleted: true, deletion })
    }
}

fn uid_mismatch(required: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {required}, UID in object meta: {found}")
}

/// Checks a removal without any write.
///
/// # Errors
/// The error with which the removal would fail, as far as reads can show it.
pub(super) async fn dry_run(
    cluster: &ClusterClient,
    env: &Env,
    name: &PoolName,
    requested: &[RequestedTarget],
    force: bool,
    pool_uid: Option<&str>,
) -> Result<Accepted, Error> {
    let names = requested.iter().map(|target| target.name.clone()).collect();
    let mut observed = observe_pool_and_machines(cluster, name, names).await?;
    let targets = observed.targets(name, requested, force, pool_uid, env.now())?;
    let open: Vec<ObjectId> =
        targets.iter().filter(|target| !target.already_removed).map(|target| target.id.clone()).collect();
    observed.removals.record.reserve("dry-run", &open).map_err(|full| Error::RecordFull {
        stored: name.stored,
        pool: name.name.clone(),
        why: full.to_string(),
    })?;
    Ok(Accepted { pool_uid: observed.pool.metadata.uid, replicas: None, targets })
}
