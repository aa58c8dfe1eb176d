//! What is counted of writes.

use std::sync::Arc;

use vmpool_runtime::words;

/// The kind of a write.
pub trait WriteCategory: Copy + PartialEq + Send + Sync + 'static {
    /// The kind of the writes of events. They need no lease: an event changes nothing that another leader
    /// decides about.
    const EVENT: Self;
}

/// Counts writes by their kind.
pub trait WriteObserver<W>: Send + Sync {
    /// A write ended.
    fn ended(&self, kind: W, outcome: WriteOutcome);
    /// A write in flight became slow.
    fn slow_begins(&self);
    /// A slow write ended.
    fn slow_ends(&self);
}

words!(
    /// The outcome of a write.
    pub WriteOutcome {
        /// The API server carried it out.
        Done => "done",
        /// The API server rejected it, without an effect.
        Refused => "refused",
        /// It is unconfirmed: there was no response, or the response does not show the effect.
        Unconfirmed => "lost",
        /// It was not sent, because the lease ends too soon.
        Fenced => "fenced",
        /// It was not sent, because the request is invalid.
        Invalid => "invalid",
    }
);

/// A slow write in flight. It ends when this value is dropped.
pub(super) struct SlowWrite<W>(Arc<dyn WriteObserver<W>>);

impl<W> SlowWrite<W> {
    pub(super) fn begin(observer: Arc<dyn WriteObserver<W>>) -> Self {
        observer.slow_begins();
        Self(observer)
    }
}

impl<W> Drop for SlowWrite<W> {
    fn drop(&mut self) {
        self.0.slow_ends();
    }
}
