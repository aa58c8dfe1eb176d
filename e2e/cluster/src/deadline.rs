//! Deadlines that do not count the time in which the machine had no processor for the tests.
//!
//! A deadline of the harness only bounds a failure. On a machine whose processors are busy with other work, a
//! fixed number of seconds says nothing about the program under test. Linux reports how long tasks waited for
//! a processor (pressure stall information). A [`Deadline`] counts most of that time as not elapsed: on an
//! idle machine 60 s last 60 s, on a machine where some task always waits for a processor they last four
//! times as long.
//!
//! Where the kernel has no such report, a deadline is an ordinary one.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

/// The file in which the kernel reports the pressure on the processors.
const PRESSURE: &str = "/proc/pressure/cpu";

/// How many times its length a deadline lasts at most.
const SLOWEST: u32 = 4;

/// From this share of stalled time on, in percent, a timing that failed says nothing about the program under
/// test.
const STARVED_PERCENT: u128 = 60;

/// What the report of a failure contains if the machine was starved. `cargo xtask verify` repeats such a test
/// alone, once.
pub const STARVED: &str = "the machine was starved";

/// The time since a moment, and how much of it tasks of this machine waited for a processor.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    begun: Instant,
    stalled: Duration,
}

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { begun: Instant::now(), stalled: stalled() }
    }

    /// What has elapsed so far.
    #[must_use]
    pub fn elapsed(&self) -> ElapsedTime {
        let time = self.begun.elapsed();
        ElapsedTime { time, stalled: stalled().saturating_sub(self.stalled).min(time) }
    }
}

/// A span of time on this machine. It displays as a reader of a failure needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElapsedTime {
    /// By the clock.
    pub time: Duration,
    /// How much of that at least one task waited for a processor.
    pub stalled: Duration,
}

impl ElapsedTime {
    /// The part that a deadline counts.
    fn counted(&self) -> Duration {
        self.time.saturating_sub(self.stalled * (SLOWEST - 1) / SLOWEST)
    }

    /// Whether the processors were so busy that a failed timing says nothing about the program under test.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        !self.time.is_zero() && self.stalled.as_millis() * 100 >= self.time.as_millis() * STARVED_PERCENT
    }
}

impl fmt::Display for ElapsedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?}", self.time)?;
        if self.is_starved() {
            write!(f, " ({STARVED}: tasks waited for a processor during {:.1?} of it)", self.stalled)?;
        }
        Ok(())
    }
}

/// A limit on a wait, which lasts longer on a machine that is busy with other work.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    watch: Stopwatch,
    limit: Duration,
}

impl Deadline {
    /// Ends when `limit` has elapsed from now on, stalled time mostly not counted.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self { watch: Stopwatch::start(), limit }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// What is left of it if the processors are available from now on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.elapsed().counted())
    }

    /// What has elapsed since it was set.
    #[must_use]
    pub fn elapsed(&self) -> ElapsedTime {
        self.watch.elapsed()
    }

    /// Awaits a future until the deadline ends.
    ///
    /// # Errors
    /// What has elapsed, if the future was not ready in time.
    pub async fn within<F: Future>(self, future: F) -> Result<F::Output, ElapsedTime> {
        let mut future = pin!(future);
        loop {
            if let Ok(output) = tokio::time::timeout(self.remaining(), &mut future).await {
                return Ok(output);
            }
            if self.is_over() {
                return Err(self.elapsed());
            }
        }
    }
}

/// How long at least one task has waited for a processor since the machine started.
fn stalled() -> Duration {
    std::fs::read_to_string(PRESSURE).ok().and_then(|report| total(&report)).unwrap_or_default()
}

/// Reads the total of the line `some` of a pressure report, which the kernel gives in microseconds.
fn total(report: &str) -> Option<Duration> {
    let some = report.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn elapsed(seconds: u64, stalled: u64) -> ElapsedTime {
        ElapsedTime { time: Duration::from_secs(seconds), stalled: Duration::from_secs(stalled) }
    }

    #[test]
    fn the_total_of_a_pressure_report_is_read() {
        let report = "some avg10=46.22 avg60=51.83 avg300=26.44 total=110032970\n\
                      full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total(report), Some(Duration::from_micros(110_032_970)));
        assert_eq!(total("some avg10=1.00\n"), None);
        assert_eq!(total(""), None);
    }

    #[rstest]
    #[case::an_idle_machine(60, 0, 60_000)]
    #[case::a_machine_that_is_busy_half_of_the_time(60, 30, 37_500)]
    #[case::a_machine_that_is_always_busy(60, 60, 15_000)]
    fn stalled_time_counts_a_quarter(#[case] seconds: u64, #[case] stalled: u64, #[case] counted: u64) {
        assert_eq!(elapsed(seconds, stalled).counted(), Duration::from_millis(counted));
    }

    #[rstest]
    #[case::idle(elapsed(10, 0), "10.0s")]
    #[case::busy(elapsed(10, 5), "10.0s")]
    #[case::starved(
        elapsed(10, 6),
        "10.0s (the machine was starved: tasks waited for a processor during 6.0s of it)"
    )]
    #[case::no_time(elapsed(0, 0), "0.0ns")]
    fn a_starved_machine_is_reported(#[case] elapsed: ElapsedTime, #[case] text: &str) {
        assert_eq!(elapsed.to_string(), text);
    }

    #[tokio::test]
    async fn a_future_that_is_not_ready_in_time_is_given_up() {
        let deadline = Deadline::after(Duration::from_millis(50));
        let outcome = deadline.within(std::future::pending::<()>()).await;
        assert!(outcome.unwrap_err().time >= Duration::from_millis(50));
        assert!(deadline.is_over());
        let deadline = Deadline::after(Duration::from_mins(1));
        assert_eq!(deadline.within(std::future::ready(7)).await, Ok(7));
        assert!(!deadline.is_over());
    }
}
