//! Waits of scenarios for what the recorder does not show.
//!
//! Scenarios do not sleep: they wait [until](eventually) a condition holds, or check [throughout] a period
//! that one does. Only where time itself is the subject, they [let it pass](let_time_pass).

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};
use vmpool_test_cluster::deadline::Deadline;

/// Poll interval.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until the inner result is `Ok`; the inner error describes the current state.
///
/// # Errors
/// An error with the last state if the time is over, or the error of `look`.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Deadline::after(limit);
    loop {
        match look().await? {
            Ok(found) => return Ok(found),
            Err(last) if deadline.is_over() => {
                bail!("waiting until {what}, after {}: {last}", deadline.elapsed())
            }
            Err(_not_yet) => sleep(PAUSE).await,
        }
    }
}

/// Waits until `look` finds that something is true.
///
/// # Errors
/// As [`eventually`].
pub async fn eventually_true(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    eventually(what, limit, async || Ok(if look().await? { Ok(()) } else { Err("not yet".to_owned()) })).await
}

/// Checks again and again during a period that the inner result is `Ok`; the inner error describes the
/// violation.
///
/// # Errors
/// An error with the violation, or the error of `look`.
pub async fn throughout(
    what: &str,
    period: Duration,
    mut look: impl AsyncFnMut() -> Result<Result<(), String>>,
) -> Result<()> {
    let end = Instant::now() + period;
    loop {
        if let Err(violation) = look().await? {
            bail!("expected that {what}: {violation}");
        }
        if Instant::now() >= end {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

/// Lets time pass where time itself is the subject: the length of a fault, the pace of a client, or a period
/// in which programs must send no requests, also not those of a check.
pub async fn let_time_pass(period: Duration) {
    sleep(period).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_state_is_in_the_error() {
        let look = async || Ok::<Result<(), _>, _>(Err("two of three".to_owned()));
        let error = eventually("three", Duration::from_millis(1), look).await.unwrap_err();
        assert!(error.to_string().ends_with("two of three"), "{error}");
    }

    #[tokio::test]
    async fn a_violation_during_the_period_is_an_error() {
        let mut looked = 0;
        let look = async || {
            looked += 1;
            Ok(if looked < 3 { Ok(()) } else { Err(format!("look {looked}")) })
        };
        let error = throughout("it holds", Duration::from_secs(10), look).await.unwrap_err();
        assert!(error.to_string().ends_with("look 3"), "{error}");
    }
}
