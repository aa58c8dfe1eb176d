//! Fences without a lease.

use std::time::Duration;

use super::clock::ManualClock;
use super::environment::test_env;
use crate::env::Env;
use crate::lease::fence::{Fence, Instant};

/// A fence that admits every write until [`end_fence`].
pub fn unlimited_fence() -> Fence {
    fence_for(&test_env(&ManualClock::new(), 0), Duration::MAX)
}

/// A fence that is valid for `validity` from now, by the clocks of `env`.
pub fn fence_for(env: &Env, validity: Duration) -> Fence {
    let sent = Instant::now(env);
    Fence::with_validity(env.clone(), validity, sent)
}

/// Ends `fence`, as the loss of the lease does.
pub fn end_fence(fence: &Fence) {
    fence.end();
}
