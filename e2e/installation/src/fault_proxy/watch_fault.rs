//! What a watch delivers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How the events of a resource's watches are changed. Bookmarks do not count as events, and keep their
/// position among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatchFault {
    /// Events are delivered at once.
    #[default]
    Live,
    /// An event is delivered when this number of newer events exist.
    Behind(usize),
    /// No events are delivered, and the connection stays open.
    Silent,
    /// No events are delivered on the current connection, and it stays open, as if the network had dropped
    /// its state. This happens once: the next connection is live.
    HalfOpen,
    /// Each event is delivered twice, as after a reconnect at an older version.
    Duplicated,
    /// This number of events is delivered, then the connection ends. This happens once.
    Closed(usize),
    /// This number of events is delivered, then an event of type ERROR with code 410. This happens once.
    Expired(usize),
    /// This number of events is lost, then an event of type ERROR with code 410 follows on each connection
    /// that lost one. This happens once.
    Lost(usize),
    /// The connection ends, and every new watch gets 410 until the resource is listed.
    Refused,
}

/// The Status for an expired watch.
pub(super) fn expired_watch_status() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version (fault proxy)",
    })
}

/// What happens to the next line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// It is held.
    Hold,
    /// It is held until the connection ends.
    HoldForever,
    /// It is delivered this number of times.
    Deliver(usize),
    /// It is dropped.
    Drop,
    /// The connection ends before it.
    Close,
    /// An error with code 410 is sent before it, and the connection ends.
    Expire,
}

/// The views of all resources.
#[derive(Debug, Default)]
pub(super) struct WatchFaults {
    faults: BTreeMap<String, WatchFault>,
}

impl WatchFaults {
    pub(super) fn set(&mut self, resource: &str, fault: WatchFault) {
        self.faults.insert(resource.to_owned(), fault);
    }

    pub(super) fn of(&self, resource: &str) -> WatchFault {
        self.faults.get(resource).copied().unwrap_or_default()
    }

    /// Makes everything live again, except for refused watches, which need a list.
    pub(super) fn release(&mut self) {
        self.faults.retain(|_, fault| *fault == WatchFault::Refused);
    }

    /// Whether watches of the resource are refused.
    pub(super) fn refuses(&self, resource: &str) -> bool {
        self.of(resource) == WatchFault::Refused
    }

    /// Records a list of the resource. Returns whether that changes a view.
    pub(super) fn listed(&mut self, resource: &str) -> bool {
        let refused = self.refuses(resource);
        if refused {
            self.faults.remove(resource);
        }
        refused
    }

    /// Records a new watch of the resource. Returns whether that changes a view.
    pub(super) fn watch_started(&mut self, resource: &str) -> bool {
        let half_open = self.of(resource) == WatchFault::HalfOpen;
        if half_open {
            self.faults.remove(resource);
        }
        half_open
    }

    /// Decides about the first of `waiting` events and updates the view. If there is none, the only possible
    /// decision is to end the connection.
    pub(super) fn decide(&mut self, resource: &str, waiting: usize) -> Delivery {
        match self.of(resource) {
            WatchFault::Closed(0) => self.once(resource, Delivery::Close),
            WatchFault::Expired(0) | WatchFault::Lost(0) => self.once(resource, Delivery::Expire),
            WatchFault::Refused => Delivery::Close,
            WatchFault::Silent => Delivery::Hold,
            WatchFault::HalfOpen => Delivery::HoldForever,
            _ if waiting == 0 => Delivery::Hold,
            WatchFault::Duplicated => Delivery::Deliver(2),
            WatchFault::Behind(events) if waiting <= events => Delivery::Hold,
            WatchFault::Live | WatchFault::Behind(_) => Delivery::Deliver(1),
            WatchFault::Closed(left) => {
                self.set(resource, WatchFault::Closed(left - 1));
                Delivery::Deliver(1)
            }
            WatchFault::Expired(left) => {
                self.set(resource, WatchFault::Expired(left - 1));
                Delivery::Deliver(1)
            }
            WatchFault::Lost(left) => {
                self.set(resource, WatchFault::Lost(left - 1));
                Delivery::Drop
            }
        }
    }

    /// Ends a fault that happens only once.
    fn once(&mut self, resource: &str, delivery: Delivery) -> Delivery {
        self.faults.remove(resource);
        delivery
    }
}
