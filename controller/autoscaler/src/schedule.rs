//! Schedules: times with other limits.
//!
//! A start is a local time of a time zone. If clocks are set forward over it, the schedule starts at the
//! first instant after the gap. If clocks are set back, only the first of the two instants is a start. The
//! duration is elapsed time.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::cron::CronExpression;
use crate::demand::FreeMachines;

/// A schedule that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingSchedule {
    /// Its name.
    pub name: String,
    /// When it starts.
    pub start: CronExpression,
    /// How long it stays active after a start.
    pub duration: Duration,
    /// The time zone of the start.
    pub zone: TimeZone,
    /// The limits that it sets.
    pub changes: LimitChanges,
}

/// Limits that a schedule sets; the others stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitChanges {
    /// The smallest number of machines.
    pub min: Option<u32>,
    /// The largest number of machines.
    pub max: Option<u32>,
    /// How many machines stay free.
    pub free: Option<FreeMachines>,
}

/// The time zone with this name of the IANA database; `None` if there is none.
pub fn find_time_zone(name: &str) -> Option<TimeZone> {
    // Names of the database have these characters only; others never reach it.
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte));
    is_name.then(|| TimeZoneDatabase::bundled().get(name).ok()).flatten()
}

impl ScalingSchedule {
    /// Whether the schedule is active at this time.
    pub fn is_active(&self, now: Timestamp) -> bool {
        let start = self.start.last_at_or_before(self.latest_local(now));
        let start = start.and_then(|start| self.instant_of(start));
        start.and_then(|start| start.checked_add(self.duration).ok()).is_some_and(|end| now < end)
    }

    /// The next time after this one at which the schedule starts or may end.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let latest = self.latest_local(now);
        let began = self.start.last_at_or_before(latest).and_then(|start| self.instant_of(start));
        let ends = began.and_then(|began| began.checked_add(self.duration).ok()).filter(|end| *end > now);
        let after = latest.checked_add(jiff::Span::new().nanoseconds(1)).ok();
        let starts = after.and_then(|after| self.start.first_at_or_after(after));
        let starts = starts.and_then(|start| self.instant_of(start)).filter(|start| *start > now);
        ends.into_iter().chain(starts).min()
    }

    /// The latest local time that has been reached: after clocks were set back, that is the time before that.
    fn latest_local(&self, now: Timestamp) -> DateTime {
        let local = self.zone.to_datetime(now);
        let transition = self.zone.preceding(now).next().map(|transition| transition.timestamp());
        // The iterator has the transitions before `now`, and one at `now` has taken place, too.
        let here = self.zone.following(now.checked_sub(NANOSECOND).unwrap_or(now)).next();
        let here = here.map(|transition| transition.timestamp()).filter(|at| *at <= now);
        let before = here.or(transition).and_then(|at| at.checked_sub(NANOSECOND).ok());
        before.map_or(local, |before| local.max(self.zone.to_datetime(before)))
    }

    /// The instant at which a local time starts the schedule.
    fn instant_of(&self, local: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(local).ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                // With the later offset, the local time is an instant before the gap.
                let before_gap = after.to_timestamp(local).ok()?;
                self.zone.following(before_gap).next().map(|transition| transition.timestamp())
            }
        }
    }
}

const NANOSECOND: Duration = Duration::from_nanos(1);

#[cfg(test)]
mod tests;
