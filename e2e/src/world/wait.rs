//! Waiting without sleeping: conditions are looked at whenever something has changed.

use std::time::{Duration, Instant};

use super::condition::{Condition, View};
use super::{World, report};
use crate::error::{Error, Result};
use crate::recorder::{Change, History};

impl World {
    /// Waits until a pool's condition holds.
    pub(super) async fn wait_until(
        &self,
        name: &str,
        uid: &str,
        condition: &Condition,
        deadline: Duration,
    ) -> Result<()> {
        let holds = |history: &History| condition.holds(View { state: history.state(), uid });
        if self.recorder.until(deadline, holds).await? {
            return Ok(());
        }
        Err(Error::Deadline {
            what: format!("pool {name}: expected {condition}"),
            after: deadline,
            last: report::summary(View { state: self.recorder.history().state(), uid }),
        })
    }

    /// Watches that a pool's condition holds, from now on, after every change.
    pub(super) async fn watch_hold(
        &self,
        name: &str,
        uid: &str,
        condition: &Condition,
        duration: Duration,
    ) -> Result<()> {
        let begin = Instant::now();
        let mut notices = self.recorder.changes();
        let (mut state, mut seen) = {
            let history = self.recorder.history();
            (history.state().clone(), history.changes().len())
        };
        check_held(name, condition, View { state: &state, uid }, begin)?;
        loop {
            notices.mark_unchanged();
            let new: Vec<Change> = self.recorder.history().changes()[seen..].to_vec();
            // One change after the other: what lasted a moment counts, too.
            for change in new {
                state.apply(&change);
                seen += 1;
                check_held(name, condition, View { state: &state, uid }, begin)?;
            }
            let left = duration.saturating_sub(begin.elapsed());
            match tokio::time::timeout(left, notices.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::TaskEnded { task: "the recorder" }),
                Err(_elapsed) => return Ok(()),
            }
        }
    }
}

fn check_held(name: &str, condition: &Condition, view: View<'_>, begin: Instant) -> Result<()> {
    if condition.holds(view) {
        return Ok(());
    }
    Err(Error::DidNotHold {
        what: format!("pool {name}: expected {condition}"),
        after: begin.elapsed(),
        last: report::summary(view),
    })
}
