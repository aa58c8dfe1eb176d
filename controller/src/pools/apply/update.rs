//! Updates of machines to the current revision, and the label of the revision that is in effect.
//!
//! Each write is computed from a live read of the machine with all its fields, and requires what it relies
//! on: the version, or spec and metadata. If another client changes that in between, the controller tries
//! again and does not overwrite the change.

use std::sync::Arc;

use kube::api::Patch;
use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::limits;
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::{DiskDraft, DiskRef, Draft, MachineActivity, Naming, Restarts};
use vmpool_engine::plan::{Disruption, FieldPaths, UpdateOutcome};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::scale_up::names::ordinal_of;
use vmpool_engine::{Machine, ObjectId};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{MachineStorage, Platform, Text, Wording};
use vmpool_runtime::telemetry::with_causes;

use super::basis::PlanBasis;
use super::disk;
use super::machine_patch::{Requirement, guard_machine_patch, is_patch_outdated};
use super::outcome::{ActionOutcome, Effect, MachineWriteResult, machine_write_outcome};
use super::overridden::read_response;
use super::rejected_disks::judge_patched_disks;
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// Number of attempts for a machine that other clients change continuously, before the next pass tries again.
const ATTEMPTS: usize = 3;

/// An update to write to a machine.
pub(super) struct PlannedUpdate<'a> {
    pub(super) machine: &'a ObjectId,
    /// The merge base.
    pub(super) base: Option<&'a RevisionId>,
    pub(super) to: &'a RevisionId,
    pub(super) disks: &'a [DiskDraft],
    /// The disruption that the plan allows.
    pub(super) disruption: Disruption,
}

/// Why a machine does not get the template although the API server would accept it.
const NO_TEMPLATE: &str = "the controller cannot make its spec from the template, because its name does not end in the ordinal of a machine of the pool; remove the pool from its owners";

/// The disks that the machine does not refer to yet. Only one of these can be the reason for a rejection.
fn newly_referenced_disks(disks: &[DiskDraft], machine: &Machine) -> Vec<DiskDraft> {
    let refers = |disk: &DiskDraft| machine.disks.iter().any(|device| device.disk == disk.name);
    disks.iter().filter(|disk| !refers(disk)).cloned().collect()
}

/// Writes a revision to a machine: free disks are allocated to it first, and then one patch changes the
/// machine.
pub(super) async fn update_machine_to_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    wanted: &PlannedUpdate<'_>,
) -> ActionOutcome {
    let machine = wanted.machine;
    match basis.storage_conflict(&machine.name) {
        Ok(None) => {}
        Ok(Some(why)) => {
            let error = WriteError::Invalid(why.as_str().into());
            let refused = Effect::Update(machine.uid.clone(), wanted.to.clone(), UpdateOutcome::Refused);
            return ActionOutcome::failed(failed_update_event(machine, wanted.to, &error), error)
                .with(refused);
        }
        Err(error) => {
            let error = WriteError::Unconfirmed(with_causes(&error));
            return ActionOutcome::failed(failed_update_event(machine, wanted.to, &error), error);
        }
    }
    let (claimed, stop) =
        disk::allocate_free_disks(context, pool, basis, wanted.disks, &wanted.machine.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => write_revision_to_machine(context, pool, basis, wanted).await,
    };
    outcome.after(claimed)
}

