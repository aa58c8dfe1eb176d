//! The stored revisions of a pool, as the leader knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::model::{CurrentRevision, MachineReferences, UsedCopy};
use vmpool_engine::revisions::{Fingerprint, ResolvedRevision, RevisionHistory, RevisionId, TemplateParts};
use vmpool_engine::{ObjectId, Uid, ledger};
use vmpool_platforms::{CopiedObject, Platform, RevisionObjects as _, Text};

use super::stored::{RevisionEntry, RevisionFacts};
use crate::pools::pool_entry::CachedPool;

/// What a template depends on: the generation of the pool, its annotations, and whether the platform expands
/// references.
pub(super) type TemplateKey = (i64, Option<Arc<str>>, bool);

/// A change of the stored revisions.
#[derive(Debug)]
pub(crate) enum RevisionChange {
    /// The revision is stored.
    Stored(Box<RevisionEntry>),
    /// The copies that the stored revision contains exist.
    CopiesRestored(RevisionId),
    /// The revision is not stored any more.
    Gone(RevisionId),
    /// An object that is no revision of the pool has the name of this revision.
    Taken(RevisionId),
    /// The create of an object with this name had no answer.
    Unconfirmed(Arc<str>),
}

/// The stored revisions of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolRevisions {
    pub(super) history: RevisionHistory,
    pub(super) objects: BTreeMap<RevisionId, ObjectId>,
    /// Uptime at which each of them was known to exist.
    since: BTreeMap<RevisionId, Duration>,
    /// The copies of objects that each of them contains, and what is known of these copies.
    copies: BTreeMap<RevisionId, Vec<Arc<str>>>,
    /// What the machines of each of them refer to, if it contains copies.
    references: BTreeMap<RevisionId, MachineReferences>,
    /// The copies that the machines of each of them use.
    used_copies: BTreeMap<RevisionId, Arc<[UsedCopy]>>,
    /// The objects of which each of them contains copies.
    copied: BTreeMap<RevisionId, Vec<CopiedObject>>,
    copies_shown: BTreeSet<Arc<str>>,
    /// The revisions whose create followed that of the copy. A watch that shows the revision has shown the
    /// copy before, unless it was deleted meanwhile.
    copies_before: BTreeMap<Arc<str>, ObjectId>,
    copies_lost: BTreeSet<Arc<str>>,
    /// The objects of the copies. The watch does not show what they contain, and that cannot change, but
    /// another object can have the name of a copy.
    copy_objects: BTreeMap<Arc<str>, Uid>,
    /// Whether contents must not be read now, because of the backoff after a failed read.
    pub(crate) in_backoff: bool,
    /// The names of objects whose create had no answer.
    unconfirmed: BTreeSet<Arc<str>>,
    /// Identities that cannot be used, because other objects have these names.
    taken: BTreeSet<RevisionId>,
    /// Contents that passes use.
    pub(super) contents: BTreeMap<RevisionId, Text>,
    /// The fingerprint and the parts of the template in the spec, and what they were computed for.
    template: Option<(TemplateKey, Fingerprint, Option<TemplateParts>)>,
    /// Generation and template hash that another controller had published in the status before vmpool took
    /// over.
    pub(super) elsewhere: Option<(i64, RevisionId)>,
}

