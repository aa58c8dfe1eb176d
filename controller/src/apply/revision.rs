//! Writes of stored revisions.

use vmpool_engine::ObjectId;
use vmpool_engine::revision::RevisionId;

use super::Outcome;
use super::basis::Basis;
use crate::context::{Context, PoolEntry, collection};
use crate::events::{Happening, Reason};
use crate::metrics::WriteKind;
use crate::platform::Platform;
use crate::revisions::{Change, Kept, RevisionObject, body};
use crate::write::WriteError;

/// Stores the wanted revision.
///
/// The name follows from pool and identity, so a repeated request meets the first one. A revision that an earlier pool
/// of this name has left behind keeps its name, and ours gets another.
pub(super) async fn store<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    id: &RevisionId,
) -> Outcome {
    let ObjectId { name, uid } = &pool.facts.id;
    for name in id.object_names(name, uid.as_str()) {
        let path = collection::<RevisionObject>(&pool.facts.namespace);
        let object = body(pool, &name, id, &basis.templates);
        match context.writer.create::<RevisionObject>(WriteKind::CreateRevision, path, object).await {
            Ok(stored) => return kept(pool, basis, id, &stored).unwrap_or(Outcome::Outdated),
            Err(error) if error.is_already_exists() => {
                match context.get_live::<RevisionObject>(&pool.facts.namespace, &name).await {
                    Ok(Some(stored)) => {
                        if let Some(outcome) = kept(pool, basis, id, &stored) {
                            return outcome;
                        }
                    }
                    Ok(None) => return Outcome::Outdated,
                    Err(error) => return failed(pool, id, "storing", WriteError::Lost(error.to_string())),
                }
            }
            Err(error) => return failed(pool, id, "storing", error),
        }
    }
    let error = WriteError::Invalid("other objects have the names that it could have".into());
    failed(pool, id, "storing", error)
}

/// What a stored object means; `None` if it is another pool's. One of ours with this name and another content is news:
/// the next plan finds another identity.
fn kept<P: Platform>(
    pool: &PoolEntry<P>,
    basis: &Basis,
    id: &RevisionId,
    object: &RevisionObject,
) -> Option<Outcome> {
    let kept = Kept::read::<P>(object, &pool.facts.id.uid)?;
    let wanted = kept.stored.id == *id && Some(kept.stored.content) == basis.templates.fingerprint;
    if wanted {
        tracing::info!(revision = id.as_str(), number = kept.stored.number, "stored a revision");
    }
    Some(Outcome::Revision { change: Change::Stored(kept), done: wanted })
}

/// Deletes a stored revision.
pub(super) async fn prune<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    id: &RevisionId,
) -> Outcome {
    let Some(object) = basis.templates.stored.get(id) else { return Outcome::Outdated };
    let path = collection::<RevisionObject>(&pool.facts.namespace);
    match context.writer.delete(WriteKind::DeleteRevision, path, object, None).await {
        Ok(_) => {}
        // Gone, or another one of this name by now.
        Err(error) if error.is_gone() || error.is_conflict() => {}
        Err(error) => return failed(pool, id, "deleting", error),
    }
    tracing::info!(revision = id.as_str(), "deleted a stored revision");
    Outcome::Revision { change: Change::Gone(id.clone()), done: true }
}

fn failed<P: Platform>(pool: &PoolEntry<P>, id: &RevisionId, doing: &str, error: WriteError) -> Outcome {
    let reason = if doing == "storing" { Reason::FailedCreate } else { Reason::FailedRepair };
    let note = format!("{doing} revision {id} of the template: {error}");
    Outcome::Failed(Happening { reason, name: pool.facts.id.name.to_string(), note }, error)
}
