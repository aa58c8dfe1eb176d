//! Processes that can be killed and paused between any two of their steps.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use vmpool_runtime::Env;
use vmpool_runtime::env::{Clock, Entropy, Spawner, TokioSpawner};

/// What keeps the tasks of one process from running.
#[derive(Debug, Default)]
struct State {
    paused: bool,
    killed: bool,
    waiting: Vec<Waker>,
}

/// One process: a group of tasks with an environment of its own.
#[derive(Clone, Debug, Default)]
pub struct Process(Arc<Mutex<State>>);

impl Process {
    /// A process that runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its environment, of these parts.
    pub fn env(&self, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Env {
        Env::new(clock, entropy, Arc::new(self.clone()))
    }

    /// Nothing of it runs until [`Process::resume`]; the world goes on.
    pub fn pause(&self) {
        self.0.lock().paused = true;
    }

    /// Goes on where it was.
    pub fn resume(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.paused = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends it, and drops all that it had in memory. What it has sent is under way.
    pub fn kill(&self) {
        let waiting = {
            let mut state = self.0.lock();
            state.killed = true;
            state.paused = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it stands still.
    pub fn is_paused(&self) -> bool {
        self.0.lock().paused
    }
}

impl Spawner for Process {
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        TokioSpawner.spawn(name, Gated { process: self.clone(), future: Some(future) }.boxed());
    }
}

/// A task that runs only while its process does.
struct Gated {
    process: Process,
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
            // Also while it runs: whoever kills it must reach every task.
            state.waiting.retain(|waker| !waker.will_wake(cx.waker()));
            state.waiting.push(cx.waker().clone());
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
