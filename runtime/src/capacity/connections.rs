//! The slots for connections, and which connection is closed if they are short.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::activity::{ClientTrust, ConnectionActivity, ConnectionProgress, SLOW};
use crate::env::Env;

/// The idle time after which a client at its limit loses a connection.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// The interval of attempts to evict a connection while all slots are in use.
const EVICTION_INTERVAL: Duration = Duration::from_millis(100);
/// The share of the slots, one in this number, that clients without a completed request and without a
/// verified certificate leave to the others.
const RESERVE: usize = 4;

/// The slots for connections.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    max: usize,
    /// The maximum number of connections of one client.
    per_client: usize,
    open: Arc<Open>,
    env: Env,
}

#[derive(Debug, Default)]
struct Open {
    table: Mutex<Table>,
    /// A slot was freed.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    by_number: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    client: IpAddr,
    activity: Arc<ConnectionActivity>,
    eviction: Eviction,
}

/// Whether a connection must close because others need its slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Eviction {
    /// The connection must close.
    closes: CancellationToken,
    /// It must close without a goodbye.
    cuts: CancellationToken,
}

/// A slot in use. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    number: u64,
    open: Arc<Open>,
    /// The requests of the connection.
    pub(crate) activity: Arc<ConnectionActivity>,
    /// Whether the connection must close.
    pub(crate) eviction: Eviction,
}

/// The result of one attempt to acquire a slot.
enum Attempt {
    Acquired(ConnectionSlot),
    /// The client uses its maximum.
    Refused,
    /// No slot is free, and no connection can be evicted now.
    Full,
}

impl Eviction {
    /// Waits until the connection must close.
    pub(crate) async fn wait_until_ordered(&self) {
        self.closes.cancelled().await;
    }

    /// Whether the connection must close.
    pub(crate) fn is_ordered(&self) -> bool {
        self.closes.is_cancelled()
    }

    /// Waits until the connection must close without a goodbye: its client has sent no request in full, or
    /// many connections are closing.
    pub(crate) async fn wait_until_cut(&self) {
        self.cuts.cancelled().await;
    }

    #[cfg(test)]
    pub(super) fn is_cut(&self) -> bool {
        self.cuts.is_cancelled()
    }
}

impl ConnectionSlots {
    /// Slots for this number of connections. One client may use `per_client` of them.
    pub(crate) fn new(max: usize, per_client: usize, env: Env) -> Self {
        Self { max, per_client, open: Arc::default(), env }
    }

    /// Acquires a slot for a connection of a client. If all slots are in use, evicts a connection, and waits
    /// only while all connections have requests that are being handled.
    ///
    /// Returns `None` if the client uses its maximum, and none of its connections is slow or idle.
    pub(crate) async fn acquire(&self, client: IpAddr) -> Option<ConnectionSlot> {
        let client = client.to_canonical();
        loop {
            let mut freed = std::pin::pin!(self.open.freed.notified());
            freed.as_mut().enable();
            match self.attempt(client) {
                Attempt::Acquired(slot) => return Some(slot),
                Attempt::Refused => return None,
                Attempt::Full => self.env.timeout(EVICTION_INTERVAL, freed).await.unwrap_or_default(),
            }
        }
    }

    /// Waits until all slots are free.
    pub(crate) async fn wait_until_free(&self) {
        loop {
            let mut freed = std::pin::pin!(self.open.freed.notified());
            freed.as_mut().enable();
            if self.open.table.lock().by_number.is_empty() {
                return;
            }
            freed.await;
        }
    }

