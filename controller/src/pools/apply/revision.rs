//! Writes of stored revisions.

use serde_json::Value;
use vmpool_engine::limits;
use vmpool_engine::revisions::RevisionId;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, RevisionObjects as _, TemplateCopies};

use super::basis::PlanBasis;
use super::copy;
use super::outcome::{ActionOutcome, Effect};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;
use crate::pools::revisions::pool_revisions::RevisionChange;
use crate::pools::revisions::stored::{RevisionEntry, RevisionObject};
use crate::pools::revisions::templates::Templates;

/// Stores the current revision.
///
/// The name is computed from the pool and the identity, so a repeated request gets `AlreadyExists`. If a
/// revision of an earlier pool has the name, this one gets another name.
pub(super) async fn store_current_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    id: &RevisionId,
) -> ActionOutcome {
    let template = basis.templates.wanted.value();
    let (repairs, stored) = store_copies(context, pool, &template, pool.facts.revision.copies.lost).await;
    let outcome = match stored {
        Ok(()) => store_object(context, pool, basis, id, &template).await,
        Err(error) => failed_revision_outcome(pool, id, "storing the copies for", error),
    };
    outcome.reporting(repairs)
}

/// Restores the copies that a stored revision contains.
pub(super) async fn restore_revision_copies<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    id: &RevisionId,
) -> ActionOutcome {
    let Some(content) = basis.templates.restored.get(id) else { return ActionOutcome::outdated() };
    let (repairs, stored) = store_copies(context, pool, &content.value(), true).await;
    let outcome = match stored {
        Ok(()) => ActionOutcome::done().with(Effect::Revision(RevisionChange::CopiesRestored(id.clone()))),
        Err(error) => failed_revision_outcome(pool, id, "restoring the copies of", error),
    };
    outcome.reporting(repairs)
}

/// Stores the copies that the content of a revision contains, up to the first failure. If some were lost,
/// each one that is written is an event.
async fn store_copies<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    content: &Value,
    were_lost: bool,
) -> (Vec<PoolEvent>, Result<(), WriteError>) {
    let (mut repairs, mut stored) = (Vec::new(), Ok(()));
    for pin in P::TemplateCopies::copy_objects(content) {
        match copy::store_copy(context, pool, &pin, were_lost).await {
            Ok(is_written) => repairs.extend(copy_restored_event(&pin).filter(|_| is_written && were_lost)),
            Err(error) => {
                stored = Err(error);
                break;
            }
        }
    }
    context.pool_counts.repaired(&PoolKey::of(&pool.facts), repairs.len());
    (repairs, stored)
}

/// The event about a copy that the pool had lost.
fn copy_restored_event(pin: &Value) -> Option<PoolEvent> {
    let name = pin["metadata"]["name"].as_str()?;
    let note = format!(
        "restored ControllerRevision {name}, the copy of an object that a template names; machines cannot start without it"
    );
    Some(PoolEvent { reason: EventReason::PinRepaired, name: name.to_owned(), note })
}

async fn store_object<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    id: &RevisionId,
    template: &Value,
) -> ActionOutcome {
    for name in P::Revisions::object_names(&pool.facts.id, id) {
        let path = collection_path::<RevisionObject>(&pool.facts.namespace);
        let Templates { number, .. } = &basis.templates;
        let object = P::Revisions::object(&pool.object, &name, id, *number, template);
        if let Some(error) = too_large(&object["data"]) {
            return failed_revision_outcome(pool, id, "storing", error);
        }
        match context.leader.writer.create::<RevisionObject>(WriteKind::CreateRevision, path, object).await {
            Ok(stored) => {
                return stored_revision_outcome(pool, basis, id, template, &stored)
                    .unwrap_or_else(ActionOutcome::outdated);
            }
            Err(error) if error.is_already_exists() => {
                match context.get_live::<RevisionObject>(&pool.facts.namespace, &name).await {
                    Ok(Some(stored)) => {
                        if let Some(outcome) = stored_revision_outcome(pool, basis, id, template, &stored) {
                            return outcome;
                        }
                    }
                    Ok(None) => return ActionOutcome::outdated(),
                    Err(error) => {
                        return failed_revision_outcome(
                            pool,
                            id,
                            "storing",
                            WriteError::Unconfirmed(error.to_string()),
                        );
                    }
                }
            }
            Err(error) => {
                let is_unconfirmed = matches!(error, WriteError::Unconfirmed(_));
                let outcome = failed_revision_outcome(pool, id, "storing", error);
                let unconfirmed = || Effect::Revision(RevisionChange::Unconfirmed((*name).into()));
                return if is_unconfirmed { outcome.with(unconfirmed()) } else { outcome };
            }
        }
    }
    if P::Revisions::names(&pool.facts.id, pool.facts.generation).is_some() {
        // The next plan uses the next possible identity.
        return ActionOutcome::outdated().with(Effect::Revision(RevisionChange::Taken(id.clone())));
    }
    let error = WriteError::Invalid("other objects already have its possible names".into());
    failed_revision_outcome(pool, id, "storing", error)
}

