//! Creating a machine together with its disks. Existing disks are allocated to the machine first. New disks
//! are created after it, because their owner reference can contain its UID.

use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_engine::failure::FailureReason;
use vmpool_engine::image_refresh::{DISK_SOURCES, format_disk_sources};
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::membership::losses::{LossKind, Rehearsal};
use vmpool_engine::model::{DiskDraft, DiskSource, Draft, Lifetime, Owner};
use vmpool_engine::plan::FieldPaths;
use vmpool_engine::{Disk, Machine, ObjectId};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{DiskOf, Disks, Platform, Wording};
use vmpool_runtime::telemetry::with_causes;

use super::basis::PlanBasis;
use super::disk;
use super::outcome::{ActionOutcome, Effect, MachineWriteResult, PlanValidity};
use super::overridden::read_response;
use super::rejected_disks::judge_disks;
use crate::metrics::{MachineActions, WriteKind};
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::losses;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;
use crate::pools::seen_facts::seen_facts;

/// Creates a machine after all its existing disks were allocated to it, and then its new disks.
pub(super) async fn create_machine_with_disks<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    draft: &Draft,
) -> ActionOutcome {
    match basis.storage_conflict(&draft.name) {
        Ok(None) => {}
        Ok(Some(why)) => return storage_conflict(draft, why),
        Err(error) => {
            let error = WriteError::Unconfirmed(with_causes(&error));
            return ActionOutcome::failed(machine_failure(draft, &error), error);
        }
    }
    if let Err(outcome) = dry_run_machine_create(context, pool, basis, draft).await {
        return outcome;
    }
    let (claimed, stop) = disk::allocate_free_disks(context, pool, basis, &draft.disks, &draft.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        // An admission webhook may have delayed the dry run for long.
        None if !context.has_no_newer_spec(&pool.facts) => ActionOutcome::outdated(),
        None => match create_or_find_machine(context, pool, basis, draft).await {
            Ok((machine, overridden)) => {
                let found = overridden.map(|fields| Effect::Overridden(machine.facts.id.uid.clone(), fields));
                let mut outcome = with_disks(context, pool, draft, machine).await;
                outcome.effects.extend(found);
                outcome
            }
            Err(outcome) => outcome,
        },
    };
    outcome.after(claimed)
}

/// The next plan creates the other machines, and reports this one.
fn storage_conflict(draft: &Draft, why: &str) -> ActionOutcome {
    tracing::warn!(machine = &*draft.name, why, "did not create a machine");
    let event =
        PoolEvent { reason: EventReason::FailedCreate, name: draft.name.to_string(), note: why.to_owned() };
    ActionOutcome::outdated()
        .with(Effect::StorageConflict(draft.name.clone(), why.to_owned()))
        .reporting([event])
}

/// Creates the new disks of a created machine.
async fn with_disks<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    draft: &Draft,
    machine: VersionedFacts<Machine>,
) -> ActionOutcome {
    let id = machine.facts.id.clone();
    tracing::info!(machine = &*id.name, machine_uid = id.uid.as_str(), "created a machine");
    let created = MachineActions { created: 1, ..MachineActions::default() };
    context.pool_counts.count_actions(&PoolKey::of(&pool.facts), created);
    let created = PoolEvent {
        reason: EventReason::SuccessfulCreate,
        name: id.name.to_string(),
        note: P::Wording::created(&pool.facts.namespace, &id),
    };
    let facts = machine.facts.clone();
    let mut outcome = ActionOutcome::done()
        .with(Effect::NumberUsed(draft.number))
        .with(Effect::Machine(machine))
        .with(Effect::MachineCreated(id.clone()))
        .with(Effect::DisksAccepted(draft.disks.clone()))
        .reporting([created])
        .reporting(disk::disk_allocation_events(&context.metrics, &draft.disks, &id));
    if facts.terminating {
        return outcome;
    }
    // An existing machine may have been created from another draft. Disks that it does not refer to would be
    // surplus, and the next pass repairs what it lacks.
    let refers = |disk: &&DiskDraft| facts.disks.iter().any(|device| device.disk == disk.name);
    let new = draft.disks.iter().filter(|disk| disk.source == DiskSource::New);
    for wanted in new.filter(refers) {
        match create_machine_disk(context, pool, &id, wanted).await {
            Ok(created) => {
                let is_lost = created.lost.is_some();
                // The machine cannot use a foreign disk. The next plan chooses another name.
                let owner = drafted_disk_owner(pool, &id, wanted);
                if created.disk.facts.owner.as_ref() != Some(&owner) {
                    outcome.done = false;
                    outcome.validity = PlanValidity::Outdated;
                }
                created.report(&mut outcome);
                if is_lost {
                    break;
                }
            }
            // A later pass creates the rest as repairs, with their backoff.
            Err(error) => {
                outcome.effects.extend(unconfirmed_disk(pool, &id, wanted, &error));
                outcome.fail(disk_failure(wanted, &error), error);
                outcome.reason = Some(FailureReason::DiskFailure);
                break;
            }
        }
    }
    outcome
}

