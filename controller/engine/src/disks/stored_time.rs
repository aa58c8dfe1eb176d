//! The times that annotations of disks store.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::{Disk, StoredTime};
use crate::plan::observed::ObservedPool;

/// A stored time that is at most this far in the future counts as now, because the clocks of two leaders can
/// differ. The controller rewrites a time that is further in the future, because the disk would otherwise not
/// age until then.
const SKEW: Duration = Duration::from_mins(1);

/// Since when the disk is free; `None` if the disk has no such annotation, or if its time is not plausible.
pub(super) fn valid_free_since(now: Timestamp, disk: &Disk) -> Option<Timestamp> {
    if disk.annotations.claimed_by.is_some() {
        return None;
    }
    valid_time(now, disk, disk.annotations.free_since?)
}

/// The time in an annotation, if it is plausible. A time before the creation of the disk or in the future
/// counts as unreadable: a user has edited the annotation, and the controller must not delete a disk because
/// of it.
pub(super) fn valid_time(now: Timestamp, disk: &Disk, stored: StoredTime) -> Option<Timestamp> {
    match stored {
        StoredTime::At(at)
            if at >= disk.created && elapsed_time(at, now_or_creation_time(now, disk)) <= SKEW =>
        {
            Some(at)
        }
        StoredTime::At(_) | StoredTime::Unreadable => None,
    }
}

/// Now, or the creation time of the disk if it is later. The creation time comes from the clock of the API
/// server, which can be ahead, and a stored time must not be before the creation of the disk.
fn now_or_creation_time(now: Timestamp, disk: &Disk) -> Timestamp {
    now.max(disk.created)
}

/// The time from `earlier` to `later`; zero if `later` is before `earlier`.
pub(super) fn elapsed_time(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// The current time, to store in an annotation.
pub(super) fn current_time(observed: &ObservedPool<'_>, disk: &Disk) -> StoredTime {
    StoredTime::At(now_or_creation_time(observed.now, disk))
}