impl PoolRevisions {
    /// Records a change.
    pub(crate) fn record(&mut self, change: RevisionChange, uptime: Duration) {
        match change {
            RevisionChange::Stored(entry) => {
                let entry = *entry;
                self.since.insert(entry.stored.id.clone(), uptime);
                self.unconfirmed.remove(&entry.object.name);
                let object = entry.object.clone();
                self.objects.insert(entry.stored.id.clone(), entry.object);
                // They were stored before the revision.
                self.copies_stored(&entry.copies);
                self.copies_before.extend(entry.copies.iter().map(|copy| (copy.clone(), object.clone())));
                self.copies.insert(entry.stored.id.clone(), entry.copies);
                self.copied.insert(entry.stored.id.clone(), entry.copied);
                self.used_copies.insert(entry.stored.id.clone(), entry.used_copies);
                if let Some(references) = entry.references {
                    self.references.insert(entry.stored.id.clone(), references);
                }
                self.history.add(entry.stored);
            }
            RevisionChange::CopiesRestored(id) => {
                if let Some(copies) = self.copies.get(&id).cloned() {
                    self.copies_stored(&copies);
                }
            }
            RevisionChange::Taken(id) => {
                self.taken.insert(id);
            }
            RevisionChange::Unconfirmed(name) => {
                self.unconfirmed.insert(name);
            }
            RevisionChange::Gone(id) => {
                if let Some(object) = self.objects.remove(&id) {
                    self.copies_before.retain(|_, before| *before != object);
                }
                self.since.remove(&id);
                self.contents.remove(&id);
                self.copies.remove(&id);
                self.references.remove(&id);
                self.copied.remove(&id);
                self.used_copies.remove(&id);
                self.history.remove(&id);
            }
        }
    }

    /// Records that these copies exist. The watch may not show this yet.
    fn copies_stored(&mut self, copies: &[Arc<str>]) {
        for copy in copies {
            self.copies_shown.remove(copy);
            self.copies_lost.remove(copy);
            self.copy_objects.remove(copy);
            self.copies_before.remove(copy);
        }
    }

