//! Room for connections and requests: how many there may be, in all and of one client.
//!
//! A client is an address. When all places are taken, the client with the most connections loses the one that has been idle
//! for the longest time, so that clients which connect and send nothing cannot keep the API server out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::env::Env;

/// A connection that had no request for so long may have to make room.
const IDLE: Duration = Duration::from_secs(5);
/// How often it is looked whether a connection can make room, while all places are taken.
const LOOK: Duration = Duration::from_secs(1);

/// What a connection is busy with.
#[derive(Debug)]
pub(crate) struct Activity {
    under_way: AtomicUsize,
    /// Uptime at which the last request began or ended.
    last: Mutex<Duration>,
}

impl Activity {
    pub(crate) fn new(env: &Env) -> Arc<Self> {
        Arc::new(Self { under_way: AtomicUsize::new(0), last: Mutex::new(env.uptime()) })
    }

    /// For how long there has been no request; zero while there is one.
    pub(crate) fn idle(&self, env: &Env) -> Duration {
        if self.under_way.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        env.uptime().saturating_sub(*self.last.lock())
    }
}

/// A request under way.
pub(crate) struct Busy {
    activity: Arc<Activity>,
    env: Env,
}

impl Busy {
    pub(crate) fn new(activity: &Arc<Activity>, env: &Env) -> Self {
        activity.under_way.fetch_add(1, Ordering::SeqCst);
        Self { activity: Arc::clone(activity), env: env.clone() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.activity.last.lock() = self.env.uptime();
        self.activity.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Places for connections.
#[derive(Debug)]
pub(crate) struct Room {
    places: Arc<Semaphore>,
    /// Connections of one client.
    share: usize,
    taken: Arc<Mutex<Taken>>,
    env: Env,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    client: IpAddr,
    activity: Arc<Activity>,
    evicted: CancellationToken,
}

/// A place that is taken. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    taken: Arc<Mutex<Taken>>,
    /// What the connection is busy with.
    pub(crate) activity: Arc<Activity>,
    /// Fires if the connection has to make room.
    pub(crate) evicted: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// So many connections, of which one client may have `share`.
    pub(crate) fn new(connections: usize, share: usize, env: Env) -> Self {
        Self { places: Arc::new(Semaphore::new(connections)), share, taken: Arc::default(), env }
    }

    /// Gives a place to a connection of a client. While all are taken it waits, and has an idle connection make room.
    ///
    /// Nothing if the client has its share. Then an idle connection of the client ends, so that its next attempt succeeds.
    pub(crate) async fn enter(&self, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let connections = |taken: &Taken| {
            taken.connections.values().filter(|connection| connection.client == client).count()
        };
        if connections(&self.taken.lock()) >= self.share {
            self.evict(Some(client));
            return None;
        }
        let place = self.vacancy().await;
        let activity = Activity::new(&self.env);
        let evicted = CancellationToken::new();
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        let connection = Connection { client, activity: Arc::clone(&activity), evicted: evicted.clone() };
        taken.connections.insert(number, connection);
        Some(Place { number, taken: Arc::clone(&self.taken), activity, evicted, _permit: place })
    }

    async fn vacancy(&self) -> OwnedSemaphorePermit {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return place;
        }
        loop {
            self.evict(self.greediest());
            let place = Arc::clone(&self.places).acquire_owned();
            if let Ok(place) = self.env.timeout(LOOK, place).await {
                return place.expect("this semaphore is never closed");
            }
        }
    }

    /// Waits until no place is taken.
    pub(crate) async fn empty(&self, connections: usize) {
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        drop(self.places.acquire_many(connections).await);
    }

    /// The client with the most connections.
    fn greediest(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.taken.lock().connections.values() {
            *counts.entry(connection.client).or_default() += 1;
        }
        counts.into_iter().max_by_key(|&(client, count)| (count, client)).map(|(client, _)| client)
    }

    /// Ends the connection of a client that has been idle for the longest time, if there is one.
    fn evict(&self, client: Option<IpAddr>) {
        let taken = self.taken.lock();
        // One at a time: a connection that was told to end takes a moment.
        if taken.connections.values().any(|connection| connection.evicted.is_cancelled()) {
            return;
        }
        let idle = taken.connections.iter().filter_map(|(number, connection)| {
            let idle = connection.activity.idle(&self.env);
            let may = Some(connection.client) == client && idle >= IDLE;
            may.then_some((idle, number, connection))
        });
        if let Some((_, _, connection)) = idle.max_by_key(|&(idle, number, _)| (idle, number)) {
            connection.evicted.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.lock().connections.remove(&self.number);
    }
}

/// Requests that are under way, of which one client may have half.
#[derive(Debug)]
pub(crate) struct Turns {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    client: IpAddr,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A turn for a client; nothing if there are too many requests.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Turn> {
        let client = client.to_canonical();
        let mut taken = self.taken.lock();
        let total: usize = taken.values().sum();
        let own = taken.get(&client).copied().unwrap_or_default();
        if total >= self.most || own >= self.most.div_ceil(2) {
            return None;
        }
        taken.insert(client, own + 1);
        Some(Turn { turns: Arc::clone(self), client })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = self.turns.taken.lock();
        let left = taken.get(&self.client).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            taken.remove(&self.client);
        } else {
            taken.insert(self.client, left);
        }
    }
}

#[cfg(test)]
mod tests;
