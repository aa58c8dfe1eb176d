//! A sign of life from a loop that could get stuck.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::env::Env;

/// Beaten by a loop, looked at by a health check. Clones share the beat.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    env: Env,
    last: Arc<Mutex<Duration>>,
}

impl Heartbeat {
    /// A heart that beats now for the first time.
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), last: Arc::new(Mutex::new(env.uptime())) }
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        *self.last.lock() = self.env.uptime();
    }

    /// How long ago the last beat was.
    pub fn age(&self) -> Duration {
        self.env.uptime().saturating_sub(*self.last.lock())
    }

    /// A check for [`Health`](super::Health) that fails when the last beat is `limit` ago or longer.
    pub fn younger_than(&self, limit: Duration) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let heartbeat = self.clone();
        move || {
            let age = heartbeat.age();
            if age < limit {
                return Ok(());
            }
            Err(format!("no sign of life for {} s", age.as_secs()))
        }
    }
}
