//! What a watch sees.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What becomes of the events of a resource's watches on their way. Bookmarks are no events: they keep their place among
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// They arrive as they come.
    #[default]
    Live,
    /// An event arrives when so many newer ones are there.
    Behind(usize),
    /// Nothing arrives, and the connection stays.
    Silent,
    /// Nothing ever arrives any more on the connection that there is, and it stays: the network forgot it. Once: the
    /// next connection is live.
    Forgotten,
    /// Each event arrives twice, as after a reconnect that begins a little too early.
    Twice,
    /// So many events arrive, and the connection ends. Once.
    Closed(usize),
    /// So many events arrive, and then the word that the watch is too old (an event of type ERROR with code 410). Once.
    Expired(usize),
    /// So many events are lost, and then comes the word that the watch is too old. Once.
    Lost(usize),
    /// The connection ends, and every attempt to go on is answered with 410 until the resource is listed.
    Refused,
}

/// The Status of a watch that is too old.
pub(super) fn expired() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410,
        "message": "too old resource version, says the choke",
    })
}

/// What becomes of the next line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has to wait.
    Held,
    /// It has to wait for ever.
    Forgotten,
    /// It arrives, so many times.
    Arrives(usize),
    /// It never arrives.
    Lost,
    /// The connection ends in front of it.
    Closed,
    /// The word that the watch is too old comes in front of it, and the connection ends.
    Expired,
}

/// The views of all resources.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: BTreeMap<String, View>,
    /// Resources of whose events some are lost already, and nobody was told so far.
    owing: Vec<String>,
}

impl Views {
    pub(super) fn set(&mut self, resource: &str, view: View) {
        self.views.insert(resource.to_owned(), view);
    }

    pub(super) fn of(&self, resource: &str) -> View {
        self.views.get(resource).copied().unwrap_or_default()
    }

    /// Everything is live again, but for those who are to be told that they have missed something, and for those whom
    /// only a list helps.
    pub(super) fn release(&mut self) {
        self.views.retain(|_, view| *view == View::Refused);
        let owing = std::mem::take(&mut self.owing);
        self.views.extend(owing.into_iter().map(|resource| (resource, View::Expired(0))));
    }

    /// Whether a watch of the resource may not begin.
    pub(super) fn refuses(&self, resource: &str) -> bool {
        self.of(resource) == View::Refused
    }

    /// Somebody lists the resource; whether that changes anything.
    pub(super) fn lists(&mut self, resource: &str) -> bool {
        let refused = self.refuses(resource);
        if refused {
            self.views.remove(resource);
        }
        refused
    }

    /// A watch of the resource begins; whether that changes anything.
    pub(super) fn begins(&mut self, resource: &str) -> bool {
        let forgotten = self.of(resource) == View::Forgotten;
        if forgotten {
            self.views.remove(resource);
        }
        forgotten
    }

    /// What becomes of the first of `waiting` events, if there is one, and takes note of it. Without one, only a
    /// connection that is to end now has a fate.
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

    /// A fault that does not happen again.
    fn once(&mut self, resource: &str, fate: Fate) -> Fate {
        self.views.remove(resource);
        self.owing.retain(|owing| owing != resource);
        fate
    }
}
