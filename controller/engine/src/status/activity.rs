//! The entries that a pass adds to the activity log. They follow from the difference between the published
//! status and the observed pool, so that a new leader adds no entry twice.

use std::sync::Arc;

use crate::activity::{
    ActivityEntry, ActivityReason, ActivitySubject, find_newest_entry, truncate_activity_log,
};
use crate::limits;
use crate::model::StatusSummary;
use crate::plan::observed::ObservedPool;
use crate::revisions::RevisionId;
use crate::scale_down::removal::TargetState;

/// The field manager of the aggregated API, which lowers `replicas` for targeted removals.
const REMOVALS: &str = "vmpool-apiserver";

/// The published log with the entries of this pass.
pub(super) fn extended_activity_log(
    observed: &ObservedPool<'_>,
    summary: &StatusSummary,
) -> Vec<ActivityEntry> {
    let mut log = observed.pool.published.activity.clone();
    let pass = Pass { observed, summary };
    let new = [pass.count(&log), pass.pause(&log)];
    log.extend(new.into_iter().flatten());
    let started = pass.rollout_started(&log);
    log.extend(started);
    let completed = pass.rollout_completed(&log);
    log.extend(completed);
    log.extend(pass.healed());
    truncate_activity_log(&mut log);
    log
}

struct Pass<'a> {
    observed: &'a ObservedPool<'a>,
    summary: &'a StatusSummary,
}

impl Pass<'_> {
    fn entry(
        &self,
        reason: ActivityReason,
        actor: Option<&Arc<str>>,
        from: Option<String>,
        to: Option<String>,
    ) -> ActivityEntry {
        let clip = |text: &str| Arc::from(limits::clip_name(text));
        let time = self.observed.now;
        ActivityEntry {
            // In whole seconds, as it is stored.
            time: jiff::Timestamp::from_second(time.as_second()).unwrap_or(time),
            reason,
            actor: actor.filter(|actor| !actor.is_empty()).map(|actor| clip(actor)),
            from: from.map(|text| clip(&text)),
            to: to.map(|text| clip(&text)),
        }
    }

    fn published(&self) -> Option<&StatusSummary> {
        self.observed.pool.published.summary.as_ref()
    }

    fn count(&self, log: &[ActivityEntry]) -> Option<ActivityEntry> {
        let pool = self.observed.pool;
        // Only a change of the spec changes the desired number.
        if self.published().is_some_and(|published| published.observed_generation == pool.generation) {
            return None;
        }
        let logged = find_newest_entry(log, ActivitySubject::Count)
            .and_then(|entry| entry.to.as_deref()?.parse::<usize>().ok());
        let from = logged.or_else(|| Some(self.published()?.replicas));
        let to = pool.desired;
        if from == Some(to) {
            return None;
        }
        let writer = pool.writers.replicas.as_ref();
        let removed = pool.record.entries().iter().filter(|entry| entry.state == TargetState::Accepted);
        let is_removal = from.is_some_and(|from| to < from && from - to <= removed.clone().count())
            && writer.is_none_or(|writer| **writer == *REMOVALS);
        let (reason, actor) = if is_removal {
            (ActivityReason::TargetedRemoval, removed.filter_map(|entry| entry.by.as_ref()).next_back())
        } else {
            (ActivityReason::Scaled, writer)
        };
        Some(self.entry(reason, actor, from.map(|from| from.to_string()), Some(to.to_string())))
    }

    fn is_paused(&self) -> bool {
        self.observed.pool.paused || self.observed.pool.rollout.paused
    }

    fn pause(&self, log: &[ActivityEntry]) -> Option<ActivityEntry> {
        let was_paused = find_newest_entry(log, ActivitySubject::Pause)
            .is_some_and(|entry| entry.reason == ActivityReason::Paused);
        let reason = match (was_paused, self.is_paused()) {
            (false, true) => ActivityReason::Paused,
            (true, false) => ActivityReason::Resumed,
            _ => return None,
        };
        Some(self.entry(reason, self.observed.pool.writers.paused.as_ref(), None, None))
    }

    fn outdated(&self) -> Option<&RevisionId> {
        let live = self.observed.pool_machines().filter(|machine| !machine.terminating);
        let mut outdated = live.filter_map(|machine| machine.effective_revision());
        outdated.find(|revision| !self.observed.pool.is_current(revision))
    }

    /// The newest entry about a rollout, if it is about the current revision.
    fn logged<'l>(&self, log: &'l [ActivityEntry]) -> Option<&'l ActivityEntry> {
        let entry = find_newest_entry(log, ActivitySubject::Rollout)?;
        let to = RevisionId::from(entry.to.as_deref()?);
        self.observed.pool.is_current(&to).then_some(entry)
    }

    fn rollout_started(&self, log: &[ActivityEntry]) -> Option<ActivityEntry> {
        let pool = self.observed.pool;
        let is_open = self.logged(log).is_some_and(|entry| entry.reason == ActivityReason::RolloutStarted);
        if is_open || self.is_paused() || pool.rollout_stands_still() || pool.rollout.disabled {
            return None;
        }
        let from = self.outdated()?.to_string();
        let to = self.summary.revision.to_string();
        Some(self.entry(ActivityReason::RolloutStarted, pool.writers.template.as_ref(), Some(from), Some(to)))
    }

    fn rollout_completed(&self, log: &[ActivityEntry]) -> Option<ActivityEntry> {
        let entry = self.logged(log).filter(|entry| entry.reason == ActivityReason::RolloutStarted)?;
        let complete = self.outdated().is_none() && self.summary.restart_pending == 0;
        let of = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        complete.then(|| self.entry(ActivityReason::RolloutCompleted, None, of(&entry.from), of(&entry.to)))
    }

    fn healed(&self) -> Option<ActivityEntry> {
        let before = self.published()?.healed;
        let now = self.summary.healed;
        let entry =
            || self.entry(ActivityReason::Healed, None, Some(before.to_string()), Some(now.to_string()));
        (now > before).then(entry)
    }
}

#[cfg(test)]
mod tests;
