//! The queue of imports: at most so many at a time, fair between namespaces.
//!
//! Two limits hold: one for all imports, and a smaller one for those of a namespace, so that imports that
//! hang keep only images of their own namespace waiting. A free place goes to the namespace with the fewest
//! running imports; between equals, to the one that got a turn least recently. Within a namespace, the image
//! that waits longest is first. An empty disk is not imported from anywhere, and needs no place.
//!
//! One leader decides, from this one view, and the view changes before the status is written. So the limit
//! also holds if two passes run at the same time on caches that do not show each other's writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use crate::failure::DiskImageReason;
use crate::model::{DiskImage, ObjectKey};
use crate::settings::ImportConcurrency;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueEntryState {
    /// It waits, since this moment.
    Waiting(Timestamp),
    /// It was given a turn and could not start, so that other images go first. It waits since this moment.
    Skipped(Timestamp),
    /// It was given a turn, and the observed status does not show the import yet.
    Admitted,
    /// Its status shows the import.
    Transferring,
}

/// What is known of an image.
#[derive(Clone, Debug)]
struct Entry {
    uid: String,
    /// The version of the newest observation. Versions of one resource are compared as integers.
    version: u64,
    /// None if it neither waits nor is imported.
    place: Option<QueueEntryState>,
}

/// The images that wait for an import, and those that are imported.
#[derive(Clone, Debug, Default)]
pub struct ImportQueue {
    entries: BTreeMap<ObjectKey, Entry>,
    /// The number of turns that were given.
    turns: u64,
    /// The number of the last turn of each namespace. A new leader begins without any: the image that waits
    /// longest is then first.
    last_turns: BTreeMap<String, u64>,
}

impl ImportQueue {
    /// Notes the status of an image, unless a newer one is noted. A new leader notes all images before it
    /// gives the first turn.
    pub fn observe(&mut self, image: &DiskImage) {
        let version = image.resource_version.parse().unwrap_or_default();
        let known = self.entries.get(&image.key);
        if known.is_some_and(|known| version < known.version) {
            return;
        }
        let place = known.filter(|known| known.uid == image.uid).and_then(|known| known.place);
        let place = place_of(image, place);
        self.entries.insert(image.key.clone(), Entry { uid: image.uid.clone(), version, place });
    }

    /// Forgets a deleted image.
    pub fn remove(&mut self, image: &ObjectKey) {
        self.entries.remove(image);
        if !self.entries.keys().any(|other| other.namespace == image.namespace) {
            self.last_turns.remove(&image.namespace);
        }
    }

    /// Takes a turn back, because the image did not start: for example, objects of its former import are not
    /// gone yet. It gets a turn again if it asks for one, but keeps no other image waiting meanwhile.
    pub fn revoke_admission(&mut self, image: &DiskImage) {
        let since = image.status.queued_at;
        if let Some(entry) =
            self.entries.get_mut(&image.key).filter(|entry| entry.place == Some(QueueEntryState::Admitted))
        {
            entry.place = since.map(QueueEntryState::Skipped);
        }
    }

    /// Gives an image its turn, if a place is free and no other image is before it. Images that wait equally
    /// long are in the order of their names.
    pub fn admit_import(&mut self, image: &ObjectKey, places: ImportConcurrency) -> bool {
        let Some(place) = self.place(image) else { return false };
        let (QueueEntryState::Waiting(since) | QueueEntryState::Skipped(since)) = place else { return true };
        // An image whose turn was passed on waits again when no place is free, so that it is told when one
        // is.
        self.set_place(image, QueueEntryState::Waiting(since));
        let turn = self.first(places).contains(&image);
        if turn {
            self.set_place(image, QueueEntryState::Admitted);
            self.turns += 1;
            self.last_turns.insert(image.namespace.clone(), self.turns);
        }
        turn
    }

    /// The images that may start now, in their order.
    pub fn next(&self, places: ImportConcurrency) -> Vec<ObjectKey> {
        self.first(places).into_iter().cloned().collect()
    }

