//! The loop of a worker, and the first lists that it waits for: for images, copies, and machines of former pools. The workers of
//! pools have a loop of their own, which also reports a heartbeat and the computing time of passes.

use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;

use crate::queue::{Queue, Requeue};

/// Time until the next pass of an object whose pass panicked.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// Time between two looks at the first lists.
const UNSYNCED: Duration = Duration::from_millis(20);

/// Waits until the first lists are complete, or until `stop`.
pub(crate) async fn until_synced(env: &Env, stop: &CancellationToken, is_synced: impl Fn() -> bool) {
    while !is_synced() && !stop.is_cancelled() {
        select(env.sleep(UNSYNCED), std::pin::pin!(stop.cancelled())).await;
    }
}

/// Reconciles the objects of a queue until `stop`.
pub(crate) async fn work<C, K: Clone + Eq + Hash + Ord + Debug>(
    context: &C,
    queue: &Queue<K>,
    stop: &CancellationToken,
    pass: for<'a> fn(&'a C, &'a K) -> BoxFuture<'a, Requeue>,
) {
    loop {
        let next = std::pin::pin!(queue.next());
        let key = match select(next, std::pin::pin!(stop.cancelled())).await {
            Either::Left((key, _)) => key,
            Either::Right(_) => return,
        };
        let again = AssertUnwindSafe(pass(context, &key)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(object = ?key, "a pass panicked; the controller retries the object later");
            Requeue::After(AFTER_PANIC)
        });
        queue.done(&key, again, Duration::ZERO);
        if again == Requeue::Never {
            queue.forget(&key);
        }
        // Passes that never wait must not block the only thread.
        tokio::task::yield_now().await;
    }
}

/// The number of first lists of watches that are not complete.
#[derive(Debug, Default)]
pub(crate) struct FirstLists(AtomicUsize);

impl FirstLists {
    /// This many lists.
    pub(crate) fn new(lists: usize) -> Self {
        Self(AtomicUsize::new(lists))
    }

    /// Another list must be complete.
    pub(crate) fn expect(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A list is complete. Returns whether it was the last one.
    pub(crate) fn ended(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Whether all lists are complete.
    pub(crate) fn are_complete(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
