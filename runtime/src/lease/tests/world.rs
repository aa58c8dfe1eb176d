//! Several processes with one clock and one Lease.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt as _, select};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::server::{LeaseApiServer, LinkFault, NetworkLink};
use crate::env::{Env, Spawner, Task, TokioSpawner};
use crate::lease::{Candidate, Fence, LeaseConfig, LeaseHealth};
use crate::testing::{ManualClock, SeededEntropy, test_env};

/// The interval between checks of all fences.
const LOOK: Duration = Duration::from_millis(250);

pub(super) struct LeaseWorld {
    pub(super) clock: ManualClock,
    pub(super) server: LeaseApiServer,
    pub(super) processes: Vec<LeaseProcess>,
    seed: u64,
}

pub(super) struct LeaseProcess {
    pub(super) identity: String,
    pub(super) clock: ManualClock,
    pub(super) link: NetworkLink,
    pub(super) health: LeaseHealth,
    pub(super) fence: Arc<Mutex<Option<Fence>>>,
    pub(super) stop: CancellationToken,
    gate: Gate,
    resign: Arc<tokio::sync::Notify>,
    main: Task,
}

impl LeaseWorld {
    pub(super) fn new(seed: u64) -> Self {
        Self { clock: ManualClock::new(), server: LeaseApiServer::default(), processes: Vec::new(), seed }
    }

    /// Starts another process and returns its index.
    pub(super) fn start(&mut self) -> usize {
        self.seed += 1;
        let process =
            LeaseProcess::start(&format!("process-{}", self.seed), self.seed, &self.clock, &self.server);
        self.processes.push(process);
        self.processes.len() - 1
    }

    /// Kills a process and starts another one with its index. Requests in flight continue.
    pub(super) fn restart(&mut self, place: usize) {
        self.start();
        self.processes.swap_remove(place);
    }

    /// Advances the clock with frequent checks of all fences.
    pub(super) async fn pass(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(LOOK);
            self.clock.advance(step).await;
            self.check();
            left = left.saturating_sub(step);
        }
    }

    pub(super) async fn seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// Checks that at most one fence is valid.
    pub(super) fn check(&self) {
        let valid = self.leaders();
        assert!(valid.len() <= 1, "two valid fences: {valid:?}");
    }

    pub(super) fn leaders(&self) -> Vec<&str> {
        let leaders = self.processes.iter().filter(|process| process.leads());
        leaders.map(|process| process.identity.as_str()).collect()
    }

    pub(super) fn leader(&self) -> Option<&LeaseProcess> {
        self.processes.iter().find(|process| process.leads())
    }

    /// Advances the clock until a process leads. Returns the duration with a resolution of a quarter second.
    pub(super) async fn until_led(&self, limit: Duration) -> Duration {
        self.clock.settle().await;
        let mut waited = Duration::ZERO;
        while self.leader().is_none() {
            assert!(waited < limit, "no process leads after {waited:?}");
            self.pass(LOOK).await;
            waited += LOOK;
        }
        waited
    }
}

impl LeaseProcess {
    pub(super) fn start(identity: &str, seed: u64, clock: &ManualClock, server: &LeaseApiServer) -> Self {
        let clock = clock.with_separate_wall_clock();
        let gate = Gate::default();
        let own =
            Env::new(Arc::new(clock.clone()), Arc::new(SeededEntropy::new(seed)), Arc::new(gate.clone()));
        let link = NetworkLink::default();
        let client = server.client(&link, &test_env(&clock, seed));
        let mut candidate = Candidate::new(client, LeaseConfig::new("ns", "lease", identity), own.clone());
        let (health, fence) = (candidate.health(), Arc::<Mutex<Option<Fence>>>::default());
        let (stop, resign) = (CancellationToken::new(), Arc::<tokio::sync::Notify>::default());
        let resting = own.clone();
        let (slot, stopped, resigned) = (Arc::clone(&fence), stop.clone(), Arc::clone(&resign));
        let main = own.spawn("main", async move {
            while let Some(leadership) = candidate.acquire(&stopped).await {
                *slot.lock() = Some(leadership.fence.clone());
                let asked = std::pin::pin!(resigned.notified());
                if let Either::Left(_) = select(asked, std::pin::pin!(leadership.wait_until_lost())).await {
                    drop(leadership.release().await);
                    // Otherwise the process would acquire the Lease that it released.
                    resting.sleep(Duration::from_secs(5)).await;
                }
            }
        });
        let identity = identity.to_owned();
        Self { identity, clock, link, health, fence, stop, gate, resign, main }
    }

    /// Whether the fence is valid, even while the process is paused.
    pub(super) fn leads(&self) -> bool {
        let fence = self.fence.lock().clone();
        fence.is_some_and(|fence| !fence.remaining().is_zero())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.main.is_finished()
    }

    /// Pauses the process at any point, as SIGSTOP does.
    pub(super) fn pause(&self) {
        self.gate.0.lock().shut = true;
    }

    pub(super) fn resume(&self) {
        let mut gate = self.gate.0.lock();
        gate.shut = false;
        gate.waiting.drain(..).for_each(Waker::wake);
    }

    /// Releases the leadership now, or as soon as the process leads.
    pub(super) fn resign(&self) {
        self.resign.notify_one();
    }

    pub(super) fn fault(&self, fault: LinkFault) {
        self.link.set(fault);
    }
}

/// Runs the tasks of a process unless it is paused.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    shut: bool,
    waiting: Vec<Waker>,
}

impl Spawner for Gate {
    fn spawn(&self, name: &'static str, mut future: BoxFuture<'static, ()>) {
        let gate = self.clone();
        let gated = futures::future::poll_fn(move |cx| {
            let mut state = gate.0.lock();
            if state.shut {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            drop(state);
            future.poll_unpin(cx)
        });
        TokioSpawner.spawn(name, gated.boxed());
    }
}
