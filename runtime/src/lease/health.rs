//! The state of the lease for readiness checks and metrics.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::fence::Fence;
use crate::env::Env;

/// Why a process that takes part in the election is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseContactError {
    /// No request for the Lease has got a response yet.
    #[error("the API server has not responded to a request for the lease yet")]
    NoResponseYet,
    /// The last response is older than the limit; this is its age.
    #[error("the API server has not responded to a request for the lease for {} s", .0.as_secs())]
    NoResponseFor(Duration),
}

/// The state of a [`Candidate`](super::Candidate). Clones share it.
#[derive(Debug, Clone)]
pub struct LeaseHealth {
    env: Env,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    last_contact: Option<Duration>,
    holder: Option<String>,
    fence: Option<Fence>,
}

impl LeaseHealth {
    pub(super) fn new(env: Env) -> Self {
        Self { env, state: Arc::default() }
    }

    /// The [uptime](Env::uptime) of the last response to a request for the Lease; `None` before the first
    /// response.
    pub fn last_contact(&self) -> Option<Duration> {
        self.state.lock().last_contact
    }

    /// Whether this process leads.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long this process still leads if no renewal succeeds. Zero if it does not lead.
    pub fn remaining(&self) -> Duration {
        let fence = self.state.lock().fence.clone();
        fence.map_or(Duration::ZERO, |fence| fence.remaining())
    }

    /// The holder in the last read of the Lease; `None` if there was none.
    pub fn holder(&self) -> Option<String> {
        self.state.lock().holder.clone()
    }

    /// A readiness check: whether a request for the Lease got a response within `limit`. A standby is as
    /// ready as the leader.
    ///
    /// # Errors
    /// [`LeaseContactError`], with the time since the last response.
    pub fn check(&self, limit: Duration) -> Result<(), LeaseContactError> {
        let Some(last) = self.last_contact() else {
            return Err(LeaseContactError::NoResponseYet);
        };
        let age = self.env.uptime().saturating_sub(last);
        if age <= limit {
            return Ok(());
        }
        Err(LeaseContactError::NoResponseFor(age))
    }

    pub(super) fn record_contact(&self) {
        self.state.lock().last_contact = Some(self.env.uptime());
    }

    /// Sets the holder. Returns whether it has changed.
    pub(super) fn set_holder(&self, holder: Option<&str>) -> bool {
        let mut state = self.state.lock();
        let changed = state.holder.as_deref() != holder;
        if changed {
            state.holder = holder.map(ToOwned::to_owned);
        }
        changed
    }

    pub(super) fn set_fence(&self, fence: &Fence) {
        self.state.lock().fence = Some(fence.clone());
    }
}
