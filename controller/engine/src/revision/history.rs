//! The revisions of one pool that are stored, and which of them its template is.

use super::{Fingerprint, RevisionId};

/// A stored revision, as far as choosing among them goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The identity, fixed when it was stored.
    pub id: RevisionId,
    /// Its place in the history; greater ones were stored later.
    pub number: i64,
    /// Fingerprint of the canonical form of its content, as this version of ours writes that form.
    pub content: Fingerprint,
}

/// The revisions of one pool that are stored, oldest first.
///
/// An identity is a name that was given once. It follows from the content only while nobody has stored that content:
/// whatever a later version of ours makes of the hash, and whatever defaults a later schema brings, a template that is
/// structurally equal to a stored revision *is* that revision.
#[derive(Clone, Debug, Default)]
pub struct History {
    stored: Vec<Stored>,
}

/// The revision that the machines of a pool shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Its identity.
    pub id: RevisionId,
    /// Whether it is stored, so that the identity is fixed.
    pub stored: bool,
}

impl History {
    /// The history of these revisions, in any order. Of two with one identity, the later one counts.
    pub fn new(stored: impl IntoIterator<Item = Stored>) -> Self {
        let mut history = Self::default();
        for revision in stored {
            history.add(revision);
        }
        history
    }

    /// Takes note of a revision that was stored.
    pub fn add(&mut self, revision: Stored) {
        let known = self.stored.iter().position(|known| known.id == revision.id);
        if let Some(index) = known {
            if self.stored[index].number > revision.number {
                return;
            }
            self.stored.remove(index);
        }
        let order = |stored: &Stored| (stored.number, stored.id.clone());
        let index = self.stored.partition_point(|stored| order(stored) < order(&revision));
        self.stored.insert(index, revision);
    }

    /// Takes note of a revision that was deleted.
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

    /// The number of the next revision to store: beyond every one that is there.
    pub fn next_number(&self) -> i64 {
        self.stored.last().map_or(1, |last| last.number.saturating_add(1))
    }

    /// The revision of a template with this content.
    ///
    /// Two stored revisions can turn out to be the same template once a schema has got another default. Then the one
    /// that the pool shows already stays, or else the latest.
    pub fn resolve(&self, content: &Fingerprint, shown: Option<&RevisionId>) -> Resolved {
        let equal = || self.stored.iter().filter(|stored| stored.content == *content);
        let known = equal().find(|stored| Some(&stored.id) == shown).or_else(|| equal().next_back());
        if let Some(known) = known {
            return Resolved { id: known.id.clone(), stored: true };
        }
        let mut attempt = 1;
        while self.contains(&content.id(attempt)) {
            attempt += 1;
        }
        Resolved { id: content.id(attempt), stored: false }
    }

    /// The stored revision that was in force last: the one that the pool shows, or else the latest.
    pub fn last_in_force(&self, shown: Option<&RevisionId>) -> Option<&RevisionId> {
        let shown = self.stored.iter().find(|stored| Some(&stored.id) == shown);
        shown.or(self.stored.last()).map(|stored| &stored.id)
    }
}

#[cfg(test)]
mod tests;
