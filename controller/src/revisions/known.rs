//! The stored revisions of a pool, as the leader knows them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::revision::{Fingerprint, History, Resolved, RevisionId};
use vmpool_engine::{ObjectId, Uid, ledger};
use vmpool_platforms::{Platform, Revisions as _, Text};

use super::stored::{RevisionEntry, RevisionFacts};
use crate::pool_entry::{CachedPool, PoolEntry};

/// A change of the stored revisions.
#[derive(Debug)]
pub(crate) enum Change {
    /// The revision is stored.
    Stored(RevisionEntry),
    /// The revision is not stored any more.
    Gone(RevisionId),
    /// An object that is no revision of the pool has the name of this revision.
    Taken(RevisionId),
}

/// The stored revisions of one pool.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    pub(super) history: History,
    pub(super) objects: HashMap<RevisionId, ObjectId>,
    /// Uptime at which each of them was known to exist.
    since: HashMap<RevisionId, Duration>,
    /// The copies of objects that each of them contains, and what is known of these copies.
    copies: HashMap<RevisionId, Vec<Arc<str>>>,
    copies_shown: HashSet<Arc<str>>,
    copies_lost: HashSet<Arc<str>>,
    /// Whether contents must not be read now, because of the backoff after a failed read.
    pub(crate) in_backoff: bool,
    /// Identities that cannot be used, because other objects have these names.
    taken: HashSet<RevisionId>,
    /// Contents that passes use.
    pub(super) contents: HashMap<RevisionId, Text>,
    /// Generation and fingerprint of the template in the spec.
    template: Option<(i64, Fingerprint)>,
    /// Generation and template hash that another controller had published in the status before vmpool took over.
    pub(super) elsewhere: Option<(i64, RevisionId)>,
}

impl Revisions {
    /// Records a change.
    pub(crate) fn record(&mut self, change: Change, uptime: Duration) {
        match change {
            Change::Stored(entry) => {
                self.since.insert(entry.stored.id.clone(), uptime);
                self.objects.insert(entry.stored.id.clone(), entry.object);
                // They were stored before the revision. The watch may not show this yet.
                for copy in &entry.copies {
                    self.copies_shown.remove(copy);
                    self.copies_lost.remove(copy);
                }
                self.copies.insert(entry.stored.id.clone(), entry.copies);
                self.history.add(entry.stored);
            }
            Change::Taken(id) => {
                self.taken.insert(id);
            }
            Change::Gone(id) => {
                self.objects.remove(&id);
                self.since.remove(&id);
                self.contents.remove(&id);
                self.copies.remove(&id);
                self.history.remove(&id);
            }
        }
    }

    /// Removes the revisions that the watch has shown as deleted. Absence from the cache alone proves nothing: the watch
    /// may not show a new revision yet.
    pub(crate) fn drop_deleted(&mut self, cache: &impl ledger::Cache<RevisionFacts>) {
        let is_deleted = |(id, object): &(&RevisionId, &ObjectId)| {
            let is_shown = cache.get(&object.name).is_some_and(|seen| seen.facts.id.uid == object.uid);
            !is_shown
                && (cache.saw_deleted(&object.uid)
                    || self.since.get(*id).is_some_and(|since| cache.relisted_since(*since)))
        };
        let deleted: Vec<RevisionId> =
            self.objects.iter().filter(is_deleted).map(|(id, _)| id.clone()).collect();
        for id in deleted {
            tracing::warn!(revision = id.as_str(), "a stored revision was deleted");
            self.record(Change::Gone(id), Duration::ZERO);
        }
    }

    /// Records which copies a live list of the objects of the pool contained.
    pub(super) fn copies_listed(&mut self, listed: &HashSet<Arc<str>>) {
        let missing = self.copies.values().flatten().filter(|copy| !listed.contains(*copy));
        self.copies_lost = missing.cloned().collect();
    }

    /// Records which copies the watch shows. One that it has shown before and does not show any more, or not as an object
    /// of the pool, is lost.
    pub(crate) fn observe_copies(&mut self, pool: &Uid, cache: &impl ledger::Cache<RevisionFacts>) {
        for copy in self.copies.values().flatten() {
            if cache.get(copy).is_some_and(|seen| seen.facts.owner.as_ref() == Some(pool)) {
                self.copies_shown.insert(copy.clone());
                self.copies_lost.remove(copy);
            } else if self.copies_shown.contains(copy) && self.copies_lost.insert(copy.clone()) {
                tracing::warn!(
                    name = &**copy,
                    "the pool lost a copy of an object that its template refers to"
                );
            }
        }
    }

    /// Whether a copy of this revision is lost.
    pub(super) fn lost_copies(&self, id: &RevisionId) -> bool {
        self.copies.get(id).into_iter().flatten().any(|copy| self.copies_lost.contains(copy))
    }

    /// The identities, oldest first.
    pub(crate) fn ids(&self) -> Vec<RevisionId> {
        self.history.ids()
    }

    /// The revision of the template in the spec of the pool, which has this content.
    pub(super) fn resolve<P: Platform>(
        &self,
        pool: &CachedPool<P>,
        content: &Fingerprint,
        shown: Option<&RevisionId>,
    ) -> Resolved {
        let Some(names) = P::Revisions::names(&pool.facts.id, pool.facts.generation) else {
            return self.history.resolve(content, shown);
        };
        let last = names.last().cloned();
        let usable = names.into_iter().filter(|name| !self.taken.contains(name));
        self.history.resolve_named(content, usable.chain(std::iter::repeat_with(|| last.clone()).flatten()))
    }

    /// The fingerprint of the template in the spec of the pool.
    pub(super) fn fingerprint<P: Platform, R>(&mut self, pool: &PoolEntry<P, R>) -> Fingerprint {
        let generation = pool.facts.generation;
        match self.template {
            Some((known, fingerprint)) if known == generation => fingerprint,
            _ => {
                let fingerprint = Fingerprint::of(&P::canonical(&P::template(&pool.object)));
                self.template = Some((generation, fingerprint));
                fingerprint
            }
        }
    }
}

#[cfg(test)]
mod tests;
