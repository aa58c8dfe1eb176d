//! What the tests of this crate share.

pub(crate) use vmpool_model::{
    ApiError as Refusal, Call, Handling as Conduct, NAMESPACE, RecordingApiServer, RequestOutcome as Fate,
    Verb,
};

use std::time::Duration;

use crate::queue::QueueObserver;
use crate::write::{WriteCategory, WriteObserver, WriteOutcome};

/// The kind of a write in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestWrite {
    Object,
    Event,
}

impl WriteCategory for TestWrite {
    const EVENT: Self = Self::Event;
}

/// An observer that counts nothing.
pub(crate) struct Uncounted;

impl WriteObserver<TestWrite> for Uncounted {
    fn ended(&self, _: TestWrite, _: WriteOutcome) {}
    fn slow_begins(&self) {}
    fn slow_ends(&self) {}
}

impl QueueObserver for Uncounted {
    fn queued(&self) {}
    fn merged(&self) {}
    fn waited(&self, _: Duration) {}
}
