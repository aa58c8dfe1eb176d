//! What readiness and metrics may know about the lease.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::fence::Fence;
use crate::env::Env;

/// A view of a [`Candidate`](super::Candidate) from outside. Clones see the same.
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

    /// The [uptime](Env::uptime) at which the API server last answered a request for the Lease; `None` before the first.
    pub fn last_contact(&self) -> Option<Duration> {
        self.state.lock().last_contact
    }

    /// Whether this process leads now.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long this process may still lead if no renewal succeeds; zero if it does not lead.
    pub fn remaining(&self) -> Duration {
        let fence = self.state.lock().fence.clone();
        fence.map_or(Duration::ZERO, |fence| fence.remaining())
    }

    /// Who held the Lease when it was last seen; `None` if nobody did.
    pub fn holder(&self) -> Option<String> {
        self.state.lock().holder.clone()
    }

    /// For a readiness check: whether the API server answered about the Lease within `limit`. Leading is no condition: a
    /// candidate that could take over is as ready as the leader.
    ///
    /// # Errors
    /// One line that says how long there has been no answer.
    pub fn check(&self, limit: Duration) -> Result<(), String> {
        let Some(last) = self.last_contact() else {
            return Err("the API server has not answered about the lease yet".to_owned());
        };
        let age = self.env.uptime().saturating_sub(last);
        if age <= limit {
            return Ok(());
        }
        Err(format!("the API server has not answered about the lease for {} s", age.as_secs()))
    }

    pub(super) fn contacted(&self) {
        self.state.lock().last_contact = Some(self.env.uptime());
    }

    /// Notes the holder, and returns whether it is another than before.
    pub(super) fn held_by(&self, holder: Option<&str>) -> bool {
        let mut state = self.state.lock();
        let changed = state.holder.as_deref() != holder;
        if changed {
            state.holder = holder.map(ToOwned::to_owned);
        }
        changed
    }

    pub(super) fn leads(&self, fence: &Fence) {
        self.state.lock().fence = Some(fence.clone());
    }
}
