//! The first lists of watches, without which no pass may run.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of first lists of watches that are not complete.
#[derive(Debug, Default)]
pub struct FirstLists(AtomicUsize);

impl FirstLists {
    /// This many lists.
    pub fn new(lists: usize) -> Self {
        Self(AtomicUsize::new(lists))
    }

    /// Another list must be complete.
    pub fn expect(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A list is complete. Returns whether it was the last one.
    pub fn ended(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Whether all lists are complete.
    pub fn are_complete(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
