//! What pools must know of images: a pool creates no machine before the images that its template names are
//! ready.
//!
//! A pool is woken when an image of its template begins or ceases to be ready. It does not poll.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_diskimage::model::{NamedSource, ObjectKey};
use vmpool_diskimage::read::named_sources;
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::model::UnusableTemplate;

use crate::pools::pool_key::PoolKey;

/// What a gate must know of the images.
pub(super) trait Images: Send + Sync {
    /// Whether all images have been read.
    fn is_synced(&self) -> bool;

    /// Why a pool cannot clone what its template names. An object that is not of an image blocks nothing.
    fn blocker(&self, pool: &PoolKey, source: &NamedSource) -> Option<UnusableTemplate>;
}

/// Wakes a pool. Returns false when the passes of its platform have ended.
type Wake = dyn Fn(&PoolKey) -> bool + Send + Sync;

/// The images as pools see them. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ImageGate(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The pools whose templates name images. It is locked before the other fields, and before the store of
    /// the images.
    users: Mutex<BTreeMap<PoolKey, User>>,
    state: Mutex<State>,
    /// One for each platform.
    wakers: Mutex<Vec<Box<Wake>>>,
}

/// A pool whose template names images.
struct User {
    sources: BTreeSet<NamedSource>,
    /// Why the pool waits, as it was told.
    why: Option<UnusableTemplate>,
}

#[derive(Default)]
enum State {
    /// This controller does not reconcile images, so templates name none.
    #[default]
    Off,
    /// The cluster has no images. It may get some.
    Closed,
    /// It will reconcile them, and has not read them yet.
    Unknown,
    /// It reconciles them.
    Serving(Weak<dyn Images>),
}

impl ImageGate {
    /// The gate of a leader that has not read the images yet.
    pub(crate) fn unknown() -> Self {
        let gate = Self::default();
        *gate.0.state.lock() = State::Unknown;
        gate
    }

    /// These are the images from now on.
    pub(super) fn serve(&self, images: Weak<dyn Images>) {
        *self.0.state.lock() = State::Serving(images);
        self.all_changed();
    }

    /// The cluster has no images.
    pub(super) fn close(&self) {
        *self.0.state.lock() = State::Closed;
        self.all_changed();
    }

    /// Calls `wake` for each pool that has to wait for other reasons than it was told, or no longer.
    pub(crate) fn on_change(&self, wake: impl Fn(&PoolKey) -> bool + Send + Sync + 'static) {
        self.0.wakers.lock().push(Box::new(wake));
    }

    /// Why the images that the template of this pool names cannot be cloned now. The pool is woken when that
    /// changes.
    pub(crate) fn blocker(&self, pool: &PoolKey, template: &Value) -> Option<UnusableTemplate> {
        let namespace = &*pool.namespace;
        let is_off = matches!(*self.0.state.lock(), State::Off);
        let named = || named_sources(namespace, &json!({ "spec": template }));
        let sources = if is_off { BTreeSet::new() } else { named() };
        // No change may come between the look at the images and the registration of the pool.
        let mut users = self.0.users.lock();
        if sources.is_empty() {
            users.remove(pool);
            return None;
        }
        let why = self.why(pool, &sources);
        let user = User { sources, why: why.clone() };
        users.insert(pool.clone(), user);
        why
    }

    /// The pool is gone.
    pub(crate) fn forget(&self, pool: &PoolKey) {
        self.0.users.lock().remove(pool);
    }

    /// These images changed, or what permits to use them. The caller must not lock the store of the images.
    pub(super) fn changed(&self, images: &BTreeSet<ObjectKey>) {
        self.wake(|user| user.sources.iter().any(|source| images.contains(&source.key)));
    }

    /// All images may have changed.
    pub(super) fn all_changed(&self) {
        self.wake(|_| true);
    }

    /// Wakes those of the selected pools that now wait for something else, or for nothing, or begin to wait.
    fn wake(&self, is_selected: impl Fn(&User) -> bool) {
        let pools: Vec<PoolKey> = {
            let users = self.0.users.lock();
            let differs = |pool: &PoolKey, user: &User| self.why(pool, &user.sources) != user.why;
            let changed = users.iter().filter(|(pool, user)| is_selected(user) && differs(pool, user));
            changed.map(|(pool, _)| pool.clone()).collect()
        };
        if !pools.is_empty() {
            self.0.wakers.lock().retain(|wake| pools.iter().all(wake));
        }
    }

    fn why(&self, pool: &PoolKey, sources: &BTreeSet<NamedSource>) -> Option<UnusableTemplate> {
        let known = match &*self.0.state.lock() {
            State::Off | State::Closed => return None,
            State::Unknown => None,
            State::Serving(known) => known.upgrade(),
        };
        match known.filter(|known| known.is_synced()) {
            Some(known) => sources.iter().find_map(|source| known.blocker(pool, source)),
            None => (!sources.is_empty()).then(|| UnusableTemplate {
                reason: ConditionReason::ImageSyncing,
                message: "the controller has not read the disk images yet".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