    /// Removes the revisions that the watch has shown as deleted. Absence from the cache alone proves
    /// nothing: the watch may not show a new revision yet.
    pub(crate) fn drop_deleted(&mut self, cache: &impl ledger::LedgerCache<RevisionFacts>) {
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
            self.record(RevisionChange::Gone(id), Duration::ZERO);
        }
    }

    /// The objects whose create had no answer and that the watch shows.
    pub(super) fn unconfirmed(&self, cache: &impl ledger::LedgerCache<RevisionFacts>) -> Vec<ObjectId> {
        let shown = self.unconfirmed.iter().filter_map(|name| cache.get(name));
        shown.map(|seen| seen.facts.id.clone()).collect()
    }

    /// Records that an object was read whose create had no answer.
    pub(super) fn confirm(&mut self, name: &str) {
        self.unconfirmed.remove(name);
    }

    /// Records the copies that a live list of the objects of the pool contained, with their objects. Others
    /// are lost, and so are those with a content that the revisions do not contain.
    pub(super) fn copies_listed(&mut self, listed: BTreeMap<Arc<str>, Uid>) {
        let missing = self.copies.values().flatten().filter(|copy| !listed.contains_key(*copy));
        self.copies_lost = missing.cloned().collect();
        self.copy_objects = listed;
    }

    /// Records which copies the watch shows. One that it has shown before and does not show any more, or not
    /// as an object of the pool in the current version of the API, is lost. So is one that it does not show
    /// although it shows the revision that was stored after it, and one with the name of another object,
    /// until the controller has compared that one.
    pub(crate) fn observe_copies(
        &mut self,
        pool: &ObjectId,
        cache: &impl ledger::LedgerCache<RevisionFacts>,
    ) {
        for copy in self.copies.values().flatten() {
            let shown = cache.get(copy).filter(|seen| seen.facts.is_pin_of(pool));
            let (object, known) =
                (shown.as_ref().map(|seen| &seen.facts.id.uid), self.copy_objects.get(copy));
            let is_lost = self.copies_lost.contains(copy);
            let was_shown = self.copies_shown.contains(copy)
                || self.copies_before.get(copy).is_some_and(|revision| {
                    cache.get(&revision.name).is_some_and(|seen| seen.facts.id == *revision)
                });
            let is_other = known.map_or(is_lost, |known| object.is_some_and(|object| object != known));
            if let Some(object) = object
                && !is_other
            {
                self.copies_shown.insert(copy.clone());
                self.copies_lost.remove(copy);
                self.copy_objects.insert(copy.clone(), object.clone());
            } else if (is_other || was_shown) && self.copies_lost.insert(copy.clone()) {
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

    /// What the machines of each revision refer to, if the revision contains copies.
    pub(super) fn references(&self) -> BTreeMap<RevisionId, Arc<str>> {
        self.references.iter().map(|(id, references)| (id.clone(), references.text.clone())).collect()
    }

    /// The objects of which this revision contains copies.
    pub(super) fn copied(&self, id: &RevisionId) -> &[CopiedObject] {
        self.copied.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// The copies that machines of the current revision use. A later revision with the same template has the
    /// same ones.
    pub(crate) fn used_copies(&self, current: &CurrentRevision) -> Arc<[UsedCopy]> {
        let of_template = std::iter::once(&current.id).chain(current.same_template.iter().rev());
        let mut used = of_template.filter_map(|id| self.used_copies.get(id));
        used.find(|used| !used.is_empty()).cloned().unwrap_or_default()
    }

    /// The copies that only the pool owns, among `owned`, and that no revision and no machine refers to.
    pub(super) fn unused_copies(
        &self,
        owned: &[Arc<RevisionFacts>],
        machines: impl FnOnce(&BTreeSet<&str>) -> BTreeSet<Arc<str>>,
    ) -> Vec<ObjectId> {
        let of_templates = self.references.values().flat_map(|references| &references.copies);
        let needed: BTreeSet<&Arc<str>> = self.copies.values().flatten().chain(of_templates).collect();
        let mut unused: Vec<&ObjectId> = owned
            .iter()
            .filter(|copy| copy.is_only_pin && !needed.contains(&copy.id.name))
            .map(|copy| &copy.id)
            .collect();
        if unused.is_empty() {
            return Vec::new();
        }
        let used = machines(&unused.iter().map(|copy| &*copy.name).collect());
        unused.retain(|copy| !used.contains(&copy.name));
        unused.sort();
        unused.into_iter().cloned().collect()
    }

    /// The stored revision with this content whose copies a later one with the same content contains: the
    /// latest that has all, or else the latest that has any.
    pub(super) fn inheritable(&self, content: &Fingerprint) -> Option<&RevisionId> {
        let with_copies = self.history.with_content(content).filter(|id| self.references.contains_key(*id));
        with_copies
            .enumerate()
            .max_by_key(|(index, id)| (!self.history.lacks_copies(id), *index))
            .map(|(_, id)| id)
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
    ) -> ResolvedRevision {
        let Some(names) = P::Revisions::names(&pool.facts.id, pool.facts.generation) else {
            return self.history.resolve(content, shown);
        };
        let names = names.filter(|name| !self.taken.contains(name));
        self.history.resolve_named(content, pool.facts.generation, names)
    }

    /// The fingerprint of the wanted template of the pool. `read` computes it, and the parts of the template,
    /// if they are not known for this key.
    pub(super) fn fingerprint(
        &mut self,
        key: TemplateKey,
        read: impl FnOnce() -> (Fingerprint, Option<TemplateParts>),
    ) -> Fingerprint {
        match &self.template {
            Some((known, fingerprint, _)) if *known == key => *fingerprint,
            _ => {
                let (fingerprint, parts) = read();
                self.template = Some((key, fingerprint, parts));
                fingerprint
            }
        }
    }

    /// The parts of all stored revisions, and of the template with this fingerprint, which is the current
    /// revision `id`. The plan can compare a machine with it before the revision is stored.
    pub(super) fn parts_with(
        &self,
        id: &RevisionId,
        template: &Fingerprint,
    ) -> BTreeMap<RevisionId, TemplateParts> {
        let mut parts = self.history.parts();
        if let Some((_, _, Some(wanted))) = self.template.as_ref().filter(|(_, known, _)| known == template) {
            parts.entry(id.clone()).or_insert_with(|| wanted.clone());
        }
        parts
    }
}

#[cfg(test)]
mod tests;
