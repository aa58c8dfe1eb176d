//! Asking again until an answer fits, for what nobody announces.

use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// How often the question is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks until the answer is `Ok`; the inner error is what was seen instead.
///
/// # Errors
/// [`Error::Deadline`] with what was seen last, or whatever keeps the question from being asked.
pub async fn until<T>(
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
    async fn the_last_answer_is_in_the_error() {
        let mut asked = 0;
        let answer = until(
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
    async fn a_fitting_answer_is_returned() {
        let mut asked = 0;
        let answer = until(String::new, Duration::from_secs(10), async || {
            asked += 1;
            Ok(if asked == 3 { Ok(asked) } else { Err(String::new()) })
        });
        assert_eq!(answer.await.unwrap(), 3);
    }
}