/// The object of a drafted machine, with the record of what its disks are created from.
fn build_machine_body<P: Platform>(pool: &PoolEntry<P>, basis: &PlanBasis, draft: &Draft) -> Value {
    let mut machine = P::machine(&pool.object, &basis.templates.wanted.value(), draft);
    if let Some(sources) = format_disk_sources(&pool.facts.disk_contents) {
        machine["metadata"]["annotations"][DISK_SOURCES] = sources.into();
    }
    machine
}

/// Creates the machine, or finds that it exists and that the pool owns it. Also returns the fields of a new
/// machine that have other values than the template, if the response was compared.
async fn create_or_find_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    draft: &Draft,
) -> Result<(VersionedFacts<Machine>, Option<FieldPaths>), ActionOutcome> {
    let namespace = &*pool.facts.namespace;
    let body = build_machine_body(pool, basis, draft);
    let path = collection_path::<P::Machine>(namespace);
    // A rejected create had no effect, so its number can be used again. Any other number is used up.
    let used = || ActionOutcome::outdated().with(Effect::NumberUsed(draft.number));
    let created = context.leader.writer.create::<Box<RawValue>>(WriteKind::CreateMachine, path, body).await;
    let created = created.and_then(|body| {
        let machine: P::Machine = read_response(&body)?;
        let wanted = || build_machine_body(pool, basis, draft);
        Ok((seen_facts(&machine, P::read_machine), basis.comparisons.created::<P>(wanted, &body)))
    });
    let error = match created {
        Ok((machine, overridden)) => {
            return verify_created_machine(context, pool, draft, machine)
                .await
                .map(|machine| (machine, overridden));
        }
        Err(error) if error.is_already_exists() => {
            match context.get_live::<P::Machine>(namespace, &draft.name).await {
                Ok(Some(machine)) => {
                    let machine = seen_facts(&machine, P::read_machine);
                    if pool.facts.includes(&machine.facts) {
                        return Ok((machine, None));
                    }
                    // Another object has the name, which also resolves an earlier unconfirmed create. It may
                    // have belonged to the pool when it was created. Then it uses disks of the pool, which
                    // are not free.
                    let taken = used().with(Effect::NameTaken(machine.facts.id.clone()));
                    return Err(taken.with(Effect::Machine(machine)));
                }
                // Another object had the name and was just deleted. The API server may still carry out an
                // earlier unconfirmed create.
                Ok(None) => return Err(used()),
                Err(error) => WriteError::Unconfirmed(error.to_string()),
            }
        }
        Err(error) => error,
    };
    let effects = if matches!(error, WriteError::Unconfirmed(_)) {
        let (name, number) = (draft.name.clone(), draft.number);
        let unconfirmed = match draft.standby {
            Some(_) => Effect::StandbyUnconfirmed(name, number),
            None => Effect::CreateUnconfirmed(name, number),
        };
        vec![Effect::NumberUsed(number), unconfirmed]
    } else {
        vec![judge_disks(context, pool, basis, draft, &error).await]
    };
    Err(ActionOutcome { effects, ..ActionOutcome::failed(machine_failure(draft, &error), error) })
}

/// The created machine, if it belongs to the pool. Otherwise an admission policy changed it, and the next one
/// as well.
async fn verify_created_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    draft: &Draft,
    machine: VersionedFacts<Machine>,
) -> MachineWriteResult {
    let Some(exclusion) = pool.facts.exclusion_of(&machine.facts) else { return Ok(machine) };
    let message = losses::machine_lost(context, pool, &machine.facts.id, &exclusion, LossKind::AtBirth).await;
    let used = [Effect::NumberUsed(draft.number), Effect::Machine(machine)];
    let effects = used.into_iter().chain([Effect::MachineLost(message.clone())]).collect();
    let event =
        PoolEvent { reason: EventReason::MachineLost, name: draft.name.to_string(), note: message.clone() };
    let reason = Some(FailureReason::MachineLost);
    Err(ActionOutcome { effects, reason, ..ActionOutcome::failed(event, WriteError::Mismatch(message)) })
}

