//! One pass of a machine: read what the plan needs, write, report.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Resource;
use kube::api::Patch;
use kube::core::Status;
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_engine::ObjectId;
use vmpool_kit::object::object_id;
use vmpool_kit::object::{collection_path, object_version};
use vmpool_kit::queue::Requeue;
use vmpool_kit::rejection;
use vmpool_kit::write::WriteError;
use vmpool_platforms::FetchedObjects;
use vmpool_platforms::instancetype::copies::{
    self, CopyEvent, CopyPlan, CopyPolicy, Document, Machine, OwnedCopy, PlannedCopyComparison, Revision,
};
use vmpool_runtime::telemetry::with_causes;

use super::context::{CopyContext, CopyReadError, TypeReadSource};
use super::types::{TypeKey, key_of as type_key};
use crate::metrics::WriteKind;
use crate::plain_events::publish_plain_event;

/// The wait for the end of a leadership.
const AGAIN: Duration = Duration::from_secs(2);

/// The reason of the event about a copy that cannot be created.
const FAILED_CREATE: &str = "FailedCreate";
/// The reason of the event about a machine into which an instance type, a preference or a name cannot be
/// written.
const FAILED_UPDATE: &str = "FailedUpdate";

/// Runs a pass.
pub(super) async fn reconcile_machine_copies(context: &CopyContext, key: &ObjectKey) -> Requeue {
    let Some(machine) = context.machines.get(key) else {
        context.note_done(key);
        return Requeue::Never;
    };
    let (plan, types) = match plan_copies(context, key, &machine).await {
        Ok(planned) => planned,
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(machine = %key, error, "the copies of a machine cannot be planned");
            return Requeue::After(context.note_blocked(key, None, BTreeSet::new()));
        }
    };
    let (is_blocked, awaits, upgrades) = (plan.is_blocked, plan.awaits.clone(), plan.upgrades.clone());
    if let Some(failure) = plan.failure {
        context.metrics.types.failed(failure);
    }
    let applied = apply_copy_plan(context, key, &machine, plan).await;
    for from in upgrades {
        context.metrics.types.upgraded(from.as_str(), applied.is_ok());
    }
    match applied {
        Ok(()) if is_blocked => Requeue::After(context.note_blocked(key, awaits, types)),
        Ok(()) => {
            context.note_done(key);
            Requeue::Never
        }
        Err(Stopped::Waits(name)) => Requeue::After(context.note_blocked(key, Some(name), types)),
        Err(Stopped::Refused(reason, note)) => {
            publish_plain_event(&context.leader.events, &CopyContext::subject(&machine), reason, true, note);
            Requeue::After(context.note_blocked(key, None, types))
        }
        Err(Stopped::Failed(error)) => {
            tracing::debug!(machine = %key, %error, "a write for the copies of a machine failed");
            // A pass that only lacked the last version is woken when the cache shows it.
            let pause = match error {
                WriteError::Fenced => AGAIN,
                _ => context.note_blocked(key, None, types),
            };
            Requeue::After(error.retry_after().unwrap_or(pause))
        }
    }
}

