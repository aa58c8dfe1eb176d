//! hyper's clock and tasks, taken from [`Env`].

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

/// Runs what hyper wants to run beside a connection.
#[derive(Debug, Clone)]
pub(super) struct Tasks(pub(super) Env);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        // It ends with its connection, or with its answer.
        self.0.spawn("https-stream", future).detach();
    }
}

/// hyper counts in `Instant`s: they stand for uptimes here, from a point where both were looked at.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    env: Env,
    origin: Instant,
    uptime: Duration,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "only a name for the uptime at this moment; nothing is measured by it"
    )]
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), origin: Instant::now(), uptime: env.uptime() }
    }
}

impl Timer for Clock {
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

/// The lock makes it `Sync`, which hyper asks for; it is never waited for.
struct Sleeping(Mutex<BoxFuture<'static, ()>>);

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.get_mut().as_mut().poll(cx)
    }
}

impl Sleep for Sleeping {}

/// The wall clock by which rustls judges certificates.
#[derive(Debug)]
pub(super) struct Wall(pub(super) Env);

impl Wall {
    pub(super) fn shared(env: &Env) -> Arc<dyn TimeProvider> {
        Arc::new(Self(env.clone()))
    }
}

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(&self.0))
    }
}

/// The wall clock in rustls' words.
pub(super) fn unix_time(env: &Env) -> UnixTime {
    let seconds = u64::try_from(env.now().as_second()).unwrap_or_default();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
