//! How much memory reviews that are under way may take together.
//!
//! One client may have half of it, so that the API server is answered while another client sends as much as it can.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one permit stands for.
const UNIT: usize = 1024;

/// Memory that is handed out.
#[derive(Debug)]
pub(crate) struct Memory {
    total: Arc<Semaphore>,
    /// Units for one client.
    share: usize,
    shares: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// Memory that is in use. It is returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    total: OwnedSemaphorePermit,
    share: OwnedSemaphorePermit,
}

impl Memory {
    /// So many bytes, half of them for one client at most.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self { total: Arc::new(Semaphore::new(units)), share: units / 2, shares: Mutex::default() }
    }

    /// Waits until a client may take so many bytes. More than its share counts as its share.
    pub(crate) async fn take(&self, client: IpAddr, bytes: usize) -> Taken {
        let units = units(bytes.min(self.share * UNIT));
        let share = acquire(self.share_of(client), units).await;
        let total = acquire(Arc::clone(&self.total), units).await;
        Taken { total, share }
    }

    fn share_of(&self, client: IpAddr) -> Arc<Semaphore> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(&client).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(self.share));
        shares.insert(client, Arc::downgrade(&share));
        share
    }
}

impl Taken {
    /// Returns all but so many bytes.
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
