//! Connects the pure model of a platform to an API server: watches, a clock, one timer and a bounded number
//! of writes.
//!
//! One loop owns each model. There is no task per object: a few watches send to a channel, and the pending
//! writes are futures of the loop itself.

mod bootstrap;
mod clock;
mod config;
mod defaults;
mod follow;
mod health;
mod kubevirt;
mod model;
mod report;
mod watch;
mod write;

pub use config::{Error, Platforms, SimulatorConfig};
pub use report::Violations;

use crate::duration::Delay;
use crate::{
    shared::{ModelAction, ModelEvent, SimulatorSettings},
    world::DvpModel,
};
use clock::SimulatorClock;
use config::HEARTBEAT;
use follow::Message;
use futures::{FutureExt, StreamExt, future::BoxFuture, future::try_join_all, stream::FuturesUnordered};
use health::SimulatorHealth;
use kube::Client;
use model::{EventOf, PendingWrite, PlatformModel};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// Capacity of the channel of events. If it is full, the watches wait.
const EVENT_BUFFER: usize = 1024;
/// How long the shutdown waits for pending writes.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Runs until `stop`.
///
/// Guarantees: at most [`SimulatorConfig::max_in_flight`] concurrent writes, and one per object. When no
/// object changes, the only requests are watches and heartbeats of nodes. If the API server does not respond,
/// it retries.
///
/// # Errors
/// [`Error`], if the simulator cannot run at all.
pub async fn run_simulator(
    client: Client,
    config: SimulatorConfig,
    stop: CancellationToken,
) -> Result<(), Error> {
    let clock = SimulatorClock::start();
    let violations = Violations::default();
    let Platforms { dvp, kubevirt } = config.platforms;
    let health = Arc::new(SimulatorHealth::new(usize::from(dvp) + usize::from(kubevirt)));
    let mut tasks = JoinSet::new();
    health::serve_health(config.health_address, health.clone(), violations.clone(), &mut tasks).await?;
    tokio::select! {
        made = bootstrap::create_nodes_and_classes(&client, &config, clock.now()) => made?,
        () = stop.cancelled() => return Ok(()),
    }
    if let Delay::After(every) = config.node_heartbeat {
        tasks.spawn(bootstrap::send_node_heartbeats(
            client.clone(),
            config.settings.nodes.clone(),
            clock.now(),
            every,
        ));
    }
    let parts = Parts { client, config, clock, violations, health, stop };
    let mut loops: Vec<BoxFuture<'_, Result<(), Error>>> = Vec::new();
    if dvp {
        loops.push(parts.simulate(DvpModel::new).boxed());
    }
    if kubevirt {
        loops.push(parts.simulate(crate::kubevirt::KubeVirtModel::new).boxed());
    }
    let ended = tokio::select! {
        ended = try_join_all(loops) => ended.map(drop),
        Some(ended) = tasks.join_next() => Err(Error::TaskEnded(ended.unwrap_or("a task"))),
    };
    tasks.shutdown().await;
    ended
}

/// State shared by the loops of all platforms.
struct Parts {
    client: Client,
    config: SimulatorConfig,
    clock: SimulatorClock,
    violations: Violations,
    health: Arc<SimulatorHealth>,
    stop: CancellationToken,
}

impl Parts {
    /// Runs one platform until the simulator stops.
    async fn simulate<M: PlatformModel>(&self, new: fn(SimulatorSettings) -> M) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let watches =
            M::watch(&self.client, self.config.namespace.as_deref(), self.clock, &sender, &mut tasks);
        drop(sender);
        let mut event_loop = Loop {
            world: new(self.config.settings.clone()),
            clock: self.clock,
            writer: write::DvpWriter::new(self.client.clone()),
            reporter: report::Reporter::new(self.client.clone(), self.violations.clone()),
            queue: VecDeque::new(),
            in_flight: FuturesUnordered::new(),
            max_in_flight: self.config.max_in_flight,
            unsynced: watches,
            health: self.health.clone(),
        };
        let ended = event_loop.run(events, &mut tasks, &self.stop).await;
        tasks.shutdown().await;
        ended
    }
}

struct Loop<M: PlatformModel> {
    world: M,
    clock: SimulatorClock,
    writer: write::DvpWriter,
    reporter: report::Reporter,
    queue: VecDeque<ModelAction<M::Id, M::Write>>,
    in_flight: FuturesUnordered<PendingWrite<EventOf<M>>>,
    max_in_flight: usize,
    /// Watches that have not completed their first list.
    unsynced: usize,
    health: Arc<SimulatorHealth>,
}

impl<M: PlatformModel> Loop<M> {
    async fn run(
        &mut self,
        mut events: mpsc::Receiver<Message<EventOf<M>>>,
        tasks: &mut JoinSet<&'static str>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let mut batch = Vec::with_capacity(EVENT_BUFFER);
        loop {
            self.queue.extend(self.world.step(self.clock.now()));
            self.start_writes();
            let due = self.world.next_due().map(|at| self.clock.instant(at));
            tokio::select! {
                () = stop.cancelled() => break,
                Some(event) = self.in_flight.next() => self.complete(event),
                count = events.recv_many(&mut batch, EVENT_BUFFER) => {
                    if count == 0 {
                        return Err(Error::TaskEnded("every watch"));
                    }
                    batch.drain(..).for_each(|message| self.receive(message));
                }
                () = sleep_until(due) => {}
                _ = heartbeat.tick() => self.health.beat(),
                Some(ended) = tasks.join_next() => return Err(Error::TaskEnded(ended.unwrap_or("a task"))),
            }
        }
        tracing::info!(writes = self.in_flight.len(), "stopping; waiting for pending writes");
        let rest = std::mem::take(&mut self.in_flight).collect::<Vec<_>>();
        if tokio::time::timeout(SHUTDOWN_GRACE, rest).await.is_err() {
            tracing::warn!("some writes did not complete in time");
        }
        Ok(())
    }

    fn receive(&mut self, message: Message<EventOf<M>>) {
        let now = self.clock.now();
        match message {
            Message::Event(event) => self.world.observe(*event, now),
            Message::Listed => {
                self.unsynced = self.unsynced.saturating_sub(1);
                if self.unsynced == 0 {
                    tracing::info!(platform = M::NAME, "all objects have been listed; running");
                    self.world.observe(ModelEvent::Synced, now);
                    self.health.ready();
                }
            }
        }
    }

    fn complete(&mut self, first: Option<EventOf<M>>) {
        let mut completed = first;
        loop {
            if let Some(event) = completed {
                self.world.observe(event, self.clock.now());
            }
            match self.in_flight.next().now_or_never() {
                Some(Some(next)) => completed = next,
                Some(None) | None => return,
            }
        }
    }

    fn start_writes(&mut self) {
        while self.in_flight.len() < self.max_in_flight {
            let Some(action) = self.queue.pop_front() else { return };
            let (writer, reporter) = (self.writer.clone(), self.reporter.clone());
            let write = async move {
                match action {
                    ModelAction::Write(id, write) => {
                        let outcome = M::perform(&writer, &id, write).await;
                        Some(ModelEvent::Written(id, outcome))
                    }
                    ModelAction::Report(violation) => {
                        reporter.report(violation).await;
                        None
                    }
                }
            };
            self.in_flight.push(write.boxed());
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
