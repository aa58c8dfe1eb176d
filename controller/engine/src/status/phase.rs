//! The phase of a pool in one word, and the conditions that clients wait for in the meaning of kstatus:
//! `Ready`, `Reconciling` and `Stalled`.

use std::fmt;

use super::counts::MachineCounts;
use super::distance::count_outdated_machines;
use super::live_updates::describe_pending_updates;
use super::numbers::{progress_messages, ready_message};
use super::problem::{describe_unready_machines, list_start_problems};
use super::text::{join_message_parts, machine_count_text};
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{Pool, Restarts};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::progress::PROGRESS_DEADLINE_FIELD;
use crate::rollout::progress::RolloutProgress;
use crate::scale_down::surplus::{count_staying_machines, explicit_surplus, keeps_surplus};

/// The phase of a pool, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolPhase {
    /// The controller cannot continue until a user corrects something.
    Blocked,
    /// The pool has made no progress until its deadline: a user must remove the cause.
    ProgressDeadlineExceeded,
    /// A write failed, which the controller repeats, or a machine is not ready for a cause that the platform
    /// reports.
    Failing,
    /// The current template is not in effect in all machines yet.
    RollingOut,
    /// Machines are missing, surplus, or not ready yet.
    Scaling,
    /// The pool or its rollout is paused.
    Paused,
    /// The pool is as its spec describes it.
    Ready,
}

impl PoolPhase {
    /// The text of the phase as the reason of a condition.
    pub fn as_str(self) -> &'static str {
        ConditionReason::from(self).as_str()
    }
}

impl From<PoolPhase> for ConditionReason {
    fn from(phase: PoolPhase) -> Self {
        match phase {
            PoolPhase::Blocked => Self::Blocked,
            PoolPhase::ProgressDeadlineExceeded => Self::ProgressDeadlineExceeded,
            PoolPhase::Failing => Self::Failing,
            PoolPhase::RollingOut => Self::RollingOut,
            PoolPhase::Scaling => Self::Scaling,
            PoolPhase::Paused => Self::Paused,
            PoolPhase::Ready => Self::Ready,
        }
    }
}

impl fmt::Display for PoolPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What keeps a pool from being ready, apart from its numbers.
struct UnreadyCauses {
    /// What only a user can correct.
    blocked: Vec<String>,
    /// What failed and is repeated.
    failed: Vec<String>,
    /// Machines that are not ready, for causes that the platform reports.
    stuck: Vec<String>,
    /// Machines whose guests do not have a live update of the rollout yet.
    pending_updates: Option<String>,
    /// That the pool has made no progress until its deadline.
    overdue: Option<String>,
}

impl UnreadyCauses {
    fn of(
        observed: &ObservedPool<'_>,
        counts: &MachineCounts,
        failure: Option<&PoolFailure>,
        overridden: Option<String>,
    ) -> Self {
        let mut blocked = required_user_actions(observed, counts, failure);
        blocked.extend(overridden);
        let mut failed = failure_messages(observed, failure);
        failed.retain(|message| !blocked.contains(message));
        let is_short = counts.ready < observed.pool.desired;
        let stuck = if is_short { list_start_problems(observed) } else { Vec::new() };
        Self { blocked, failed, stuck, pending_updates: None, overdue: describe_overdue(observed) }
    }

    fn is_empty(&self) -> bool {
        self.blocked.is_empty() && self.failed.is_empty() && self.stuck.is_empty()
    }

    /// What the controller does in this phase, and what keeps it from the end.
    fn describe_work(&self, phase: PoolPhase) -> String {
        let what = match phase {
            PoolPhase::Blocked => {
                "the controller waits for a user action, which the condition Stalled describes"
            }
            PoolPhase::ProgressDeadlineExceeded => {
                "the controller continues, but the pool makes no progress, as the condition Stalled describes"
            }
            PoolPhase::Failing if self.failed.is_empty() => {
                "the controller waits for machines that are not ready"
            }
            PoolPhase::Failing => "the controller repeats what failed",
            PoolPhase::RollingOut => "the controller applies the current template",
            PoolPhase::Scaling => "the controller works toward the desired number of ready machines",
            PoolPhase::Paused => "the controller does not work while the pool or its rollout is paused",
            PoolPhase::Ready => "the pool is as its spec describes it",
        };
        let causes = [&self.failed, &self.stuck].into_iter().flatten().chain(&self.pending_updates);
        let causes = join_message_parts(causes.cloned());
        match phase {
            _ if causes.is_empty() => what.to_owned(),
            PoolPhase::Failing => format!("{what}: {causes}"),
            _ => format!("{what}; {causes}"),
        }
    }

