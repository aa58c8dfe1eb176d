//! Detects when all tasks of a runtime wait.

use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// Detects when all tasks of one runtime wait. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Idle(Arc<Mutex<Option<Waker>>>);

impl Idle {
    /// A runtime on the calling thread, and the detection for its tasks.
    ///
    /// # Errors
    /// The system cannot create the runtime.
    pub fn runtime() -> io::Result<(Runtime, Self)> {
        let idle = Self::default();
        let parked = idle.clone();
        // A thread parks when none of its tasks can continue. If the hook wakes a task, the thread does not
        // park.
        let park = move || {
            let waiting = parked.0.lock().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        };
        let runtime = Builder::new_current_thread().enable_time().on_thread_park(park).build()?;
        Ok((runtime, idle))
    }

    /// Waits until no task can continue. Only the future on which the runtime blocks may call it.
    pub async fn wait(&self) {
        let mut registered = false;
        futures::future::poll_fn(|cx| {
            let waiting = &mut *self.0.lock();
            if registered && waiting.is_none() {
                return Poll::Ready(());
            }
            registered = true;
            *waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
