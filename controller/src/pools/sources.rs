//! The objects outside pools that templates refer to, as they are now.
//!
//! With them, a pool shows that its copies are outdated, and resolves its template again as soon as a missing
//! object appears.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_engine::model::PinReport;
use vmpool_kit::observed_value::{ValueObserver, ValuePublisher};
use vmpool_kit::sink::Objects;
use vmpool_platforms::{CopiedObject, Platform, TemplateCopies, UncopiedObject};

/// The objects of a kind.
#[derive(Debug)]
struct Listed {
    objects: Objects<Value>,
    /// The keys of those that are being deleted.
    ending: BTreeSet<ObjectKey>,
}

/// The objects of each kind whose first list is complete.
pub(crate) struct Sources {
    kinds: Mutex<BTreeMap<String, Listed>>,
    version: ValuePublisher<u64>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { kinds: Mutex::default(), version: ValuePublisher::new(0) }
    }
}

impl Sources {
    /// How the first of these copies differs from its original; `None` if none does. A kind that is not
    /// listed is skipped.
    pub(crate) fn outdated<P: Platform>(&self, copies: &[CopiedObject]) -> Option<PinReport> {
        let kinds = self.kinds.lock();
        copies.iter().find_map(|copy| {
            let originals = &kinds.get(&copy.kind)?.objects;
            P::TemplateCopies::compare_with_original(
                copy,
                originals.get(&ObjectKey::new(&*copy.namespace, &*copy.name)),
            )
        })
    }

    /// Whether any object is being deleted.
    pub(crate) fn has_ending(&self) -> bool {
        self.kinds.lock().values().any(|kind| !kind.ending.is_empty())
    }

    /// Whether this object, or any that it can be, is being deleted.
    pub(crate) fn is_ending(&self, referent: &UncopiedObject) -> bool {
        let kinds = self.kinds.lock();
        let Some(Listed { ending, .. }) = kinds.get(referent.kind) else { return false };
        match &referent.name {
            Some(name) => ending.contains(&ObjectKey::new(&*referent.namespace, &**name)),
            None => ending.iter().any(|key| key.namespace == referent.namespace),
        }
    }

    /// A number that changes with the objects.
    pub(crate) fn version(&self) -> u64 {
        self.changes().get()
    }

    /// An observer of the number.
    pub(crate) fn changes(&self) -> ValueObserver<u64> {
        self.version.observe()
    }

    /// Replaces the objects of a kind; `None` if the cluster does not have the kind.
    pub(crate) fn show(&self, kind: &str, objects: Option<&Objects<Value>>) {
        let mut kinds = self.kinds.lock();
        if kinds.get(kind).map(|listed| &listed.objects) == objects {
            return;
        }
        match objects {
            Some(objects) => {
                let is_ending = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
                let ending =
                    objects.iter().filter(|(_, object)| is_ending(object)).map(|(key, _)| key.clone());
                let listed = Listed { ending: ending.collect(), objects: objects.clone() };
                kinds.insert(kind.to_owned(), listed)
            }
            None => kinds.remove(kind),
        };
        drop(kinds);
        self.version.update(|version| version + 1);
    }
}

#[cfg(test)]
mod tests;