/// Why a plan was not carried out.
enum Stopped {
    /// The object of this name is being deleted.
    Waits(String),
    /// A copy cannot be created, or the machine cannot be changed. The reason and the note are for users, who
    /// can do something about it.
    Refused(&'static str, String),
    Failed(WriteError),
}

impl From<WriteError> for Stopped {
    fn from(error: WriteError) -> Self {
        Self::Failed(error)
    }
}

/// The plan of a machine, and the types that it depends on.
async fn plan_copies(
    context: &CopyContext,
    key: &ObjectKey,
    machine: &Machine,
) -> Result<(CopyPlan, BTreeSet<TypeKey>), CopyReadError> {
    let Some(policy) = context.scope.policy else { return Ok((CopyPlan::default(), BTreeSet::new())) };
    plan_copies_with(context, key, machine, policy, TypeReadSource::Live).await
}

/// The copies that a machine would get now, from the types that the cache shows: one user can have many
/// machines.
pub(super) async fn plan_expected_copies(
    context: &CopyContext,
    key: &ObjectKey,
    machine: &Machine,
) -> Result<CopyPlan, CopyReadError> {
    let policy = context.scope.policy.unwrap_or_default();
    plan_copies_with(context, key, machine, policy, TypeReadSource::Cache).await.map(|(plan, _)| plan)
}

async fn plan_copies_with(
    context: &CopyContext,
    ObjectKey { namespace, .. }: &ObjectKey,
    machine: &Machine,
    policy: CopyPolicy,
    source: TypeReadSource,
) -> Result<(CopyPlan, BTreeSet<TypeKey>), CopyReadError> {
    let owned = context.revisions.owned_by(machine);
    let owned: Vec<OwnedCopy> = owned.iter().filter_map(|copy| copies::owned_copy(copy)).collect();
    let (document, now) =
        (machine.document(), context.leader.env.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let plan = |found: &FetchedObjects| {
        let plan = copies::plan_machine_copies(&document, &owned, found, policy, &now)?;
        let types = found.keys().filter_map(|reference| type_key(namespace, reference));
        Ok((plan, types.collect()))
    };
    context.decide(namespace, source, plan).await
}

/// Carries out a plan.
async fn apply_copy_plan(
    context: &CopyContext,
    key: &ObjectKey,
    machine: &Machine,
    plan: CopyPlan,
) -> Result<(), Stopped> {
    let ObjectKey { namespace, name } = key;
    if let Some(patch) = plan.spec {
        let patch = Patch::Json::<()>(parse_patch_operations(patch)?);
        let (kind, path) = (WriteKind::ExpandMachine, collection_path::<Machine>(namespace));
        match context.leader.writer.patch::<Value, _>(kind, path.clone(), name, None, patch).await {
            Ok(_) => {}
            Err(WriteError::Refused { status, retry_after: None })
                if is_rejection(&status) && is_unchanged(context, &path, machine).await =>
            {
                let message = &status.message;
                return Err(Stopped::Refused(
                    FAILED_UPDATE,
                    format!("writing instance type and preference into the machine: {message}"),
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for copy in plan.creates {
        create_machine_copy(context, namespace, copy).await?;
    }
    if let Some(patch) = plan.status {
        let patch = Patch::Json::<()>(parse_patch_operations(patch)?);
        let (kind, path) = (WriteKind::PatchMachineStatus, collection_path::<Machine>(namespace));
        let _: Value = context.leader.writer.patch(kind, path, name, Some("status"), patch).await?;
    }
    for copy in &plan.deletes {
        stop_using_copy(context, key, machine, copy).await?;
    }
    let subject = CopyContext::subject(machine);
    for CopyEvent { reason, is_warning, message } in plan.events {
        publish_plain_event(&context.leader.events, &subject, reason, is_warning, message);
    }
    Ok(())
}

/// Whether the API server rejects a patch until a user changes something, if the object has not changed.
fn is_rejection(status: &Status) -> bool {
    !matches!(status.code, 404 | 409 | 429 | 500..)
}

/// Whether a machine still has the version that the plan used. A JSON patch is rejected in the same way if
/// one of its tests fails and if its result is invalid.
async fn is_unchanged(context: &CopyContext, path: &str, machine: &Machine) -> bool {
    let meta = machine.meta();
    let live = rejection::get_object::<Machine>(
        &context.leader.client,
        path.to_owned(),
        meta.name.as_deref().unwrap_or_default(),
    );
    let live = context.leader.env.timeout(context.deadline, live).await;
    matches!(live, Ok(Ok(Some(live))) if live.meta().resource_version == meta.resource_version)
}

fn parse_patch_operations(patch: Value) -> Result<json_patch::Patch, WriteError> {
    serde_json::from_value(patch).map_err(|error| WriteError::Invalid(error.into()))
}

/// Creates a copy, or makes the machine an owner of an equal one.
async fn create_machine_copy(context: &CopyContext, namespace: &str, copy: Value) -> Result<(), Stopped> {
    let place = copies::planned_copy_reference(namespace, &copy);
    let known = context.revisions.get(&ObjectKey::new(namespace, &*place.name));
    // A former pass made it, and its write of the status failed.
    if known.is_some_and(|known| {
        copies::compare_planned_copy(&copy, &known.document()) == PlannedCopyComparison::Same
    }) {
        return Ok(());
    }
    let path = collection_path::<Revision>(namespace);
    match context.leader.writer.create::<Value>(WriteKind::CreateCopy, path.clone(), copy.clone()).await {
        Ok(_) => {
            context.metrics.types.copied(&copy);
            return Ok(());
        }
        Err(error) if error.is_already_exists() => {}
        Err(WriteError::Refused { status, retry_after: None })
            if status.code != 429 && status.code != 409 =>
        {
            let message = &status.message;
            let note = format!("creating ControllerRevision {}: {message}", place.name);
            return Err(Stopped::Refused(FAILED_CREATE, note));
        }
        Err(error) => return Err(error.into()),
    }
    let live = context.read_live(&place).await;
    let live = live.map_err(|error| WriteError::Unconfirmed(with_causes(&error)))?;
    let live = live.ok_or_else(|| WriteError::Unconfirmed(format!("{} existed and is gone", place.name)))?;
    match copies::compare_planned_copy(&copy, &live) {
        PlannedCopyComparison::Same => Ok(()),
        PlannedCopyComparison::Incomplete(patch) => {
            let patch = Patch::Json::<()>(parse_patch_operations(patch)?);
            let _: Value =
                context.leader.writer.patch(WriteKind::PatchRevision, path, &place.name, None, patch).await?;
            Ok(())
        }
        PlannedCopyComparison::Terminating => Err(Stopped::Waits(place.name)),
        PlannedCopyComparison::Other => {
            let name = &place.name;
            let note = format!(
                "ControllerRevision {name} exists with another content; delete it, so that the copy can be made"
            );
            Err(Stopped::Refused(FAILED_CREATE, note))
        }
    }
}

/// Deletes a copy that the machine does not use any more. If other objects own or use it, the machine only
/// stops being an owner: the garbage collector deletes the copy with its last owner.
///
/// The users are those that the cache shows. A machine that names the copy of another one is rare, and a list
/// for each deletion of a copy is not. The version guards against a further owner.
async fn stop_using_copy(
    context: &CopyContext,
    key: &ObjectKey,
    machine: &Machine,
    copy: &OwnedCopy,
) -> Result<(), WriteError> {
    let namespace = &key.namespace;
    let path = collection_path::<Revision>(namespace);
    // Those without labels are not watched. The plan replaces such a copy only if nothing shares it.
    let known = context.revisions.get(&ObjectKey::new(namespace.as_str(), &*copy.name));
    let known = known.filter(|known| known.meta().uid.as_deref() == Some(copy.uid.as_str()));
    let users = |known| context.users(key, known);
    let left = known
        .as_ref()
        .and_then(|known| copies::remove_machine_owner(known.meta(), &object_id(machine), &users(known)));
    let result = if let Some(patch) = left {
        let patch = Patch::Json::<()>(parse_patch_operations(patch)?);
        let kind = WriteKind::PatchRevision;
        context.leader.writer.patch::<Value, _>(kind, path, &copy.name, None, patch).await.map(drop)
    } else {
        let object = ObjectId::new(&copy.name, &copy.uid);
        let version = known.map(|known| object_version(&*known));
        context.leader.writer.delete(WriteKind::DeleteRevision, path, &object, version).await.map(drop)
    };
    match result {
        Err(error) if error.is_gone() => Ok(()),
        other => other,
    }
}
