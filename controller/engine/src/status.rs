//! The status of a pool, computed from the observed state and the last failure.

mod activity;
mod availability;
mod blocked;
mod counts;
mod detached;
mod distance;
mod healing;
mod images;
mod live_updates;
mod numbers;
mod overridden;
mod phase;
mod pins;
mod problem;
mod protection;
mod provisioning;
mod standby;
mod synced;
pub(crate) mod text;

use crate::activity::ActivityEntry;
use crate::condition::{
    ComputedCondition, ConditionReason, ConditionType, StatusCondition, merge_conditions,
};
use crate::failure::{PoolFailure, summarize_messages};
use crate::image_refresh::count_image_outdated;
use crate::model::{Naming, StatusContent};
use crate::plan::observed::ObservedPool;
use crate::scale_down::surplus::{count_staying_machines, explicit_surplus};

pub use crate::model::StatusSummary;
pub use availability::Availability;
use blocked::BlockedSteps;
use counts::MachineCounts;
pub use detached::{DetachedDiskLink, DetachedDiskReport, find_detached_disks};
pub use distance::measure_distance;
pub use healing::describe_blocked_healing;
pub use phase::PoolPhase;
pub use problem::{StartProblem, first_start_problem, machine_waiting_for_storage};
pub use provisioning::find_delaying_limit;
use text::{join_message_parts, machine_count_text, verb_for_count};

/// The status of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedStatus {
    /// Counters and identities.
    pub summary: StatusSummary,
    /// All conditions, including those of other controllers.
    pub conditions: Vec<StatusCondition>,
    /// The activity log. A difference in it alone causes no write.
    pub activity: Vec<ActivityEntry>,
}

impl ComputedStatus {
    /// Whether two statuses are equal, apart from the activity log.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let Self { summary, conditions, activity: _ } = self;
        (summary, conditions) == (&other.summary, &other.conditions)
    }
}

/// The status of the observed pool.
pub fn compute_status(observed: &ObservedPool<'_>, failure: Option<&PoolFailure>) -> ComputedStatus {
    let pool = observed.pool;
    let counts = MachineCounts::of(observed);
    let summary = summarize_pool(observed, &counts);

    let blocked = BlockedSteps::of(observed);
    let mut wanted = Vec::new();
    if pool.status_content == StatusContent::Complete {
        let available = available_condition(observed, &summary, &blocked);
        // A machine that waits for a disk keeps either the pool from being available, or the rollout from
        // being complete.
        let waits = if available.holds { &blocked.machines[..] } else { &[] };
        wanted.extend([available, synced::synced_condition(observed, &counts, waits, failure)]);
        if counts.total != pool.desired {
            wanted.push(progressing_condition(observed, &counts, &blocked));
        }
    }
    let overridden = overridden::describe_overridden(observed, &counts);
    if let Some(message) = &overridden {
        wanted.push(ComputedCondition {
            kind: ConditionType::TemplateOverridden,
            holds: true,
            reason: ConditionReason::FieldsOverridden,
            message: message.clone(),
        });
    }
    if pool.status_content == StatusContent::FailureAndPause {
        let detached = find_detached_disks(observed);
        if !detached.is_empty() {
            wanted.push(ComputedCondition {
                kind: ConditionType::DiskDetached,
                holds: true,
                reason: ConditionReason::DiskDetachedByHand,
                message: detached::describe_detached_disks(&detached),
            });
        }
    }
    wanted.extend(specification_conditions(observed, failure));
    let protected = protection::blocked_by_protection_condition(observed);
    let limited = provisioning::provisioning_limited_condition(observed);
    let healing = healing::healing_blocked_condition(observed);
    let waits =
        protected.iter().chain(&limited).chain(&healing).map(|condition| condition.message.clone()).collect();
    wanted.extend(phase::phase_conditions(observed, &counts, failure, overridden, waits));
    wanted.extend(protected);
    wanted.extend(limited);
    wanted.extend(healing);
    wanted.extend(provisioning::start_overdue_condition(observed));
    wanted.extend(standby::standby_started_condition(observed));
    wanted.extend(images::image_outdated_condition(observed));
    let conditions =
        merge_conditions(wanted, &pool.published.conditions, observed.now, summary.observed_generation);
    let activity = activity::extended_activity_log(observed, &summary);
    ComputedStatus { summary, conditions, activity }
}

