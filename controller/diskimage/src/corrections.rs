//! How often the controller has corrected an object that another client changes again and again.
//!
//! Each change by the other client is an event, which starts a pass. Without a pause, both would write as
//! fast as they can.

use std::collections::BTreeMap;
use std::time::Duration;

/// So many corrections need no pause.
const FREE: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// After this time without a correction, the pauses begin again.
const PERIOD: Duration = Duration::from_hours(1);

/// The corrections of each object, by its UID. Times are uptimes, which do not jump.
#[derive(Clone, Debug, Default)]
pub struct Corrections {
    by_object: BTreeMap<String, Corrected>,
    /// When old entries were removed.
    pruned: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Corrected {
    count: u32,
    last: Duration,
}

impl Corrections {
    /// The controller corrects an object now.
    pub fn note(&mut self, object_uid: &str, now: Duration) {
        let is_old = |corrected: &Corrected| now.saturating_sub(corrected.last) >= PERIOD;
        if now.saturating_sub(self.pruned) >= PERIOD {
            self.by_object.retain(|_, corrected| !is_old(corrected));
            self.pruned = now;
        }
        let before = self.by_object.get(object_uid).filter(|before| !is_old(before));
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        self.by_object.insert(object_uid.to_owned(), Corrected { count, last: now });
    }

    /// How long the next correction of an object has to wait. `None` if it does not.
    pub fn left(&self, object_uid: &str, now: Duration) -> Option<Duration> {
        let Corrected { count, last } = *self.by_object.get(object_uid)?;
        let doublings = count.checked_sub(FREE)?;
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE);
        Some((last + pause).saturating_sub(now)).filter(|left| *left > Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_pause_between_corrections_grows_up_to_ten_minutes_and_ends_after_an_hour_without_one() {
        let mut corrections = Corrections::default();
        let mut now = Duration::from_hours(5);
        let mut pauses = Vec::new();
        for _ in 0..15 {
            corrections.note("uid", now);
            let left = corrections.left("uid", now).unwrap_or_default();
            pauses.push(left.as_secs());
            now += left;
            assert_eq!(corrections.left("uid", now), None);
        }
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        corrections.note("uid", now);
        assert_eq!(corrections.left("uid", now + SECOND), Some(599 * SECOND));
        assert_eq!(corrections.left("other", now), None, "each object has its own pauses");
        now += PERIOD;
        corrections.note("uid", now);
        assert_eq!(corrections.left("uid", now), None);
    }
}