/// Why the controller could not read the data of a revision again.
fn too_large(data: &Value) -> Option<WriteError> {
    let size = serde_json::to_string(data).map_or(0, |text| text.len());
    (size > limits::REVISION).then(|| {
        let note = format!(
            "with what its template names, it takes {size} bytes of JSON, and the limit is {}; shorten the template, or the \
             annotations of its instance type and preference",
            limits::REVISION
        );
        WriteError::Invalid(note.into())
    })
}

/// The outcome for a stored object; `None` if it belongs to another pool. If it belongs to this pool and has
/// another content, the next plan chooses another identity.
fn stored_revision_outcome<P: Platform>(
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    id: &RevisionId,
    template: &Value,
    object: &RevisionObject,
) -> Option<ActionOutcome> {
    let entry = RevisionEntry::read::<P>(object, &pool.facts.id)?;
    // Another one can have stored it with other copies, or without.
    let has_same_copies = !P::TemplateCopies::has_references(template)
        || P::TemplateCopies::inherit_copies(template, &object.data.value()).as_ref() == Some(template);
    let wanted = entry.stored.id == *id
        && Some(entry.stored.content) == basis.templates.fingerprint
        && has_same_copies;
    if wanted {
        tracing::info!(revision = id.as_str(), number = entry.stored.number, "stored a revision");
    }
    let outcome = if wanted { ActionOutcome::done() } else { ActionOutcome::outdated() };
    Some(outcome.with(Effect::Revision(RevisionChange::Stored(Box::new(entry)))))
}

/// Deletes a stored revision.
pub(super) async fn prune_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    id: &RevisionId,
) -> ActionOutcome {
    let Some(object) = basis.templates.stored.get(id) else { return ActionOutcome::outdated() };
    let path = collection_path::<RevisionObject>(&pool.facts.namespace);
    match context.leader.writer.delete(WriteKind::DeleteRevision, path, object, None).await {
        Ok(_) => {}
        // Gone, or another object has the name.
        Err(error) if error.is_gone() || error.is_conflict() => {}
        Err(error) => return failed_revision_outcome(pool, id, "deleting", error),
    }
    tracing::info!(revision = id.as_str(), "deleted a stored revision");
    ActionOutcome::done().with(Effect::Revision(RevisionChange::Gone(id.clone())))
}

fn failed_revision_outcome<P: Platform>(
    pool: &PoolEntry<P>,
    id: &RevisionId,
    doing: &str,
    error: WriteError,
) -> ActionOutcome {
    let reason =
        if doing == "deleting" { EventReason::FailedRevisionPruning } else { EventReason::FailedCreate };
    let note = format!("{doing} revision {id} of the template: {error}");
    ActionOutcome::failed(PoolEvent { reason, name: pool.facts.id.name.to_string(), note }, error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vmpool_engine::{ObjectId, limits};
    use vmpool_platforms::KubeVirt;

    use super::*;

    /// The data of a revision with this number of bytes of JSON.
    fn data(bytes: usize) -> Value {
        let empty = json!({ "virtualMachineTemplate": { "padding": "" } });
        let padding = "x".repeat(bytes - empty.to_string().len());
        json!({ "virtualMachineTemplate": { "padding": padding } })
    }

    #[test]
    fn a_revision_that_is_stored_can_be_read_again() {
        let read = |data: &Value| {
            let object = serde_json::from_value(json!({
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": "p-1",
                    "namespace": "default",
                    "uid": "uid-of-p-1",
                    "ownerReferences": [{
                        "apiVersion": "pool.kubevirt.io/v1beta1",
                        "kind": "VirtualMachinePool",
                        "name": "p",
                        "uid": "uid-of-p",
                        "controller": true,
                    }],
                },
                "revision": 1,
                "data": data,
            }));
            RevisionEntry::read::<KubeVirt>(&object.unwrap(), &ObjectId::new("p", "uid-of-p")).is_some()
        };
        // A spec of the largest size, and its template with everything written out.
        for bytes in [2 * limits::POOL_SPEC, limits::REVISION] {
            let data = data(bytes);
            assert!(too_large(&data).is_none() && read(&data), "{bytes}");
        }
        let larger = data(limits::REVISION + 1);
        let error = too_large(&larger).map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("the limit is 393216") && !read(&larger), "{error}");
    }
}
