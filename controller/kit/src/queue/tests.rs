use std::sync::Arc;

use rstest::rstest;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;
use crate::testing::Uncounted;

const DEBOUNCE: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_mins(10);

/// A queue whose passes take a given time, or end when the test ends them.
struct World {
    clock: ManualClock,
    env: Env,
    queue: Arc<PassQueue<u32>>,
    begun: Arc<Mutex<Vec<(u32, Duration)>>>,
    workers: Vec<Task>,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let env = test_env(&clock, 0);
        let queue = Arc::new(PassQueue::new(env.clone(), DEBOUNCE, Arc::new(Uncounted)));
        Self { clock, env, queue, begun: Arc::default(), workers: Vec::new() }
    }

    /// Sets the duration of each pass and the requeue that it returns.
    fn worker(mut self, time: Duration, again: Requeue) -> Self {
        let (env, queue, begun) = (self.env.clone(), self.queue.clone(), self.begun.clone());
        let start = self.env.uptime();
        self.workers.push(self.env.spawn("worker", async move {
            loop {
                let key = queue.next().await;
                begun.lock().push((key, env.uptime().saturating_sub(start)));
                env.sleep(time).await;
                queue.done(&key, again, Duration::ZERO);
            }
        }));
        self
    }

    async fn pass(&self, milliseconds: u64) {
        self.clock.advance(Duration::from_millis(milliseconds)).await;
    }

    /// The start of each pass, in milliseconds since the start of the workers.
    fn begun(&self) -> Vec<(u32, u128)> {
        self.begun.lock().iter().map(|(key, at)| (*key, at.as_millis())).collect()
    }
}

#[tokio::test]
async fn the_first_wake_up_after_a_quiet_time_is_served_at_once() {
    let world = World::new().worker(Duration::ZERO, Requeue::Never);
    world.queue.wake(&1);
    world.pass(0).await;
    assert_eq!(world.begun(), [(1, 0)]);
    world.pass(1000).await;
    world.queue.wake(&1);
    world.pass(0).await;
    assert_eq!(world.begun(), [(1, 0), (1, 1000)]);
}

#[tokio::test]
async fn wake_ups_within_the_debounce_become_one() {
    let world = World::new().worker(Duration::ZERO, Requeue::Never);
    world.queue.wake(&1);
    world.pass(10).await;
    for _ in 0..5 {
        world.queue.wake(&1);
        world.pass(10).await;
    }
    world.pass(1000).await;
    assert_eq!(world.begun(), [(1, 0), (1, 100)]);
}

#[tokio::test]
async fn a_wake_up_during_a_pass_is_served_after_it_and_its_debounce() {
    let world = World::new().worker(Duration::from_millis(30), Requeue::Never);
    world.queue.wake(&1);
    world.pass(10).await;
    world.queue.wake(&1);
    world.pass(1000).await;
    assert_eq!(world.begun(), [(1, 0), (1, 130)]);
}

#[tokio::test]
async fn one_key_has_one_pass_at_a_time_however_many_workers_there_are() {
    let world = World::new()
        .worker(Duration::from_millis(50), Requeue::Never)
        .worker(Duration::from_millis(50), Requeue::Never);
    world.queue.wake(&1);
    world.pass(1).await;
    world.queue.wake(&1);
    world.pass(48).await;
    assert_eq!(world.begun(), [(1, 0)]);
}

#[tokio::test]
async fn several_workers_serve_several_keys_side_by_side() {
    let busy = Duration::from_millis(50);
    let world = World::new().worker(busy, Requeue::Never).worker(busy, Requeue::Never);
    for key in 1..=3 {
        world.queue.wake(&key);
    }
    world.pass(0).await;
    assert_eq!(world.begun(), [(1, 0), (2, 0)]);
    world.pass(50).await;
    assert_eq!(world.begun(), [(1, 0), (2, 0), (3, 50)]);
}

#[rstest]
#[case::the_later_wish_first(500, 200, 200)]
#[case::the_sooner_wish_first(200, 500, 200)]
#[tokio::test]
async fn of_two_requeues_the_sooner_counts(#[case] first: u64, #[case] second: u64, #[case] served: u128) {
    let world = World::new().worker(Duration::ZERO, Requeue::Never);
    world.queue.wake_after(&1, Duration::from_millis(first));
    world.pass(0).await;
    world.queue.wake_after(&1, Duration::from_millis(second));
    world.pass(2000).await;
    assert_eq!(world.begun(), [(1, served)]);
}

