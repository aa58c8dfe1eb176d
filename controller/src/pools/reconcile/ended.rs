//! The end of a pass, and the time of the next one.

use std::time::Duration;

use vmpool_kit::pause::pause_after;

use crate::metrics::PassResult;
use crate::pools::context::PoolMemory;

/// Time until the next pass after the state differed from the plan, so that the watch can show the
/// difference.
pub(super) const AFTER_OUTDATED: Duration = Duration::from_millis(50);
/// The maximum of this time after several consecutive differences.
const AFTER_MANY_OUTDATED: Duration = Duration::from_secs(5);

/// The end of a pass.
pub(super) struct Ended {
    pub(super) result: PassResult,
    /// When to start the next pass, if earlier than the resync.
    pub(super) again: Option<Duration>,
}

/// The watch may be stalled, so the time doubles with every consecutive difference.
pub(super) fn after_outdated(state: &mut PoolMemory) -> Duration {
    let pause = pause_after(state.outdated_passes, AFTER_OUTDATED, AFTER_MANY_OUTDATED);
    state.outdated_passes = state.outdated_passes.saturating_add(1);
    pause
}
