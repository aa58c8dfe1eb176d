//! The stored revisions of one pool, and which of them is its template.

use std::collections::BTreeMap;

use super::identity::{Fingerprint, RevisionId};
use super::live_parts::LiveParts;

/// A stored revision, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRevision {
    /// Its identity, which was fixed when it was stored.
    pub id: RevisionId,
    /// Its number in the history. A later revision has a greater number.
    pub number: i64,
    /// Fingerprint of its content, computed by the running version.
    pub content: Fingerprint,
    /// Its parts, if they are known.
    pub parts: Option<TemplateParts>,
    /// Whether it lacks copies of objects that its template refers to: another controller has stored it, or
    /// not all of the objects existed. No further machine is created from it.
    pub lacks_copies: bool,
}

/// The parts of a template that decide what a change of it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateParts {
    /// Fingerprint of the part that an instance is started from, without [`TemplateParts::live`]. If the
    /// platform restarts machines, it is the whole spec.
    pub instance: Fingerprint,
    /// The parts that the platform can apply to a running instance.
    pub live: LiveParts,
    /// Fingerprint of the part that storage is created from.
    pub storage: Fingerprint,
}

/// The stored revisions of one pool, oldest first.
///
/// An identity is assigned once. It is computed from the content only if that content is not stored yet. A
/// template that is structurally equal to a stored revision *is* that revision, even if a later version
/// computes another hash or a later schema has other defaults.
#[derive(Clone, Debug, Default)]
pub struct RevisionHistory {
    stored: Vec<StoredRevision>,
}

/// The current revision of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRevision {
    /// Its identity.
    pub id: RevisionId,
    /// Whether it is stored, so that its identity is fixed.
    pub stored: bool,
}

impl RevisionHistory {
    /// Creates a history from revisions in any order. Of two revisions with the same identity, the later one
    /// counts.
    pub fn new(stored: impl IntoIterator<Item = StoredRevision>) -> Self {
        let mut history = Self::default();
        for revision in stored {
            history.add(revision);
        }
        history
    }

    /// Adds a stored revision.
    pub fn add(&mut self, revision: StoredRevision) {
        let known = self.stored.iter().position(|known| known.id == revision.id);
        if let Some(index) = known {
            if self.stored[index].number > revision.number {
                return;
            }
            self.stored.remove(index);
        }
        let order = |stored: &StoredRevision| (stored.number, stored.id.clone());
        let index = self.stored.partition_point(|stored| order(stored) < order(&revision));
        self.stored.insert(index, revision);
    }

    /// Removes a deleted revision.
    pub fn remove(&mut self, id: &RevisionId) {
        self.stored.retain(|stored| stored.id != *id);
    }

    /// Whether a revision is stored.
    pub fn contains(&self, id: &RevisionId) -> bool {
        self.stored.iter().any(|stored| stored.id == *id)
    }

    /// The identities, oldest first.
    pub fn ids(&self) -> Vec<RevisionId> {
        self.stored.iter().map(|stored| stored.id.clone()).collect()
    }

    /// The parts of all stored revisions, as far as they are known.
    pub fn parts(&self) -> BTreeMap<RevisionId, TemplateParts> {
        self.stored.iter().filter_map(|stored| Some((stored.id.clone(), stored.parts.clone()?))).collect()
    }

    /// The stored revisions with this content.
    pub fn with_content(&self, content: &Fingerprint) -> impl Iterator<Item = &RevisionId> {
        self.stored.iter().filter(move |stored| stored.content == *content).map(|stored| &stored.id)
    }

    /// The stored revisions whose content a later one has, too, with as many copies of objects.
    pub fn superseded(&self) -> Vec<RevisionId> {
        let repeats = |later: &StoredRevision, stored: &StoredRevision| {
            later.content == stored.content && (!later.lacks_copies || stored.lacks_copies)
        };
        let is_superseded = |index: usize, stored: &StoredRevision| {
            self.stored[index + 1..].iter().any(|later| repeats(later, stored))
        };
        let all = self.stored.iter().enumerate();
        all.filter(|(index, stored)| is_superseded(*index, stored))
            .map(|(_, stored)| stored.id.clone())
            .collect()
    }

    /// The revision of a template with this content, on a platform that names revisions itself: the one that
    /// is stored with this content and this number, or else the first of `names` that is free or stored with
    /// this content. A revision that lacks copies does not count: a machine that is created later would get
    /// others than its machines have.
    ///
    /// # Panics
    /// If `names` ends.
    pub fn resolve_named(
        &self,
        content: &Fingerprint,
        number: i64,
        mut names: impl Iterator<Item = RevisionId>,
    ) -> ResolvedRevision {
        let is_it = |stored: &StoredRevision| stored.content == *content && !stored.lacks_copies;
        // An earlier name can be free again.
        let known = self.stored.iter().rfind(|stored| stored.number == number && is_it(stored));
        if let Some(known) = known {
            return ResolvedRevision { id: known.id.clone(), stored: true };
        }
        let found = names.find_map(|id| match self.stored.iter().find(|stored| stored.id == id) {
            None => Some(ResolvedRevision { id, stored: false }),
            Some(stored) if is_it(stored) => Some(ResolvedRevision { id, stored: true }),
            Some(_) => None,
        });
        found.expect("the names do not end")
    }

    /// Whether a stored revision lacks copies of objects that its template refers to.
    pub fn lacks_copies(&self, id: &RevisionId) -> bool {
        self.stored.iter().any(|stored| stored.id == *id && stored.lacks_copies)
    }

    /// The number of the next revision to store, greater than all others.
    pub fn next_number(&self) -> i64 {
        self.stored.last().map_or(1, |last| last.number.saturating_add(1))
    }

    /// The revision of a template with this content.
    ///
    /// After a schema got another default, two stored revisions can be the same template. Then the result is
    /// the one in the status of the pool, or else the latest.
    pub fn resolve(&self, content: &Fingerprint, shown: Option<&RevisionId>) -> ResolvedRevision {
        let equal = || self.stored.iter().filter(|stored| stored.content == *content);
        let known = equal().find(|stored| Some(&stored.id) == shown).or_else(|| equal().next_back());
        if let Some(known) = known {
            return ResolvedRevision { id: known.id.clone(), stored: true };
        }
        let mut attempt = 1;
        while self.contains(&content.id(attempt)) {
            attempt += 1;
        }
        ResolvedRevision { id: content.id(attempt), stored: false }
    }

    /// The last current revision that is stored: the one in the status of the pool, or else the latest.
    pub fn last_in_force(&self, shown: Option<&RevisionId>) -> Option<&RevisionId> {
        let shown = self.stored.iter().find(|stored| Some(&stored.id) == shown);
        shown.or(self.stored.last()).map(|stored| &stored.id)
    }
}

#[cfg(test)]
mod tests;
