//! What a watch delivers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// How the events of a resource's watches are changed. Bookmarks do not count as events, and keep their position among
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Events are delivered at once.
    #[default]
    Live,
    /// An event is delivered when this number of newer events exist.
    Behind(usize),
    /// No events are delivered, and the connection stays open.
    Silent,
    /// No events are delivered on the current connection, and it stays open, as if the network had dropped its state.
    /// This happens once: the next connection is live.
    Forgotten,
    /// Each event is delivered twice, as after a reconnect at an older version.
    Twice,
    /// This number of events is delivered, then the connection ends. This happens once.
    Closed(usize),
    /// This number of events is delivered, then an event of type ERROR with code 410. This happens once.
    Expired(usize),
    /// This number of events is lost, then an event of type ERROR with code 410 follows. This happens once.
    Lost(usize),
    /// The connection ends, and every new watch gets 410 until the resource is listed.
    Refused,
}

/// The Status for an expired watch.
pub(super) fn expired() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version (fault proxy)",
    })
}

/// What happens to the next line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is held.
    Held,
    /// It is held forever.
    Forgotten,
    /// It is delivered this number of times.
    Arrives(usize),
    /// It is dropped.
    Lost,
    /// The connection ends before it.
    Closed,
    /// An error with code 410 is sent before it, and the connection ends.
    Expired,
}

/// The views of all resources.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: BTreeMap<String, View>,
    /// Resources that have lost events without an error so far.
    owing: Vec<String>,
}

impl Views {
    pub(super) fn set(&mut self, resource: &str, view: View) {
        self.views.insert(resource.to_owned(), view);
    }

    pub(super) fn of(&self, resource: &str) -> View {
        self.views.get(resource).copied().unwrap_or_default()
    }

    /// Makes everything live again, except for watches that must receive an error for lost events, and for refused
    /// watches, which need a list.
    pub(super) fn release(&mut self) {
        self.views.retain(|_, view| *view == View::Refused);
        let owing = std::mem::take(&mut self.owing);
        self.views.extend(owing.into_iter().map(|resource| (resource, View::Expired(0))));
    }

    /// Whether watches of the resource are refused.
    pub(super) fn refuses(&self, resource: &str) -> bool {
        self.of(resource) == View::Refused
    }

    /// Records a list of the resource. Returns whether that changes a view.
    pub(super) fn lists(&mut self, resource: &str) -> bool {
        let refused = self.refuses(resource);
        if refused {
            self.views.remove(resource);
        }
        refused
    }

    /// Records a new watch of the resource. Returns whether that changes a view.
    pub(super) fn begins(&mut self, resource: &str) -> bool {
        let forgotten = self.of(resource) == View::Forgotten;
        if forgotten {
            self.views.remove(resource);
        }
        forgotten
    }

    /// Decides about the first of `waiting` events and updates the view. If there is none, the only possible decision
    /// is to end the connection.
    pub(super) fn judge(&mut self, resource: &str, waiting: usize) -> Fate {
        match self.of(resource) {
            View::Closed(0) => self.once(resource, Fate::Closed),
            View::Expired(0) | View::Lost(0) => self.once(resource, Fate::Expired),
            View::Refused => Fate::Closed,
            View::Silent => Fate::Held,
            View::Forgotten => Fate::Forgotten,
            _ if waiting == 0 => Fate::Held,
            View::Twice => Fate::Arrives(2),
            View::Behind(events) if waiting <= events => Fate::Held,
            View::Live | View::Behind(_) => Fate::Arrives(1),
            View::Closed(left) => {
                self.set(resource, View::Closed(left - 1));
                Fate::Arrives(1)
            }
            View::Expired(left) => {
                self.set(resource, View::Expired(left - 1));
                Fate::Arrives(1)
            }
            View::Lost(left) => {
                self.set(resource, View::Lost(left - 1));
                if !self.owing.iter().any(|owing| owing == resource) {
                    self.owing.push(resource.to_owned());
                }
                Fate::Lost
            }
        }
    }

    /// Ends a fault that happens only once.
    fn once(&mut self, resource: &str, fate: Fate) -> Fate {
        self.views.remove(resource);
        self.owing.retain(|owing| owing != resource);
        fate
    }
}
