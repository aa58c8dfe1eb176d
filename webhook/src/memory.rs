//! A limit for the memory of all reviews in progress.
//!
//! One client may use half of it. If a client sends as many reviews as it can, the other half is left for the API server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of bytes that one semaphore permit stands for.
const UNIT: usize = 1024;

/// A limit for memory.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    total: Arc<Semaphore>,
    /// The limit of one client, in units.
    share: usize,
    clients: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// Permission to use memory. Dropping it returns the memory.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    total: OwnedSemaphorePermit,
    share: OwnedSemaphorePermit,
}

impl MemoryLimit {
    /// A limit of this number of bytes. One client may use half of them.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self { total: Arc::new(Semaphore::new(units)), share: units / 2, clients: Mutex::default() }
    }

    /// Waits until a client may use this number of bytes. Larger numbers count as the limit of one client.
    pub(crate) async fn acquire(&self, client: IpAddr, bytes: usize) -> MemoryPermit {
        let units = units(bytes.min(self.share * UNIT));
        let share = acquire(self.share_of(client), units).await;
        let total = acquire(Arc::clone(&self.total), units).await;
        MemoryPermit { total, share }
    }

    fn share_of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut clients = self.clients.lock();
        if let Some(share) = clients.get(&client).and_then(Weak::upgrade) {
            return share;
        }
        clients.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        clients.insert(client, Arc::downgrade(&share));
        share
    }
}

impl MemoryPermit {
    /// Returns the memory that exceeds this number of bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        for permit in [&mut self.total, &mut self.share] {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

async fn acquire(from: Arc<Semaphore>, units: u32) -> OwnedSemaphorePermit {
    from.acquire_many_owned(units).await.expect("this semaphore is never closed")
}

#[cfg(test)]
mod tests;
