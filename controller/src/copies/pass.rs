//! One pass of a machine: read what the plan needs, write, report.

use std::time::Duration;

use kube::Resource;
use kube::api::Patch;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_platforms::Found;
use vmpool_platforms::kubevirt::copies::{
    self, Comparison, Document, Event, Machine, Owned, Plan, Revision, Step,
};
use vmpool_runtime::telemetry::with_causes;

use super::context::Context;
use super::store::Key;
use crate::metrics::WriteKind;
use crate::object::collection;
use crate::queue::Requeue;
use crate::write::WriteError;

/// The wait after a failed request, and after a conflict that no event resolves.
const AGAIN: Duration = Duration::from_secs(2);
/// The most objects that one pass reads.
const MAX_READS: usize = 32;

/// Runs a pass.
pub(super) async fn reconcile(context: &Context, key: &Key) -> Requeue {
    let Some(machine) = context.machines.get(key) else {
        context.note(key, false);
        return Requeue::Never;
    };
    let plan = match plan(context, key, &machine).await {
        Ok(plan) => plan,
        Err(error) => {
            tracing::warn!(machine = ?key, error, "the copies of a machine cannot be planned");
            return Requeue::After(AGAIN);
        }
    };
    let (is_blocked, upgrades) = (plan.is_blocked, plan.upgrades.clone());
    if let Some(failure) = plan.failure {
        context.metrics.types.failed(failure);
    }
    let applied = apply(context, key, &machine, plan).await;
    for from in upgrades {
        context.metrics.types.upgraded(from, matches!(applied, Ok(true)));
    }
    match applied {
        Ok(is_complete) => {
            context.note(key, is_blocked || !is_complete).map_or(Requeue::Never, Requeue::After)
        }
        Err(error) => {
            tracing::debug!(machine = ?key, %error, "a write for the copies of a machine failed");
            Requeue::After(error.retry_after().unwrap_or(AGAIN))
        }
    }
}

async fn plan(context: &Context, (namespace, _): &Key, machine: &Machine) -> Result<Plan, String> {
    let Some(policy) = context.policy else { return Ok(Plan::default()) };
    let uid = machine.meta().uid.as_deref().unwrap_or_default();
    let owned = context.revisions.owned_by(namespace, uid);
    let owned: Vec<Owned> = owned.iter().filter_map(|copy| copies::owned(copy)).collect();
    let (document, now) = (machine.document(), context.env.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut found = Found::new();
    for _ in 0..MAX_READS {
        match copies::plan(&document, &owned, &found, (policy, &now)) {
            Step::Done(plan) => return Ok(plan),
            Step::Needs(reference) => {
                let read = context.read(namespace, &reference).await.map_err(|error| with_causes(&error))?;
                found.insert(reference, read);
            }
        }
    }
    Err(format!("more than {MAX_READS} objects are needed"))
}

/// Carries out a plan. Returns whether the machine has its copies.
async fn apply(context: &Context, key: &Key, machine: &Machine, plan: Plan) -> Result<bool, WriteError> {
    let (namespace, name) = key;
    let path = collection::<Revision>(namespace);
    let (mut events, mut is_foreign) = (plan.events, false);
    if let Some(patch) = plan.spec {
        let patch = serde_json::from_value(patch).map_err(|error| WriteError::Invalid(error.into()))?;
        let (kind, patch) = (WriteKind::ExpandMachine, Patch::Json::<()>(patch));
        let _: Value =
            context.writer.patch(kind, collection::<Machine>(namespace), name, None, patch).await?;
    }
    for copy in plan.creates {
        let place = copies::place(namespace, &copy);
        let known = context.revisions.get(&(namespace.clone(), place.name.clone()));
        // A former pass made it, and its write of the status failed.
        if known.is_some_and(|known| copies::compare(&copy, &known.document()) == Comparison::Same) {
            continue;
        }
        match context.writer.create::<Value>(WriteKind::CreateCopy, path.clone(), copy.clone()).await {
            Err(error) if error.is_already_exists() => {
                let live = context.read_live(&place).await;
                let live = live.map_err(|error| WriteError::Unconfirmed(with_causes(&error)))?;
                match live.map(|live| copies::compare(&copy, &live)) {
                    Some(Comparison::Same) => {}
                    Some(Comparison::OfPredecessor) | None => return Err(error),
                    Some(Comparison::Other) => {
                        let message = format!(
                            "ControllerRevision {} exists with another content; delete it, so that the copy can be made",
                            place.name
                        );
                        events = vec![Event { reason: "FailedCreate", is_warning: true, message }];
                        is_foreign = true;
                        break;
                    }
                }
            }
            created => {
                created?;
                if let Some(kind) = copies::kind(&copy) {
                    context.metrics.types.copied(kind);
                }
            }
        }
    }
    if !is_foreign && let Some(patch) = plan.status {
        let patch = serde_json::from_value(patch).map_err(|error| WriteError::Invalid(error.into()))?;
        let patch = Patch::Json::<()>(patch);
        let path = collection::<Machine>(namespace);
        let kind = WriteKind::PatchMachineStatus;
        let _: Value = context.writer.patch(kind, path, name, Some("status"), patch).await?;
    }
    for Owned { name, uid } in plan.deletes {
        let object = ObjectId::new(&name, &uid);
        match context.writer.delete(WriteKind::DeleteRevision, path.clone(), &object, None).await {
            Err(error) if !error.is_gone() && !error.is_conflict() => return Err(error),
            _ => {}
        }
    }
    let subject = Context::subject(machine);
    for Event { reason, is_warning, message } in events {
        context.events.publish_plain(&subject, reason, is_warning, message);
    }
    Ok(!is_foreign)
}
