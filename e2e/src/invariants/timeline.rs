//! What each pool wanted, and until when a reader could still believe it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::record::Record;
use crate::object::Kind;
use crate::recorder::Change;

/// How long after a change of the pool a write may still follow from its former state.
///
/// The controller reads the pool live before it writes and gives a write no longer than this.
pub(super) const READABLE_FOR: Duration = Duration::from_secs(3);

/// When the store took a write in that the harness heard of `heard`. The server's own `stamp` of it, in whole seconds,
/// counts where it is earlier: a watch that broke tells late.
pub(super) fn taken_in(heard: Timestamp, stamp: &str) -> Timestamp {
    let stamped: Option<Timestamp> = stamp.parse().ok();
    stamped.map_or(heard, |stamped| heard.min(stamped + SignedDuration::from_secs(1)))
}

/// What a pool wanted from one moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// When the harness heard of it.
    since: Timestamp,
    /// `spec.replicas`; 0 once the pool is going.
    pub(super) desired: usize,
    /// Who is removed by name.
    pub(super) record: Record,
    /// Whether members leave by name only.
    pub(super) explicit: bool,
    /// The deletion of the pool was accepted, or it is gone.
    pub(super) going: bool,
}

/// The wishes of all pools, by UID, in the order of the store.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pools: BTreeMap<String, Vec<Wish>>,
}

impl Timeline {
    /// Takes note of a change, if it is one of a pool.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.kind != Kind::Pool {
            return;
        }
        let pool = &change.object;
        let going = change.removed || pool.is_terminating();
        let desired = pool.number("/spec/replicas").and_then(|count| usize::try_from(count).ok());
        let wish = Wish {
            since: change.at,
            desired: if going { 0 } else { desired.unwrap_or_default() },
            record: Record::of(pool),
            explicit: pool.text("/spec/scaleDownPolicy") == "Explicit",
            going,
        };
        let wishes = self.pools.entry(pool.uid().to_owned()).or_default();
        let repeats = wishes.last().is_some_and(|last| Wish { since: wish.since, ..last.clone() } == wish);
        if !repeats {
            wishes.push(wish);
        }
    }

    /// What a writer of this moment may have read: the last wish, and those that were replaced a short time ago.
    /// Empty for an unknown pool.
    pub(super) fn readable(&self, pool_uid: &str, at: Timestamp) -> Vec<&Wish> {
        let wishes = self.pools.get(pool_uid).map_or(&[][..], Vec::as_slice);
        let limit = SignedDuration::try_from(READABLE_FOR).unwrap_or(SignedDuration::ZERO);
        let replaced = wishes.iter().skip(1).map(|next| Some(next.since)).chain([None]);
        wishes
            .iter()
            .zip(replaced)
            .filter(|(_, replaced)| replaced.is_none_or(|replaced| at.duration_since(replaced) <= limit))
            .map(|(wish, _)| wish)
            .collect()
    }
}
