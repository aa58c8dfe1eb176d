//! Creating a machine together with its disks. Existing disks are allocated to the machine first. New disks are created
//! after it, because their owner reference can contain its UID.

use std::time::Duration;

use vmpool_engine::ledger::Seen;
use vmpool_engine::model::{DiskDraft, DiskSource, Draft, Lifetime};
use vmpool_engine::{Disk, Memory, ObjectId, Uid};
use vmpool_platforms::{DiskOf, Disks, Platform};

use super::basis::Basis;
use super::disk;
use super::outcome::{CreateResult, MadeDisk, Outcome, Unit};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

pub(super) async fn unit<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    draft: &Draft,
) -> Outcome {
    match basis.storage_conflict(&draft.name) {
        Ok(None) => {}
        Ok(Some(why)) => return Outcome::StorageConflict(draft.name.clone(), why.clone()),
        Err(error) => {
            let error = WriteError::Unconfirmed(error);
            return Outcome::Failed(machine_failure(draft, &error), error);
        }
    }
    let (claimed, stop) = disk::claim(context, pool, basis, &draft.disks, &draft.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => Outcome::Unit(create_with_disks(context, pool, basis, draft).await),
    };
    outcome.after(claimed)
}

/// Creates a machine after all its existing disks were allocated to it, and then its new disks.
async fn create_with_disks<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    draft: &Draft,
) -> Unit {
    let mut unit =
        Unit { draft: draft.clone(), machine: machine(context, pool, basis, draft).await, disks: Vec::new() };
    if let CreateResult::Exists(machine) = &unit.machine
        && !machine.facts.terminating
    {
        // An existing machine may have been created from another draft. Disks that it does not refer to would be
        // surplus, and the next pass repairs what it lacks.
        let refers = |disk: &&DiskDraft| machine.facts.disks.iter().any(|device| device.disk == disk.name);
        let new = draft.disks.iter().filter(|disk| disk.source == DiskSource::New);
        for wanted in new.filter(refers) {
            let id = &machine.facts.id;
            let result = disk(context, pool, id, wanted).await;
            let failed = result.is_err();
            unit.disks.push(MadeDisk { draft: wanted.clone(), owner: owner(pool, id, wanted), result });
            // A later pass creates the rest as repairs, with their backoff.
            if failed {
                break;
            }
        }
    }
    unit
}

async fn machine<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    draft: &Draft,
) -> CreateResult {
    let namespace = &*pool.facts.namespace;
    let body = P::machine(&pool.object, &basis.templates.wanted.value(), draft);
    let path = collection::<P::Machine>(namespace);
    match context.writer.create::<P::Machine>(WriteKind::CreateMachine, path, body).await {
        Ok(machine) => CreateResult::Exists(seen(&machine, P::read_machine)),
        Err(error) if error.is_already_exists() => {
            match context.get_live::<P::Machine>(namespace, &draft.name).await {
                Ok(Some(machine)) => {
                    let machine = seen(&machine, P::read_machine);
                    if machine.facts.owner.as_ref() == Some(&pool.facts.id.uid) {
                        CreateResult::Exists(machine)
                    } else {
                        CreateResult::NameTaken(machine)
                    }
                }
                Ok(None) => CreateResult::NameFreed,
                Err(error) => CreateResult::Unknown(WriteError::Unconfirmed(error.to_string())),
            }
        }
        Err(error @ WriteError::Unconfirmed(_)) => CreateResult::Unknown(error),
        Err(error) => CreateResult::Refused(error),
    }
}

/// Creates a disk of `machine`. If the disk already exists, returns it with any owner; the next plan decides about it.
pub(super) async fn disk<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> Result<Seen<Disk>, WriteError> {
    let namespace = &*pool.facts.namespace;
    let Some(body) = P::Disks::object(&pool.object, machine, draft) else {
        return Err(WriteError::Invalid(format!("the pool has no disk template {}", draft.template).into()));
    };
    let path = collection::<DiskOf<P>>(namespace);
    match context.writer.create::<DiskOf<P>>(WriteKind::CreateDisk, path, body).await {
        Ok(disk) => Ok(seen(&disk, P::Disks::read)),
        Err(error) if error.is_already_exists() => {
            match context.get_live::<DiskOf<P>>(namespace, &draft.name).await {
                Ok(Some(disk)) => Ok(seen(&disk, P::Disks::read)),
                Ok(None) => {
                    Err(WriteError::Unconfirmed("a disk with that name existed and is gone".to_owned()))
                }
                Err(error) => Err(WriteError::Unconfirmed(error.to_string())),
            }
        }
        Err(error) => Err(error),
    }
}

/// Records an unconfirmed create of a retained disk. If its machine is deleted, another machine waits for the disk
/// instead of getting a new one.
pub(super) fn record_unconfirmed_disk(
    memory: &mut Memory,
    draft: &DiskDraft,
    error: &WriteError,
    uptime: Duration,
) {
    if matches!(error, WriteError::Unconfirmed(_)) {
        memory.disks.create_unconfirmed(&draft.name, 0, uptime);
    }
}

/// The UID of the owner of a disk of this template.
pub(super) fn owner<P: Platform>(pool: &PoolEntry<P>, machine: &ObjectId, draft: &DiskDraft) -> Uid {
    let template = pool.facts.disks.iter().find(|template| template.name == draft.template);
    match template.map(|template| template.lifetime) {
        Some(Lifetime::Retained) => pool.facts.id.uid.clone(),
        Some(Lifetime::Ephemeral) | None => machine.uid.clone(),
    }
}

/// The event about a machine that could not be created.
pub(super) fn machine_failure(draft: &Draft, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: Reason::FailedCreate,
        name: draft.name.to_string(),
        note: format!("creating machine {}: {error}", draft.name),
    }
}

/// The event about a disk that could not be created.
pub(super) fn disk_failure(draft: &DiskDraft, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: Reason::FailedDisk,
        name: draft.name.to_string(),
        note: format!("creating disk {}: {error}", draft.name),
    }
}