#[tokio::test]
async fn a_requeue_of_a_pass_is_not_debounced() {
    let world = World::new().worker(Duration::ZERO, Requeue::After(Duration::from_millis(50)));
    world.queue.wake(&1);
    world.pass(100).await;
    assert_eq!(world.begun(), [(1, 0), (1, 50), (1, 100)]);
}

#[tokio::test]
async fn a_wake_up_during_a_pass_counts_in_addition_to_its_requeue() {
    let world = World::new().worker(Duration::from_millis(30), Requeue::After(LONG));
    world.queue.wake(&1);
    world.pass(10).await;
    world.queue.wake(&1);
    world.pass(300).await;
    assert_eq!(world.begun(), [(1, 0), (1, 130)]);
}

#[tokio::test]
async fn a_wake_up_is_never_lost_even_if_all_workers_sleep_for_something_else() {
    let world = World::new().worker(Duration::ZERO, Requeue::Never).worker(Duration::ZERO, Requeue::Never);
    // Both workers sleep until this key is due.
    world.queue.wake_after(&1, LONG);
    world.pass(1).await;
    for key in 2..=5 {
        world.queue.wake(&key);
    }
    world.pass(0).await;
    let mut served: Vec<u32> = world.begun().into_iter().map(|(key, _)| key).collect();
    served.sort_unstable();
    assert_eq!(served, [2, 3, 4, 5]);
}

#[tokio::test]
async fn a_worker_that_stops_waiting_takes_no_wake_up_with_it() {
    let world = World::new();
    let waiting = world.env.spawn("impatient", {
        let queue = world.queue.clone();
        async move {
            queue.next().await;
        }
    });
    world.pass(0).await;
    // The wake-up is for the key with the short wait, which is removed before its next pass.
    world.queue.wake(&1);
    drop(waiting);
    let world = world.worker(Duration::ZERO, Requeue::Never);
    world.pass(0).await;
    assert_eq!(world.begun(), [(1, 0)]);
}

#[tokio::test]
async fn the_longest_due_pool_comes_first() {
    let world = World::new().worker(Duration::from_millis(40), Requeue::After(Duration::ZERO));
    world.queue.wake(&1);
    world.pass(10).await;
    world.queue.wake(&2);
    world.queue.wake(&3);
    world.pass(150).await;
    assert_eq!(world.begun(), [(1, 0), (2, 40), (3, 80), (1, 120), (2, 160)]);
}

#[tokio::test]
async fn a_finished_key_uses_no_memory() {
    let world = World::new();
    world.queue.wake(&1);
    assert_eq!(world.queue.next().await, 1);
    world.queue.forget(&1);
    assert_eq!(world.queue.state.lock().slots.len(), 1, "the pass is still running");
    world.queue.done(&1, Requeue::Never, Duration::ZERO);
    world.queue.forget(&1);
    assert!(world.queue.state.lock().slots.is_empty());
    assert!(world.queue.state.lock().due.is_empty());
}

#[tokio::test]
async fn a_key_that_was_woken_meanwhile_is_not_forgotten() {
    let world = World::new();
    world.queue.wake(&1);
    assert_eq!(world.queue.next().await, 1);
    world.queue.wake(&1);
    world.queue.done(&1, Requeue::Never, Duration::ZERO);
    world.queue.forget(&1);
    let world = world.worker(Duration::ZERO, Requeue::Never);
    world.pass(100).await;
    assert_eq!(world.begun(), [(1, 100)]);
}

#[rstest]
#[case::small(1, 100)]
#[case::large(6, 300)]
#[case::huge(600, 500)]
#[tokio::test]
async fn a_pool_with_a_long_computing_time_has_longer_pauses(#[case] effort: u64, #[case] rest: u64) {
    let world = World::new();
    world.queue.wake(&1);
    assert_eq!(world.queue.next().await, 1);
    world.queue.done(&1, Requeue::Never, Duration::from_millis(effort));
    world.queue.wake(&1);
    let world = world.worker(Duration::ZERO, Requeue::Never);
    world.pass(rest - 1).await;
    assert_eq!(world.begun(), []);
    world.pass(1).await;
    assert_eq!(world.begun().len(), 1);
}
