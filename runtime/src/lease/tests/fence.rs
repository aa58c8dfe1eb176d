use std::time::Duration;

use futures::FutureExt as _;
use jiff::SignedDuration;

use crate::lease::fence::{Fence, Instant};
use crate::testing::{self, ManualClock, test_env};

const VALID: Duration = Duration::from_secs(10);

fn fence(clock: &ManualClock) -> Fence {
    testing::fence_for(&test_env(clock, 0), VALID)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn validity_runs_down_with_time() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.advance(seconds(4)).await;
    assert_eq!(fence.remaining(), seconds(6));
    assert!(fence.admits(seconds(5)));
    assert!(!fence.admits(seconds(6)), "a write must end before the permission");
}

#[test]
fn the_fence_ends_before_standbys_stop_waiting() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 0);
    let fence = Fence::new(env.clone(), seconds(15), Instant::now(&env));
    assert_eq!(fence.remaining(), Duration::from_millis(14_850));
}

#[test]
fn suspension_is_elapsed_time() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.suspend(seconds(9));
    assert_eq!(fence.remaining(), seconds(1));
    clock.suspend(seconds(1));
    assert_eq!(fence.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn the_clock_with_more_elapsed_time_decides() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.advance(seconds(2)).await;
    clock.step_wall(SignedDuration::from_secs(5));
    assert_eq!(fence.remaining(), seconds(3), "ahead: counts as elapsed time");
    clock.step_wall(SignedDuration::from_secs(-60));
    assert_eq!(fence.remaining(), seconds(8), "back: the boot clock decides");
}

#[test]
fn an_ended_fence_stays_ended() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.step_wall(SignedDuration::from_secs(10));
    assert_eq!(fence.remaining(), Duration::ZERO);
    clock.step_wall(SignedDuration::from_secs(-10));
    assert_eq!(fence.remaining(), Duration::ZERO);
    assert!(!fence.extend(Instant::now(&test_env(&clock, 0))));
    assert_eq!(fence.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn an_extension_counts_from_when_the_request_was_sent() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.advance(seconds(3)).await;
    let sent = Instant::now(&test_env(&clock, 0));
    clock.advance(seconds(2)).await;
    assert!(fence.extend(sent));
    assert_eq!(fence.remaining(), seconds(8));
}

#[test]
fn an_extension_that_comes_too_late_is_refused() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    clock.suspend(seconds(9));
    let sent = Instant::now(&test_env(&clock, 0));
    clock.suspend(seconds(2));
    assert!(!fence.extend(sent), "the end is final even if it was not read");
}

#[tokio::test]
async fn waiting_for_the_loss_ends_when_validity_does() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    let lost = test_env(&clock, 0).spawn("lost", fence.wait_until_ended());
    clock.advance(Duration::from_millis(9_999)).await;
    assert!(!lost.is_finished());
    clock.advance(Duration::from_millis(1)).await;
    assert!(lost.is_finished());
}

#[tokio::test]
async fn waiting_for_the_loss_detects_suspension_within_a_second() {
    let clock = ManualClock::new();
    let lost = test_env(&clock, 0).spawn("lost", fence(&clock).wait_until_ended());
    clock.settle().await;
    clock.suspend(seconds(60));
    clock.advance(seconds(1)).await;
    assert!(lost.is_finished());
}

#[tokio::test]
async fn the_end_reaches_clones_and_waiting_tasks() {
    let clock = ManualClock::new();
    let fence = fence(&clock);
    let (clone, mut lost) = (fence.clone(), fence.wait_until_ended().boxed());
    assert!(lost.as_mut().now_or_never().is_none());
    testing::end_fence(&fence);
    assert!(lost.now_or_never().is_some());
    assert_eq!(clone.remaining(), Duration::ZERO);
}

#[test]
fn an_unfenced_fence_admits_every_deadline_until_it_is_ended() {
    let fence = testing::unlimited_fence();
    assert!(fence.admits(Duration::from_hours(1_000_000)));
    testing::end_fence(&fence);
    assert!(!fence.admits(Duration::ZERO));
}