    /// Why the pool makes no progress. `numbers` is how far it is from its spec, and `waits` says which steps
    /// wait.
    fn describe_stall(&self, observed: &ObservedPool<'_>, numbers: &[String], waits: &[String]) -> String {
        let unnamed = self.stuck.is_empty().then(|| describe_unready_machines(observed)).flatten();
        let causes = [&self.failed, &self.stuck].into_iter().flatten().chain(&unnamed);
        let causes = self.overdue.iter().chain(causes).chain(&self.pending_updates);
        join_message_parts(causes.chain(numbers).chain(waits).cloned())
    }

    /// What a user must or may have to do. `rollout` is what the rollout waits for. The message says that no
    /// action is needed only if the controller and the platform complete the work.
    fn describe_user_action(&self, phase: PoolPhase, is_ready: bool, rollout: Option<String>) -> String {
        if !self.blocked.is_empty() {
            return join_message_parts(self.blocked.iter().cloned());
        }
        if !self.stuck.is_empty() {
            return "check the machines that are not ready: the condition Reconciling names them and the causes"
                .to_owned();
        }
        if !self.failed.is_empty() {
            return "the controller repeats what failed: if the failure lasts, remove its cause, which the condition \
                    Reconciling names"
                .to_owned();
        }
        if phase == PoolPhase::Paused && !is_ready {
            return "the controller continues when you resume the pool or its rollout".to_owned();
        }
        let pending = self.pending_updates.is_some().then(|| {
            "if the live updates last, make the machines migratable or restart them: the condition Reconciling names \
             them and the causes"
                .to_owned()
        });
        rollout.or(pending).unwrap_or_else(|| "the controller needs no user action".to_owned())
    }
}

/// The three conditions. `failure` is the failure that the condition `ReplicaFailure` reports, `overridden`
/// the message of the condition `TemplateOverridden`, and `waits` says which steps wait.
pub(super) fn phase_conditions(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    failure: Option<&PoolFailure>,
    overridden: Option<String>,
    waits: Vec<String>,
) -> [ComputedCondition; 3] {
    let pool = observed.pool;
    let outdated = count_outdated_machines(observed);
    // If no machine is outdated, nothing that the controller does brings the template into effect.
    let mut causes = UnreadyCauses::of(observed, counts, failure, overridden.filter(|_| outdated == 0));
    if outdated > 0 {
        causes.pending_updates = describe_pending_updates(observed);
    }
    let has_all = counts.total == pool.desired || keeps_surplus(pool) && counts.total > pool.desired;
    let is_complete = has_all && counts.ready >= pool.desired;
    let phase = match () {
        () if !causes.blocked.is_empty() => PoolPhase::Blocked,
        () if causes.overdue.is_some() => PoolPhase::ProgressDeadlineExceeded,
        () if !causes.failed.is_empty() || !causes.stuck.is_empty() => PoolPhase::Failing,
        () if pool.paused => PoolPhase::Paused,
        () if outdated > 0 && !pool.rollout.paused => PoolPhase::RollingOut,
        () if !is_complete => PoolPhase::Scaling,
        () if pool.rollout.paused => PoolPhase::Paused,
        () => PoolPhase::Ready,
    };
    let is_ready = causes.is_empty() && is_complete && outdated == 0;
    let numbers = progress_messages(observed, counts, outdated);
    let user_action = if phase == PoolPhase::ProgressDeadlineExceeded {
        causes.describe_stall(observed, &numbers, &waits)
    } else {
        causes.describe_user_action(phase, is_ready, rollout_user_action(pool, counts, outdated))
    };
    let message = if is_ready {
        ready_message(pool, counts)
    } else {
        let UnreadyCauses { blocked, failed, stuck, pending_updates, overdue: _ } = &causes;
        join_message_parts(
            [blocked, failed, stuck]
                .into_iter()
                .flatten()
                .cloned()
                .chain(numbers)
                .chain(pending_updates.clone())
                .chain(waits),
        )
    };
    let reconciling = matches!(phase, PoolPhase::Failing | PoolPhase::RollingOut | PoolPhase::Scaling);
    let is_stalled = matches!(phase, PoolPhase::Blocked | PoolPhase::ProgressDeadlineExceeded);
    let wanted = |kind, holds, message| ComputedCondition { kind, holds, reason: phase.into(), message };
    [
        wanted(ConditionType::Ready, is_ready, message),
        wanted(ConditionType::Reconciling, reconciling, causes.describe_work(phase)),
        wanted(ConditionType::Stalled, is_stalled, user_action),
    ]
}