    fn first(&self, places: ImportConcurrency) -> Vec<&ObjectKey> {
        let mut running: BTreeMap<&str, usize> = BTreeMap::new();
        for (key, entry) in &self.entries {
            if matches!(entry.place, Some(QueueEntryState::Admitted | QueueEntryState::Transferring)) {
                *running.entry(&key.namespace).or_default() += 1;
            }
        }
        let free = places.all.saturating_sub(running.values().sum());
        if free == 0 {
            return Vec::new();
        }
        let mut waiting: Vec<(Timestamp, &ObjectKey)> = self.waiting().collect();
        waiting.sort();
        let mut ordered = Vec::new();
        for (since, key) in waiting {
            // Those that run, and those of its namespace that are before it.
            let before = running.entry(&key.namespace).or_default();
            if *before < places.per_namespace {
                ordered.push((*before, self.last_turns.get(&key.namespace), since, key));
            }
            *before += 1;
        }
        ordered.sort();
        ordered.into_iter().take(free).map(|(.., key)| key).collect()
    }

    fn set_place(&mut self, image: &ObjectKey, place: QueueEntryState) {
        if let Some(entry) = self.entries.get_mut(image) {
            entry.place = Some(place);
        }
    }

    /// Number of images that are imported or were given their turn.
    pub fn transferring(&self) -> usize {
        let places = self.entries.values().filter_map(|entry| entry.place);
        places
            .filter(|place| matches!(place, QueueEntryState::Admitted | QueueEntryState::Transferring))
            .count()
    }

    /// Number of images that wait for their turn.
    pub fn len(&self) -> usize {
        self.waiting().count()
    }

    /// Whether the queue has noted this image.
    pub fn knows(&self, image: &ObjectKey) -> bool {
        self.entries.contains_key(image)
    }

    /// Whether the image waits for its turn.
    pub fn is_waiting(&self, image: &ObjectKey) -> bool {
        matches!(self.place(image), Some(QueueEntryState::Waiting(_)))
    }

    /// Whether no image waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, image: &ObjectKey) -> Option<QueueEntryState> {
        self.entries.get(image).and_then(|entry| entry.place)
    }

    fn waiting(&self) -> impl Iterator<Item = (Timestamp, &ObjectKey)> {
        self.entries.iter().filter_map(|(key, entry)| match entry.place {
            Some(QueueEntryState::Waiting(since)) => Some((since, key)),
            Some(QueueEntryState::Skipped(_) | QueueEntryState::Admitted | QueueEntryState::Transferring)
            | None => None,
        })
    }
}

/// The place of an image with this status, whose place was `former`.
fn place_of(image: &DiskImage, former: Option<QueueEntryState>) -> Option<QueueEntryState> {
    let status = &image.status;
    if !image.needs_queue_place() {
        return None;
    }
    // The deletion of an image, and a conflict of names, replace the reason, and its import continues.
    let is_replaced = image.deleting || status.reason == Some(DiskImageReason::NameConflict);
    let continues =
        is_replaced && status.phase == Some(ImagePhase::Syncing) && status.sync_started_at.is_some();
    if (status.transfers() && !image.deleting) || continues {
        return Some(QueueEntryState::Transferring);
    }
    if image.deleting || status.phase != Some(ImagePhase::Queued) {
        return None;
    }
    if former == Some(QueueEntryState::Admitted) {
        return former;
    }
    // An image that cannot start keeps no other image waiting.
    let blocked = matches!(
        status.reason,
        Some(DiskImageReason::NameConflict | DiskImageReason::ResourceCreationFailed)
    );
    let place = if matches!(former, Some(QueueEntryState::Skipped(_))) {
        QueueEntryState::Skipped
    } else {
        QueueEntryState::Waiting
    };
    status.queued_at.filter(|_| !blocked).map(place)
}

#[cfg(test)]
mod tests;