/// Sends the create as a dry run, if the draft requires it: the machine must belong to the pool.
async fn dry_run_machine_create<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    draft: &Draft,
) -> Result<(), ActionOutcome> {
    if draft.rehearsal == Rehearsal::None {
        return Ok(());
    }
    let body = build_machine_body(pool, basis, draft);
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    let rehearsed =
        context.leader.writer.rehearse_create::<P::Machine>(WriteKind::RehearseMachine, path, body);
    match rehearsed.await {
        Ok(machine) => {
            let machine = P::read_machine(&machine);
            let Some(exclusion) = pool.facts.exclusion_of(&machine) else { return Ok(()) };
            let message = losses::rehearsal_lost(&exclusion);
            let event = losses::loss_event(EventReason::MachineLost, &draft.name, &message);
            let reason = Some(FailureReason::MachineLost);
            let effects = vec![Effect::RehearsalLost(message.clone())];
            Err(ActionOutcome {
                effects,
                reason,
                ..ActionOutcome::failed(event, WriteError::Mismatch(message))
            })
        }
        // An admission webhook with side effects supports no dry run.
        Err(WriteError::Refused { status, .. })
            if status.code == 400 && draft.rehearsal == Rehearsal::IfSupported =>
        {
            Ok(())
        }
        // The name is taken, and the create finds out by which object.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(ActionOutcome::failed(machine_failure(draft, &error), error)),
    }
}

/// A disk that exists after a create.
pub(super) struct CreatedDisk {
    pub(super) disk: VersionedFacts<Disk>,
    /// Whether it existed before.
    existed: bool,
    /// Why the created disk does not belong to the machine or the pool.
    lost: Option<String>,
}

impl CreatedDisk {
    /// Adds the disk to an outcome, which fails if the disk is lost.
    pub(super) fn report(self, outcome: &mut ActionOutcome) {
        let id = self.disk.facts.id.clone();
        outcome.effects.push(Effect::Disk(self.disk));
        match self.lost {
            Some(message) => {
                outcome.effects.push(Effect::DiskLost(message.clone()));
                let event = losses::loss_event(EventReason::DiskLost, &id.name, &message);
                outcome.fail(event, WriteError::Mismatch(message));
                outcome.reason = Some(FailureReason::DiskLost);
            }
            None if self.existed => {}
            None => outcome.effects.push(Effect::DiskCreated(id)),
        }
    }
}

/// Creates a disk of `machine`. If the disk already exists, returns it with any owner; the next plan decides
/// about it.
pub(super) async fn create_machine_disk<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> Result<CreatedDisk, WriteError> {
    let namespace = &*pool.facts.namespace;
    let Some(body) = P::Disks::object(&pool.object, machine, draft) else {
        return Err(WriteError::Invalid(format!("the pool has no disk template {}", draft.template).into()));
    };
    let path = collection_path::<DiskOf<P>>(namespace);
    match context.leader.writer.create::<DiskOf<P>>(WriteKind::CreateDisk, path, body).await {
        Ok(disk) => {
            let disk = seen_facts(&disk, P::Disks::read);
            let wanted = drafted_disk_owner(pool, machine, draft);
            let is_kept = disk.facts.owner.as_ref() == Some(&wanted);
            let lost = if is_kept {
                None
            } else {
                Some(losses::disk_lost(context, pool, &disk.facts, LossKind::AtBirth).await)
            };
            Ok(CreatedDisk { disk, existed: false, lost })
        }
        Err(error) if error.is_already_exists() => {
            match context.get_live::<DiskOf<P>>(namespace, &draft.name).await {
                Ok(Some(disk)) => {
                    Ok(CreatedDisk { disk: seen_facts(&disk, P::Disks::read), existed: true, lost: None })
                }
                Ok(None) => {
                    Err(WriteError::Unconfirmed("a disk with that name existed and is gone".to_owned()))
                }
                Err(error) => Err(WriteError::Unconfirmed(error.to_string())),
            }
        }
        Err(error) => Err(error),
    }
}

/// The effect of an unconfirmed create of a retained disk. If its machine is deleted, another machine waits
/// for the disk instead of getting a new one.
pub(super) fn unconfirmed_disk<P: Platform>(
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
    error: &WriteError,
) -> Option<Effect> {
    let is_retained = drafted_disk_owner(pool, machine, draft).is_pool(&pool.facts.id);
    (is_retained && matches!(error, WriteError::Unconfirmed(_)))
        .then(|| Effect::DiskUnconfirmed(draft.name.clone()))
}

/// The owner of a disk of this template.
pub(super) fn drafted_disk_owner<P: Platform>(
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> Owner {
    let template = pool.facts.disks.iter().find(|template| template.name == draft.template);
    match template.map(|template| template.lifetime) {
        Some(Lifetime::Retained) => Owner::pool(&pool.facts.id),
        Some(Lifetime::Ephemeral) | None => Owner::machine(machine),
    }
}

/// The event about a machine that could not be created.
fn machine_failure(draft: &Draft, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: EventReason::FailedCreate,
        name: draft.name.to_string(),
        note: format!("creating machine {}: {error}", draft.name),
    }
}

/// The event about a disk that could not be created.
pub(super) fn disk_failure(draft: &DiskDraft, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: EventReason::FailedDisk,
        name: draft.name.to_string(),
        note: format!("creating disk {}: {error}", draft.name),
    }
}
