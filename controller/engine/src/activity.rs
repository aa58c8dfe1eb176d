//! The activity log of a pool: its last changes, in its status.
//!
//! The log causes no write. The controller adds entries when it writes the status for another reason, and
//! every entry comes with a change of the status.

use std::sync::Arc;

use jiff::Timestamp;

use crate::condition::ConditionReason;

/// The maximum number of entries.
pub const LIMIT: usize = 20;

/// The reason of an entry: what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityReason {
    /// `replicas` changed.
    Scaled,
    /// `replicas` was lowered by a targeted removal.
    TargetedRemoval,
    /// The pool or its rollout was paused.
    Paused,
    /// It was resumed.
    Resumed,
    /// The rollout to a revision started.
    RolloutStarted,
    /// The rollout to a revision was completed.
    RolloutCompleted,
    /// Autohealing replaced machines.
    Healed,
}

/// What entries are about. The newest entry of each subject tells the next pass what is logged already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivitySubject {
    /// The number of machines.
    Count,
    /// The pause.
    Pause,
    /// The rollout.
    Rollout,
    /// Autohealing.
    Healing,
}

impl ActivityReason {
    const ALL: [Self; 7] = [
        Self::Scaled,
        Self::TargetedRemoval,
        Self::Paused,
        Self::Resumed,
        Self::RolloutStarted,
        Self::RolloutCompleted,
        Self::Healed,
    ];

    /// The reason in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scaled => "Scaled",
            Self::TargetedRemoval => "TargetedRemoval",
            Self::Paused => ConditionReason::Paused.as_str(),
            Self::Resumed => "Resumed",
            Self::RolloutStarted => "RolloutStarted",
            Self::RolloutCompleted => "RolloutCompleted",
            Self::Healed => "Healed",
        }
    }

    /// The reverse of [`ActivityReason::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// What it is about.
    pub fn subject(self) -> ActivitySubject {
        match self {
            Self::Scaled | Self::TargetedRemoval => ActivitySubject::Count,
            Self::Paused | Self::Resumed => ActivitySubject::Pause,
            Self::RolloutStarted | Self::RolloutCompleted => ActivitySubject::Rollout,
            Self::Healed => ActivitySubject::Healing,
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityEntry {
    /// When the controller observed it, in whole seconds.
    pub time: Timestamp,
    /// What happened.
    pub reason: ActivityReason,
    /// The user or the client that caused it, if known.
    pub actor: Option<Arc<str>>,
    /// The former value.
    pub from: Option<Arc<str>>,
    /// The new value.
    pub to: Option<Arc<str>>,
}

/// The clients that last wrote fields of a pool, as its managed fields name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writers {
    /// Of `spec.replicas`.
    pub replicas: Option<Arc<str>>,
    /// Of the field that pauses the pool or its rollout.
    pub paused: Option<Arc<str>>,
    /// Of the template of machines.
    pub template: Option<Arc<str>>,
}

/// The newest entry about a subject.
pub fn find_newest_entry(log: &[ActivityEntry], subject: ActivitySubject) -> Option<&ActivityEntry> {
    log.iter().rev().find(|entry| entry.reason.subject() == subject)
}

/// Drops the oldest entries beyond [`LIMIT`], except the newest one of each subject.
pub fn truncate_activity_log(log: &mut Vec<ActivityEntry>) {
    while log.len() > LIMIT {
        let is_superseded = |place: &usize| {
            let subject = log[*place].reason.subject();
            log[place + 1..].iter().any(|later| later.reason.subject() == subject)
        };
        // There are fewer subjects than entries, so one of them is superseded.
        let oldest = (0..log.len()).find(is_superseded).unwrap_or_default();
        log.remove(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(reason: ActivityReason, to: usize) -> ActivityEntry {
        let to = Some(to.to_string().into());
        ActivityEntry { time: Timestamp::UNIX_EPOCH, reason, actor: None, from: None, to }
    }

    #[test]
    fn the_oldest_entries_leave_and_the_newest_of_each_subject_stays() {
        let mut log = vec![
            entry(ActivityReason::Scaled, 0),
            entry(ActivityReason::Paused, 1),
            entry(ActivityReason::Scaled, 2),
        ];
        log.extend((3..30).map(|number| entry(ActivityReason::RolloutStarted, number)));
        truncate_activity_log(&mut log);
        assert_eq!(log.len(), LIMIT);
        let kept: Vec<&str> = log.iter().filter_map(|entry| entry.to.as_deref()).collect();
        assert_eq!(kept[..3], ["1", "2", "12"]);
        assert_eq!(kept.last(), Some(&"29"));
        assert_eq!(find_newest_entry(&log, ActivitySubject::Count), Some(&entry(ActivityReason::Scaled, 2)));
        assert_eq!(find_newest_entry(&log, ActivitySubject::Healing), None);
    }

    #[test]
    fn reasons_read_back() {
        for reason in ActivityReason::ALL {
            assert_eq!(ActivityReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(ActivityReason::parse("Other"), None);
    }
}
