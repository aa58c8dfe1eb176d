//! The memory limit for response bodies of the API server.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Size up to which a body is read without a limit on their number, in bytes. Hundreds of requests can be in
/// flight, and an object can have 1.5 MiB. Only [`LARGE`] bodies at a time may be larger than this.
const SMALL: usize = 128 * 1024;

/// Maximum number of larger bodies in memory.
const LARGE: usize = 4;

/// The limit on large bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct ResponseBodies {
    large: Arc<Semaphore>,
}

impl Default for ResponseBodies {
    fn default() -> Self {
        Self { large: Arc::new(Semaphore::new(LARGE)) }
    }
}

impl ResponseBodies {
    /// Starts an empty body.
    pub fn begin(&self) -> ResponseBody {
        ResponseBody { bytes: Vec::new(), large: self.large.clone(), permit: None }
    }
}

/// A response body. A large one holds a permit until it is dropped.
#[derive(Debug)]
pub struct ResponseBody {
    bytes: Vec<u8>,
    large: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ResponseBody {
    /// Appends `data`. If this makes the body a large one, first waits for a permit.
    pub async fn push(&mut self, data: &[u8]) {
        if self.permit.is_none() && self.bytes.len() + data.len() > SMALL {
            // The semaphore is never closed. If it were, only the limit would be lost.
            self.permit = self.large.clone().acquire_owned().await.ok();
        }
        self.bytes.extend_from_slice(data);
    }

    /// The bytes that were read.
    pub fn bytes(&self) -> &[u8] {
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
