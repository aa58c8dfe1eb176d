//! The loop of a worker.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, select};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;
use vmpool_runtime::health::Heartbeat;

use crate::queue::{PassQueue, Requeue};

/// Interval of the heartbeat of an idle worker.
const PULSE: Duration = Duration::from_secs(10);

/// Time after which a pass is slow. A pass computes for a much shorter time, so it waits for the API server.
const SLOW_PASS: Duration = Duration::from_secs(4);

/// The end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassEnd {
    /// When it requests the next one.
    pub again: Requeue,
    /// How long it computed, without waits. The queue rests longer after long passes.
    pub effort: Duration,
}

impl From<Requeue> for PassEnd {
    fn from(again: Requeue) -> Self {
        Self { again, effort: Duration::ZERO }
    }
}

/// Maximum number of passes in progress of one worker.
const PASSES: usize = 64;

/// Runs the passes of one worker until `stop`, and finishes those in progress. It runs one pass after the
/// other. While passes wait for slow requests, it runs others beside them. `heartbeat` shows the age of the
/// oldest pass.
pub(crate) async fn run_passes<'a, K: Clone + Ord>(
    queue: &PassQueue<K>,
    stop: &CancellationToken,
    heartbeat: Option<&Heartbeat>,
    pass: impl Fn(K) -> BoxFuture<'a, (K, PassEnd)>,
) {
    let env = queue.env();
    let mut running = Running::new(env.clone());
    loop {
        if let Some(heartbeat) = heartbeat {
            heartbeat.beat_since(running.oldest());
        }
        if stop.is_cancelled() && running.is_empty() {
            return;
        }
        let stopping = stop.is_cancelled();
        let free_in = running.free_in().filter(|_| !stopping);
        let (key, PassEnd { again, effort }) = match running.step(queue, free_in, heartbeat, stop).await {
            Step::Ended(ended) => ended,
            Step::Begin(key) => {
                running.push(pass(key));
                continue;
            }
            Step::Look => continue,
        };
        queue.done(&key, again, effort);
        if again == Requeue::Never {
            queue.forget(&key);
        }
        // Without this, passes that never wait and follow each other immediately would block the only thread:
        // the responses of the API server, the lease, and the shutdown.
        tokio::task::yield_now().await;
    }
}

/// What a worker does next.
enum Step<K> {
    /// A pass has ended.
    Ended((K, PassEnd)),
    /// Begin a pass over this key.
    Begin(K),
    /// Look again: `stop` came, or the heartbeat is due.
    Look,
}

/// The passes in progress of one worker.
struct Running<'a, K> {
    env: Env,
    passes: FuturesUnordered<BoxFuture<'a, (u64, (K, PassEnd))>>,
    /// The uptimes at which they began.
    begun: BTreeMap<u64, Duration>,
    pushed: u64,
}

impl<'a, K: Clone + Ord + 'a> Running<'a, K> {
    fn new(env: Env) -> Self {
        Self { env, passes: FuturesUnordered::new(), begun: BTreeMap::new(), pushed: 0 }
    }

    fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    fn push(&mut self, pass: BoxFuture<'a, (K, PassEnd)>) {
        self.pushed += 1;
        let number = self.pushed;
        self.begun.insert(number, self.env.uptime());
        self.passes.push(pass.map(move |result| (number, result)).boxed());
    }

    /// Waits for the end of a pass, for the next key after `free_in`, for `stop`, or for the time of the
    /// heartbeat.
    async fn step(
        &mut self,
        queue: &PassQueue<K>,
        free_in: Option<Duration>,
        heartbeat: Option<&Heartbeat>,
        stop: &CancellationToken,
    ) -> Step<K> {
        let env = self.env.clone();
        let next = async {
            let Some(wait) = free_in else { return pending().await };
            if !wait.is_zero() {
                env.sleep(wait).await;
            }
            Step::Begin(queue.next().await)
        };
        let pulse = async {
            match heartbeat {
                Some(_) => env.sleep(PULSE).await,
                None => pending().await,
            }
            Step::Look
        };
        let stopped = async {
            // The stop was already seen.
            if free_in.is_none() {
                pending::<()>().await;
            }
            stop.cancelled().await;
            Step::Look
        };
        let ended = async { Step::Ended(self.ended().await) };
        let interrupted = async { select(pin!(pulse), pin!(stopped)).await.factor_first().0 };
        let next = async { select(pin!(next), pin!(interrupted)).await.factor_first().0 };
        select(pin!(ended), pin!(next)).await.factor_first().0
    }

    /// Waits for the end of a pass.
    async fn ended(&mut self) -> (K, PassEnd) {
        match self.passes.next().await {
            Some((number, result)) => {
                self.begun.remove(&number);
                result
            }
            None => pending().await,
        }
    }

    /// The time until another pass may begin: all passes in progress are slow. `None` if there are too many.
    fn free_in(&self) -> Option<Duration> {
        let youngest = self.begun.last_key_value().map(|(_, begun)| *begun + SLOW_PASS);
        let wait = youngest.unwrap_or_default().saturating_sub(self.env.uptime());
        (self.begun.len() < PASSES).then_some(wait)
    }

    /// The uptime at which the oldest pass began.
    fn oldest(&self) -> Option<Duration> {
        self.begun.values().min().copied()
    }
}
