//! Environments for tests.

use std::sync::Arc;

use parking_lot::Mutex;

use super::clock::ManualClock;
use crate::env::{Entropy, Env, TokioSpawner};

/// Random numbers from a seed (splitmix64).
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An environment with this clock and seed, which spawns on the current tokio runtime.
///
/// Tests use a current-thread runtime, so that tasks run in the same order in every run.
pub fn test_env(clock: &ManualClock, seed: u64) -> Env {
    Env::new(Arc::new(clock.clone()), Arc::new(SeededEntropy::new(seed)), Arc::new(TokioSpawner))
}
