//! What the labels and annotations of a machine say about standby.

use std::collections::BTreeMap;

use jiff::Timestamp;
use vmpool_api::annotations;

/// On machines, as a label: [`StandbyPhase`]. On pools, as an annotation: the setting, for definitions of
/// pools without the field.
pub const STANDBY: &str = annotations::STANDBY;
/// On machines: when the machine was activated, RFC 3339.
pub const ACTIVATED_AT: &str = annotations::ACTIVATED_AT;

/// The value of the label [`STANDBY`] of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StandbyPhase {
    /// It runs until it has been ready for a while.
    Warming,
    /// It is stopped, or stops.
    Stopped,
    /// Another client wrote a value that this version does not know. The controller leaves the machine.
    Unreadable,
}

impl StandbyPhase {
    /// Reads a value.
    pub fn read(text: &str) -> Self {
        [Self::Warming, Self::Stopped]
            .into_iter()
            .find(|phase| phase.as_str() == text)
            .unwrap_or(Self::Unreadable)
    }

    /// The value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warming => "warming",
            Self::Stopped => "stopped",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The state of a standby machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyState {
    /// Its phase.
    pub phase: StandbyPhase,
    /// Since when its guest is ready, as the platform reports it.
    pub ready_since: Option<Timestamp>,
    /// Whether its spec keeps it off. If not, and it is [`StandbyPhase::Stopped`], another client started it.
    pub kept_off: bool,
}

impl StandbyState {
    /// Whether another client started it after its warm-up. The controller does not stop it again.
    pub fn is_started_by_client(&self) -> bool {
        self.phase == StandbyPhase::Stopped && !self.kept_off
    }
}

/// Numbers of standby machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandbyCounts {
    /// Those that exist.
    pub total: usize,
    /// Those that the controller can start: stopped, with ready disks.
    pub ready: usize,
}

/// When the machine was activated; `None` if it was not, or if the annotation cannot be read.
pub fn read_activated_at(annotations: Option<&BTreeMap<String, String>>) -> Option<Timestamp> {
    annotations?.get(ACTIVATED_AT)?.parse().ok()
}
