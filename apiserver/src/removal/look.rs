//! The first look at a pool and at the machines that are to leave it: what would be refused in any case is refused
//! before anything is written.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::ObjectId;
use vmpool_engine::removal::RemovalRecord;

use super::{Accepted, Leaving, PoolName};
use crate::api::STORED_GROUP;
use crate::body::Named;
use crate::cluster::{CallError, Cluster, Machine, Pool};
use crate::error::Error;

/// Reads of machines that are under way at a time for one turn.
const SIDE_BY_SIDE: usize = 16;

/// Machines by name; the ones that are not there are `None`.
pub(super) type Machines = BTreeMap<String, Result<Option<Machine>, String>>;

/// A pool, its record, and machines.
pub(super) struct Look {
    pub(super) pool: Pool,
    pub(super) record: RemovalRecord,
    machines: Machines,
}

/// Reads a pool and machines, side by side.
///
/// # Errors
/// [`Error::PoolNotFound`], [`Error::Internal`] if the pool cannot be read.
pub(super) async fn look(cluster: &Cluster, name: &PoolName, names: BTreeSet<String>) -> Result<Look, Error> {
    let (pool, machines) = futures::join!(read_pool(cluster, name), read_machines(cluster, name, names));
    let pool = pool?;
    let record = record(&pool, name)?;
    Ok(Look { pool, record, machines })
}

/// The pool as it is now.
///
/// # Errors
/// [`Error::PoolNotFound`], [`Error::Internal`].
pub(super) async fn read_pool(cluster: &Cluster, name: &PoolName) -> Result<Pool, Error> {
    match cluster.pool(&name.namespace, &name.name).await {
        Ok(pool) => Ok(pool),
        Err(error) if error.is_gone() => Err(not_found(name)),
        Err(error) => Err(Error::Internal(format!("reading pool \"{}\": {error}", name.name))),
    }
}

/// The machines as they are now.
pub(super) async fn read_machines(cluster: &Cluster, pool: &PoolName, names: BTreeSet<String>) -> Machines {
    let read = async |name: String| {
        let machine = match cluster.machine(&pool.namespace, &name).await {
            Ok(machine) => Ok(Some(machine)),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        (name, machine)
    };
    stream::iter(names).map(read).buffer_unordered(SIDE_BY_SIDE).collect().await
}

/// The record on a pool.
///
/// # Errors
/// [`Error::Internal`] if the annotation is something else.
pub(super) fn record(pool: &Pool, name: &PoolName) -> Result<RemovalRecord, Error> {
    let Some(text) = pool.metadata.annotations.get(SCALE_DOWN_TARGETS) else {
        return Ok(RemovalRecord::default());
    };
    RemovalRecord::parse(text).map_err(|error| {
        Error::Internal(format!(
            "annotation {SCALE_DOWN_TARGETS} of pool \"{}\" was changed by somebody else, and has to be removed: {error}",
            name.name
        ))
    })
}

pub(super) fn not_found(name: &PoolName) -> Error {
    Error::PoolNotFound { group: STORED_GROUP, pool: name.name.clone() }
}

pub(super) fn conflict(name: &PoolName, why: impl Into<String>) -> Error {
    Error::Conflict { pool: name.name.clone(), why: why.into() }
}

/// A write was tried for as long as it makes sense, and none of the tries had an effect.
pub(super) fn unavailable(name: &PoolName, why: &str) -> Error {
    Error::Unavailable { pool: name.name.clone(), why: why.to_owned() }
}

pub(super) fn deleting(name: &PoolName) -> Error {
    conflict(name, "the pool is being deleted, and its machines with it")
}

/// Checks that a machine is there and belongs to the pool.
///
/// # Errors
/// What is wrong with it.
pub(super) fn member<'a>(
    machines: &'a Machines,
    target: &str,
    pool_uid: &str,
    name: &PoolName,
) -> Result<Option<&'a Machine>, Error> {
    let machine = match machines.get(target) {
        Some(Ok(Some(machine))) => machine,
        Some(Ok(None)) | None => return Ok(None),
        Some(Err(error)) => {
            return Err(Error::Internal(format!("reading virtual machine \"{target}\": {error}")));
        }
    };
    if machine.metadata.controller() != Some(pool_uid) {
        return Err(Error::TargetForeign { target: target.to_owned(), pool: name.name.clone() });
    }
    Ok(Some(machine))
}

