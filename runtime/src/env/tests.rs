use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;

use super::{Clock as _, Entropy as _, Env, SystemClock, TaskError, TimeoutElapsed};
use crate::testing::{Idle, ManualClock, SeededEntropy, test_env};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn sleepers_wake_in_the_order_of_their_times() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let woken = Arc::<parking_lot::Mutex<Vec<(u64, Duration)>>>::default();
    for seconds in [3, 1, 2, 9] {
        let (env, woken) = (env.clone(), Arc::clone(&woken));
        let begun = env.uptime();
        let sleeper = async move {
            env.sleep(Duration::from_secs(seconds)).await;
            woken.lock().push((seconds, env.uptime().saturating_sub(begun)));
        };
        clock_task(&clock, sleeper);
    }
    clock.advance(5 * SECOND).await;
    assert_eq!(*woken.lock(), [(1, SECOND), (2, 2 * SECOND), (3, 3 * SECOND)]);
    assert_eq!(clock.sleepers(), 1);
}

fn clock_task(clock: &ManualClock, future: impl Future<Output = ()> + Send + 'static) {
    test_env(clock, 0).spawn("sleeper", future).detach();
}

#[tokio::test]
async fn reactions_of_a_sleeper_complete_before_the_clock_advances() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let ticks = Arc::new(AtomicUsize::new(0));
    let (counted, sleeping) = (Arc::clone(&ticks), env.clone());
    let _ticker = env.spawn("ticker", async move {
        loop {
            sleeping.sleep(SECOND).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    clock.advance(10 * SECOND).await;
    assert_eq!(ticks.load(Ordering::Relaxed), 10);
}

/// More yields than a clock without `Idle` waits for.
#[test]
fn a_clock_of_a_runtime_waits_for_reactions_of_any_length() {
    let (runtime, idle) = Idle::runtime().unwrap();
    let clock = ManualClock::of(idle);
    let env = test_env(&clock, 0);
    let ended = Arc::new(parking_lot::Mutex::new(None));
    let (slow, seen) = (env.clone(), Arc::clone(&ended));
    runtime.block_on(async {
        let _task = env.spawn("slow", async move {
            slow.sleep(SECOND).await;
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
            *seen.lock() = Some(slow.now());
        });
        clock.advance(2 * SECOND).await;
    });
    assert_eq!(*ended.lock(), Some(ManualClock::START + SECOND));
}

#[tokio::test]
async fn the_three_clocks_of_a_machine_are_independent() {
    let clock = ManualClock::new();
    let (wall, up) = (clock.now(), clock.uptime());
    clock.advance(SECOND).await;
    clock.suspend(10 * SECOND);
    clock.step_wall(SignedDuration::from_secs(-100));
    assert_eq!(clock.uptime().saturating_sub(up), 11 * SECOND);
    assert_eq!(clock.now().duration_since(wall), SignedDuration::from_secs(-89));
    let other = clock.with_separate_wall_clock();
    other.step_wall(SignedDuration::from_secs(1));
    assert_eq!(other.now().duration_since(clock.now()), SignedDuration::from_secs(1));
    assert_eq!(other.uptime(), clock.uptime());
}

#[tokio::test]
async fn a_timeout_drops_a_future_that_takes_too_long() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let sleeping = env.clone();
    let task = env.clone().spawn("waiting", async move {
        let outcome = sleeping.timeout(2 * SECOND, sleeping.sleep(3 * SECOND)).await;
        assert_eq!(outcome, Err(TimeoutElapsed(2 * SECOND)));
        assert_eq!(sleeping.timeout(2 * SECOND, sleeping.sleep(SECOND)).await, Ok(()));
        assert_eq!(
            sleeping.timeout(Duration::ZERO, async { 1 }).await,
            Ok(1),
            "an available result is returned"
        );
    });
    clock.advance(4 * SECOND).await;
    assert!(task.is_finished());
    assert_eq!(task.join().await, Ok(()));
}

#[tokio::test]
async fn a_dropped_task_ends() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let held = Arc::new(());
    let inside = Arc::clone(&held);
    let task = env.spawn("forever", async move {
        futures::future::pending::<()>().await;
        drop(inside);
    });
    clock.settle().await;
    assert_eq!(Arc::strong_count(&held), 2);
    assert!(!task.is_finished());
    drop(task);
    clock.settle().await;
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test]
async fn a_detached_task_keeps_running() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let done = Arc::new(AtomicUsize::new(0));
    let (counted, sleeping) = (Arc::clone(&done), env.clone());
    env.spawn("detached", async move {
        sleeping.sleep(SECOND).await;
        counted.fetch_add(1, Ordering::Relaxed);
    })
    .detach();
    clock.advance(SECOND).await;
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn join_returns_a_panic() {
    let env = Env::system();
    let task = env.spawn("clumsy", async { panic!("dropped the {}", "tray") });
    let error = task.join().await.unwrap_err();
    assert_eq!(error, TaskError::Panicked { name: "clumsy", message: "dropped the tray".to_owned() });
    assert_eq!(error.to_string(), "task clumsy panicked: dropped the tray");
}

#[test]
fn join_reports_a_task_whose_runtime_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let task = runtime.block_on(async { Env::system().spawn("orphan", futures::future::pending()) });
    drop(runtime);
    assert_eq!(futures::executor::block_on(task.join()), Err(TaskError::Aborted { name: "orphan" }));
}

#[test]
fn a_seed_determines_the_numbers() {
    let numbers = |seed| {
        let entropy = SeededEntropy::new(seed);
        [entropy.next(), entropy.next(), entropy.next()]
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    // The published first values of splitmix64 for the seed 0.
    assert_eq!(numbers(0)[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
}

#[test]
fn jitter_covers_the_whole_range() {
    let env = test_env(&ManualClock::new(), 7);
    let nanos: Vec<_> = (0..100).map(|_| env.jitter(Duration::from_nanos(3)).as_nanos()).collect();
    assert_eq!((nanos.iter().min(), nanos.iter().max()), (Some(&0), Some(&3)));
    assert_eq!(env.jitter(Duration::ZERO), Duration::ZERO);
}

#[tokio::test]
async fn the_system_environment_works() {
    let env = Env::system();
    let (wall, up) = (env.now(), env.uptime());
    env.sleep(Duration::from_millis(5)).await;
    assert!(env.uptime().saturating_sub(up) >= Duration::from_millis(5));
    assert!(env.now() > wall);
    assert!(SystemClock.uptime() > Duration::ZERO);
    assert_ne!(env.random(), env.random());
}
