//! The parts of a template that a platform can apply to a running instance.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::identity::Fingerprint;

/// The parts of a template, or of an instance, that change without a restart: one fingerprint for each field,
/// entry of a map or item of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LiveParts(Arc<BTreeSet<Fingerprint>>);

impl LiveParts {
    /// The parts with these paths and values. Each value must be in its canonical form.
    pub fn of<'a>(parts: impl Iterator<Item = (&'a str, Value)>) -> Self {
        let fingerprint = |(path, value): (&str, Value)| Fingerprint::of_exact(&json!([path, value]));
        Self(Arc::new(parts.map(fingerprint).collect()))
    }

    /// Whether all of `wanted` are among these. The platform adds others.
    pub fn include(&self, wanted: &Self) -> bool {
        wanted.0.is_subset(&self.0)
    }

    /// Whether none of `unwanted` is among these.
    pub fn exclude(&self, unwanted: &Self) -> bool {
        unwanted.0.is_disjoint(&self.0)
    }

    /// The parts that are not among those of `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(Arc::new(self.0.difference(&other.0).copied().collect()))
    }

    /// The parts, with the allocation that `share` returns for equal parts.
    #[must_use]
    pub fn shared(
        self,
        share: impl FnOnce(Arc<BTreeSet<Fingerprint>>) -> Arc<BTreeSet<Fingerprint>>,
    ) -> Self {
        Self(share(self.0))
    }
}
