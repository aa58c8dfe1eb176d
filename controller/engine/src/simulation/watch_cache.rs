//! A cache of a watch with a delay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::api::{ModelTable, ModelWatchEvent};
use crate::ledger::{LedgerCache, LedgerFacts, VersionedFacts, keep_history};
use crate::model::Uid;
use crate::plan::NamesInUse;

/// The state that a watch has shown.
#[derive(Clone)]
pub(super) struct WatchCache<T> {
    pub(super) objects: BTreeMap<Arc<str>, VersionedFacts<T>>,
    pub(super) deleted: BTreeSet<Uid>,
    /// Number of events that were shown.
    pub(super) position: usize,
    listed: Duration,
}

impl<T: LedgerFacts> WatchCache<T> {
    /// A new list. Kubernetes guarantees that it is not older than its request.
    pub(super) fn list(table: &ModelTable<T>, now: Duration) -> Self {
        Self {
            objects: table.objects.clone(),
            deleted: BTreeSet::new(),
            position: table.log.len(),
            listed: now,
        }
    }

    /// Shows up to `events` more events. Returns the number of shown events.
    pub(super) fn advance(&mut self, table: &ModelTable<T>, events: usize) -> usize {
        let end = table.log.len().min(self.position + events);
        for event in &table.log[self.position..end] {
            match event {
                ModelWatchEvent::Put(seen) => {
                    let name = &seen.facts.id().name;
                    let seen = match self.objects.get(name) {
                        Some(earlier) => keep_history(seen.clone(), &earlier.facts),
                        None => seen.clone(),
                    };
                    self.objects.insert(name.clone(), seen);
                }
                ModelWatchEvent::Gone(id) => {
                    self.objects.remove(&id.name);
                    self.deleted.insert(id.uid.clone());
                }
            }
        }
        end - std::mem::replace(&mut self.position, end)
    }

    pub(super) fn snapshot(&self) -> Vec<Arc<T>> {
        self.objects.values().map(|seen| seen.facts.clone()).collect()
    }
}

impl<T: LedgerFacts> LedgerCache<T> for WatchCache<T> {
    fn get(&self, name: &str) -> Option<VersionedFacts<T>> {
        self.objects.get(name).cloned()
    }
    fn saw_deleted(&self, uid: &Uid) -> bool {
        self.deleted.contains(uid)
    }
    fn relisted_since(&self, uptime: Duration) -> bool {
        self.listed > uptime
    }
}

/// The names that two caches show.
pub(super) struct NamesInCaches<'a, M, D>(pub(super) &'a WatchCache<M>, pub(super) &'a WatchCache<D>);

impl<M, D> NamesInUse for NamesInCaches<'_, M, D> {
    fn has_machine(&self, name: &str) -> bool {
        self.0.objects.contains_key(name)
    }
    fn has_disk(&self, name: &str) -> bool {
        self.1.objects.contains_key(name)
    }
}