async fn write_revision_to_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    wanted: &PlannedUpdate<'_>,
) -> ActionOutcome {
    let PlannedUpdate { machine, base, to, disks, disruption } = *wanted;
    let from = base.and_then(|base| basis.templates.of(base, to));
    let compute = |live: &Value, machine: &Machine| {
        let is_other = |written: &RevisionId| {
            base != Some(written) && (written == to || basis.templates.stored.contains_key(written))
        };
        let changed = machine.written.as_ref().is_some_and(is_other);
        if changed || disruption == Disruption::NotRunning && machine.activity == MachineActivity::Running {
            return Err(Unfit::Changed);
        }
        let wanted = basis.templates.wanted.value();
        let is_known_elsewhere = machine.revision.is_some() && machine.revision == basis.templates.elsewhere;
        let patch = if is_known_elsewhere {
            P::adopt(live, to, &wanted, disks)
        } else {
            let from = from.map(Text::value);
            let mut patch = P::update(live, from.as_ref(), to, &wanted, disks);
            // Only with these restarts, the controller creates machines again whose storage is of another
            // template.
            if pool.facts.rollout.restarts == Restarts::ByController
                && let (Some(patch), Some(from)) = (&mut patch, &from)
                && let Some(origin) = P::Storage::record_origin(live, from, &wanted, to)
            {
                json_patch::merge(patch, &origin);
            }
            patch
        };
        let Some(mut patch) = patch else { return Ok(None) };
        let changes_spec = patch.get("spec").is_some();
        if disruption == Disruption::MetadataOnly && changes_spec {
            return Err(Unfit::Differs);
        }
        let restarts = changes_spec && may_restart::<P>(live, &patch, machine);
        if restarts && machine.is_protected(context.leader.env.now()) {
            // The plan that expected a protected machine must learn why it was not updated.
            let expected = disruption == Disruption::ForApproval;
            return Err(if expected { Unfit::Differs } else { Unfit::Changed });
        }
        // A hook was set after the plan.
        let (now, timeout) = (context.leader.env.now(), pool.facts.drain_timeout);
        if changes_spec
            && disruption == Disruption::Budgeted
            && machine.must_drain(now, timeout)
            && pool.facts.may_restart_for_update(machine)
            && may_restart::<P>(live, &patch, machine)
        {
            return Err(Unfit::Changed);
        }
        // If the spec does not change, the platform has nothing to evaluate.
        if patch.get("spec").is_none() && machine.has_spec_in_effect() {
            json_patch::merge(&mut patch, &P::record_revision(to));
        }
        let is_stopped = changes_spec && machine.activity == MachineActivity::Stopped;
        let relies_on_status = restarts || is_stopped || disruption == Disruption::NotRunning;
        let requirement = if relies_on_status { Requirement::Version } else { Requirement::SpecAndMetadata };
        Ok(Some(ComputedPatch { merge: patch, requirement }))
    };
    let compare = |patch: &Value, after: &RawValue| {
        let sent = || whole_machine(pool, basis, wanted);
        basis.comparisons.updated::<P>(&machine.uid, patch, sent, after)
    };
    let result = patch_live_machine(context, pool, machine, compute, compare);
    let attempt = |outcome| Effect::Update(machine.uid.clone(), to.clone(), outcome);
    let written = |after: VersionedFacts<Machine>| {
        tracing::info!(machine = &*machine.name, revision = to.as_str(), "wrote a revision to a machine");
        ActionOutcome::done()
            .with(attempt(UpdateOutcome::Accepted))
            .with(Effect::Machine(after))
            .with(Effect::DisksAccepted(disks.to_vec()))
    };
    match result.await {
        Patched::Done { before, after, overridden } => {
            let events = machine_updated_events(pool, machine, to, &before, &after.facts);
            let found = overridden.map(|fields| Effect::Overridden(machine.uid.clone(), fields));
            let mut outcome = written(after).reporting(events);
            outcome.effects.extend(found);
            outcome.reporting(disk::disk_allocation_events(&context.metrics, disks, machine))
        }
        Patched::Nothing(after) if after.facts.written.as_ref().is_none_or(|written| written != to) => {
            // It would be planned again in each pass.
            let error = WriteError::Invalid(NO_TEMPLATE.into());
            ActionOutcome::failed(failed_update_event(machine, to, &error), error)
                .with(attempt(UpdateOutcome::Refused))
                .with(Effect::Machine(after))
        }
        Patched::Nothing(after) => written(after),
        Patched::Unfit(Unfit::Changed, machine) => ActionOutcome::changed(machine),
        Patched::Unfit(Unfit::Differs, machine) => {
            ActionOutcome::changed(machine).with(attempt(UpdateOutcome::Differs))
        }
        Patched::Outdated => ActionOutcome::outdated(),
        Patched::Failed(error, before) => {
            let verdict = update_outcome_of_error(&error);
            let effect = judge_patched_disks(basis, newly_referenced_disks(disks, &before), &error);
            let mut event = failed_update_event(machine, to, &error);
            event.note.push_str(&describe_detachments(disks, &before));
            let outcome = ActionOutcome::failed(event, error).with(effect);
            match verdict {
                Some(verdict) => outcome.with(attempt(verdict)),
                None => outcome,
            }
        }
        Patched::Unread(error) => ActionOutcome::failed(failed_update_event(machine, to, &error), error),
    }
}

