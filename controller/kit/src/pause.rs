//! Pauses between attempts, of which each is twice as long as the one before.

use std::time::Duration;

/// The pause after the first failure.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The pause after an attempt that `attempts` others came before.
pub fn pause_after(attempts: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempts)).min(longest)
}
