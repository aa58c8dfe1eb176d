//! Fences without a lease, for tests of what asks them.

use std::time::Duration;

use super::fence::{Fence, Instant};
use crate::env::Env;
use crate::testing::{ManualClock, env};

/// A fence that admits everything until [`end`].
pub fn unfenced() -> Fence {
    fence_for(&env(&ManualClock::new(), 0), Duration::MAX)
}

/// A fence that is valid for `validity` from now on by the clocks of `env`.
pub fn fence_for(env: &Env, validity: Duration) -> Fence {
    let sent = Instant::now(env);
    Fence::with_validity(env.clone(), validity, sent)
}

/// Ends `fence`, as the loss of the lease would.
pub fn end(fence: &Fence) {
    fence.end();
}
