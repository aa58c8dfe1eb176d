//! The slots for requests in flight, and which request is canceled if they are short.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::activity::SLOW;
use crate::env::Env;

/// The slots for requests in flight. One client may use half of them.
#[derive(Debug)]
pub(crate) struct RequestSlots {
    max: usize,
    in_flight: Mutex<InFlight>,
}

#[derive(Debug, Default)]
struct InFlight {
    next: u64,
    by_number: BTreeMap<u64, InFlightRequest>,
}

#[derive(Debug)]
struct InFlightRequest {
    client: IpAddr,
    /// The uptime at which the request started.
    since: Duration,
    /// Whether the body has arrived in full.
    arrived: bool,
    evicted: CancellationToken,
}

/// A slot of a request in flight.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    slots: Arc<RequestSlots>,
    number: u64,
    /// Cancelled if other requests need the slot.
    pub(crate) evicted: CancellationToken,
}

impl RequestSlots {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, in_flight: Mutex::default() })
    }

    /// Acquires a slot for a request of a client. If too many requests are in flight, cancels the one whose
    /// body is outstanding for the longest time. Returns `None` if there is none, or none that is slow among
    /// those of a client that uses half of the slots.
    pub(crate) fn acquire(self: &Arc<Self>, client: IpAddr, env: &Env) -> Option<RequestSlot> {
        let (client, now) = (client.to_canonical(), env.uptime());
        let mut in_flight = self.in_flight.lock();
        let is_own = |request: &InFlightRequest| request.client == client;
        let is_slow = |request: &InFlightRequest| now.saturating_sub(request.since) >= SLOW;
        if in_flight.count(is_own) >= self.max.div_ceil(2)
            && !in_flight.evict(|request| is_own(request) && is_slow(request))
        {
            return None;
        }
        if in_flight.count(|_| true) >= self.max && !in_flight.evict(|_| true) {
            return None;
        }
        let number = in_flight.next;
        in_flight.next += 1;
        let evicted = CancellationToken::new();
        let request = InFlightRequest { client, since: now, arrived: false, evicted: evicted.clone() };
        in_flight.by_number.insert(number, request);
        Some(RequestSlot { slots: Arc::clone(self), number, evicted })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.in_flight.lock().by_number.len()
    }
}

impl InFlight {
    /// The number of requests with this property that are not canceled.
    fn count(&self, is_counted: impl Fn(&InFlightRequest) -> bool) -> usize {
        let requests = self.by_number.values().filter(|request| !request.evicted.is_cancelled());
        requests.filter(|request| is_counted(request)).count()
    }

    /// Cancels the request with this property whose body is outstanding for the longest time.
    fn evict(&self, is_evictable: impl Fn(&InFlightRequest) -> bool) -> bool {
        let outstanding =
            self.by_number.values().filter(|request| !request.arrived && !request.evicted.is_cancelled());
        // The numbers have the order of the starts.
        let victim = outstanding.into_iter().find(|request| is_evictable(request));
        victim.inspect(|request| request.evicted.cancel()).is_some()
    }
}

impl RequestSlot {
    /// Records that the request has arrived in full. It is no longer canceled.
    pub(crate) fn arrive(&self) {
        if let Some(request) = self.slots.in_flight.lock().by_number.get_mut(&self.number) {
            request.arrived = true;
        }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.slots.in_flight.lock().by_number.remove(&self.number);
    }
}
