//! Detection of a loop that is stuck.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::unhealthy::Unhealthy;
use crate::env::Env;

/// A time that a loop updates and a health check reads. Clones share it.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    env: Env,
    last: Arc<Mutex<Duration>>,
}

impl Heartbeat {
    /// A heartbeat with its first beat now.
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), last: Arc::new(Mutex::new(env.uptime())) }
    }

    /// Records a beat.
    pub fn beat(&self) {
        *self.last.lock() = self.env.uptime();
    }

    /// Records a beat of a loop whose oldest work in progress began at this uptime; `None` if there is none.
    pub fn beat_since(&self, oldest: Option<Duration>) {
        *self.last.lock() = oldest.unwrap_or_else(|| self.env.uptime());
    }

    /// The time since the last beat.
    pub fn age(&self) -> Duration {
        self.env.uptime().saturating_sub(*self.last.lock())
    }

    /// A check for [`HealthEndpoints`](super::HealthEndpoints). It fails if the time since the last beat
    /// reaches `limit`.
    pub fn younger_than(&self, limit: Duration) -> impl Fn() -> Result<(), Unhealthy> + Send + Sync + use<> {
        let heartbeat = self.clone();
        move || {
            let age = heartbeat.age();
            if age < limit {
                return Ok(());
            }
            Err(Unhealthy::new(format!("no heartbeat for {} s", age.as_secs())))
        }
    }
}
