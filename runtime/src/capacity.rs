//! Limits for the number of connections and requests, in total and for each client.
//!
//! A client is identified by its IP address. If all connection slots are in use, the connection that has been idle for the
//! longest time is evicted, among those of the client with the most connections. Clients that connect without sending
//! requests therefore cannot block the API server.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::env::Env;

/// The idle time after which a connection can be evicted.
const IDLE: Duration = Duration::from_secs(5);
/// The interval of attempts to evict a connection while all slots are in use.
const EVICTION_INTERVAL: Duration = Duration::from_secs(1);

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    in_flight: AtomicUsize,
    /// The uptime at which the last request started or ended.
    last: Mutex<Duration>,
}

impl Activity {
    pub(crate) fn new(env: &Env) -> Arc<Self> {
        Arc::new(Self { in_flight: AtomicUsize::new(0), last: Mutex::new(env.uptime()) })
    }

    /// The time without a request. Zero while a request is in flight.
    pub(crate) fn idle(&self, env: &Env) -> Duration {
        if self.in_flight.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        env.uptime().saturating_sub(*self.last.lock())
    }
}

/// A request in flight.
pub(crate) struct ActiveRequest {
    activity: Arc<Activity>,
    env: Env,
}

impl ActiveRequest {
    pub(crate) fn new(activity: &Arc<Activity>, env: &Env) -> Self {
        activity.in_flight.fetch_add(1, Ordering::SeqCst);
        Self { activity: Arc::clone(activity), env: env.clone() }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        *self.activity.last.lock() = self.env.uptime();
        self.activity.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The slots for connections.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    permits: Arc<Semaphore>,
    /// The maximum number of connections of one client.
    per_client: usize,
    open: Arc<Mutex<Connections>>,
    env: Env,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    by_number: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    client: IpAddr,
    activity: Arc<Activity>,
    evicted: CancellationToken,
}

/// A slot in use. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    number: u64,
    open: Arc<Mutex<Connections>>,
    /// The requests of the connection.
    pub(crate) activity: Arc<Activity>,
    /// Cancelled if the connection is evicted.
    pub(crate) evicted: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    /// Slots for this number of connections. One client may use `per_client` of them.
    pub(crate) fn new(connections: usize, per_client: usize, env: Env) -> Self {
        Self { permits: Arc::new(Semaphore::new(connections)), per_client, open: Arc::default(), env }
    }

    /// Acquires a slot for a connection of a client. If all slots are in use, evicts an idle connection and waits.
    ///
    /// Returns `None` if the client uses its maximum. An idle connection of the client is then evicted, so that a later
    /// attempt can succeed.
    pub(crate) async fn acquire(&self, client: IpAddr) -> Option<ConnectionSlot> {
        let client = client.to_canonical();
        let count = |open: &Connections| {
            open.by_number.values().filter(|connection| connection.client == client).count()
        };
        if count(&self.open.lock()) >= self.per_client {
            self.evict(Some(client));
            return None;
        }
        let permit = self.acquire_permit().await;
        let activity = Activity::new(&self.env);
        let evicted = CancellationToken::new();
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        let connection = Connection { client, activity: Arc::clone(&activity), evicted: evicted.clone() };
        open.by_number.insert(number, connection);
        Some(ConnectionSlot { number, open: Arc::clone(&self.open), activity, evicted, _permit: permit })
    }

    async fn acquire_permit(&self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return permit;
        }
        loop {
            self.evict(self.largest_client());
            let permit = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = self.env.timeout(EVICTION_INTERVAL, permit).await {
                return permit.expect("this semaphore is never closed");
            }
        }
    }

    /// Waits until all slots are free. `connections` is their number.
    pub(crate) async fn wait_until_free(&self, connections: usize) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        drop(self.permits.acquire_many(connections).await);
    }

    /// The client with the most connections.
    fn largest_client(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.open.lock().by_number.values() {
            *counts.entry(connection.client).or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(client, count)| (count, client)).map(|(client, _)| client)
    }

    /// Evicts the connection of a client that has been idle for the longest time, if a connection is idle.
    fn evict(&self, client: Option<IpAddr>) {
        let open = self.open.lock();
        // One eviction at a time, because an evicted connection takes some time to close.
        if open.by_number.values().any(|connection| connection.evicted.is_cancelled()) {
            return;
        }
        let idle = open.by_number.iter().filter_map(|(number, connection)| {
            let idle = connection.activity.idle(&self.env);
            let evictable = Some(connection.client) == client && idle >= IDLE;
            evictable.then_some((idle, number, connection))
        });
        if let Some((_, _, connection)) = idle.max_by_key(|&(idle, number, _)| (idle, number)) {
            connection.evicted.cancel();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.open.lock().by_number.remove(&self.number);
    }
}

/// The slots for requests in flight. One client may use half of them.
#[derive(Debug)]
pub(crate) struct RequestSlots {
    max: usize,
    in_flight: Mutex<HashMap<IpAddr, usize>>,
}

/// A slot of a request in flight.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    slots: Arc<RequestSlots>,
    client: IpAddr,
}

impl RequestSlots {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, in_flight: Mutex::default() })
    }

    /// Acquires a slot for a request of a client. Returns `None` if too many requests are in flight.
    pub(crate) fn acquire(self: &Arc<Self>, client: IpAddr) -> Option<RequestSlot> {
        let client = client.to_canonical();
        let mut in_flight = self.in_flight.lock();
        let total: usize = in_flight.values().sum();
        let own = in_flight.get(&client).copied().unwrap_or_default();
        if total >= self.max || own >= self.max.div_ceil(2) {
            return None;
        }
        in_flight.insert(client, own + 1);
        Some(RequestSlot { slots: Arc::clone(self), client })
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut in_flight = self.slots.in_flight.lock();
        let rest = in_flight.get(&self.client).map_or(0, |count| count.saturating_sub(1));
        if rest == 0 {
            in_flight.remove(&self.client);
        } else {
            in_flight.insert(self.client, rest);
        }
    }
}

#[cfg(test)]
mod tests;
