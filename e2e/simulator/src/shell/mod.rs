//! The thin shell: watches, a clock, one timer and a bounded number of writes around the pure [`World`].
//!
//! One loop owns the world. There is no task per object: a few watches feed a channel, and the writes under way
//! are futures of the loop itself.

mod bootstrap;
mod clock;
mod health;
mod report;
mod watch;
mod write;

pub use report::Violations;

use crate::duration::Delay;
use crate::world::{Action, Event, Settings, World};
use clock::Clock;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use health::Health;
use kube::Client;
use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// Everything that the simulator was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
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
    let health = Arc::new(Health::new());
    let mut tasks = JoinSet::new();
    health::serve(config.health_address, health.clone(), violations.clone(), &mut tasks).await?;
    tokio::select! {
        made = bootstrap::run(&client, &config, clock.now()) => made?,
        () = stop.cancelled() => return Ok(()),
    }
    if let Delay::After(every) = config.node_heartbeat {
        tasks.spawn(bootstrap::heartbeat(client.clone(), config.settings.nodes.clone(), clock.now(), every));
    }
    let (sender, events) = mpsc::channel(EVENT_BUFFER);
    let watches = watch::start(&client, config.namespace.as_deref(), clock, &sender, &mut tasks);
    drop(sender);
    let mut engine = Loop {
        world: World::new(config.settings.clone()),
        clock,
        writer: write::Writer::new(client.clone()),
        reporter: report::Reporter::new(client, violations),
        queue: VecDeque::new(),
        in_flight: FuturesUnordered::new(),
        max_in_flight: config.max_in_flight,
        unsynced: watches,
        health,
    };
    let ended = engine.run(events, &mut tasks, &stop).await;
    tasks.shutdown().await;
    ended
}

/// A write under way; it ends with what the world is to learn of it.
type Flight = BoxFuture<'static, Option<Event>>;

struct Loop {
    world: World,
    clock: Clock,
    writer: write::Writer,
    reporter: report::Reporter,
    queue: VecDeque<Action>,
    in_flight: FuturesUnordered<Flight>,
    max_in_flight: usize,
    /// Watches that have not listed everything yet.
    unsynced: usize,
    health: Arc<Health>,
}

impl Loop {
    async fn run(
        &mut self,
        mut events: mpsc::Receiver<watch::Message>,
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

    fn hear(&mut self, message: watch::Message) {
        let now = self.clock.now();
        match message {
            watch::Message::Event(event) => self.world.observe(*event, now),
            watch::Message::Listed => {
                self.unsynced = self.unsynced.saturating_sub(1);
                if self.unsynced == 0 {
                    tracing::info!("everything has been listed once; playing");
                    self.world.observe(Event::Synced, now);
                    self.health.ready();
                }
            }
        }
    }

    fn land(&mut self, first: Option<Event>) {
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
            match self.queue.pop_front() {
                Some(Action::Write(id, write)) => {
                    let writer = self.writer.clone();
                    self.in_flight.push(
                        async move {
                            let outcome = writer.perform(&id, write).await;
                            Some(Event::Written(id, outcome))
                        }
                        .boxed(),
                    );
                }
                Some(Action::Report(violation)) => {
                    let reporter = self.reporter.clone();
                    self.in_flight.push(
                        async move {
                            reporter.report(violation).await;
                            None
                        }
                        .boxed(),
                    );
                }
                None => return,
            }
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
