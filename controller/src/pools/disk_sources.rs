//! What the sources of disks lead to, as the watches show it.
//!
//! A pool is woken when an object on the way from one of its disk templates to the content changes. It does
//! not poll. A source in another namespace counts only if the settings name that namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use vmpool_api::ObjectKey;
use vmpool_engine::image_refresh::{DiskContent, DiskContents};
use vmpool_platforms::{DiskSourceRef, DiskSourceState, NamedDiskSource};

use crate::pools::pool_key::PoolKey;
use crate::settings::ImageRefreshSettings;

/// The number of objects between a disk template and the content. CDI follows one DataSource from another.
const LONGEST_WAY: usize = 4;

/// Wakes a pool. Returns false when the passes of its platform have ended.
type Wake = dyn Fn(&PoolKey) -> bool + Send + Sync;

/// The sources of disks of one platform, and the pools that use them.
#[derive(Default)]
pub(crate) struct DiskSourceStore {
    settings: Option<ImageRefreshSettings>,
    known: Mutex<KnownSources>,
    wakers: Mutex<Vec<Box<Wake>>>,
}

#[derive(Default)]
struct KnownSources {
    states: BTreeMap<DiskSourceRef, DiskSourceState>,
    /// The pools whose contents depend on an object, which need not exist.
    users: BTreeMap<DiskSourceRef, BTreeSet<PoolKey>>,
    /// The objects on which the contents of a pool depend.
    used: BTreeMap<PoolKey, BTreeSet<DiskSourceRef>>,
}

impl DiskSourceStore {
    /// An empty store. Without settings, no source leads to content.
    pub(crate) fn new(settings: Option<ImageRefreshSettings>) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A store without objects that has the same settings.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.settings.clone())
    }

    /// The settings; `None` if sources are not followed.
    pub(crate) fn settings(&self) -> Option<&ImageRefreshSettings> {
        self.settings.as_ref()
    }

    /// Calls `wake` for each pool whose contents may have changed.
    pub(crate) fn on_change(&self, wake: impl Fn(&PoolKey) -> bool + Send + Sync + 'static) {
        self.wakers.lock().push(Box::new(wake));
    }

    /// What these sources of a pool lead to now. The pool is woken when that may have changed.
    pub(crate) fn find_contents(&self, pool: &PoolKey, named: Vec<NamedDiskSource>) -> DiskContents {
        let Some(settings) = &self.settings else { return DiskContents::new() };
        let may_read = |object: &DiskSourceRef| {
            let namespace = &*object.key.namespace;
            namespace.is_empty() || namespace == &*pool.namespace || settings.namespaces.contains(namespace)
        };
        let mut known = self.known.lock();
        let mut used = BTreeSet::new();
        let mut contents = DiskContents::new();
        for NamedDiskSource { template, source } in named {
            if let Some(content) = known.follow(&source, may_read, &mut used) {
                contents.insert(template, content);
            }
        }
        known.set_used(pool, used);
        contents
    }

    /// The pool is gone, or follows no sources.
    pub(crate) fn forget(&self, pool: &PoolKey) {
        self.known.lock().set_used(pool, BTreeSet::new());
    }

    /// An object changed; `None` if it is gone.
    pub(crate) fn set(&self, object: &DiskSourceRef, state: Option<DiskSourceState>) {
        let woken = {
            let mut known = self.known.lock();
            if known.set_state(object, state) { known.users_of(object) } else { BTreeSet::new() }
        };
        self.wake(&woken);
    }

    /// These are all objects of a kind, in the namespace or in all namespaces.
    pub(crate) fn replace(
        &self,
        kind: &'static str,
        namespace: Option<&str>,
        mut objects: BTreeMap<ObjectKey, DiskSourceState>,
    ) {
        let woken = {
            let mut known = self.known.lock();
            let is_listed = |object: &DiskSourceRef| {
                object.kind == kind && namespace.is_none_or(|namespace| *object.key.namespace == *namespace)
            };
            let before: Vec<DiskSourceRef> =
                known.states.keys().filter(|object| is_listed(object)).cloned().collect();
            let gone = before.into_iter().filter(|object| !objects.contains_key(&object.key));
            let mut changes: Vec<(DiskSourceRef, Option<DiskSourceState>)> =
                gone.map(|object| (object, None)).collect();
            let listed = std::mem::take(&mut objects).into_iter();
            changes.extend(listed.map(|(key, state)| (DiskSourceRef { kind, key }, Some(state))));
            let mut woken = BTreeSet::new();
            for (object, state) in changes {
                if known.set_state(&object, state) {
                    woken.append(&mut known.users_of(&object));
                }
            }
            woken
        };
        self.wake(&woken);
    }

    /// The lock of the known objects must not be held: a pass may begin at once.
    fn wake(&self, pools: &BTreeSet<PoolKey>) {
        if !pools.is_empty() {
            self.wakers.lock().retain(|wake| pools.iter().all(wake));
        }
    }
}

impl KnownSources {
    /// What an object leads to. The objects on the way are added to `used`.
    fn follow(
        &self,
        named: &DiskSourceRef,
        may_read: impl Fn(&DiskSourceRef) -> bool,
        used: &mut BTreeSet<DiskSourceRef>,
    ) -> Option<DiskContent> {
        let mut object = named;
        for _ in 0..LONGEST_WAY {
            if !may_read(object) {
                return None;
            }
            used.insert(object.clone());
            match self.states.get(object)? {
                DiskSourceState::Content { id, created } => {
                    let source: Arc<str> = named.to_string().into();
                    return Some(DiskContent { source, id: id.clone(), created: *created });
                }
                DiskSourceState::LeadsTo(next) => object = next,
                DiskSourceState::Unready => return None,
            }
        }
        None
    }

    /// Returns whether the state is another one than before.
    fn set_state(&mut self, object: &DiskSourceRef, state: Option<DiskSourceState>) -> bool {
        if self.states.get(object) == state.as_ref() {
            return false;
        }
        match state {
            Some(state) => drop(self.states.insert(object.clone(), state)),
            None => drop(self.states.remove(object)),
        }
        true
    }

    fn users_of(&self, object: &DiskSourceRef) -> BTreeSet<PoolKey> {
        self.users.get(object).cloned().unwrap_or_default()
    }

    fn set_used(&mut self, pool: &PoolKey, used: BTreeSet<DiskSourceRef>) {
        if self.used.get(pool) == Some(&used) {
            return;
        }
        for object in self.used.remove(pool).into_iter().flatten() {
            let Some(users) = self.users.get_mut(&object) else { continue };
            users.remove(pool);
            if users.is_empty() {
                self.users.remove(&object);
            }
        }
        for object in &used {
            self.users.entry(object.clone()).or_default().insert(pool.clone());
        }
        if !used.is_empty() {
            self.used.insert(pool.clone(), used);
        }
    }
}

#[cfg(test)]
mod tests;
