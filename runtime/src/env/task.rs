//! Tasks that end when their owner drops them, with any spawner.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use futures::channel::oneshot;
use futures::future::{AbortHandle, Abortable, FutureExt as _};

/// A running task. Dropping it ends the task at its next await point.
#[derive(Debug)]
#[must_use = "dropping a task ends it; call `detach` to keep it running"]
pub struct Task {
    name: &'static str,
    abort: AbortOnDrop,
    outcome: oneshot::Receiver<Result<(), TaskError>>,
    /// Can be upgraded as long as the future exists.
    ended: Weak<()>,
}

/// Why a task ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The task panicked.
    #[error("task {name} panicked: {message}")]
    Panicked {
        /// The name given to [`Env::spawn`](super::Env::spawn).
        name: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// The task was aborted, for example because its runtime ended.
    #[error("task {name} was aborted")]
    Aborted {
        /// The name given to [`Env::spawn`](super::Env::spawn).
        name: &'static str,
    },
}

impl Task {
    /// Waits until the task completes. Dropping the returned future ends the task.
    ///
    /// # Errors
    /// [`TaskError`] if the task panicked or was aborted.
    pub async fn join(self) -> Result<(), TaskError> {
        let Self { name, abort, outcome, ended: _ } = self;
        let result = outcome.await.unwrap_or(Err(TaskError::Aborted { name }));
        drop(abort);
        result
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.ended.strong_count() == 0
    }

    /// Keeps the task running without an owner.
    pub fn detach(mut self) {
        self.abort.0 = None;
    }
}

#[derive(Debug)]
struct AbortOnDrop(Option<AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }
}

/// Returns a handle for `future`, and the future that a spawner polls. The latter ends when the handle is
/// dropped, and it catches panics.
pub(super) fn supervise_task(
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) -> (Task, impl Future<Output = ()> + Send + 'static) {
    let (abort, registration) = AbortHandle::new_pair();
    let (report, outcome) = oneshot::channel();
    // Unwind safety: after a panic, the future is dropped and not used again.
    let guarded = Abortable::new(AssertUnwindSafe(future).catch_unwind(), registration);
    let alive = Arc::new(());
    let ended = Arc::downgrade(&alive);
    let supervised = async move {
        let result = match guarded.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(panic)) => {
                let message = panic_message(panic.as_ref());
                tracing::error!(task = name, panic = message, "a task panicked");
                Err(TaskError::Panicked { name, message })
            }
            Err(futures::future::Aborted) => Err(TaskError::Aborted { name }),
        };
        // Sending fails if the handle is dropped or detached.
        let _ = report.send(result);
        drop(alive);
    };
    (Task { name, abort: AbortOnDrop(Some(abort)), outcome, ended }, supervised)
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
