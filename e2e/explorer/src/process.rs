//! Simulated processes that can be killed and paused between any two steps.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use vmpool_runtime::Env;
use vmpool_runtime::env::{Clock, Entropy, Spawner, TokioSpawner};

/// How often a process may read the clock while time stands still. One pass over a pool reads it a few dozen
/// times.
const MAX_CLOCK_READS: u64 = 100_000;

/// Why the tasks of a process do not run.
#[derive(Debug, Default)]
struct State {
    paused: bool,
    killed: bool,
    /// How often the process has read the clock since time last advanced, and that time.
    clock_reads: (u64, Duration),
    /// Whether the process was killed because it ran in a loop while time stood still.
    looping: bool,
    spawned: u64,
    /// The waker of each task, runnable tasks included: `kill` must wake every task.
    wakers: BTreeMap<u64, Waker>,
}

impl State {
    fn wakers(&self) -> Vec<Waker> {
        self.wakers.values().cloned().collect()
    }
}

/// One process: a group of tasks with its own environment.
#[derive(Clone, Debug, Default)]
pub struct SimulatedProcess(Arc<Mutex<State>>);

impl SimulatedProcess {
    /// A running process.
    pub fn new() -> Self {
        Self::default()
    }

    /// The environment of the process, with this clock and this source of randomness.
    pub fn env(&self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Env {
        let clock = LoopDetector { clock, process: self.clone() };
        Env::new(Arc::new(clock), entropy, Arc::new(self.clone()))
    }

    /// Whether the process was killed because it ran in a loop while time stood still.
    pub fn has_looped(&self) -> bool {
        self.0.lock().looping
    }

    /// Stops all tasks of the process until [`SimulatedProcess::resume`]. The rest of the world continues.
    pub fn pause(&self) {
        self.0.lock().paused = true;
    }

    /// Resumes all tasks.
    pub fn resume(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.paused = false;
            state.wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the process and drops its memory. Requests that it has sent continue.
    pub fn kill(&self) {
        let wakers = {
            let mut state = self.0.lock();
            state.killed = true;
            state.paused = false;
            state.wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether the process is paused.
    pub fn is_paused(&self) -> bool {
        self.0.lock().paused
    }
}

impl SimulatedProcess {
    /// Runs `future` in the process. The result is `None` if the process is killed before the future
    /// completes.
    pub fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        let reported = async move {
            // The receiver may be gone.
            _ = sender.send(future.await);
        };
        self.spawn("call", reported.boxed());
        receiver.map(Result::ok)
    }
}

/// A clock that detects a busy loop. Time advances only when every process waits, so such a loop would never
/// end.
struct LoopDetector {
    clock: Arc<dyn Clock>,
    process: SimulatedProcess,
}

impl Clock for LoopDetector {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn uptime(&self) -> Duration {
        let uptime = self.clock.uptime();
        let looping = {
            let state = &mut *self.process.0.lock();
            state.clock_reads =
                if state.clock_reads.1 == uptime { (state.clock_reads.0 + 1, uptime) } else { (0, uptime) };
            let looping = state.clock_reads.0 > MAX_CLOCK_READS && !state.looping;
            state.looping |= looping;
            state.killed |= looping;
            looping
        };
        if looping {
            // A task that never yields can be stopped only by a panic.
            std::panic::resume_unwind(Box::new("a loop in which no time passes"));
        }
        uptime
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }
}

impl Spawner for SimulatedProcess {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        let number = {
            let state = &mut *self.0.lock();
            state.spawned += 1;
            state.spawned
        };
        let gated = Gated { process: self.clone(), number, future: Some(future) };
        TokioSpawner.spawn(name, gated.boxed());
    }
}

/// A task that runs only while its process does.
struct Gated {
    process: SimulatedProcess,
    number: u64,
    future: Option<BoxFuture<'static, ()>>,
}

impl Future for Gated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.process.0.lock();
            if state.killed {
                drop(state);
                self.future = None;
                return Poll::Ready(());
            }
            match state.wakers.get_mut(&self.number) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => _ = state.wakers.insert(self.number, cx.waker().clone()),
            }
            if state.paused {
                return Poll::Pending;
            }
        }
        match &mut self.future {
            Some(future) => future.poll_unpin(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.process.0.lock().wakers.remove(&self.number);
    }
}
