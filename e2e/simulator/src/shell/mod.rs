//! The thin shell: watches, a clock, one timer and a bounded number of writes around the pure model of a platform.
//!
//! One loop owns each model. There is no task per object: a few watches feed a channel, and the writes under way
//! are futures of the loop itself.

mod bootstrap;
mod clock;
mod defaults;
mod health;
mod kubevirt;
mod model;
mod report;
mod watch;
mod write;

pub use report::Violations;

use crate::duration::Delay;
use crate::{shared::Settings, world::World};
use clock::Clock;
use futures::{FutureExt, StreamExt, future::BoxFuture, future::try_join_all, stream::FuturesUnordered};
use health::Health;
use kube::Client;
use model::{Flight, Model};
use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// The platforms that the simulator plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platforms {
    /// The Deckhouse Virtualization Platform.
    pub dvp: bool,
    /// KubeVirt with CDI.
    pub kubevirt: bool,
}

/// Everything that the simulator was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What to play; at least one platform.
    pub platforms: Platforms,
    /// Only this namespace, or all.
    pub namespace: Option<String>,
    /// How the played controllers behave.
    pub settings: Settings,
    /// Writes under way at once, at most.
    pub max_in_flight: usize,
    /// How often the nodes show that they live, if they do so at all after their creation.
    pub node_heartbeat: Delay,
    /// Where `/livez`, `/readyz` and `/violations` are served; port 0 picks a free one.
    pub health_address: SocketAddr,
    /// How long the API server may refuse the nodes and storage classes before that is fatal.
    pub bootstrap_timeout: Duration,
}

/// Why the simulator gave up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The health address cannot be used.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A node or storage class of ours cannot be made.
    #[error("creating {what}")]
    Bootstrap {
        /// Kind and name.
        what: String,
        /// Why.
        source: kube::Error,
    },
    /// One of our own tasks ended, which none ever should.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

/// How often the loop shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Events waiting for the loop; watches wait when it is full.
const EVENT_BUFFER: usize = 1024;
/// Shutdown waits no longer than this for writes under way.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Plays until `stop`.
///
/// Guarantees: no more than [`Config::max_in_flight`] writes at once, at most one per object; no request besides
/// the watches once everything is settled, nodes' heartbeats apart. A lost API server is waited for.
///
/// # Errors
/// [`Error`], when the simulator cannot do its work at all.
pub async fn run(client: Client, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let clock = Clock::start();
    let violations = Violations::default();
    let Platforms { dvp, kubevirt } = config.platforms;
    let health = Arc::new(Health::new(usize::from(dvp) + usize::from(kubevirt)));
    let mut tasks = JoinSet::new();
    health::serve(config.health_address, health.clone(), violations.clone(), &mut tasks).await?;
    tokio::select! {
        made = bootstrap::run(&client, &config, clock.now()) => made?,
        () = stop.cancelled() => return Ok(()),
    }
    if let Delay::After(every) = config.node_heartbeat {
        tasks.spawn(bootstrap::heartbeat(client.clone(), config.settings.nodes.clone(), clock.now(), every));
    }
    let parts = Parts { client, config, clock, violations, health, stop };
    let mut loops: Vec<BoxFuture<'_, Result<(), Error>>> = Vec::new();
    if dvp {
        loops.push(parts.play(World::new).boxed());
    }
    if kubevirt {
        loops.push(parts.play(crate::kubevirt::World::new).boxed());
    }
    let ended = tokio::select! {
        ended = try_join_all(loops) => ended.map(drop),
        Some(ended) = tasks.join_next() => Err(Error::TaskEnded(ended.unwrap_or("a task"))),
    };
    tasks.shutdown().await;
    ended
}

/// What the loops of all platforms share.
struct Parts {
    client: Client,
    config: Config,
    clock: Clock,
    violations: Violations,
    health: Arc<Health>,
    stop: CancellationToken,
}

impl Parts {
    /// Plays one platform until the simulator stops.
    async fn play<M: Model>(&self, new: fn(Settings) -> M) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let watches =
            M::watch(&self.client, self.config.namespace.as_deref(), self.clock, &sender, &mut tasks);
        drop(sender);
        let mut engine = Loop {
            world: new(self.config.settings.clone()),
            clock: self.clock,
            writer: write::Writer::new(self.client.clone()),
            reporter: report::Reporter::new(self.client.clone(), self.violations.clone()),
            queue: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            max_in_flight: self.config.max_in_flight,
            unsynced: watches,
            health: self.health.clone(),
        };
        let ended = engine.run(events, &mut tasks, &self.stop).await;
        tasks.shutdown().await;
        ended
    }
}

struct Loop<M: Model> {
    world: M,
    clock: Clock,
    writer: write::Writer,
    reporter: report::Reporter,
    queue: VecDeque<M::Action>,
    in_flight: FuturesUnordered<Flight<M::Event>>,
    max_in_flight: usize,
    /// Watches that have not listed everything yet.
    unsynced: usize,
    health: Arc<Health>,
}

impl<M: Model> Loop<M> {
    async fn run(
        &mut self,
        mut events: mpsc::Receiver<watch::Message<M::Event>>,
        tasks: &mut JoinSet<&'static str>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let mut batch = Vec::with_capacity(EVENT_BUFFER);
        loop {
            self.queue.extend(self.world.step(self.clock.now()));
            self.take_off();
            let due = self.world.next_due().map(|at| self.clock.instant(at));
            tokio::select! {
                () = stop.cancelled() => break,
                Some(landed) = self.in_flight.next() => self.land(landed),
                count = events.recv_many(&mut batch, EVENT_BUFFER) => {
                    if count == 0 {
                        return Err(Error::TaskEnded("every watch"));
                    }
                    batch.drain(..).for_each(|message| self.hear(message));
                }
                () = sleep_until(due) => {}
                _ = heartbeat.tick() => self.health.beat(),
                Some(ended) = tasks.join_next() => return Err(Error::TaskEnded(ended.unwrap_or("a task"))),
            }
        }
        tracing::info!(writes = self.in_flight.len(), "stopping; waiting for writes under way");
        let rest = std::mem::take(&mut self.in_flight).collect::<Vec<_>>();
        if tokio::time::timeout(SHUTDOWN_GRACE, rest).await.is_err() {
            tracing::warn!("some writes did not end in time");
        }
        Ok(())
    }

    fn hear(&mut self, message: watch::Message<M::Event>) {
        let now = self.clock.now();
        match message {
            watch::Message::Event(event) => self.world.observe(*event, now),
            watch::Message::Listed => {
                self.unsynced = self.unsynced.saturating_sub(1);
                if self.unsynced == 0 {
                    tracing::info!(platform = M::NAME, "everything has been listed once; playing");
                    self.world.observe(M::synced(), now);
                    self.health.ready();
                }
            }
        }
    }

    fn land(&mut self, first: Option<M::Event>) {
        let mut landed = first;
        loop {
            if let Some(event) = landed {
                self.world.observe(event, self.clock.now());
            }
            match self.in_flight.next().now_or_never() {
                Some(Some(next)) => landed = next,
                Some(None) | None => return,
            }
        }
    }

    fn take_off(&mut self) {
        while self.in_flight.len() < self.max_in_flight {
            let Some(action) = self.queue.pop_front() else { return };
            self.in_flight.push(M::perform(action, self.writer.clone(), self.reporter.clone()));
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
