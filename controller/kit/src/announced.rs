//! What was announced, and must not be announced again while it lasts.

use std::collections::BTreeSet;

/// What was announced, for example in an event, and still lasts. If it ends and comes again, it is announced
/// again.
#[derive(Clone, Debug)]
pub struct Announced<K>(BTreeSet<K>);

impl<K> Default for Announced<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord> Announced<K> {
    /// Records that exactly these last. Returns those that were not announced yet.
    pub fn announce<T>(&mut self, lasting: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
        let keys: BTreeSet<K> = lasting.iter().map(&key).collect();
        let former = std::mem::replace(&mut self.0, keys);
        lasting.into_iter().filter(|item| !former.contains(&key(item))).collect()
    }

    /// The same for something of which there is at most one.
    pub fn announce_one(&mut self, lasting: Option<K>) -> bool {
        let is_new = lasting.as_ref().is_some_and(|lasting| !self.0.contains(lasting));
        self.0 = lasting.into_iter().collect();
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_announced_once() {
        let mut announced = Announced::default();
        assert_eq!(announced.announce(vec![1, 2], |key| *key), [1, 2]);
        assert_eq!(announced.announce(vec![2, 3], |key| *key), [3]);
        assert_eq!(announced.announce(vec![], |key: &i32| *key), [0; 0]);
        assert_eq!(announced.announce(vec![2], |key| *key), [2], "it ended in between");
    }

    #[test]
    fn one_message_is_announced_until_it_changes() {
        let mut announced = Announced::default();
        assert!(announced.announce_one(Some("full")));
        assert!(!announced.announce_one(Some("full")));
        assert!(announced.announce_one(Some("denied")));
        assert!(!announced.announce_one(None));
        assert!(announced.announce_one(Some("denied")));
    }
}
