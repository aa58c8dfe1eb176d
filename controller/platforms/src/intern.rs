//! One allocation for a text that many objects carry, such as the UID of their pool.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

/// How many texts are remembered; a power of two. Pools have some five that repeat.
const PLACES: usize = 4096;

/// The last text of every hash. It only saves memory: whoever finds another text in its place gets an allocation of its
/// own, so nothing has to be cleaned up and nothing can be wrong.
static RECENT: LazyLock<Mutex<Vec<Option<Arc<str>>>>> = LazyLock::new(|| Mutex::new(vec![None; PLACES]));

/// `text`, shared with others who lately asked for the same.
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
