//! The end of writes when the controller stops.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;

/// When writes end after the controller was told to stop. Clones share the time.
///
/// Without it, the lease would be released only after the slowest write, which can be after the process is
/// killed. The next leader would then wait until the lease expires.
#[derive(Clone)]
pub(super) struct WriteShutdown {
    env: Env,
    stop: CancellationToken,
    /// How long writes go on after `stop`.
    limit: Duration,
    /// The uptime of the first look after `stop`.
    begun: Arc<Mutex<Option<Duration>>>,
}

impl WriteShutdown {
    pub(super) fn new(env: Env, stop: CancellationToken, limit: Duration) -> Self {
        Self { env, stop, limit, begun: Arc::default() }
    }

    /// Whether no write may start any more.
    pub(super) fn has_ended(&self) -> bool {
        self.stop.is_cancelled() && self.left().is_zero()
    }

    /// Waits until all writes must end.
    pub(super) async fn end(&self) {
        self.stop.cancelled().await;
        self.env.sleep(self.left()).await;
    }

    fn left(&self) -> Duration {
        let uptime = self.env.uptime();
        let begun = *self.begun.lock().get_or_insert(uptime);
        (begun + self.limit).saturating_sub(uptime)
    }
}
