//! Interned texts: one allocation for a text that many objects contain, such as the UID of their pool.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// Number of slots; a power of two. A pool has about five values that occur in many objects.
const PLACES: usize = 4096;

/// The last value of every hash. A value with the same hash replaces it, so the table needs no cleanup. A
/// replaced value only costs another allocation.
#[derive(Debug)]
pub struct InternTable<T: ?Sized>(LazyLock<Mutex<Vec<Option<Arc<T>>>>>);

impl<T: ?Sized + Hash + Eq> InternTable<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self(LazyLock::new(|| Mutex::new(vec![None; PLACES])))
    }

    /// `value`, shared with recent calls with an equal value. `fresh` allocates it.
    pub fn get(&self, value: &T, fresh: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low bits of a hash are as good as the others"
        )]
        let place = hasher.finish() as usize % PLACES;
        let mut recent = self.0.lock();
        match &recent[place] {
            Some(known) if **known == *value => known.clone(),
            _ => {
                let fresh = fresh();
                recent[place] = Some(fresh.clone());
                fresh
            }
        }
    }
}

impl<T: ?Sized + Hash + Eq> Default for InternTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

static RECENT: InternTable<str> = InternTable::new();

/// `text`, shared with recent calls with the same text.
pub fn intern_text(text: &str) -> Arc<str> {
    RECENT.get(text, || text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_allocation_and_different_ones_never_mix() {
        let first = intern_text("interned once");
        assert!(Arc::ptr_eq(&first, &intern_text("interned once")));
        for number in 0..3 * PLACES {
            let text = format!("another {number}");
            assert_eq!(*intern_text(&text), *text);
        }
        assert_eq!(*intern_text("interned once"), *first);
    }
}
