//! The index of a cache: namespaces and names of the objects with a key.

use std::collections::BTreeSet;
#[expect(clippy::disallowed_types, reason = "looked up by key, never walked")]
use std::collections::HashMap;
use std::sync::Arc;

use super::keys::CacheKey;

/// Namespace and name.
type Place = (Arc<str>, Arc<str>);

/// By key.
#[derive(Default)]
#[expect(clippy::disallowed_types, reason = "looked up by key, never walked")]
pub(super) struct CacheIndex(HashMap<CacheKey, Places>);

/// Most disks have one machine, and a set needs ten times the memory of its only element.
enum Places {
    One(Place),
    Many(BTreeSet<Place>),
}

impl CacheIndex {
    pub(super) fn insert(&mut self, key: &CacheKey, namespace: &Arc<str>, name: &Arc<str>) {
        let place = (namespace.clone(), name.clone());
        match self.0.get_mut(key) {
            None => drop(self.0.insert(key.clone(), Places::One(place))),
            Some(Places::One(known)) if *known == place => {}
            Some(places @ Places::One(_)) => {
                let Places::One(known) = std::mem::replace(places, Places::Many(BTreeSet::new())) else {
                    return;
                };
                *places = Places::Many(BTreeSet::from([known, place]));
            }
            Some(Places::Many(known)) => drop(known.insert(place)),
        }
    }

    pub(super) fn remove(&mut self, key: &CacheKey, namespace: &Arc<str>, name: &Arc<str>) {
        let place = (namespace.clone(), name.clone());
        let empty = match self.0.get_mut(key) {
            None => false,
            Some(Places::One(known)) => *known == place,
            Some(Places::Many(known)) => {
                known.remove(&place);
                known.is_empty()
            }
        };
        if empty {
            self.0.remove(key);
        }
    }

    /// The namespaces and names of the objects with this key, in order.
    pub(super) fn places(&self, key: &CacheKey) -> impl Iterator<Item = &Place> {
        let (one, many) = match self.0.get(key) {
            None => (None, None),
            Some(Places::One(place)) => (Some(place), None),
            Some(Places::Many(places)) => (None, Some(places)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
