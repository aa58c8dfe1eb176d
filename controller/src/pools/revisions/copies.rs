//! The copies of objects that the templates of a pool refer to, for the plan and the status.

use std::collections::BTreeSet;

use vmpool_engine::ObjectId;
use vmpool_engine::model::CurrentRevision;
use vmpool_engine::revisions::{Fingerprint, RevisionCopies, RevisionId};
use vmpool_platforms::Platform;

use super::pool_revisions::PoolRevisions;
use super::resolve;
use crate::pools::cache::CacheKey;
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::CachedPool;
use crate::pools::pool_key::PoolKey;

/// What is known of the copies of the pool. Its current revision has this template.
pub(super) async fn observe_copies<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &mut PoolRevisions,
    current: &CurrentRevision,
    template: &Fingerprint,
) -> Result<RevisionCopies, ReadError> {
    // A later revision with the same template contains the same copies.
    let of_template = || std::iter::once(&current.id).chain(current.same_template.iter().rev());
    let copied = of_template().map(|id| revisions.copied(id)).find(|copied| !copied.is_empty());
    let mut copies = RevisionCopies {
        outdated: copied.and_then(|copied| context.sources.outdated::<P>(copied)),
        references: revisions.references(),
        used: revisions.used_copies(current),
        unused: unused_copies(context, pool, revisions),
        ..RevisionCopies::default()
    };
    if !current.stored {
        copies.inherited_from = revisions.inheritable(template).cloned();
        copies.wanted = are_copies_wanted(context, pool, revisions, copies.inherited_from.as_ref()).await?;
    }
    copies.lost = !current.pinned && of_template().any(|id| revisions.lost_copies(id));
    // What is stored again with the current template is restored with it.
    let is_other = |id: &RevisionId| current.pinned || !current.is_current(id);
    let lost = revisions.ids().into_iter().filter(|id| is_other(id) && revisions.lost_copies(id));
    copies.others_lost = lost.collect();
    Ok(copies)
}

/// Whether an object that the template refers to is being deleted, and no stored revision with the template
/// contains a copy of it.
async fn are_copies_wanted<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &mut PoolRevisions,
    inherited_from: Option<&RevisionId>,
) -> Result<bool, ReadError> {
    let has_all = |id: &RevisionId| !revisions.history.lacks_copies(id);
    if pool.facts.deleting || !context.sources.has_ending() || inherited_from.is_some_and(has_all) {
        return Ok(false);
    }
    let uncopied = resolve::find_uncopied_referents(context, pool, revisions).await?;
    Ok(uncopied.iter().any(|referent| context.sources.is_ending(referent)))
}

/// The copies of a pool that nothing refers to.
fn unused_copies<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &PoolRevisions,
) -> Vec<ObjectId> {
    let owned = context.caches.revisions.by_key_where(&CacheKey::Pool(PoolKey::of(&pool.facts)), |copy| {
        copy.is_only_pin && copy.owner.as_ref() == Some(&pool.facts.id)
    });
    // Also machines that the pool has released. All of them are read only if a copy seems to be unused.
    let used = |unused: &BTreeSet<&str>| {
        let mut used = BTreeSet::new();
        context.caches.machines.for_each(&pool.facts.namespace, |machine| {
            used.extend(machine.references.copies.iter().filter(|copy| unused.contains(&***copy)).cloned());
        });
        used
    };
    revisions.unused_copies(&owned, used)
}
