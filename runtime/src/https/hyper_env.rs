//! Clock and tasks for hyper and rustls, based on [`Env`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hyper::rt::{Executor, Sleep, Timer};
use parking_lot::Mutex;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

use crate::env::Env;

/// Runs the tasks of hyper.
#[derive(Debug, Clone)]
pub(super) struct HyperTasks(pub(super) Env);

impl<F> Executor<F> for HyperTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        // The task ends with its connection or its response.
        self.0.spawn("https-stream", future).detach();
    }
}

/// The clock of hyper. hyper uses `Instant`s, which stand for uptimes here.
#[derive(Debug, Clone)]
pub(crate) struct HyperClock {
    env: Env,
    origin: Instant,
    uptime: Duration,
}

impl HyperClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "only a reference point for uptimes; no duration is measured with it"
    )]
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), origin: Instant::now(), uptime: env.uptime() }
    }
}

impl Timer for HyperClock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping(Mutex::new(self.env.sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }

    fn now(&self) -> Instant {
        self.origin + self.env.uptime().saturating_sub(self.uptime)
    }
}

/// The mutex makes the future `Sync`, as hyper requires. It is never contended.
struct Sleeping(Mutex<BoxFuture<'static, ()>>);

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.get_mut().as_mut().poll(cx)
    }
}

impl Sleep for Sleeping {}

/// The clock with which rustls validates certificates.
#[derive(Debug)]
pub(super) struct RustlsClock(pub(super) Env);

impl RustlsClock {
    pub(super) fn shared(env: &Env) -> Arc<dyn TimeProvider> {
        Arc::new(Self(env.clone()))
    }
}

impl TimeProvider for RustlsClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(&self.0))
    }
}

/// The wall-clock time as a type of rustls.
pub(super) fn unix_time(env: &Env) -> UnixTime {
    let seconds = u64::try_from(env.now().as_second()).unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
