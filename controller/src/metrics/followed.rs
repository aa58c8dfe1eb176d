//! What gauges are read from at each scrape.

use std::fmt;

use parking_lot::Mutex;

type Source<T> = Box<dyn Fn() -> Option<T> + Send + Sync>;

/// The present values of gauges, which the leader knows.
pub(super) struct Followed<T>(Mutex<Option<Source<T>>>);

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> fmt::Debug for Followed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").finish_non_exhaustive()
    }
}

impl<T> Followed<T> {
    /// Reads the values from `source` from now on.
    pub(super) fn follow(&self, source: impl Fn() -> Option<T> + Send + Sync + 'static) {
        *self.0.lock() = Some(Box::new(source));
    }

    /// The present values; `None` without a source, and if that has ended.
    pub(super) fn read(&self) -> Option<T> {
        self.0.lock().as_ref().and_then(|source| source())
    }
}