/// The machine as it would be created from the template.
fn whole_machine<P: Platform>(pool: &PoolEntry<P>, basis: &PlanBasis, wanted: &PlannedUpdate<'_>) -> Value {
    let PlannedUpdate { machine, to, disks, .. } = *wanted;
    let number = match pool.facts.naming {
        Naming::Ordinal => ordinal_of(&pool.facts.id.name, &machine.name),
        Naming::Random => None,
    };
    let draft = Draft {
        name: machine.name.clone(),
        number: number.unwrap_or_default(),
        revision: to.clone(),
        disks: disks.to_vec(),
        rehearsal: Rehearsal::None,
        standby: None,
    };
    P::machine(&pool.object, &basis.templates.wanted.value(), &draft)
}

/// What a failed update says about the revision: nothing if the API server did not validate it. A busy server
/// did not.
fn update_outcome_of_error(error: &WriteError) -> Option<UpdateOutcome> {
    match error {
        WriteError::Unconfirmed(_) => Some(UpdateOutcome::Unconfirmed),
        WriteError::Refused { status, .. } if status.code != 429 => Some(UpdateOutcome::Refused),
        _ => None,
    }
}

/// Whether the platform restarts the machine without approval, before or after this patch.
fn may_restart<P: Platform>(live: &Value, patch: &Value, machine: &Machine) -> bool {
    if machine.activity == MachineActivity::Stopped {
        return false;
    }
    if machine.restarts_itself {
        return true;
    }
    let mut after = live.clone();
    json_patch::merge(&mut after, patch);
    let after: Result<P::Machine, _> = serde_json::from_value(after);
    after.map_or(true, |after| P::read_machine(&after).restarts_itself)
}

/// The events about an updated machine and the disks that were detached from it.
fn machine_updated_events<P: Platform>(
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    to: &RevisionId,
    before: &Machine,
    after: &Machine,
) -> Vec<PoolEvent> {
    let note = P::Wording::updated(&pool.facts.namespace, machine, to);
    let mut events =
        vec![PoolEvent { reason: EventReason::TemplateApplied, name: machine.name.to_string(), note }];
    let lost = before.disks.iter().filter(|device| {
        device.template.is_some() && !after.disks.iter().any(|left| left.disk == device.disk)
    });
    events
        .extend(lost.map(|device| disk::disk_detached_event(&device.disk, machine, "the template changed")));
    events
}

/// The event about a machine that could not be updated.
fn failed_update_event(machine: &ObjectId, to: &RevisionId, error: &WriteError) -> PoolEvent {
    let note = format!("writing revision {to} of the template to machine {machine}: {error}");
    PoolEvent { reason: EventReason::FailedTemplateUpdate, name: machine.name.to_string(), note }
}

/// The disks that a refused update would have detached, for its event: the platform can refuse the update
/// because of one of them.
fn describe_detachments(disks: &[DiskDraft], machine: &Machine) -> String {
    let stays = |device: &&DiskRef| disks.iter().any(|disk| disk.name == device.disk);
    let mapped = machine.disks.iter().filter(|device| device.template.is_some());
    let lost: Vec<&str> = mapped.filter(|device| !stays(device)).map(|device| &*device.disk).collect();
    if lost.is_empty() { String::new() } else { format!(" (the update detaches disk {})", lost.join(", ")) }
}

/// Records on a machine that the revision which was last written is in effect.
pub(super) async fn record_machine_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    to: &RevisionId,
) -> ActionOutcome {
    let result = patch_live_machine(
        context,
        pool,
        machine,
        |_, machine| {
            let is_in_effect = machine.written.as_ref() == Some(to) && machine.has_spec_in_effect();
            match (is_in_effect, machine.revision.as_ref() == Some(to)) {
                (_, true) => Ok(None),
                // The status describes the generation that the patch tests.
                (true, false) => Ok(Some(ComputedPatch {
                    merge: P::record_revision(to),
                    requirement: Requirement::SpecAndMetadata,
                })),
                (false, false) => Err(Unfit::Changed),
            }
        },
        |_, _| None,
    );
    let written: MachineWriteResult = match result.await {
        Patched::Done { after, .. } => Ok(after),
        Patched::Nothing(machine) => Ok(machine),
        Patched::Unfit(_, machine) => Err(ActionOutcome::changed(machine)),
        Patched::Outdated => Err(ActionOutcome::outdated()),
        Patched::Failed(error, _) | Patched::Unread(error) => {
            let note = format!("marking that revision {to} is in effect in machine {machine}: {error}");
            let event = PoolEvent { reason: EventReason::FailedRepair, name: machine.name.to_string(), note };
            Err(ActionOutcome::failed(event, error))
        }
    };
    machine_write_outcome(written)
}

/// A merge patch for a live machine.
pub(super) struct ComputedPatch {
    pub(super) merge: Value,
    pub(super) requirement: Requirement,
}

