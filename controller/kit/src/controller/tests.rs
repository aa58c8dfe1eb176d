use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;
use crate::testing::Uncounted;

const SECOND: Duration = Duration::from_secs(1);

/// A controller whose passes record their key. The first pass of key 13 panics.
struct TestController {
    env: Env,
    queue: PassQueue<u32>,
    is_synced: AtomicBool,
    passes: Mutex<Vec<u32>>,
}

impl TestController {
    fn reconcile(&self, key: u32) -> PassEnd {
        let mut passes = self.passes.lock();
        let is_first = !passes.contains(&key);
        passes.push(key);
        drop(passes);
        assert!(key != 13 || !is_first, "the first pass of this key");
        Requeue::Never.into()
    }
}

impl Controller for TestController {
    fn env(&self) -> &Env {
        &self.env
    }

    fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Relaxed)
    }

    fn start_watches(self: &Arc<Self>) -> Vec<Task> {
        vec![self.env.spawn("watch", std::future::pending())]
    }

    fn worker_groups(&self) -> Vec<WorkerGroup<Self>> {
        let group = WorkerGroup::new(
            "worker",
            2,
            |controller: &Self| &controller.queue,
            |controller, key| async move { controller.reconcile(*key) }.boxed(),
        );
        vec![group.supervised()]
    }
}

struct World {
    clock: ManualClock,
    controller: Arc<TestController>,
    health: WorkerHealth,
    stop: CancellationToken,
    leader: Task,
}

impl World {
    async fn new() -> Self {
        let (clock, stop) = (ManualClock::new(), CancellationToken::new());
        let env = test_env(&clock, 0);
        let controller = Arc::new(TestController {
            queue: PassQueue::new(env.clone(), SECOND, Arc::new(Uncounted)),
            env: env.clone(),
            is_synced: AtomicBool::new(false),
            passes: Mutex::default(),
        });
        let health = WorkerHealth::default();
        let leader = {
            let (controller, health, stop) = (controller.clone(), health.clone(), stop.clone());
            async move { run_controller(controller, &health, Vec::new(), stop).await }
        };
        let leader = env.spawn("leader", leader);
        clock.settle().await;
        Self { clock, controller, health, stop, leader }
    }

    async fn sync(&self) {
        self.controller.is_synced.store(true, Ordering::Relaxed);
        self.clock.advance(SECOND).await;
    }
}

#[tokio::test]
async fn no_pass_runs_before_the_first_lists_are_complete() {
    let world = World::new().await;
    world.controller.queue.wake(&1);
    world.clock.advance(SECOND * 60).await;
    assert!(world.controller.passes.lock().is_empty() && !world.health.is_synced());
    assert_eq!(world.health.count_stuck_workers(SECOND), 0, "a worker that waits is not stuck");
    world.sync().await;
    assert_eq!(*world.controller.passes.lock(), [1]);
    assert!(world.health.is_synced());
}

#[tokio::test]
async fn a_pass_that_panics_is_retried_later() {
    let world = World::new().await;
    world.sync().await;
    world.controller.queue.wake(&13);
    world.clock.settle().await;
    world.controller.queue.wake(&1);
    world.clock.advance(SECOND).await;
    assert_eq!(*world.controller.passes.lock(), [13, 1], "the worker goes on");
    world.clock.advance(AFTER_PANIC).await;
    assert_eq!(*world.controller.passes.lock(), [13, 1, 13]);
}

#[tokio::test]
async fn a_controller_that_stops_leaves_no_workers_in_the_health() {
    let world = World::new().await;
    assert!(!world.health.is_synced());
    world.stop.cancel();
    world.clock.advance(SECOND).await;
    assert!(world.leader.is_finished() && world.health.is_synced());
}

#[tokio::test]
async fn a_leader_whose_watch_ended_stops_after_the_passes_that_have_begun() {
    let clock = ManualClock::new();
    let (env, stop) = (test_env(&clock, 0), CancellationToken::new());
    let passes = {
        let (env, stop) = (env.clone(), stop.clone());
        async move {
            stop.cancelled().await;
            env.sleep(SECOND).await;
        }
    };
    let watch = async { panic!("the watch breaks") };
    let workers = vec![env.spawn("worker", passes)];
    let tasks = vec![env.spawn("events", std::future::pending()), env.spawn("watch", watch)];
    let overseen = env.spawn("leader", async move { oversee_workers(workers, tasks, &stop).await });
    clock.settle().await;
    assert!(!overseen.is_finished(), "a pass is under way");
    clock.advance(SECOND * 2).await;
    assert!(overseen.is_finished());
}
