//! Seeded random decisions.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::SeededEntropy;
use crate::env::Entropy;

/// A seeded source of random decisions.
#[derive(Debug)]
pub struct SeededRandom(SeededEntropy);

impl SeededRandom {
    /// The decisions of this seed.
    pub fn new(seed: u64) -> Self {
        // The multiplication separates the sequences of adjacent seeds.
        Self(SeededEntropy::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(0x9e37_79b9)))
    }

    /// Any number.
    pub fn any(&self) -> u64 {
        self.0.next()
    }

    /// A number in the range.
    pub fn number(&self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.any() % (range.end() - range.start() + 1)
    }

    /// True `of` times out of a thousand.
    pub fn per_mille(&self, of: u64) -> bool {
        self.any() % 1000 < of
    }

    /// A duration up to `most` milliseconds; short ones are more likely.
    pub fn delay(&self, most: u64) -> Duration {
        Duration::from_millis(self.number(0..=self.number(0..=most)))
    }

    /// A random element; `None` if there is none.
    pub fn one<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        let last = u64::try_from(of.len()).ok()?.checked_sub(1)?;
        of.get(usize::try_from(self.number(0..=last)).ok()?)
    }
}
