//! The objects outside pools that templates refer to, as they are now.
//!
//! With them, a pool shows that its copies are outdated, and resolves its template again as soon as a missing object appears.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use vmpool_engine::model::PinReport;
use vmpool_platforms::{Copied, Pins, Platform};

use crate::watch::Objects;

/// The objects of each kind whose first list is complete.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    kinds: Mutex<BTreeMap<String, Objects<Value>>>,
    version: watch::Sender<u64>,
}

impl Sources {
    /// How the first of these copies differs from its original; `None` if none does. A kind that is not listed is skipped.
    pub(crate) fn outdated<P: Platform>(&self, copies: &[Copied]) -> Option<PinReport> {
        let kinds = self.kinds.lock();
        copies.iter().find_map(|copy| {
            let originals = kinds.get(&copy.kind)?;
            P::Pins::outdated(copy, originals.get(&(copy.namespace.clone(), copy.name.clone())))
        })
    }

    /// A number that changes with the objects.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// A receiver of the number.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Replaces the objects of a kind; `None` if the cluster does not have the kind.
    pub(crate) fn show(&self, kind: &str, objects: Option<&Objects<Value>>) {
        let mut kinds = self.kinds.lock();
        if kinds.get(kind) == objects {
            return;
        }
        match objects {
            Some(objects) => kinds.insert(kind.to_owned(), objects.clone()),
            None => kinds.remove(kind),
        };
        drop(kinds);
        self.version.send_modify(|version| *version += 1);
    }
}

#[cfg(test)]
mod tests;
