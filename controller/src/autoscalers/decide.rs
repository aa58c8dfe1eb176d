//! The decision of a pass, with what the autoscaler remembers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::ObjectKey;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::decision::{Explanation, ScaleDecision, decide_scale};
use vmpool_autoscaler::limits::AutoscalerSettings;
use vmpool_autoscaler::status::AutoscalerActivity;

use super::context::AutoscalerContext;
use super::pool_facts::{AutoscaledPoolFacts, AutoscaledPoolState};

/// The decision of a pass with the numbers behind it.
pub(super) struct Decided {
    pub(super) explanation: Explanation,
    pub(super) decision: ScaleDecision,
    /// The time until a lowering can become due.
    pub(super) next: Option<Duration>,
    /// When the limits can change.
    limits_change: Option<Timestamp>,
}

/// Decides about a pool, and remembers what is desired.
pub(super) fn decide_pass(
    context: &AutoscalerContext,
    key: &ObjectKey,
    settings: &Arc<AutoscalerSettings>,
    facts: &AutoscaledPoolFacts,
) -> Decided {
    let moment = context.moment();
    context.with_memory(key, &facts.id.uid, |memory| {
        let ended = memory.note_waiting(facts, moment.uptime);
        ended.answered.into_iter().for_each(|waited| context.metrics.autoscalers.claim_answered(waited));
        context.metrics.autoscalers.claims_unanswered(ended.unanswered);
        let limits = memory.limits_at(settings, moment.now);
        let (effect, limits_change) = (limits.effect.clone(), limits.until);
        let explanation = Explanation::decide(effect, facts.demand(), &mut memory.history, moment);
        let desired = explanation.desired;
        let decision = decide_scale(facts.replicas, desired, &mut memory.history, settings.delay);
        let is_pending = desired.replicas < facts.replicas;
        let next = memory.history.next_change(settings.delay).filter(|_| is_pending);
        Decided { explanation, decision, next, limits_change }
    })
}

/// Whether the controller scales the pool.
pub(super) fn find_activity(
    context: &AutoscalerContext,
    key: &ObjectKey,
    object: &PoolAutoscaler,
    settings: &AutoscalerSettings,
    facts: &AutoscaledPoolFacts,
) -> AutoscalerActivity {
    if let Some(conflict) = context.store.find_conflict(key, object) {
        return AutoscalerActivity::Conflict(conflict);
    }
    match facts.state {
        _ if settings.is_unusable => AutoscalerActivity::InvalidSpec,
        AutoscaledPoolState::Deleting => AutoscalerActivity::PoolDeleting,
        _ if settings.paused => AutoscalerActivity::Paused,
        AutoscaledPoolState::Paused => AutoscalerActivity::PoolPaused,
        AutoscaledPoolState::Active => AutoscalerActivity::Scaling,
    }
}

/// The time until something changes without an event.
pub(super) fn next_pass(
    context: &AutoscalerContext,
    facts: &AutoscaledPoolFacts,
    decided: &Decided,
) -> Option<Duration> {
    let now = context.leader.env.now();
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
    let changes = [decided.limits_change, facts.next_change].into_iter().flatten().map(until);
    changes.chain(decided.next).min()
}
