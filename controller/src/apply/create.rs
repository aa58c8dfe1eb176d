//! A machine and its disks, which are one unit. Disks that exist are promised to it first; those that are to be made
//! come after it, because they may name its UID as their owner.

use std::time::Duration;

use vmpool_engine::backoff::FailureReason;
use vmpool_engine::ledger::Seen;
use vmpool_engine::model::{DiskDraft, DiskSource, Draft, Lifetime};
use vmpool_engine::{Disk, Machine, Memory, ObjectId, Uid};

use super::basis::Basis;
use super::{Outcome, Step, disk, seen};
use crate::context::{Context, PoolEntry, collection};
use crate::events::{Happening, Reason};
use crate::metrics::{Metrics, WriteKind};
use crate::platform::Platform;
use crate::write::WriteError;

/// What came of one unit.
pub(super) struct Unit {
    draft: Draft,
    machine: CreateResult,
    /// Those that were made.
    disks: Vec<Made>,
}

struct Made {
    draft: DiskDraft,
    /// UID of the owner that it should have.
    owner: Uid,
    result: Result<Seen<Disk>, WriteError>,
}

enum CreateResult {
    /// It exists and is ours.
    Exists(Seen<Machine>),
    /// Somebody else has the name.
    NameTaken(Seen<Machine>),
    /// Somebody had the name a moment ago.
    NameFreed,
    /// It may exist.
    Unknown(WriteError),
    /// It does not exist.
    Refused(WriteError),
}

pub(super) async fn unit<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    draft: &Draft,
) -> Outcome {
    let (claimed, stop) = disk::claim(context, pool, basis, &draft.disks, &draft.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => Outcome::Unit(promised(context, pool, basis, draft).await),
    };
    outcome.after(claimed)
}

/// The unit of a machine that has been promised all the disks that it is to get and that exist.
async fn promised<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    draft: &Draft,
) -> Unit {
    let mut unit =
        Unit { draft: draft.clone(), machine: machine(context, pool, basis, draft).await, disks: Vec::new() };
    if let CreateResult::Exists(replica) = &unit.machine
        && !replica.facts.terminating
    {
        // One that exists already may have been made from another draft: what it does not refer to would be one disk
        // too many, and what it lacks is repaired by the next pass.
        let refers = |disk: &&DiskDraft| replica.facts.disks.iter().any(|device| device.disk == disk.name);
        let new = draft.disks.iter().filter(|disk| disk.source == DiskSource::New);
        for wanted in new.filter(refers) {
            let id = &replica.facts.id;
            let result = disk(context, pool, id, wanted).await;
            let failed = result.is_err();
            unit.disks.push(Made { draft: wanted.clone(), owner: owner(pool, id, wanted), result });
            // The rest is created by the repair of a later pass, at its pace.
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
                Err(error) => CreateResult::Unknown(WriteError::Lost(error.to_string())),
            }
        }
        Err(error @ WriteError::Lost(_)) => CreateResult::Unknown(error),
        Err(error) => CreateResult::Refused(error),
    }
}

/// Creates a disk of `member`. One that exists already is returned as it is, whoever owns it: the plan sees to it.
pub(super) async fn disk<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
    draft: &DiskDraft,
) -> Result<Seen<Disk>, WriteError> {
    let namespace = &*pool.facts.namespace;
    let Some(body) = P::disk(&pool.object, member, draft) else {
        return Err(WriteError::Invalid(format!("the pool has no disk template {}", draft.template).into()));
    };
    let path = collection::<P::Disk>(namespace);
    match context.writer.create::<P::Disk>(WriteKind::CreateDisk, path, body).await {
        Ok(disk) => Ok(seen(&disk, P::read_disk)),
        Err(error) if error.is_already_exists() => {
            match context.get_live::<P::Disk>(namespace, &draft.name).await {
                Ok(Some(disk)) => Ok(seen(&disk, P::read_disk)),
                Ok(None) => Err(WriteError::Lost("a disk of that name was there and is gone".to_owned())),
                Err(error) => Err(WriteError::Lost(error.to_string())),
            }
        }
        Err(error) => Err(error),
    }
}

