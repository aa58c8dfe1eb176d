//! Environments for tests: a manual clock, seeded randomness, fences without a lease, and recorded logs.
//!
//! The module exists in the tests of this crate, and with the feature `testing`. Programs do not use it.

mod clock;
mod environment;
mod fence;
pub mod flags;
mod idle;
mod log;
mod random;

pub use clock::ManualClock;
pub use environment::{SeededEntropy, test_env};
pub use fence::{end_fence, fence_for, unlimited_fence};
pub use idle::Idle;
pub use log::Recording;
pub use random::SeededRandom;
