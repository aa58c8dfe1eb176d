//! Interned texts: one allocation for a text that many objects contain, such as the UID of their pool.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// Number of slots; a power of two. A pool has about five texts that occur in many objects.
const PLACES: usize = 4096;

/// The last text of every hash. A text with the same hash replaces it, so the table needs no cleanup. A replaced text
/// only costs another allocation.
static RECENT: LazyLock<Mutex<Vec<Option<Arc<str>>>>> = LazyLock::new(|| Mutex::new(vec![None; PLACES]));

/// `text`, shared with recent calls with the same text.
pub fn intern(text: &str) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash are as good as the others")]
    let place = hasher.finish() as usize % PLACES;
    let mut recent = RECENT.lock();
    match &recent[place] {
        Some(known) if **known == *text => known.clone(),
        _ => {
            let fresh: Arc<str> = text.into();
            recent[place] = Some(fresh.clone());
            fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_allocation_and_different_ones_never_mix() {
        let first = intern("interned once");
        assert!(Arc::ptr_eq(&first, &intern("interned once")));
        for number in 0..3 * PLACES {
            let text = format!("another {number}");
            assert_eq!(*intern(&text), *text);
        }
        assert_eq!(*intern("interned once"), *first);
    }
}