/// What a rollout waits for that only a user does: an approval, or the stop of a machine that keeps the disk
/// that it booted from.
fn rollout_user_action(pool: &Pool, counts: &MachineCounts, outdated: usize) -> Option<String> {
    if outdated == 0 || pool.rollout.restarts != Restarts::ByPlatform {
        return None;
    }
    let approvals = (counts.for_approval > 0)
        .then(|| format!("approve the restarts of {}", machine_count_text(counts.for_approval)));
    let stranded = (counts.stranded > 0).then(|| {
        format!("stop or recreate {}, as the condition Synced says", machine_count_text(counts.stranded))
    });
    let actions: Vec<String> = approvals.into_iter().chain(stranded).collect();
    (!actions.is_empty()).then(|| format!("to complete the rollout, {}", actions.join(", and ")))
}

/// What only a user can correct.
fn required_user_actions(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    failure: Option<&PoolFailure>,
) -> Vec<String> {
    let pool = observed.pool;
    let mut blocked: Vec<String> = pool.invalid_spec().into_iter().map(|failure| failure.message).collect();
    let disputed = failure.filter(|failure| failure.reason == FailureReason::StatusDisputed);
    blocked.extend(disputed.map(|failure| failure.message.clone()));
    if pool.revision.held {
        blocked.push("the requested revision cannot be used: set a stored revision, or none".to_owned());
    }
    if RolloutProgress::of(observed).stopped() {
        blocked.push(
            "the rollout is stopped, because the API server rejected the updates of several machines: correct the \
             template"
                .to_owned(),
        );
    }
    let staying = count_staying_machines(observed, counts.live);
    if !keeps_surplus(pool) && !pool.paused {
        blocked.extend(explicit_surplus(pool, staying));
    }
    for blocker in &observed.memory.blockers {
        if let Blocker::UserAction(what) = blocker
            && !blocked.contains(what)
        {
            blocked.push(what.clone());
        }
    }
    blocked
}

/// That the pool has made no progress until its deadline.
fn describe_overdue(observed: &ObservedPool<'_>) -> Option<String> {
    let deadline = observed.pool.progress_deadline;
    let is_overdue = observed.memory.progress().is_overdue(deadline, observed.uptime);
    is_overdue.then(|| {
        let seconds = deadline.as_secs();
        format!(
            "the pool has made no progress for {seconds} s, its {PROGRESS_DEADLINE_FIELD}: remove the cause, or raise \
             the deadline if machines need longer"
        )
    })
}

/// What failed.
fn failure_messages(observed: &ObservedPool<'_>, failure: Option<&PoolFailure>) -> Vec<String> {
    let known = |failure: &&PoolFailure| failure.reason != FailureReason::StatusDisputed;
    let mut failing: Vec<String> =
        failure.filter(known).map(|failure| failure.message.clone()).into_iter().collect();
    let (overdue, _) = observed.memory.rollout_attempts.overdue(observed.uptime);
    if overdue > 0 {
        failing.push(format!("the platform has not evaluated changes of {}", machine_count_text(overdue)));
    }
    failing
}

#[cfg(test)]
mod tests;
