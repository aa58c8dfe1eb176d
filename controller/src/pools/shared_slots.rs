//! The slots of storage classes, with a lock: what the pools of all platforms share of the limit on
//! provisioning.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_engine::scale_up::class_slots::{ClassSlots, PoolPlace, StorageClassLimit};

use crate::pools::pool_key::PoolKey;

/// Wakes a pool, if it is one of its platform. Returns whether the platform is still reconciled.
type WakeSlots = Box<dyn Fn(&PoolKey) -> bool + Send + Sync>;

/// What a pass tells about a pool.
pub(crate) struct SlotRequest {
    /// The pool.
    pub(crate) pool: PoolKey,
    /// The storage classes of its disk templates.
    pub(crate) classes: Arc<[Arc<str>]>,
    /// The uptimes at which its machines no longer use slots.
    pub(crate) used_until: Vec<Duration>,
    /// How many machines it would create without the limit.
    pub(crate) wanted: usize,
}

/// The slots of a leadership.
#[derive(Default)]
pub(crate) struct SharedClassSlots {
    /// `None` without a limit.
    slots: Option<Mutex<StorageClassLimit>>,
    wakers: Mutex<Vec<WakeSlots>>,
    /// The platforms whose machines were counted.
    counted: Mutex<BTreeSet<&'static str>>,
}

impl fmt::Debug for SharedClassSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedClassSlots").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl SharedClassSlots {
    /// A limit of this number of machines for each storage class; 0 for none.
    pub(crate) fn new(limit: usize) -> Self {
        let slots = (limit > 0).then(|| Mutex::new(StorageClassLimit::new(limit)));
        Self { slots, ..Self::default() }
    }

    /// Whether there is a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.slots.is_some()
    }

    /// Calls `wake` for each waiting pool for which a slot is free.
    pub(crate) fn on_free_slot(&self, wake: impl Fn(&PoolKey) -> bool + Send + Sync + 'static) {
        self.wakers.lock().push(Box::new(wake));
    }

    /// Counts the machines of a platform that no pass has counted yet, once.
    pub(crate) fn count_once(&self, platform: &'static str, count: impl FnOnce() -> Vec<SlotRequest>) {
        let Some(slots) = &self.slots else { return };
        let mut counted = self.counted.lock();
        if !counted.insert(platform) {
            return;
        }
        let mut slots = slots.lock();
        for SlotRequest { pool, classes, used_until, .. } in count() {
            slots.observe(&locate_pool(&pool), &classes, used_until);
        }
    }

    /// Reserves slots for a pass, and wakes the pools that get what it leaves. Returns the slots if these are
    /// fewer than the pool would use.
    pub(crate) fn request(&self, request: SlotRequest, uptime: Duration) -> Option<ClassSlots> {
        let SlotRequest { pool, classes, used_until, wanted } = request;
        let mut slots = self.slots.as_ref()?.lock();
        let place = locate_pool(&pool);
        slots.observe(&place, &classes, used_until);
        let got = slots.request(&place, wanted, uptime);
        let next = slots.wake_next(uptime);
        drop(slots);
        self.wake(next.into_iter().filter(|next| *next != place));
        got
    }

    /// Gives back the slots that a pool got and cannot use.
    pub(crate) fn withdraw(&self, pool: &PoolKey, uptime: Duration) {
        self.change(uptime, |slots| slots.withdraw(&locate_pool(pool)));
    }

    /// Removes a pool that is gone.
    pub(crate) fn forget(&self, pool: &PoolKey, uptime: Duration) {
        self.change(uptime, |slots| slots.forget(&locate_pool(pool)));
    }

    /// Changes the slots, and wakes the pools for which some are free then.
    fn change(&self, uptime: Duration, change: impl FnOnce(&mut StorageClassLimit)) {
        let Some(slots) = &self.slots else { return };
        let mut slots = slots.lock();
        change(&mut slots);
        let next = slots.wake_next(uptime);
        drop(slots);
        self.wake(next.into_iter());
    }

    fn wake(&self, places: impl Iterator<Item = PoolPlace>) {
        let places: Vec<PoolKey> =
            places.map(|PoolPlace { namespace, uid }| PoolKey { namespace, uid }).collect();
        if !places.is_empty() {
            self.wakers.lock().retain(|wake| places.iter().all(wake));
        }
    }
}

fn locate_pool(pool: &PoolKey) -> PoolPlace {
    PoolPlace { namespace: pool.namespace.clone(), uid: pool.uid.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pool: &PoolKey, machines: usize, wanted: usize) -> SlotRequest {
        let until = Duration::from_mins(5);
        let classes = Arc::from([Arc::from("fast")]);
        SlotRequest { pool: pool.clone(), classes, used_until: vec![until; machines], wanted }
    }

    fn key(namespace: &str, uid: &str) -> PoolKey {
        PoolKey::new(&namespace.into(), &uid.into())
    }

    #[test]
    fn a_pool_is_woken_when_a_slot_is_free_for_it() {
        let slots = SharedClassSlots::new(1);
        let woken: Arc<Mutex<Vec<PoolKey>>> = Arc::default();
        slots.on_free_slot({
            let woken = woken.clone();
            move |pool| {
                woken.lock().push(pool.clone());
                true
            }
        });
        let (holder, waiting) = (key("team", "a"), key("team", "b"));
        assert_eq!(slots.request(request(&holder, 0, 1), Duration::ZERO), None);
        assert_eq!(slots.request(request(&waiting, 0, 1), Duration::ZERO).unwrap().free, 0);
        assert_eq!(*woken.lock(), []);
        // The machine is ready.
        assert_eq!(slots.request(request(&holder, 0, 0), Duration::ZERO), None);
        assert_eq!(*woken.lock(), [waiting]);
    }

    #[test]
    fn the_machines_of_a_platform_are_counted_once_before_the_first_request() {
        let slots = SharedClassSlots::new(1);
        let (holder, other) = (key("team", "a"), key("team", "b"));
        slots.count_once("dvp", || vec![request(&holder, 1, 0)]);
        slots.count_once("dvp", || unreachable!("they were counted"));
        assert_eq!(slots.request(request(&other, 0, 1), Duration::ZERO).unwrap().free, 0);
        slots.forget(&holder, Duration::ZERO);
        assert_eq!(slots.request(request(&other, 0, 1), Duration::ZERO), None);
    }

    #[test]
    fn without_a_limit_every_pool_creates_what_it_needs() {
        let slots = SharedClassSlots::new(0);
        assert!(!slots.is_limited());
        assert_eq!(slots.request(request(&key("team", "a"), 0, 9), Duration::ZERO), None);
    }
}