pub(super) fn missing(target: &str, name: &PoolName) -> Error {
    Error::TargetMissing { target: target.to_owned(), namespace: name.namespace.clone() }
}

impl Look {
    /// What a request means here: its machines, each once, those included that earlier requests have removed.
    ///
    /// # Errors
    /// Why it cannot be granted.
    pub(super) fn judge(
        &self,
        name: &PoolName,
        targets: &[Named],
        pool_uid: Option<&str>,
    ) -> Result<Vec<Leaving>, Error> {
        let meta = &self.pool.metadata;
        if let Some(wanted) = pool_uid.filter(|wanted| *wanted != meta.uid) {
            return Err(conflict(name, mismatch(wanted, &meta.uid)));
        }
        if meta.deletion_timestamp.is_some() {
            return Err(deleting(name));
        }
        let mut known = BTreeSet::new();
        let mut leaving = Vec::with_capacity(targets.len());
        for target in targets {
            let machine = self.leaving(name, target)?;
            if known.insert(machine.id.uid.clone()) {
                leaving.push(machine);
            }
        }
        Ok(leaving)
    }

    fn leaving(&self, name: &PoolName, target: &Named) -> Result<Leaving, Error> {
        let pool_uid = &self.pool.metadata.uid;
        if let (Some(Ok(Some(machine))), Some(wanted)) = (self.machines.get(&target.name), &target.uid) {
            let uid = &machine.metadata.uid;
            if wanted != uid {
                let why = format!("virtual machine \"{}\": {}", target.name, mismatch(wanted, uid));
                return Err(conflict(name, why));
            }
        }
        if let Some(machine) = member(&self.machines, &target.name, pool_uid, name)? {
            let id = ObjectId::new(&target.name, &machine.metadata.uid);
            let already = self.record.is_accepted(&id.uid);
            return Ok(Leaving { id, already, deleted: machine.metadata.deletion_timestamp.is_some() });
        }
        // It may have left so fast that whoever repeats a request meets only the record. A name may return after a
        // change of leaders, within the open block: who repeats and must be sure names the UID.
        let is_it = |id: &&ObjectId| {
            *id.name == *target.name && target.uid.as_deref().is_none_or(|uid| uid == id.uid.as_str())
        };
        let gone = self.record.accepted().find(is_it).ok_or_else(|| missing(&target.name, name))?;
        Ok(Leaving { id: gone.clone(), already: true, deleted: true })
    }
}

fn mismatch(wanted: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")
}

/// Checks a removal without doing it.
///
/// # Errors
/// As the removal would fail, as far as that can be known.
pub(super) async fn rehearse(
    cluster: &Cluster,
    name: &PoolName,
    targets: &[Named],
    pool_uid: Option<&str>,
) -> Result<Accepted, Error> {
    let names = targets.iter().map(|target| target.name.clone()).collect();
    let Look { pool, mut record, machines } = look(cluster, name, names).await?;
    let looked = Look { pool, record: record.clone(), machines };
    let machines = looked.judge(name, targets, pool_uid)?;
    let open: Vec<ObjectId> =
        machines.iter().filter(|machine| !machine.already).map(|machine| machine.id.clone()).collect();
    record
        .reserve("rehearsal", &open)
        .map_err(|full| Error::Full { pool: name.name.clone(), why: full.to_string() })?;
    Ok(Accepted { pool_uid: looked.pool.metadata.uid, replicas: None, machines })
}

/// A refusal of the API server as the caller hears it.
pub(super) fn passed(error: CallError, name: &PoolName) -> Error {
    match error {
        CallError::Refused(status) if status.code == 404 => not_found(name),
        CallError::Refused(status) => {
            Error::Passed { code: status.code, reason: status.reason, message: status.message }
        }
        CallError::Unasked(why) => unavailable(name, &why),
        CallError::Lost(why) => Error::Internal(format!("writing pool \"{}\": {why}", name.name)),
    }
}
