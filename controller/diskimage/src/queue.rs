//! The queue of imports: at most so many at a time, first come, first served.
//!
//! One leader decides, from this one view, and the view changes before the status is written. So the limit also holds if two
//! passes run at the same time on caches that do not show each other's writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use crate::failure::Reason;
use crate::model::{Image, Key};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It waits, since this moment.
    Waiting(Timestamp),
    /// It was given a turn, and the observed status does not show the import yet.
    Given,
    /// Its status shows the import.
    Transferring,
}

/// The images that wait for an import, and those that are imported.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    places: BTreeMap<Key, Place>,
}

impl Queue {
    /// Notes the status of an image. A new leader notes all images before it gives the first turn.
    pub fn observe(&mut self, image: &Image) {
        let status = &image.status;
        let given = self.places.get(&image.key) == Some(&Place::Given);
        // The deletion of an image replaces the reason, and its import continues until the DataVolume is gone.
        let is_cancelled = image.deleting && status.phase == Some(ImagePhase::Syncing);
        let place = if status.transfers() || is_cancelled {
            Some(Place::Transferring)
        } else if image.deleting {
            None
        } else if matches!(status.phase, Some(ImagePhase::Queued)) {
            let blocked =
                matches!(status.reason, Some(Reason::NameConflict | Reason::ResourceCreationFailed));
            match status.queued_at {
                // An image that cannot start keeps no other image waiting.
                _ if given => Some(Place::Given),
                Some(since) if !blocked => Some(Place::Waiting(since)),
                _ => None,
            }
        } else {
            None
        };
        match place {
            Some(place) => self.places.insert(image.key.clone(), place),
            None => self.places.remove(&image.key),
        };
    }

    /// Forgets a deleted image.
    pub fn remove(&mut self, image: &Key) {
        self.places.remove(image);
    }

    /// Takes a turn back, because the image did not start.
    pub fn take_back(&mut self, image: &Key) {
        if self.places.get(image) == Some(&Place::Given) {
            self.places.remove(image);
        }
    }

    /// Gives an image its turn, if one is free and no image waits longer. Images that wait equally long are in the order of
    /// their names.
    pub fn turn(&mut self, image: &Key, limit: usize) -> bool {
        let Some(place) = self.places.get(image).copied() else { return false };
        let Place::Waiting(since) = place else { return true };
        let free = limit.saturating_sub(self.transferring());
        let before = self.waiting().filter(|other| *other < (since, image)).count();
        let turn = before < free;
        if turn {
            self.places.insert(image.clone(), Place::Given);
        }
        turn
    }

    /// The images that may start now, the longest waiting first.
    pub fn next(&self, limit: usize) -> Vec<Key> {
        let mut waiting: Vec<(Timestamp, &Key)> = self.waiting().collect();
        waiting.sort();
        let free = limit.saturating_sub(self.transferring());
        waiting.into_iter().take(free).map(|(_, key)| key.clone()).collect()
    }

    /// Number of images that are imported or were given their turn.
    pub fn transferring(&self) -> usize {
        self.places.values().filter(|place| !matches!(place, Place::Waiting(_))).count()
    }

    /// Number of images that wait for their turn.
    pub fn len(&self) -> usize {
        self.waiting().count()
    }

    /// Whether no image waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn waiting(&self) -> impl Iterator<Item = (Timestamp, &Key)> {
        self.places.iter().filter_map(|(key, place)| match place {
            Place::Waiting(since) => Some((*since, key)),
            Place::Given | Place::Transferring => None,
        })
    }
}

#[cfg(test)]
mod tests;
