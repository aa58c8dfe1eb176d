//! Tells when the tasks of a runtime have nothing left to do.

use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// Knows when all tasks of one runtime wait. Clones know the same.
#[derive(Clone, Debug, Default)]
pub struct Idle(Arc<Mutex<Option<Waker>>>);

impl Idle {
    /// A runtime on the calling thread, and how to learn that its tasks wait.
    ///
    /// # Errors
    /// If the system has nothing left for a runtime.
    pub fn runtime() -> io::Result<(Runtime, Self)> {
        let idle = Self::default();
        let told = idle.clone();
        // A thread parks when none of its tasks can go on; whom the hook wakes keeps it from doing so.
        let park = move || {
            let waiting = told.0.lock().take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        };
        let runtime = Builder::new_current_thread().enable_time().on_thread_park(park).build()?;
        Ok((runtime, idle))
    }

    /// Waits until every task waits for something else than its turn. Only the future that the runtime was given to
    /// block on may ask.
    pub async fn wait(&self) {
        let mut asked = false;
        futures::future::poll_fn(|cx| {
            let waiting = &mut *self.0.lock();
            if asked && waiting.is_none() {
                return Poll::Ready(());
            }
            asked = true;
            *waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
