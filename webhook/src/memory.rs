//! A limit for the memory of all reviews in progress.
//!
//! One client may use half of it. If memory is short, a body that does not arrive loses its memory, and its
//! client is served after the others for some seconds. Of these, the client that uses the least is first. If
//! clients announce as many bodies as they can, the reviews of the API server hardly wait.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;

/// The number of bytes that one unit stands for.
const UNIT: usize = 1024;
/// The time in which a body keeps its memory even if other reviews wait. kube-apiserver sends a body without
/// a delay.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// How long a client is served after the others if its body did not arrive.
const PENALTY: Duration = Duration::from_secs(10);
/// The interval at which a waiting review looks for bodies that do not arrive.
const INTERVAL: Duration = Duration::from_millis(50);

/// A limit for memory.
#[derive(Debug)]
pub(crate) struct MemoryLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The limit of one client, in units.
    share: usize,
    table: Mutex<Table>,
    env: Env,
}

#[derive(Debug)]
struct Table {
    free: usize,
    /// The clients that use memory, or are served after the others.
    clients: HashMap<IpAddr, Client>,
    next: u64,
    waiting: Vec<Waiting>,
    /// The bodies that have memory and have not arrived, in the order in which they got it.
    arriving: BTreeMap<u64, Arriving>,
    /// The uptime at which a waiting review last looked for bodies that do not arrive.
    looked_at: Duration,
}

#[derive(Debug, Default)]
struct Client {
    /// The units in use.
    used: usize,
    /// The number of the last review that got memory.
    last_granted: u64,
    /// The uptime until which the client is served after the others.
    slow_until: Duration,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    client: IpAddr,
    units: usize,
    kind: MemoryUse,
    granted: oneshot::Sender<MemoryPermit>,
}

#[derive(Debug)]
struct Arriving {
    client: IpAddr,
    since: Duration,
    units: usize,
    evicted: CancellationToken,
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryUse {
    /// A body that the client still sends.
    Body,
    Objects,
}

/// Permission to use memory. Dropping it returns the memory.
#[derive(Debug)]
pub(crate) struct MemoryPermit {
    shared: Arc<Shared>,
    number: u64,
    client: IpAddr,
    units: usize,
    /// Cancelled if the body must not be awaited any longer, because other reviews need its memory.
    pub(crate) evicted: CancellationToken,
}

impl MemoryLimit {
    /// A limit of this number of bytes. One client may use half of them.
    pub(crate) fn new(bytes: usize, env: Env) -> Self {
        let free = bytes / UNIT;
        let (clients, waiting, arriving) = (HashMap::new(), Vec::new(), BTreeMap::new());
        // A client without a turn has number 0.
        let table = Table { free, clients, next: 1, waiting, arriving, looked_at: env.uptime() };
        let table = Mutex::new(table);
        Self(Arc::new(Shared { share: free / 2, table, env }))
    }

    /// Waits until a client may use this number of bytes. Larger numbers count as the limit of one client.
    pub(crate) async fn acquire(&self, client: IpAddr, bytes: usize) -> MemoryPermit {
        self.wait(client, bytes, MemoryUse::Objects).await
    }

    /// As [`Self::acquire`], for a body that the client still sends. It can lose the memory after
    /// [`PATIENCE`].
    pub(crate) async fn acquire_for_body(&self, client: IpAddr, bytes: usize) -> MemoryPermit {
        self.wait(client, bytes, MemoryUse::Body).await
    }

    async fn wait(&self, client: IpAddr, bytes: usize, kind: MemoryUse) -> MemoryPermit {
        let shared = &self.0;
        let (granted, mut permit) = oneshot::channel();
        let units = bytes.div_ceil(UNIT).min(shared.share);
        {
            let mut table = shared.table.lock();
            let number = table.next;
            table.next += 1;
            table.waiting.push(Waiting { number, client: client.to_canonical(), units, kind, granted });
        }
        shared.grant();
        loop {
            match shared.env.timeout(INTERVAL, &mut permit).await {
                Ok(permit) => {
                    return permit.expect("only a granted permit leaves the queue of an open receiver");
                }
                Err(_) => shared.evict(),
            }
        }
    }