/// A patch to send for a machine that was read.
struct PreparedPatch {
    before: VersionedFacts<Machine>,
    merge: Value,
    sent: Patch<Value>,
}

/// Why a machine is not written to.
pub(super) enum Unfit {
    /// It differs from the machine that the plan used.
    Changed,
    /// Its spec would change, which the plan does not allow.
    Differs,
}

/// The result of patching a machine.
pub(super) enum Patched {
    Done {
        before: Arc<Machine>,
        after: VersionedFacts<Machine>,
        /// The fields with other values than were sent, if they were compared.
        overridden: Option<FieldPaths>,
    },
    /// It is already as intended.
    Nothing(VersionedFacts<Machine>),
    /// It must not be written to.
    Unfit(Unfit, VersionedFacts<Machine>),
    /// It is gone, or changes too frequently.
    Outdated,
    /// It could not be read, so nothing was sent.
    Unread(WriteError),
    /// The patch of the machine in this state was sent and failed.
    Failed(WriteError, Arc<Machine>),
}

/// Sends the patch that `compute` returns for the live machine.
pub(super) async fn patch_live_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    compute: impl Fn(&Value, &Machine) -> Result<Option<ComputedPatch>, Unfit>,
    compare: impl Fn(&Value, &RawValue) -> Option<FieldPaths>,
) -> Patched {
    let namespace = &*pool.facts.namespace;
    for _ in 0..ATTEMPTS {
        let body = match context.get_text::<P::Machine>(namespace, &machine.name).await {
            Ok(Some(body)) => body,
            Ok(None) => return Patched::Outdated,
            Err(error) => return Patched::Unread(WriteError::Unconfirmed(error.to_string())),
        };
        let PreparedPatch { before, merge, sent } =
            match prepare_machine_patch(pool, machine, body.bytes(), &compute) {
                Ok(prepared) => prepared,
                Err(patched) => return patched,
            };
        drop(body);
        let (path, patch) = (collection_path::<P::Machine>(namespace), sent.clone());
        let kind = WriteKind::UpdateMachine;
        let after =
            context.leader.writer.patch::<Box<RawValue>, _>(kind, path, &machine.name, None, patch).await;
        let after = after.and_then(|body| {
            let after: P::Machine = read_response(&body)?;
            Ok((seen_facts(&after, P::read_machine), compare(&merge, &body)))
        });
        match after {
            Ok((after, overridden)) => {
                return Patched::Done { before: before.facts, after, overridden };
            }
            Err(error) if error.is_gone() => return Patched::Outdated,
            Err(error) if is_patch_outdated(context, namespace, machine, &sent, &error).await => {}
            Err(error) => return Patched::Failed(error, before.facts),
        }
    }
    Patched::Outdated
}

/// The machine in `live`, and the patch for it. The parsed tree of the machine is dropped before the patch is
/// sent, because a large tree needs much memory and many patches are in flight at the same time.
fn prepare_machine_patch<P: Platform>(
    pool: &PoolEntry<P>,
    id: &ObjectId,
    live: &[u8],
    compute: impl Fn(&Value, &Machine) -> Result<Option<ComputedPatch>, Unfit>,
) -> Result<PreparedPatch, Patched> {
    let unreadable = |error: serde_json::Error| Patched::Unread(WriteError::Unconfirmed(error.to_string()));
    let machine: P::Machine = serde_json::from_slice(live).map_err(unreadable)?;
    let machine = seen_facts(&machine, P::read_machine);
    if machine.facts.id != *id {
        return Err(Patched::Outdated);
    }
    if machine.facts.terminating || !pool.facts.includes(&machine.facts) {
        return Err(Patched::Unfit(Unfit::Changed, machine));
    }
    if live.len() > limits::MACHINE {
        let size = live.len();
        let error =
            format!("the machine takes {size} bytes of JSON, more than the limit of {}", limits::MACHINE);
        return Err(Patched::Unread(WriteError::Invalid(error.into())));
    }
    let live: Value = serde_json::from_slice(live).map_err(unreadable)?;
    match compute(&live, &machine.facts) {
        Ok(Some(ComputedPatch { merge, requirement })) => {
            let sent = guard_machine_patch(&live, &merge, requirement);
            Ok(PreparedPatch { before: machine, merge, sent })
        }
        Ok(None) => Err(Patched::Nothing(machine)),
        Err(unfit) => Err(Patched::Unfit(unfit, machine)),
    }
}
