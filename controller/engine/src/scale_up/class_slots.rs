//! The limit on provisioning over all pools: how many machines with disks of one storage class may provision
//! at the same time, and which pool gets a free slot.
//!
//! A machine uses a slot of each storage class of its pool until it has been ready, and for at most
//! [`SLOT_AGE`]. A free slot goes to the waiting namespace with the fewest machines that use slots of the
//! class, then to the pool that waits longest.
//!
//! Pools are planned in parallel. The slots that a pool got are therefore reserved until its next pass shows
//! the machines that it created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Uid;

/// How long a machine uses slots, at most.
pub const SLOT_AGE: Duration = Duration::from_mins(5);

/// How long a pool that asked for slots counts as waiting. Its passes ask again before.
const ASK_AGE: Duration = Duration::from_mins(1);

/// Time until a waiting pool asks again, at most.
const ASK_INTERVAL: Duration = Duration::from_secs(30);

/// The storage classes of a pool, from those of its templates of disks: each once, and the empty name for a
/// pool without templates.
pub fn list_distinct_classes(of_templates: impl Iterator<Item = String>) -> Arc<[Arc<str>]> {
    let classes: BTreeSet<String> = of_templates.collect();
    if classes.is_empty() {
        return Arc::from([Arc::from("")]);
    }
    classes.into_iter().map(Arc::from).collect()
}

/// What the limit over all pools leaves to one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSlots {
    /// How many machines the pool may create now.
    pub free: usize,
    /// The storage class without further slots for the pool. Empty for disks that name none.
    pub class: Arc<str>,
    /// The limit of each class.
    pub limit: usize,
    /// The number of machines that use slots of the class.
    pub provisioning: usize,
    /// The time until the pool must ask again.
    pub next: Duration,
}

/// Namespace and UID of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolPlace {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its UID.
    pub uid: Uid,
}

/// The slots of one pool.
#[derive(Clone, Debug, Default)]
struct PoolSlots {
    /// The storage classes of its disk templates; an empty name for disks without a class.
    classes: Arc<[Arc<str>]>,
    /// The uptimes at which its machines no longer use slots.
    used_until: Vec<Duration>,
    /// The slots that its last plan got.
    reserved: usize,
    /// The slots that it lacks.
    wanted: usize,
    /// When it last asked.
    asked: Duration,
    /// Since when it lacks slots.
    waits_since: Option<Duration>,
    /// Whether it was woken since it last asked.
    is_woken: bool,
}

impl PoolSlots {
    fn used(&self, uptime: Duration) -> usize {
        self.used_until.iter().filter(|until| **until > uptime).count() + self.reserved
    }

    fn is_waiting(&self, uptime: Duration) -> bool {
        self.wanted > 0 && uptime.saturating_sub(self.asked) < ASK_AGE
    }
}

/// Used slots by storage class, and by namespace within the class.
#[derive(Default)]
struct UsedSlots<'a>(BTreeMap<&'a str, BTreeMap<&'a str, usize>>);

impl<'a> UsedSlots<'a> {
    fn add(&mut self, place: &'a PoolPlace, pool: &'a PoolSlots, count: usize) {
        if count == 0 {
            return;
        }
        for class in &*pool.classes {
            *self.0.entry(class).or_default().entry(&place.namespace).or_default() += count;
        }
    }

    fn of_class(&self, class: &str) -> usize {
        self.0.get(class).map_or(0, |namespaces| namespaces.values().sum())
    }

    /// The slots of the namespace in that class of the pool in which it has most.
    fn of_namespace(&self, place: &PoolPlace, pool: &PoolSlots) -> usize {
        let count = |class: &Arc<str>| self.0.get(&**class)?.get(&*place.namespace).copied();
        pool.classes.iter().filter_map(count).max().unwrap_or_default()
    }

    /// The first class of the pool without a free slot.
    fn full_class<'p>(&self, pool: &'p PoolSlots, limit: usize) -> Option<&'p Arc<str>> {
        pool.classes.iter().find(|class| self.of_class(class) >= limit)
    }
}

/// The slots of all pools.
#[derive(Clone, Debug)]
pub struct StorageClassLimit {
    limit: usize,
    pools: BTreeMap<PoolPlace, PoolSlots>,
}

impl StorageClassLimit {
    /// A limit of this number of machines for each storage class, without pools.
    pub fn new(limit: usize) -> Self {
        Self { limit, pools: BTreeMap::new() }
    }

