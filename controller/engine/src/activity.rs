//! The activity log of a pool: its last changes, in its status.
//!
//! The log causes no write. The controller adds entries when it writes the status for another reason, and every entry comes
//! with a change of the status.

use std::sync::Arc;

use jiff::Timestamp;

use crate::condition::PAUSED;

/// The maximum number of entries.
pub const LIMIT: usize = 20;

/// The reason of an entry: what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
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
pub enum Subject {
    /// The number of machines.
    Count,
    /// The pause.
    Pause,
    /// The rollout.
    Rollout,
    /// Autohealing.
    Healing,
}

impl Reason {
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
            Self::Paused => PAUSED,
            Self::Resumed => "Resumed",
            Self::RolloutStarted => "RolloutStarted",
            Self::RolloutCompleted => "RolloutCompleted",
            Self::Healed => "Healed",
        }
    }

    /// The reverse of [`Reason::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// What it is about.
    pub fn subject(self) -> Subject {
        match self {
            Self::Scaled | Self::TargetedRemoval => Subject::Count,
            Self::Paused | Self::Resumed => Subject::Pause,
            Self::RolloutStarted | Self::RolloutCompleted => Subject::Rollout,
            Self::Healed => Subject::Healing,
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the controller observed it, in whole seconds.
    pub time: Timestamp,
    /// What happened.
    pub reason: Reason,
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
pub fn newest(log: &[Entry], subject: Subject) -> Option<&Entry> {
    log.iter().rev().find(|entry| entry.reason.subject() == subject)
}

/// Drops the oldest entries beyond [`LIMIT`], except the newest one of each subject.
pub fn truncate(log: &mut Vec<Entry>) {
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

    fn entry(reason: Reason, to: usize) -> Entry {
        let to = Some(to.to_string().into());
        Entry { time: Timestamp::UNIX_EPOCH, reason, actor: None, from: None, to }
    }

    #[test]
    fn the_oldest_entries_leave_and_the_newest_of_each_subject_stays() {
        let mut log = vec![entry(Reason::Scaled, 0), entry(Reason::Paused, 1), entry(Reason::Scaled, 2)];
        log.extend((3..30).map(|number| entry(Reason::RolloutStarted, number)));
        truncate(&mut log);
        assert_eq!(log.len(), LIMIT);
        let kept: Vec<&str> = log.iter().filter_map(|entry| entry.to.as_deref()).collect();
        assert_eq!(kept[..3], ["1", "2", "12"]);
        assert_eq!(kept.last(), Some(&"29"));
        assert_eq!(newest(&log, Subject::Count), Some(&entry(Reason::Scaled, 2)));
        assert_eq!(newest(&log, Subject::Healing), None);
    }

    #[test]
    fn reasons_read_back() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::parse("Other"), None);
    }
}
