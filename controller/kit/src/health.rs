//! The health of the controllers of a leader, for probes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_runtime::health::Heartbeat;

/// The health of the controllers that a leader runs now. A standby replica runs none. Clones share it.
#[derive(Clone, Default)]
pub struct WorkerHealth {
    running: Arc<Mutex<Vec<Arc<RunningController>>>>,
}

/// A controller that a leader runs.
struct RunningController {
    is_synced: Box<dyn Fn() -> bool + Send + Sync>,
    workers: Vec<Heartbeat>,
}

impl WorkerHealth {
    /// Whether the first lists of all running controllers are complete.
    pub fn is_synced(&self) -> bool {
        self.running.lock().iter().all(|controller| (controller.is_synced)())
    }

    /// The number of workers without a heartbeat within `limit`.
    pub fn count_stuck_workers(&self, limit: Duration) -> usize {
        let running = self.running.lock();
        let workers = running.iter().flat_map(|controller| &controller.workers);
        workers.filter(|worker| worker.age() > limit).count()
    }

    /// Shows a controller with these workers until the guard is dropped.
    pub fn begin(
        &self,
        workers: Vec<Heartbeat>,
        is_synced: impl Fn() -> bool + Send + Sync + 'static,
    ) -> WorkerHealthGuard {
        let controller = Arc::new(RunningController { is_synced: Box::new(is_synced), workers });
        self.running.lock().push(controller.clone());
        WorkerHealthGuard { health: self.clone(), controller }
    }
}

/// Resets the health when the leadership ends. If the lease is lost, the workers are dropped in the middle of
/// a pass, and they must not count as stuck while this replica is a standby.
pub struct WorkerHealthGuard {
    health: WorkerHealth,
    controller: Arc<RunningController>,
}

impl Drop for WorkerHealthGuard {
    fn drop(&mut self) {
        self.health.running.lock().retain(|running| !Arc::ptr_eq(running, &self.controller));
    }
}