/// Notes that a disk of the pool may exist, or still come to be: another machine waits for it rather than getting one
/// more, should the one that it was for be gone.
pub(super) fn note_lost(memory: &mut Memory, draft: &DiskDraft, error: &WriteError, uptime: Duration) {
    if matches!(error, WriteError::Lost(_)) {
        memory.disks.create_unconfirmed(&draft.name, 0, uptime);
    }
}

/// Who owns a disk of this template.
pub(super) fn owner<P: Platform>(pool: &PoolEntry<P>, member: &ObjectId, draft: &DiskDraft) -> Uid {
    let template = pool.facts.disks.iter().find(|template| template.name == draft.template);
    match template.map(|template| template.lifetime) {
        Some(Lifetime::Retained) => pool.facts.id.uid.clone(),
        Some(Lifetime::Ephemeral) | None => member.uid.clone(),
    }
}

fn machine_failure(draft: &Draft, error: &WriteError) -> Happening {
    Happening {
        reason: Reason::FailedCreate,
        name: draft.name.to_string(),
        note: format!("creating machine {}: {error}", draft.name),
    }
}

/// What a disk that could not be created means to the owner of the pool.
pub(super) fn disk_failure(draft: &DiskDraft, error: &WriteError) -> Happening {
    Happening {
        reason: Reason::FailedDisk,
        name: draft.name.to_string(),
        note: format!("creating disk {}: {error}", draft.name),
    }
}

impl Unit {
    pub(super) fn learn(self, metrics: &Metrics, memory: &mut Memory, uptime: Duration) -> Step {
        let Self { draft, machine, disks } = self;
        // A refused create had no effect: its number is as good as new. Any other is used up.
        if !matches!(machine, CreateResult::Refused(_)) {
            memory.next_number = memory.next_number.max(draft.number + 1);
        }
        let replica = match machine {
            CreateResult::Exists(replica) => replica,
            CreateResult::NameTaken(machine) => {
                // An earlier attempt without an answer is settled by that too: the name is not ours and never will be.
                memory.machines.name_taken(&draft.name);
                // It may have been a member when it was created, and then it has disks of the pool, which are not free.
                memory.machines.written(machine, uptime);
                return Step::outdated();
            }
            // Whoever had the name says nothing about an earlier attempt, which may still happen.
            CreateResult::NameFreed => return Step::outdated(),
            CreateResult::Unknown(error) => {
                memory.machines.create_unconfirmed(&draft.name, draft.number, uptime);
                return Step::failed(machine_failure(&draft, &error), error);
            }
            CreateResult::Refused(error) => {
                disk::note_refusal(memory, &draft.disks, &error, uptime);
                return Step::failed(machine_failure(&draft, &error), error);
            }
        };
        let id = replica.facts.id.clone();
        tracing::info!(machine = &*id.name, machine_uid = id.uid.as_str(), "created a machine");
        memory.machines.written(replica, uptime);
        memory.accept_disks(draft.disks.iter().map(|disk| &disk.name));
        let created = Happening {
            reason: Reason::SuccessfulCreate,
            name: id.name.to_string(),
            note: format!("created machine {id}"),
        };
        let mut step = Step::done(Some(created));
        step.happenings.extend(disk::reused(metrics, &draft.disks, &id));
        for Made { draft, owner, result } in disks {
            match result {
                Ok(disk) => {
                    // A foreign disk is not what the machine needs: the next plan finds another name.
                    if disk.facts.owner.as_ref().is_none_or(|found| found.uid != owner) {
                        step.done = false;
                        step.outdated = true;
                    }
                    memory.disks.written(disk, uptime);
                }
                Err(error) => {
                    if owner != id.uid {
                        note_lost(memory, &draft, &error, uptime);
                    }
                    step.fail(disk_failure(&draft, &error), error);
                    step.reason = Some(FailureReason::DiskFailure);
                }
            }
        }
        step
    }
}
