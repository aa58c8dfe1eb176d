//! Pauses between attempts, of which each is twice as long as the one before.

use std::time::Duration;

/// The pause after an attempt that `attempts` others came before.
pub fn pause_after(attempts: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempts)).min(longest)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::first(0, 1)]
    #[case::third(2, 4)]
    #[case::longest(5, 30)]
    #[case::very_many(u32::MAX, 30)]
    fn a_pause_doubles_up_to_the_longest_one(#[case] attempts: u32, #[case] seconds: u64) {
        let pause = pause_after(attempts, Duration::from_secs(1), Duration::from_secs(30));
        assert_eq!(pause, Duration::from_secs(seconds));
    }
}