    /// Records which machines of a pool use slots, by the uptime at which they no longer do. The slots that
    /// its last plan got are no longer reserved.
    pub fn observe(&mut self, place: &PoolPlace, classes: &Arc<[Arc<str>]>, used_until: Vec<Duration>) {
        let pool = self.pools.entry(place.clone()).or_default();
        if pool.classes != *classes {
            pool.classes = classes.clone();
        }
        (pool.used_until, pool.reserved) = (used_until, 0);
    }

    /// Gives back the reserved slots of a pool, which does not wait for more. Its machines keep theirs.
    pub fn withdraw(&mut self, place: &PoolPlace) {
        if let Some(pool) = self.pools.get_mut(place) {
            (pool.reserved, pool.wanted, pool.waits_since) = (0, 0, None);
        }
    }

    /// Removes a pool.
    pub fn forget(&mut self, place: &PoolPlace) {
        self.pools.remove(place);
    }

    /// Reserves slots for a pool that would create `wanted` machines without the limit. Returns how many it
    /// got if these are fewer.
    pub fn request(&mut self, place: &PoolPlace, wanted: usize, uptime: Duration) -> Option<ClassSlots> {
        let pool = self.pools.get_mut(place)?;
        (pool.reserved, pool.wanted, pool.asked, pool.is_woken) = (0, wanted, uptime, false);
        if wanted == 0 {
            pool.waits_since = None;
            return None;
        }
        pool.waits_since.get_or_insert(uptime);
        let free = self.distribute(uptime).get(place).copied().unwrap_or_default();
        let pool = self.pools.get_mut(place)?;
        (pool.reserved, pool.wanted) = (free, wanted - free);
        if pool.wanted == 0 {
            pool.waits_since = None;
            return None;
        }
        Some(self.describe(place, free, uptime))
    }

    /// The waiting pools for which slots are free, each once until it asks again.
    pub fn wake_next(&mut self, uptime: Duration) -> Vec<PoolPlace> {
        if !self.pools.values().any(|pool| pool.is_waiting(uptime)) {
            return Vec::new();
        }
        let mut next: Vec<PoolPlace> = self.distribute(uptime).into_keys().collect();
        next.retain(|place| {
            let pool = self.pools.get_mut(place);
            pool.is_some_and(|pool| !std::mem::replace(&mut pool.is_woken, true))
        });
        next
    }

    fn used(&self, uptime: Duration) -> UsedSlots<'_> {
        let mut used = UsedSlots::default();
        for (place, pool) in &self.pools {
            used.add(place, pool, pool.used(uptime));
        }
        used
    }

    /// The free slots, by the waiting pool that gets them.
    fn distribute(&self, uptime: Duration) -> BTreeMap<PoolPlace, usize> {
        let mut used = self.used(uptime);
        let mut waiting: Vec<(&PoolPlace, &PoolSlots, usize)> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.is_waiting(uptime))
            .map(|(place, pool)| (place, pool, pool.wanted))
            .collect();
        let mut granted: BTreeMap<PoolPlace, usize> = BTreeMap::new();
        loop {
            waiting.retain(|(_, pool, wanted)| *wanted > 0 && used.full_class(pool, self.limit).is_none());
            let priority = |(place, pool, _): &(&PoolPlace, &PoolSlots, usize)| {
                (used.of_namespace(place, pool), pool.waits_since)
            };
            let order = |(index, entry): &(usize, _)| (priority(entry), *index);
            let Some((first, _)) = waiting.iter().copied().enumerate().min_by_key(order) else {
                return granted;
            };
            let (place, pool, _) = waiting[first];
            waiting[first].2 -= 1;
            used.add(place, pool, 1);
            *granted.entry(place.clone()).or_default() += 1;
        }
    }

    fn describe(&self, place: &PoolPlace, free: usize, uptime: Duration) -> ClassSlots {
        let used = self.used(uptime);
        let classes =
            self.pools.get(place).map(|pool| &pool.classes).into_iter().flat_map(|classes| &**classes);
        // The class with the fewest free slots: other pools can come first for them.
        let class = classes.max_by_key(|class| used.of_class(class)).cloned().unwrap_or_default();
        let provisioning = used.of_class(&class);
        let next = self.next_free(&class, uptime).map_or(ASK_INTERVAL, |left| left.min(ASK_INTERVAL));
        ClassSlots { free, class, limit: self.limit, provisioning, next }
    }

    /// The time until a machine with disks of the class no longer uses slots.
    fn next_free(&self, class: &str, uptime: Duration) -> Option<Duration> {
        let of_class = self.pools.values().filter(|pool| pool.classes.iter().any(|known| **known == *class));
        let ends = of_class.flat_map(|pool| &pool.used_until);
        ends.filter_map(|until| until.checked_sub(uptime)).filter(|left| !left.is_zero()).min()
    }
}

#[cfg(test)]
mod tests;
