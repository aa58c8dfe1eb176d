//! What the answers of the API server take in memory, all of them together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of an answer that are read at once. Hundreds of requests are under way at a time, and an object of a user may
/// have a megabyte and a half: only [`LARGE`] answers at a time may be longer than this.
const SMALL: usize = 128 * 1024;

/// Longer answers that are in memory at a time.
const LARGE: usize = 4;

/// The places that long answers wait for. Clones are the same places.
#[derive(Clone, Debug)]
pub(crate) struct ResponseBodies {
    large: Arc<Semaphore>,
}

impl Default for ResponseBodies {
    fn default() -> Self {
        Self { large: Arc::new(Semaphore::new(LARGE)) }
    }
}

impl ResponseBodies {
    /// An answer of which nothing has been read.
    pub(crate) fn begin(&self) -> ResponseBody {
        ResponseBody { bytes: Vec::new(), large: self.large.clone(), permit: None }
    }
}

/// An answer as far as it has been read. A long one keeps its place until it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    bytes: Vec<u8>,
    large: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ResponseBody {
    /// Adds what was read; before that it waits for a place, if the answer becomes a long one.
    pub(crate) async fn push(&mut self, data: &[u8]) {
        if self.permit.is_none() && self.bytes.len() + data.len() > SMALL {
            // Nothing closes the semaphore. If something did, the bound would be gone and the answer still right.
            self.permit = self.large.clone().acquire_owned().await.ok();
        }
        self.bytes.extend_from_slice(data);
    }

    /// What was read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn no_more_than_some_long_answers_are_in_memory_at_a_time() {
        let bodies = ResponseBodies::default();
        let chunk = vec![0; SMALL];
        let mut begun: Vec<ResponseBody> = (0..=LARGE).map(|_| bodies.begin()).collect();
        for body in &mut begun {
            assert_eq!(body.push(&chunk).now_or_never(), Some(()), "a short answer waits for nothing");
        }
        let mut last = begun.pop().unwrap();
        for body in &mut begun {
            assert_eq!(body.push(&chunk).now_or_never(), Some(()));
        }
        assert_eq!(last.push(&chunk).now_or_never(), None, "every place is taken");
        assert_eq!(last.bytes().len(), SMALL);
        begun.pop();
        assert_eq!(last.push(&chunk).now_or_never(), Some(()), "a dropped answer gives its place back");
        assert_eq!(last.bytes().len(), 2 * SMALL);
    }
}
