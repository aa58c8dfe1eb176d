//! The changes: mostly machines that start or stop, and sometimes the number of replicas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use futures::future::BoxFuture;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use vmpool_invariants::object::TestedKind;

use crate::lab::Lab;
use crate::tracker::Tracked;

/// All pools, by name.
pub(super) type Tracking = Arc<Mutex<HashMap<String, Tracked>>>;

/// One of this many changes is a scale request.
const SCALE_EVERY: usize = 10;

/// A pool and the state of its changes.
#[derive(Debug)]
pub(super) struct ChangingPool {
    /// The pool's name.
    pub(super) pool: String,
    machines: Vec<String>,
    /// Index of the next machine to start or stop.
    next: usize,
    /// Whether machines are started in this lap. In the next lap they are stopped.
    starting: bool,
    /// Number of running machines.
    running: i64,
    /// Whether the pool has one replica more than initially.
    is_larger: bool,
}

impl ChangingPool {
    /// A pool without running machines.
    pub(super) fn new(pool: String, machines: Vec<String>) -> Self {
        Self { pool, machines, next: 0, starting: true, running: 0, is_larger: false }
    }

    /// The machine to change, its new phase, and the resulting number of running machines.
    fn flip(&mut self) -> (String, &'static str, i64) {
        let machine = self.machines[self.next].clone();
        let phase = if self.starting { "Running" } else { "Stopped" };
        self.running += if self.starting { 1 } else { -1 };
        self.next = (self.next + 1) % self.machines.len();
        if self.next == 0 {
            self.starting = !self.starting;
        }
        (machine, phase, self.running)
    }

    /// Whether the direction changes with the next machine.
    fn is_turning(&self) -> bool {
        self.next == 0
    }
}

/// The sequence of changes: every pool once per lap, in a different order each lap.
pub(super) struct ChangeSequence {
    pools: Api<DynamicObject>,
    machines: Api<DynamicObject>,
    targets: Vec<ChangingPool>,
    tracking: Tracking,
    /// The order of this lap; the next pool is the last element.
    lap: Vec<usize>,
    made: usize,
    order: Order,
}

impl ChangeSequence {
    pub(super) fn new(lab: &Lab, namespace: &str, targets: Vec<ChangingPool>, tracking: Tracking) -> Self {
        let api = |kind: TestedKind| kind.api(lab.cluster().admin(), namespace);
        let (pools, machines) = (api(TestedKind::Pool), api(TestedKind::Machine));
        Self { pools, machines, targets, tracking, lap: Vec::new(), made: 0, order: Order(1) }
    }

    /// The next change. The caller runs the future.
    pub(super) fn next(&mut self) -> BoxFuture<'static, anyhow::Result<()>> {
        let index = self.lap.pop().unwrap_or_else(|| {
            self.lap = self.order.shuffled(self.targets.len());
            self.lap.pop().unwrap_or_default()
        });
        self.made += 1;
        let target = &mut self.targets[index];
        let pending = self.tracking.lock().get(&target.pool).map_or(0, super::Tracked::pending_machines);
        // A start and a stop at the same time would cancel out and never show in the status.
        if self.made.is_multiple_of(SCALE_EVERY) || (target.is_turning() && pending > 0) {
            Box::pin(self.scale(index))
        } else {
            Box::pin(self.flip(index))
        }
    }

    fn flip(&mut self, index: usize) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let target = &mut self.targets[index];
        let (machine, phase, running) = target.flip();
        if let Some(tracked) = self.tracking.lock().get_mut(&target.pool) {
            tracked.machine_changed(Instant::now(), running);
        }
        let machines = self.machines.clone();
        async move {
            let patch = Patch::Merge(json!({ "status": { "phase": phase } }));
            let patched = machines.patch_status(&machine, &PatchParams::default(), &patch).await;
            patched.map(drop).with_context(|| format!("making {machine} {phase}"))
        }
    }

    fn scale(&mut self, index: usize) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let target = &mut self.targets[index];
        target.is_larger = !target.is_larger;
        let replicas = target.machines.len() + usize::from(target.is_larger);
        let (pools, name, tracking) = (self.pools.clone(), target.pool.clone(), self.tracking.clone());
        async move {
            let begin = Instant::now();
            let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
            // Not through the scale subresource, because its response lacks the generation.
            let patched = pools.patch(&name, &PatchParams::default(), &patch).await;
            let generation = patched.with_context(|| format!("scaling {name}"))?.metadata.generation;
            if let Some(tracked) = tracking.lock().get_mut(&name) {
                tracked.scaled(begin, generation.unwrap_or_default());
            }
            Ok(())
        }
    }
}

/// A pseudo-random order that is the same in every run.
struct Order(u64);

impl Order {
    /// The numbers below `count`, shuffled.
    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            numbers.swap(last, self.below(last + 1));
        }
        numbers
    }

    /// A number below `limit`, from the upper bits of a linear congruential generator (Knuth's MMIX).
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pool_comes_once_per_lap_in_changing_order() {
        let mut order = Order(1);
        let (first, second) = (order.shuffled(50), order.shuffled(50));
        assert_ne!(first, second);
        for mut lap in [first, second] {
            lap.sort_unstable();
            assert_eq!(lap, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn machines_start_in_one_lap_and_stop_in_the_next() {
        let mut target = ChangingPool::new("web".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        let flips: Vec<_> = (0..5).map(|_| target.flip()).collect();
        let expected = [("a", "Running", 1), ("b", "Running", 2), ("a", "Stopped", 1), ("b", "Stopped", 0)];
        for (flip, expected) in flips.iter().zip(expected) {
            assert_eq!((flip.0.as_str(), flip.1, flip.2), expected);
        }
        assert_eq!(flips[4], ("a".to_owned(), "Running", 1));
    }
}