    fn attempt(&self, client: IpAddr) -> Attempt {
        let now = self.env.uptime();
        let mut table = self.open.table.lock();
        // Evicted connections use memory until they have closed.
        if table.by_number.len() - table.count(|_| true) > self.max / RESERVE {
            table.cut_evicted();
            return Attempt::Full;
        }
        if table.count(|connection| connection.client == client) >= self.per_client
            && !table.evict(now, |connection, waited| connection.client == client && waited.is_long())
        {
            return Attempt::Refused;
        }
        let unproven = table.count(|connection| connection.activity.trust(now) == ClientTrust::None);
        if unproven >= self.max - self.max / RESERVE {
            table.evict(now, |connection, _| connection.activity.trust(now) == ClientTrust::None);
        }
        if table.count(|_| true) >= self.max && !table.evict(now, |_, _| true) {
            return Attempt::Full;
        }
        let (activity, eviction) = (ConnectionActivity::new(&self.env), Eviction::default());
        let number = table.next;
        table.next += 1;
        let connection = Connection { client, activity: Arc::clone(&activity), eviction: eviction.clone() };
        table.by_number.insert(number, connection);
        Attempt::Acquired(ConnectionSlot { number, open: Arc::clone(&self.open), activity, eviction })
    }
}

/// How long a connection has been slow or idle.
#[derive(Debug, Clone, Copy)]
enum StalledTime {
    /// The client owes bytes for this time.
    Unfinished(Duration),
    /// There is no request for this time.
    Idle(Duration),
}

impl StalledTime {
    fn of(standing: ConnectionProgress, now: Duration) -> Option<Self> {
        match standing {
            ConnectionProgress::Busy => None,
            ConnectionProgress::Unfinished(since) => Some(Self::Unfinished(now.saturating_sub(since))),
            ConnectionProgress::Idle(since) => Some(Self::Idle(now.saturating_sub(since))),
        }
    }

    fn duration(self) -> Duration {
        match self {
            Self::Unfinished(duration) | Self::Idle(duration) => duration,
        }
    }

    /// Whether a client that opens a further connection will not use this one.
    fn is_long(self) -> bool {
        match self {
            Self::Unfinished(duration) => duration >= SLOW,
            Self::Idle(duration) => duration >= IDLE,
        }
    }
}

impl Table {
    /// The number of connections with this property that are not evicted.
    fn count(&self, is_counted: impl Fn(&Connection) -> bool) -> usize {
        let open = self.by_number.values().filter(|connection| !connection.eviction.is_ordered());
        open.filter(|connection| is_counted(connection)).count()
    }

    /// Evicts a connection with this property, if one can be evicted: first those whose client owes bytes for
    /// [`SLOW`], the longest first, then those of the client with the most connections, the longest without a
    /// request first. Connections of clients with a verified certificate are last.
    fn evict(&self, now: Duration, is_evictable: impl Fn(&Connection, StalledTime) -> bool) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.by_number.values().filter(|connection| !connection.eviction.is_ordered()) {
            *counts.entry(connection.client).or_default() += 1;
        }
        let candidates = self.by_number.iter().filter_map(|(number, connection)| {
            let waited = StalledTime::of(connection.activity.progress(), now)?;
            if connection.eviction.is_ordered() || !is_evictable(connection, waited) {
                return None;
            }
            let trust = connection.activity.trust(now);
            let is_slow = trust == ClientTrust::None && waited.duration() >= SLOW;
            let share = if is_slow { 0 } else { counts.get(&connection.client).copied().unwrap_or_default() };
            let order = (trust != ClientTrust::Verified, is_slow, share, waited.duration(), number);
            Some((order, connection, trust))
        });
        let Some((_, victim, trust)) = candidates.max_by_key(|&(order, ..)| order) else { return false };
        if trust == ClientTrust::None {
            victim.eviction.cuts.cancel();
        }
        victim.eviction.closes.cancel();
        true
    }

    /// Cuts the connections that are closing.
    fn cut_evicted(&self) {
        for connection in self.by_number.values().filter(|connection| connection.eviction.is_ordered()) {
            connection.eviction.cuts.cancel();
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.open.table.lock().by_number.remove(&self.number);
        self.open.freed.notify_waiters();
    }
}
