//! The mark of a draining machine: the stored state of its drain.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vmpool_api::annotations;

use crate::ids::{Uid, hash_bytes};
use crate::protection::{CLOCK_SKEW, time_after};

/// On machines: the drain, as JSON. Only the controller writes it.
pub const MARK: &str = annotations::DRAINING;
/// Maximum size of a mark, in bytes. The controller writes no longer one.
const LONGEST_MARK: usize = 1024;

/// The step for which a machine is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DrainReason {
    /// Its deletion in a scale-down.
    ScaleDown,
    /// Its deletion by an accepted targeted removal.
    TargetedRemoval,
    /// Its restart or recreation by a rollout.
    Rollout,
    /// Its replacement by another machine.
    Recycling,
}

impl DrainReason {
    /// The step, for sentences such as `machine NAME drains before its deletion`.
    pub const fn step(self) -> &'static str {
        match self {
            Self::ScaleDown => "its deletion in a scale-down",
            Self::TargetedRemoval => "its targeted removal",
            Self::Rollout => "its restart in a rollout",
            Self::Recycling => "its replacement",
        }
    }
}

impl fmt::Display for DrainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScaleDown => "ScaleDown",
            Self::TargetedRemoval => "TargetedRemoval",
            Self::Rollout => "Rollout",
            Self::Recycling => "Recycling",
        })
    }
}

/// The drain of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DrainMark {
    /// The identity of the drain. Another drain of the same machine has another one.
    pub id: String,
    /// The step that follows.
    pub reason: DrainReason,
    /// When the drain began.
    pub since: Timestamp,
    /// When the step is taken although hooks are not released.
    pub deadline: Timestamp,
}

impl DrainMark {
    /// The mark of a drain that begins now.
    pub fn begin(machine: &Uid, reason: DrainReason, now: Timestamp, timeout: Duration) -> Self {
        let id = format!("{:016x}", drain_number(machine, now));
        Self { id, reason, since: now, deadline: time_after(now, timeout) }
    }

    /// Reads the annotation; `None` if it cannot be read. The controller then writes another mark.
    pub fn parse(text: &str) -> Option<Self> {
        let mark: Self = (text.len() <= LONGEST_MARK).then(|| serde_json::from_str(text).ok())??;
        (!mark.id.is_empty()).then_some(mark)
    }

    /// The text of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The deadline: the stored one, but no later than `timeout` after the beginning. A drain that began in
    /// the future began now.
    pub fn effective_deadline(&self, now: Timestamp, timeout: Duration) -> Timestamp {
        self.deadline.min(time_after(self.since.min(now), timeout))
    }

    /// Whether no controller wrote it: it began further in the future than two clocks may differ. Its
    /// deadline would move with the time, so the controller writes another mark.
    pub(crate) fn is_forged(&self, now: Timestamp) -> bool {
        self.since > time_after(now, CLOCK_SKEW)
    }
}

/// A number that differs between two drains of one machine.
fn drain_number(machine: &Uid, now: Timestamp) -> u64 {
    let time = now.as_nanosecond().to_be_bytes();
    hash_bytes(machine.as_str().bytes().chain(time))
}
