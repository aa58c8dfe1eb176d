//! Clients that send requests continuously, from the installation to the end: one to the webhook, one to the
//! aggregated API. All requests are dry runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::api::{Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;
use vmpool_e2e::world::{PoolHandle, PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::deadline::Stopwatch;
use vmpool_test_cluster::error::error_with_causes;

/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(50);

/// A request that was not served.
#[derive(Debug, Clone)]
pub(crate) struct FailedRequest {
    /// When the request was sent.
    pub(crate) asked: Instant,
    /// When the response or error arrived.
    pub(crate) answered: Instant,
    /// The component, and the response or error.
    pub(crate) what: String,
}

impl fmt::Display for FailedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.answered.saturating_duration_since(self.asked);
        write!(f, "{:.1?} ago, after {took:.1?}: {}", self.answered.elapsed(), self.what)
    }
}

/// The first failures, one per line. The others are usually similar.
pub(crate) fn listed(failures: &[FailedRequest]) -> String {
    const MOST: usize = 10;
    let lines: Vec<String> = failures.iter().take(MOST).map(ToString::to_string).collect();
    format!("{} failed requests, the first of them:\n{}", failures.len(), lines.join("\n"))
}

#[derive(Default)]
struct Log {
    rounds: AtomicU64,
    failures: Mutex<Vec<FailedRequest>>,
    /// Periods in which tests made the components unavailable.
    outages: Mutex<Vec<(Instant, Option<Instant>)>>,
}

/// A period in which the components may be unavailable, so that failed requests are not counted. It ends when
/// this is dropped.
pub(crate) struct ToleratedOutage<'l> {
    log: &'l Log,
    place: usize,
}

impl Drop for ToleratedOutage<'_> {
    fn drop(&mut self) {
        self.log.outages.lock()[self.place].1 = Some(Instant::now());
    }
}

/// The clients; they stop when this is dropped.
pub(crate) struct ClientLoad {
    log: Arc<Log>,
    task: JoinHandle<()>,
    begun: Stopwatch,
}

/// A moment during the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadMoment {
    at: Instant,
    watch: Stopwatch,
    rounds: u64,
}

impl ClientLoad {
    /// Creates a pool for the clients, and starts them.
    pub(crate) async fn start(access: &Access) -> anyhow::Result<Self> {
        let world = ScenarioWorld::visit("clients that send requests continuously", access.clone()).await?;
        let (begun, log) = (Stopwatch::start(), Arc::new(Log::default()));
        let shared = log.clone();
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let prepared = async {
                let pool =
                    world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
                let machine = pool.machine(0).await?;
                anyhow::Ok((pool, machine))
            };
            let (pool, machine) = match prepared.await {
                Ok(prepared) => prepared,
                Err(error) => return drop(ready.send(Err(format!("{:#}\n{}", error, world.report())))),
            };
            let _ = ready.send(Ok(()));
            loop {
                round(&shared, &world, &pool, &machine).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        is_ready.await.context("the task of the clients has ended")?.map_err(anyhow::Error::msg)?;
        Ok(Self { log, task, begun })
    }

    /// The current moment.
    pub(crate) fn mark(&self) -> LoadMoment {
        LoadMoment {
            at: Instant::now(),
            watch: Stopwatch::start(),
            rounds: self.log.rounds.load(Ordering::Relaxed),
        }
    }

    /// Failed requests that were sent after the mark.
    pub(crate) fn failures_since(&self, mark: LoadMoment) -> Vec<FailedRequest> {
        self.log.failures.lock().iter().filter(|failure| failure.asked >= mark.at).cloned().collect()
    }

    /// Number of rounds since the mark. Each round sends one request to each component.
    pub(crate) fn rounds_since(&self, mark: LoadMoment) -> u64 {
        self.log.rounds.load(Ordering::Relaxed) - mark.rounds
    }

    /// Starts a period in which the components may be unavailable.
    pub(crate) fn outage(&self) -> ToleratedOutage<'_> {
        let mut outages = self.log.outages.lock();
        outages.push((Instant::now(), None));
        ToleratedOutage { log: &self.log, place: outages.len() - 1 }
    }

    /// Fails if any request failed since the start, except during outages.
    pub(crate) fn ensure_always_served(&self) -> anyhow::Result<()> {
        let mut failures = self.log.failures.lock().clone();
        let outages = self.log.outages.lock().clone();
        failures.retain(|failure| {
            let excuses = |(from, to): &(Instant, Option<Instant>)| {
                failure.answered >= *from && to.is_none_or(|to| failure.asked <= to)
            };
            !outages.iter().any(excuses)
        });
        ensure!(failures.is_empty(), "within {}: {}", self.begun.elapsed(), listed(&failures));
        Ok(())
    }

    /// Fails if any request failed since the mark, or none was sent.
    pub(crate) fn ensure_served_since(&self, mark: LoadMoment) -> anyhow::Result<()> {
        ensure!(!self.task.is_finished(), "the clients have stopped");
        let (rounds, failures) = (self.rounds_since(mark), self.failures_since(mark));
        let elapsed = mark.watch.elapsed();
        ensure!(failures.is_empty(), "{rounds} rounds in {elapsed}: {}", listed(&failures));
        // A round takes a tenth of a second on a busy host. Fewer than one round per second would prove
        // little.
        ensure!(rounds >= elapsed.time.as_secs().max(1), "only {rounds} rounds in {elapsed}");
        Ok(())
    }
}

impl Drop for ClientLoad {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn round(log: &Log, world: &ScenarioWorld, pool: &PoolHandle<'_>, machine: &JsonObject) {
    let judged = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let api = world.api(TestedKind::Pool);
    let webhook = async {
        let asked = Instant::now();
        let answer = api.patch(pool.name(), &params, &judged).await;
        answer
            .map(drop)
            .map_err(|error| failure(asked, format!("the webhook: {}", error_with_causes(&error))))
    };
    let apiserver = async {
        let asked = Instant::now();
        let answer = pool.removal().target(machine).dry_run_by_body().send_unchecked().await;
        let served = answer.code == 201;
        if served { Ok(()) } else { Err(failure(asked, format!("the aggregated API: {answer}"))) }
    };
    let (webhook, apiserver) = futures::join!(webhook, apiserver);
    log.failures.lock().extend([webhook, apiserver].into_iter().filter_map(Result::err));
    log.rounds.fetch_add(1, Ordering::Relaxed);
}

fn failure(asked: Instant, what: String) -> FailedRequest {
    FailedRequest { asked, answered: Instant::now(), what }
}
