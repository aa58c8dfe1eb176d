//! Polls for changes that no watch reports.

use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// Poll interval.
const PAUSE: Duration = Duration::from_millis(50);

/// Polls until the result is `Ok`; the inner error describes the current state.
///
/// # Errors
/// [`Error::Deadline`] with the last state, or the error of a poll.
pub async fn poll_until<T>(
    what: impl FnOnce() -> String,
    deadline: Duration,
    mut ask: impl AsyncFnMut() -> Result<Result<T, String>>,
) -> Result<T> {
    let deadline = Deadline::after(deadline);
    loop {
        match ask().await? {
            Ok(answer) => return Ok(answer),
            Err(last) if deadline.is_over() => {
                return Err(Error::Deadline { what: what(), after: deadline.elapsed(), last });
            }
            Err(_not_yet) => tokio::time::sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_error_contains_the_last_result() {
        let mut asked = 0;
        let answer = poll_until(
            || "ten".to_owned(),
            Duration::from_millis(120),
            async || {
                asked += 1;
                Ok(if asked == 10 { Ok(()) } else { Err(format!("{asked}")) })
            },
        );
        let error = answer.await.unwrap_err();
        assert!(
            matches!(&error, Error::Deadline { what, last, .. } if what == "ten" && last.as_str() > "1"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_first_ok_is_returned() {
        let mut asked = 0;
        let answer = poll_until(String::new, Duration::from_secs(10), async || {
            asked += 1;
            Ok(if asked == 3 { Ok(asked) } else { Err(String::new()) })
        });
        assert_eq!(answer.await.unwrap(), 3);
    }
}
