//! Environments for tests: a clock that moves only when told to, seeded randomness, and fences without a lease.
//!
//! Nothing here belongs into a running product. It is public because the tests of other crates need it.

mod clock;
mod idle;
mod log;
pub mod pages;
mod random;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::env::{Entropy, Env, TokioSpawner};

pub use crate::lease::testing::{end, fence_for, unfenced};
pub use clock::ManualClock;
pub use idle::Idle;
pub use log::Recording;
pub use random::SeededRandom;

/// Random numbers that a seed determines (splitmix64).
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// The sequence that `seed` determines.
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

/// An environment on `clock`, with randomness of `seed`, that spawns on the current tokio runtime.
///
/// Tests use a current-thread runtime, so that tasks interleave the same way in every run.
pub fn env(clock: &ManualClock, seed: u64) -> Env {
    Env::new(Arc::new(clock.clone()), Arc::new(SeededEntropy::new(seed)), Arc::new(TokioSpawner))
}
