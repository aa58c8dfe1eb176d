//! Failed reads of a plan: their backoff, their event, and the pool that the status then shows.

use std::sync::Arc;

use vmpool_engine::failure::{Failure, FailureReason};
use vmpool_engine::limits::shorten;
use vmpool_engine::model::CurrentRevision;
use vmpool_platforms::Platform;
use vmpool_runtime::telemetry::with_causes;

use super::ended::Ended;
use crate::apply::jitter;
use crate::context::{Context, PoolMemory};
use crate::events::{PoolEvent, Reason};
use crate::live::ReadError;
use crate::object::version;
use crate::pool_entry::{CachedPool, PoolEntry};
use crate::revisions;

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
pub(super) fn may_read<P: Platform>(context: &Context<P>, state: &PoolMemory) -> Result<(), ReadError> {
    state.memory.reading.batch_size(context.env.uptime()).map(drop).map_err(|_| ReadError::InBackoff)
}

/// Records a failed read. `attempt` says what was read, and for what.
pub(super) fn unread<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
    error: &ReadError,
    attempt: &'static str,
) -> NoPlan<P> {
    if matches!(error, ReadError::InBackoff) {
        return NoPlan::Unread { pool, event: None };
    }
    let message = shorten(format!("{attempt}: {}", with_causes(error)));
    tracing::warn!(error = message, "a read failed");
    context.metrics.writes.batch_failed(FailureReason::FailedRead);
    let failure = Failure { reason: FailureReason::FailedRead, message: message.clone() };
    state.memory.reading.failed(failure, context.env.uptime(), error.retry_after(), jitter(context));
    let name = pool.facts.id.name.to_string();
    NoPlan::Unread { pool, event: Some(PoolEvent { reason: Reason::FailedRead, name, note: message }) }
}

/// The pool with the revision and the generation that its status shows, because the current revision could not be
/// determined. Otherwise the status would compare the machines with a revision that may not be the current one.
pub(super) fn at_shown_revision<P: Platform>(pool: &CachedPool<P>, state: &PoolMemory) -> Arc<PoolEntry<P>> {
    // The watch may not show the last status yet.
    let own = state.last_status.as_ref().filter(|last| version(&*pool.object) < last.version);
    let published = own.map_or(&pool.facts.published, |last| &last.became);
    // A status that another definition of the pool pruned shows no revision.
    let shown = published.summary.as_ref().filter(|shown| !shown.revision.as_str().is_empty());
    let Some(shown) = shown else { return Arc::new(pool.at(revisions::unstored(pool))) };
    let mut entry = pool.at(CurrentRevision::of_template(shown.revision.clone(), true));
    entry.facts.generation = shown.observed_generation;
    Arc::new(entry)
}
