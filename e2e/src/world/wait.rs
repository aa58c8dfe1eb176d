//! Waits without sleeping: conditions are evaluated after each change.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_invariants::recorder::{RecordedChange, RecordedHistory};
use vmpool_test_cluster::deadline::Stopwatch;
use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::poll;

use super::condition::{PoolPredicate, PoolView};
use super::report;
use super::state::{DEADLINE, ScenarioWorld};

/// Waits until the second of a timestamp is over, so that one that is written from now on is later.
///
/// # Errors
/// [`Error::Deadline`].
pub async fn until_after_second(timestamp: &str) -> Result<()> {
    let what = || format!("a second after {timestamp}");
    poll::poll_until(what, DEADLINE, async || {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Ok(if now.as_str() > timestamp { Ok(()) } else { Err(now) })
    })
    .await
}

impl ScenarioWorld {
    /// Waits until a pool's condition holds.
    pub(super) async fn wait_until(
        &self,
        name: &str,
        uid: &str,
        condition: &PoolPredicate,
        deadline: Duration,
    ) -> Result<()> {
        let holds = |history: &RecordedHistory| condition.holds(PoolView { state: history.state(), uid });
        let waited = self.recorder.until(deadline, holds).await?;
        waited.map_err(|after| Error::Deadline {
            what: format!("pool {name}: expected {condition}"),
            after,
            last: report::summarize_pool(PoolView { state: self.recorder.history().state(), uid }),
        })
    }

    /// Checks that a pool's condition holds from now on, after every change.
    pub(super) async fn watch_hold(
        &self,
        name: &str,
        uid: &str,
        condition: &PoolPredicate,
        duration: Duration,
    ) -> Result<()> {
        let watch = Stopwatch::start();
        let mut notices = self.recorder.changes();
        let (mut state, mut seen) = {
            let history = self.recorder.history();
            (history.state().clone(), history.changes().len())
        };
        check_held(name, condition, PoolView { state: &state, uid }, watch)?;
        loop {
            notices.mark_unchanged();
            let new: Vec<RecordedChange> = self.recorder.history().changes()[seen..].to_vec();
            // Changes are evaluated one by one, so that short-lived violations are found.
            for change in new {
                state.apply(&change);
                seen += 1;
                check_held(name, condition, PoolView { state: &state, uid }, watch)?;
            }
            let left = duration.saturating_sub(watch.elapsed().time);
            match tokio::time::timeout(left, notices.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::TaskEnded { task: "the recorder" }),
                Err(_elapsed) => return Ok(()),
            }
        }
    }
}

fn check_held(name: &str, condition: &PoolPredicate, view: PoolView<'_>, watch: Stopwatch) -> Result<()> {
    if condition.holds(view) {
        return Ok(());
    }
    Err(Error::DidNotHold {
        what: format!("pool {name}: expected {condition}"),
        after: watch.elapsed(),
        last: report::summarize_pool(view),
    })
}
