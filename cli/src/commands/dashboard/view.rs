//! What the page shows, as data. Its JSON form is private to the page.

use jiff::Timestamp;
use serde::Serialize;

use crate::shown::{ShownCondition, ShownEvent, ShownProtection};
use crate::table::Tone;

/// All pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DashboardBoard {
    /// The version of the plugin.
    pub(super) version: &'static str,
    pub(super) pools: Vec<BoardPool>,
    /// What could not be read, and why.
    pub(super) unreadable: Vec<String>,
}

/// A pool with its machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BoardPool {
    /// The name of the platform, as `--platform` expects it.
    pub(super) platform: &'static str,
    pub(super) title: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The object as `TYPE/NAME`.
    pub(super) resource: String,
    pub(super) desired: usize,
    pub(super) phase: String,
    pub(super) tone: BoardTone,
    /// Why state and conditions are not about the current spec.
    pub(super) outdated: Option<String>,
    pub(super) deleting: bool,
    pub(super) paused: bool,
    /// The message of the condition `Ready`.
    pub(super) message: String,
    pub(super) revision: String,
    pub(super) conditions: Vec<ShownCondition>,
    pub(super) machines: Vec<MachineTile>,
    pub(super) events: Vec<ShownEvent>,
}

/// How the page draws a state, in addition to its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BoardTone {
    Good,
    #[default]
    Notice,
    Bad,
}

impl From<Tone> for BoardTone {
    fn from(tone: Tone) -> Self {
        match tone {
            Tone::Good => Self::Good,
            Tone::Bad => Self::Bad,
            Tone::Plain | Tone::Heading | Tone::Notice | Tone::Faint => Self::Notice,
        }
    }
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineTile {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) tone: BoardTone,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    pub(super) node: Option<String>,
    pub(super) revision: Option<String>,
    /// Whether that is the current one; `None` if this is unknown.
    pub(super) current: Option<bool>,
    pub(super) restart_pending: bool,
    pub(super) created: Option<Timestamp>,
    /// Why it is not ready.
    pub(super) problem: Option<String>,
    pub(super) protection: Option<ShownProtection>,
}
