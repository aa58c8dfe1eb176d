//! Failed reads of a plan: their backoff, their event, and the pool that the status then shows.

use std::sync::Arc;

use vmpool_engine::failure::{FailureReason, PoolFailure};
use vmpool_engine::limits::shorten_message;
use vmpool_engine::model::CurrentRevision;
use vmpool_kit::object::object_version;
use vmpool_platforms::Platform;
use vmpool_runtime::telemetry::with_causes;

use super::ended::Ended;
use crate::pools::apply::random_jitter;
use crate::pools::context::{PoolContext, PoolMemory};
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::live::ReadError;
use crate::pools::pool_entry::{CachedPool, PoolEntry};
use crate::pools::revisions;

/// Why a pass has no plan.
pub(super) enum NoPlan<P: Platform> {
    /// The pool is gone.
    Ended(Ended),
    /// The controller could not read what the plan depends on.
    Unread {
        /// The pool for the status.
        pool: Arc<PoolEntry<P>>,
        /// The event about the read; `None` if the pass sent none, because of the backoff.
        event: Option<PoolEvent>,
    },
}

/// Whether a pass may read live.
///
/// # Errors
/// [`ReadError::InBackoff`] until the backoff after a failed read has ended.
pub(super) fn may_read<P: Platform>(context: &PoolContext<P>, state: &PoolMemory) -> Result<(), ReadError> {
    state.memory.reading.batch_size(context.leader.env.uptime()).map(drop).map_err(|_| ReadError::InBackoff)
}

/// Records a failed read. `attempt` says what was read, and for what.
pub(super) fn record_failed_read<P: Platform>(
    context: &PoolContext<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
    error: &ReadError,
    attempt: &'static str,
) -> NoPlan<P> {
    if matches!(error, ReadError::InBackoff) {
        return NoPlan::Unread { pool, event: None };
    }
    let message = shorten_message(format!("{attempt}: {}", with_causes(error)));
    tracing::warn!(error = message, "a read failed");
    context.metrics.writes.batch_failed(FailureReason::FailedRead);
    let failure = PoolFailure { reason: FailureReason::FailedRead, message: message.clone() };
    state.memory.reading.failed(
        failure,
        context.leader.env.uptime(),
        error.retry_after(),
        random_jitter(context),
    );
    let name = pool.facts.id.name.to_string();
    NoPlan::Unread { pool, event: Some(PoolEvent { reason: EventReason::FailedRead, name, note: message }) }
}

/// The pool with the revision and the generation that its status shows, because the current revision could
/// not be determined. Otherwise the status would compare the machines with a revision that may not be the
/// current one.
pub(super) fn at_shown_revision<P: Platform>(pool: &CachedPool<P>, state: &PoolMemory) -> Arc<PoolEntry<P>> {
    // The watch may not show the last status yet.
    let own = state.last_status.as_ref().filter(|last| object_version(&*pool.object) < last.version);
    let published = own.map_or(&pool.facts.published, |last| &last.became);
    // A status that another definition of the pool pruned shows no revision.
    let shown = published.summary.as_ref().filter(|shown| !shown.revision.as_str().is_empty());
    let Some(shown) = shown else { return Arc::new(pool.at(revisions::unstored_revision(pool))) };
    let mut entry = pool.at(CurrentRevision::of_template(shown.revision.clone(), true));
    entry.facts.generation = shown.observed_generation;
    Arc::new(entry)
}
