//! What a leader does with the pools of each platform, for probes and metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::{ControllerMetrics, PlatformState};

/// The state of each platform. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlatformStates(Arc<Mutex<BTreeMap<&'static str, (PlatformState, String)>>>);

impl PlatformStates {
    /// One line: each platform with its state, and the reason if there is one.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (platform, (state, why)) in &*self.0.lock() {
            let separator = if text.is_empty() { "" } else { "; " };
            let colon = if why.is_empty() { "" } else { ": " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{platform} is {}{colon}{why}", state.as_str());
        }
        if text.is_empty() { "standby".to_owned() } else { text }
    }

    /// Begins to show the state of `platform`, until the guard is dropped.
    pub(crate) fn begin(&self, platform: &'static str, metrics: Arc<ControllerMetrics>) -> ShownState {
        let shown = ShownState { states: self.clone(), platform, metrics };
        shown.set(PlatformState::Waiting, "the list of definitions is not complete".to_owned());
        shown
    }
}

/// The state of one platform, as probes and metrics show it. When it is dropped, they show none.
pub(crate) struct ShownState {
    states: PlatformStates,
    platform: &'static str,
    metrics: Arc<ControllerMetrics>,
}

impl ShownState {
    /// Shows a state. `why` is for people.
    pub(crate) fn set(&self, state: PlatformState, why: String) {
        self.states.0.lock().insert(self.platform, (state, why));
        self.metrics.platform_is(self.platform, Some(state));
    }
}

impl Drop for ShownState {
    fn drop(&mut self) {
        self.states.0.lock().remove(self.platform);
        self.metrics.platform_is(self.platform, None);
    }
}