fn summarize_pool(observed: &ObservedPool<'_>, counts: &MachineCounts) -> StatusSummary {
    let pool = observed.pool;
    StatusSummary {
        observed_generation: pool.generation,
        replicas: counts.total,
        ready: counts.ready,
        available: counts.available,
        updated: counts.updated,
        restart_pending: counts.restart_pending,
        draining: counts.draining,
        image_outdated: count_image_outdated(observed),
        next_number: (pool.naming == Naming::Random).then(|| observed.settled_numbers()),
        healed: observed.memory.healed_machines(),
        revision: pool.revision.id.clone(),
        used_copies: pool.revision.copies.used.clone(),
        standby: counts::count_standby(observed),
    }
}

/// What the pool and its settings ask for, and what is wrong with them.
fn specification_conditions(
    observed: &ObservedPool<'_>,
    failure: Option<&PoolFailure>,
) -> Vec<ComputedCondition> {
    let pool = observed.pool;
    let mut wanted = Vec::new();
    if pool.paused {
        wanted.push(ComputedCondition {
            kind: ConditionType::ReplicaPaused,
            holds: true,
            reason: ConditionReason::SuccessfulPaused,
            message: "the pool is paused: the controller creates, deletes and updates no machine".to_owned(),
        });
    }
    if let Some(unresolved) = &pool.unresolved {
        wanted.push(ComputedCondition {
            kind: ConditionType::TemplateResolved,
            holds: false,
            reason: unresolved.reason,
            message: unresolved.message.clone(),
        });
    }
    wanted.extend(pins::pin_conditions(observed));
    if let Some(images) = &pool.images {
        wanted.push(ComputedCondition {
            kind: ConditionType::ImagesReady,
            holds: false,
            reason: images.reason,
            message: images.message.clone(),
        });
    }
    if let Some(failure) = pool.invalid_spec().as_ref().or(failure) {
        wanted.push(ComputedCondition {
            kind: ConditionType::ReplicaFailure,
            holds: true,
            reason: failure.reason.into(),
            message: failure.message.clone(),
        });
    }
    if !pool.invalid_settings.is_empty() {
        wanted.push(ComputedCondition {
            kind: ConditionType::InvalidSettings,
            holds: true,
            reason: ConditionReason::UnreadableSettings,
            message: summarize_messages(&pool.invalid_settings),
        });
    }
    wanted
}

fn available_condition(
    observed: &ObservedPool<'_>,
    summary: &StatusSummary,
    blocked: &BlockedSteps,
) -> ComputedCondition {
    let (ready, desired) = (summary.ready, observed.pool.desired);
    let holds = ready >= desired;
    let count = match ready.checked_sub(desired) {
        Some(1..) => {
            format!("{} {} ready, {desired} desired", machine_count_text(ready), verb_for_count(ready))
        }
        _ if desired == 0 => "no machines are desired".to_owned(),
        _ => format!("{ready} of {} {} ready", machine_count_text(desired), verb_for_count(desired)),
    };
    let problem = first_start_problem(observed).filter(|_| !holds).map(StartProblem::sentence);
    let waits = if holds { &[] } else { &blocked.machines[..] };
    ComputedCondition {
        kind: ConditionType::Available,
        holds,
        reason: if holds {
            ConditionReason::AllReplicasReady
        } else {
            ConditionReason::InsufficientReadyReplicas
        },
        message: join_message_parts(std::iter::once(count).chain(problem).chain(waits.iter().cloned())),
    }
}

fn progressing_condition(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    blocked: &BlockedSteps,
) -> ComputedCondition {
    let pool = observed.pool;
    let MachineCounts { total, live, .. } = *counts;
    let desired = pool.desired;
    let staying = count_staying_machines(observed, counts.live);
    let message = if total < desired {
        format!("creating machines: {total} of {desired} exist")
    } else if let Some(surplus) = explicit_surplus(pool, staying) {
        surplus
    } else if live <= desired {
        let terminating = total - live;
        format!(
            "{terminating} of {} {} terminating, {desired} desired",
            machine_count_text(total),
            verb_for_count(terminating)
        )
    } else {
        format!("deleting machines: {total} exist, {desired} desired")
    };
    let message = join_message_parts(std::iter::once(message).chain(blocked.count(observed, total)));
    ComputedCondition {
        kind: ConditionType::Progressing,
        holds: true,
        reason: ConditionReason::ReplicasProgressing,
        message,
    }
}

#[cfg(test)]
mod tests;
