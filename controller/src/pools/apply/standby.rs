//! Standby machines: their activation, their start, and the end of their warm-up.

use serde::de::IgnoredAny;
use serde_json::Value;
use vmpool_engine::model::{DiskDraft, MachineActivity};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::standby::StandbyPhase;
use vmpool_engine::{Machine, ObjectId};
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, Text};

use super::basis::PlanBasis;
use super::disk;
use super::machine_patch::Requirement;
use super::outcome::{ActionOutcome, Effect};
use super::update::{ComputedPatch, Patched, Unfit, patch_live_machine};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;

/// An activation to write to a machine.
pub(super) struct PlannedActivation<'a> {
    pub(super) machine: &'a ObjectId,
    /// The merge base.
    pub(super) base: Option<&'a RevisionId>,
    pub(super) to: &'a RevisionId,
    pub(super) disks: &'a [DiskDraft],
}

/// Makes a standby machine active with one patch at the version that was read. Free disks are allocated to it
/// first.
pub(super) async fn activate_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    wanted: &PlannedActivation<'_>,
) -> ActionOutcome {
    let (claimed, stop) =
        disk::allocate_free_disks(context, pool, basis, wanted.disks, &wanted.machine.name).await;
    let outcome = match stop {
        Some(stop) => stop,
        None => write_activation(context, pool, basis, wanted).await,
    };
    outcome.after(claimed)
}

async fn write_activation<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    wanted: &PlannedActivation<'_>,
) -> ActionOutcome {
    let PlannedActivation { machine, base, to, disks } = *wanted;
    let from = base.and_then(|base| basis.templates.of(base, to));
    let template = basis.templates.wanted.value();
    // In whole seconds, as the API server stores times.
    let at = context.leader.env.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let compute = |live: &Value, facts: &Machine| {
        if !is_stopped_standby(facts) || facts.is_protected(context.leader.env.now()) {
            return Err(Unfit::Changed);
        }
        let mut merge = P::activate(&pool.object, live, to, &template, &at);
        let mut active = live.clone();
        json_patch::merge(&mut active, &merge);
        let from = from.map(Text::value);
        if let Some(update) = P::update(&active, from.as_ref(), to, &template, disks) {
            combine_patches(&mut merge, &update);
        }
        Ok(Some(ComputedPatch { merge, requirement: Requirement::Version }))
    };
    match patch_live_machine(context, pool, machine, compute, |_, _| None).await {
        Patched::Done { after, .. } => {
            tracing::info!(machine = &*machine.name, revision = to.as_str(), "activated a standby machine");
            let note = format!("activated standby machine {machine} with revision {to}");
            let event = PoolEvent { reason: EventReason::Activated, name: machine.name.to_string(), note };
            ActionOutcome::done()
                .with(Effect::Machine(after))
                .with(Effect::DisksAccepted(disks.to_vec()))
                .reporting([event])
        }
        Patched::Failed(error @ WriteError::Unconfirmed(_), _) => {
            ActionOutcome::failed(failed_activation_event(machine, &error), error)
                .with(Effect::ActivationUnconfirmed(machine.clone()))
        }
        Patched::Failed(error, _) | Patched::Unread(error) => {
            ActionOutcome::failed(failed_activation_event(machine, &error), error)
        }
        // It is active, or may not become active now.
        Patched::Nothing(seen) | Patched::Unfit(_, seen) => ActionOutcome::changed(seen),
        Patched::Outdated => ActionOutcome::outdated(),
    }
}

/// Adds a merge patch to another one. In contrast to the application of a patch, nulls stay.
fn combine_patches(patch: &mut Value, later: &Value) {
    match (patch.as_object_mut(), later.as_object()) {
        (Some(fields), Some(later)) => {
            for (key, value) in later {
                combine_patches(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *patch = later.clone(),
    }
}

fn is_stopped_standby(machine: &Machine) -> bool {
    machine.standby.as_ref().is_some_and(|state| state.phase == StandbyPhase::Stopped && state.kept_off)
        && machine.activity == MachineActivity::Stopped
}

/// Creates the operation that starts an activated machine. If it exists, it was created before.
pub(super) async fn start_activated<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let namespace = &*pool.facts.namespace;
    let requested = || ActionOutcome::done().with(Effect::StartRequested(machine.uid.clone()));
    let Some(operation) = P::start_operation(namespace, machine) else { return requested() };
    let path = P::start_operations(namespace);
    match context.leader.writer.create::<IgnoredAny>(WriteKind::StartMachine, path, operation).await {
        Ok(_) => requested(),
        Err(error) if error.is_already_exists() => requested(),
        Err(error) => ActionOutcome::failed(failed_activation_event(machine, &error), error),
    }
}

/// Stops a standby machine whose warm-up has ended.
pub(super) async fn stop_standby<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let compute = |live: &Value, facts: &Machine| {
        let is_warming = facts.standby.as_ref().is_some_and(|state| state.phase == StandbyPhase::Warming);
        if !is_warming || facts.is_protected(context.leader.env.now()) {
            return Err(Unfit::Changed);
        }
        Ok(Some(ComputedPatch { merge: P::stop_standby(live), requirement: Requirement::SpecAndMetadata }))
    };
    match patch_live_machine(context, pool, machine, compute, |_, _| None).await {
        Patched::Done { after, .. } => {
            tracing::info!(machine = &*machine.name, "stopped a standby machine after its warm-up");
            ActionOutcome::done().with(Effect::Machine(after))
        }
        Patched::Failed(error, _) | Patched::Unread(error) => {
            let note = format!("stopping standby machine {machine}: {error}");
            let event = PoolEvent { reason: EventReason::FailedRepair, name: machine.name.to_string(), note };
            ActionOutcome::failed(event, error)
        }
        Patched::Nothing(seen) | Patched::Unfit(_, seen) => ActionOutcome::changed(seen),
        Patched::Outdated => ActionOutcome::outdated(),
    }
}

fn failed_activation_event(machine: &ObjectId, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: EventReason::FailedCreate,
        name: machine.name.to_string(),
        note: format!("activating standby machine {machine}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_removals_of_both_patches_stay() {
        let mut patch = json!({ "labels": { "standby": null, "a": 1 }, "spec": { "run": "on" } });
        combine_patches(&mut patch, &json!({ "labels": { "b": null }, "spec": { "cores": 2 } }));
        let expected =
            json!({ "labels": { "standby": null, "a": 1, "b": null }, "spec": { "run": "on", "cores": 2 } });
        assert_eq!(patch, expected);
    }
}
