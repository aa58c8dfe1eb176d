//! The queue of passes: at most one pass at a time for each object, with the debounce as the minimum time
//! between passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use vmpool_runtime::Env;

/// Passes over one key use at most this fraction of a processor. An object with long passes therefore
/// handles more events with one pass.
const SHARE: u32 = 50;

/// Maximum time between two passes that the computing time causes.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// A queue of keys with due times. The first wakeup of a key is due at once. Further wakeups within the
/// debounce are merged.
pub struct PassQueue<K> {
    env: Env,
    debounce: Duration,
    state: Mutex<State<K>>,
    changed: Notify,
    observer: Arc<dyn QueueObserver>,
}

struct State<K> {
    slots: BTreeMap<K, Slot>,
    /// The due times of all keys that are waiting.
    due: BTreeSet<(Duration, K)>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    due: Option<Duration>,
    running: bool,
    /// The debounce ends here.
    earliest: Duration,
}

impl<K: Clone + Ord> PassQueue<K> {
    /// An empty queue.
    pub fn new(env: Env, debounce: Duration, observer: Arc<dyn QueueObserver>) -> Self {
        let state = Mutex::new(State { slots: BTreeMap::new(), due: BTreeSet::new() });
        Self { env, debounce, state, changed: Notify::new(), observer }
    }

    /// The time source of the queue.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Wakes `key` because of a change.
    pub fn wake(&self, key: &K) {
        self.wake_after(key, Duration::ZERO);
    }

    /// Wakes `key` after this delay at the latest.
    pub fn wake_after(&self, key: &K, delay: Duration) {
        let now = self.env.uptime();
        let mut state = self.state.lock();
        let slot = state.slots.entry(key.clone()).or_default();
        let due = (now + delay).max(slot.earliest);
        if slot.due.is_some_and(|sooner| sooner <= due) {
            self.observer.merged();
            return;
        }
        self.observer.queued();
        let old = slot.due.replace(due);
        if slot.running {
            return;
        }
        if let Some(old) = old {
            state.due.remove(&(old, key.clone()));
        }
        state.due.insert((due, key.clone()));
        self.changed.notify_one();
    }

    /// Waits for the next due key. It is running until [`PassQueue::done`].
    pub async fn next(&self) -> K {
        loop {
            let wait = {
                let now = self.env.uptime();
                let mut state = self.state.lock();
                match state.due.first().cloned() {
                    Some((due, key)) if due <= now => {
                        state.due.pop_first();
                        self.observer.waited(now.saturating_sub(due));
                        let slot = state.slots.entry(key.clone()).or_default();
                        slot.due = None;
                        slot.running = true;
                        // Another worker may be waiting although more keys are due.
                        self.changed.notify_one();
                        return key;
                    }
                    Some((due, _)) => Some(due.saturating_sub(now)),
                    None => None,
                }
            };
            let changed = self.changed.notified();
            match wait {
                Some(wait) => {
                    futures::future::select(std::pin::pin!(changed), self.env.sleep(wait)).await;
                }
                None => changed.await,
            }
        }
    }

    /// Ends the pass over `key`, which computed for `effort` without waits. `again` is when it requests the
    /// next pass. A wakeup during the pass counts as well.
    pub fn done(&self, key: &K, again: Requeue, effort: Duration) {
        let now = self.env.uptime();
        let mut state = self.state.lock();
        let Some(slot) = state.slots.get_mut(key) else { return };
        slot.running = false;
        slot.earliest = now + effort.saturating_mul(SHARE).min(LONGEST_REST).max(self.debounce);
        let wanted = match again {
            Requeue::Never => None,
            // A requeue by the pass itself is not debounced.
            Requeue::After(delay) => Some(now + delay),
        };
        let woken = slot.due.map(|due| due.max(slot.earliest));
        match [wanted, woken].into_iter().flatten().min() {
            Some(due) => {
                slot.due = Some(due);
                state.due.insert((due, key.clone()));
                self.changed.notify_one();
            }
            None => slot.due = None,
        }
    }

    /// The current numbers of keys.
    pub fn state(&self) -> QueueState {
        let now = self.env.uptime();
        let state = self.state.lock();
        let due = state.due.iter().take_while(|(due, _)| *due <= now).count();
        let running = state.slots.values().filter(|slot| slot.running).count();
        QueueState { due, delayed: state.due.len() - due, running }
    }

    /// Removes `key` if it is neither due nor running.
    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        if state.slots.get(key).is_some_and(|slot| slot.due.is_none() && !slot.running) {
            state.slots.remove(key);
        }
    }
}

/// Counts what happens in a queue.
pub trait QueueObserver: Send + Sync {
    /// A wakeup made a key due.
    fn queued(&self);
    /// A wakeup of a key that was already due.
    fn merged(&self);
    /// A due key waited this long for a worker.
    fn waited(&self, time: Duration);
}

/// The current numbers of keys in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Keys that wait for a worker.
    pub due: usize,
    /// Keys whose next pass is later.
    pub delayed: usize,
    /// Keys with a pass in progress.
    pub running: usize,
}

/// When a pass requests the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// At the next event.
    Never,
    /// After this time at the latest.
    After(Duration),
}

#[cfg(test)]
mod tests;