    #[cfg(test)]
    fn clients(&self) -> usize {
        self.0.table.lock().clients.len()
    }
}

impl Shared {
    /// Grants memory to those that wait, as far as there is some.
    fn grant(self: &Arc<Self>) {
        // Dropping a permit takes the lock, so a permit whose receiver is gone is dropped outside.
        loop {
            let Some((waiting, evicted)) = self.table.lock().take_next(self.share, self.env.uptime()) else {
                return;
            };
            let Waiting { number, client, units, granted, .. } = waiting;
            let permit = MemoryPermit { shared: Arc::clone(self), number, client, units, evicted };
            drop(granted.send(permit));
        }
    }

    /// Evicts the bodies that have not arrived in time, the oldest first, until the next review has enough
    /// memory.
    fn evict(&self) {
        let (mut table, now) = (self.table.lock(), self.env.uptime());
        // Many reviews can wait, and one look is enough for all.
        if now.saturating_sub(table.looked_at) < INTERVAL {
            return;
        }
        table.looked_at = now;
        let Some(next) = table.next_waiting(self.share, now) else { return };
        let Some(units) = table.waiting.get(next).map(|waiting| waiting.units) else { return };
        let Table { free, clients, arriving, .. } = &mut *table;
        let mut free = *free;
        for body in arriving.values() {
            if free >= units || now.saturating_sub(body.since) < PATIENCE {
                return;
            }
            body.evicted.cancel();
            free += body.units;
            clients.entry(body.client).or_default().slow_until = now + PENALTY;
        }
    }
}

impl Table {
    /// The position of the review that gets memory next: not of a client that was slow, of the client that
    /// uses the least, the smallest, and of the client that got memory the longest time ago.
    fn next_waiting(&mut self, share: usize, now: Duration) -> Option<usize> {
        self.waiting.retain(|waiting| !waiting.granted.is_closed());
        let none = Client::default();
        let order = |waiting: &Waiting| {
            let Client { used, last_granted: turn, slow_until } =
                self.clients.get(&waiting.client).unwrap_or(&none);
            (*slow_until > now, *used, waiting.units, *turn, waiting.number)
        };
        let orders = self.waiting.iter().map(order).enumerate();
        let permitted = orders.filter(|(_, (_, used, units, ..))| used + units <= share);
        permitted.min_by_key(|&(_, order)| order).map(|(at, _)| at)
    }

    /// Takes the next review off the queue, and its memory from the free one. Others do not overtake a review
    /// that is next.
    fn take_next(&mut self, share: usize, now: Duration) -> Option<(Waiting, CancellationToken)> {
        let at = self.next_waiting(share, now)?;
        if self.waiting.get(at)?.units > self.free {
            return None;
        }
        let waiting = self.waiting.swap_remove(at);
        self.free -= waiting.units;
        let client = self.clients.entry(waiting.client).or_default();
        client.used += waiting.units;
        client.last_granted = waiting.number;
        let evicted = CancellationToken::new();
        if waiting.kind == MemoryUse::Body {
            let Waiting { client, units, .. } = waiting;
            let arriving = Arriving { client, since: now, units, evicted: evicted.clone() };
            self.arriving.insert(waiting.number, arriving);
        }
        Some((waiting, evicted))
    }

    fn give_back(&mut self, client: IpAddr, units: usize, now: Duration) {
        self.free += units;
        if let Some(client) = self.clients.get_mut(&client) {
            client.used = client.used.saturating_sub(units);
        }
        self.clients.retain(|_, client| client.used > 0 || client.slow_until > now);
    }
}

impl MemoryPermit {
    /// Returns the memory that exceeds this number of bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let surplus = self.units.saturating_sub(bytes.div_ceil(UNIT));
        self.units -= surplus;
        self.shared.table.lock().give_back(self.client, surplus, self.shared.env.uptime());
        self.shared.grant();
    }

    /// Records that the body has arrived. It keeps the memory.
    pub(crate) fn arrive(&self) {
        self.shared.table.lock().arriving.remove(&self.number);
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        {
            let mut table = self.shared.table.lock();
            table.arriving.remove(&self.number);
            table.give_back(self.client, self.units, self.shared.env.uptime());
        }
        self.shared.grant();
    }
}

#[cfg(test)]
mod tests;
