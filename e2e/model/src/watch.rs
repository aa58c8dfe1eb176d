//! Watches.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::call::Call;
use crate::resource::Resource;
use crate::selector::RequestSelectors;
use crate::store::{ApiObjectStore, ChangeKind, ObjectChange};

/// How a watch is delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchDelay {
    /// It delivers events at once.
    #[default]
    None,
    /// It delivers no events.
    Held,
    /// It is this number of its own events behind.
    Behind(usize),
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The connection closes.
    Close,
    /// The watch receives 410 Gone: its resource version has expired.
    Expire,
}

/// One open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) id: u64,
    /// The sender and the resource.
    pub(crate) key: (String, String),
    namespace: String,
    selector: RequestSelectors,
    bookmarks: bool,
    api_version: String,
    kind: String,
    /// The number of changes in the history that the watch has processed.
    position: usize,
    lines: UnboundedSender<Bytes>,
}

impl Watch {
    /// Opens a watch from the given resource version, or from the existing objects if there is none. If the
    /// version has expired, the first value is `None` and the receiver contains the error event, as in the
    /// real server.
    ///
    /// # Errors
    /// A refusal if a selector cannot be parsed.
    pub(crate) fn open(
        id: u64,
        store: &ApiObjectStore,
        resource: &Resource,
        call: &Call,
    ) -> Result<(Option<Self>, UnboundedReceiver<Bytes>), ApiError> {
        let since = call.parameter("resourceVersion").unwrap_or_default();
        let since = since.parse::<u64>().ok().filter(|version| *version > 0);
        let position = since.unwrap_or(store.version()).min(store.version());
        let (lines, receiver) = unbounded();
        let watch = Self {
            id,
            key: (call.sender.clone(), resource.full_name()),
            namespace: call.namespace.clone(),
            selector: RequestSelectors::of(call)?,
            bookmarks: call.parameter("allowWatchBookmarks") == Some("true"),
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            position: usize::try_from(position).unwrap_or(usize::MAX),
            lines,
        };
        if position < store.compacted() {
            watch.end(WatchEnd::Expire);
            return Ok((None, receiver));
        }
        if since.is_none() {
            let there = store.of(watch.resource(), &watch.namespace).map(|(_, object)| object);
            for object in there.filter(|object| watch.selector.matches(object)) {
                watch.send(&Event { kind: ChangeKind::Added.name(), object });
            }
        }
        Ok((Some(watch), receiver))
    }

    /// Delivers the events that `delay` allows; false if the receiver is gone.
    pub(crate) fn follow(&mut self, history: &[ObjectChange], delay: WatchDelay) -> bool {
        let behind = match delay {
            WatchDelay::None => 0,
            WatchDelay::Behind(events) => events,
            WatchDelay::Held => return !self.is_closed(),
        };
        let pending: Vec<usize> =
            (self.position..history.len()).filter(|index| self.concerns(&history[*index])).collect();
        let deliverable = pending.len().saturating_sub(behind);
        for index in &pending[..deliverable] {
            self.deliver(&history[*index]);
        }
        self.position = match pending.get(deliverable) {
            Some(next) => *next,
            None => history.len(),
        };
        !self.is_closed()
    }

    /// Whether the client has ended it.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }

    /// Skips all but the last pending change of each object.
    pub(crate) fn coalesce(&mut self, history: &[ObjectChange]) {
        let mut last: BTreeMap<_, usize> = BTreeMap::new();
        let due: Vec<usize> =
            (self.position..history.len()).filter(|index| self.concerns(&history[*index])).collect();
        for index in &due {
            last.insert(history[*index].key.clone(), *index);
        }
        // Only modifications of an object that still exists can be merged.
        for index in due {
            let change = &history[index];
            let later = last[&change.key];
            let skipped = change.kind == ChangeKind::Modified
                && later > index
                && history[later].kind == ChangeKind::Modified;
            if !skipped {
                self.deliver(change);
            }
        }
        self.position = history.len();
    }

    /// Repeats the last delivered event.
    pub(crate) fn repeat(&self, history: &[ObjectChange]) {
        let deliverable = history.get(..self.position).unwrap_or_default();
        let last = deliverable.iter().rev().find(|change| self.concerns(change));
        if let Some(change) = last {
            self.deliver(change);
        }
    }

    /// Sends a bookmark if the watch requested bookmarks.
    pub(crate) fn bookmark(&self, history: &[ObjectChange]) {
        if !self.bookmarks {
            return;
        }
        // The version of the last processed change, and not a later one.
        let version = history.get(self.position).map_or(history.len() as u64, |next| next.version - 1);
        let metadata = json!({ "resourceVersion": version.to_string(), "creationTimestamp": null });
        let object = json!({ "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata });
        self.send(&Event { kind: "BOOKMARK", object: &object });
    }

    /// Sends the last event and ends the watch.
    pub(crate) fn end(self, how: WatchEnd) {
        if how == WatchEnd::Expire {
            let gone = ApiError::new(410, "Expired", "too old resource version");
            self.send(&Event { kind: "ERROR", object: &gone.body() });
        }
    }

    /// The sender.
    pub(crate) fn sender(&self) -> &str {
        &self.key.0
    }

    /// The resource, with its group.
    pub(crate) fn resource(&self) -> &str {
        &self.key.1
    }

    fn concerns(&self, change: &ObjectChange) -> bool {
        *change.key.resource == *self.resource()
            && (self.namespace.is_empty() || *change.key.namespace == *self.namespace)
    }

    /// Delivers a change as the selector of the watch sees it.
    fn deliver(&self, change: &ObjectChange) {
        let before = change.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let after = change.kind != ChangeKind::Deleted && self.selector.matches(&change.object);
        let kind = match (before, after) {
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
            (false, false) => return,
        };
        if let (ChangeKind::Deleted, ChangeKind::Modified, Some(before)) = (kind, change.kind, &change.before)
        {
            // An object that leaves the selection is sent in its previous state with the new resource
            // version.
            let mut object = (**before).clone();
            object["metadata"]["resourceVersion"] = json!(change.version.to_string());
            return self.send(&Event { kind: kind.name(), object: &object });
        }
        self.send(&Event { kind: kind.name(), object: &change.object });
    }

    fn send(&self, event: &Event<'_>) {
        let mut line = serde_json::to_vec(event).expect("JSON can be written");
        line.push(b'\n');
        // `follow` detects a closed receiver.
        let _ = self.lines.unbounded_send(line.into());
    }
}

/// A line of a watch.
#[derive(Serialize)]
struct Event<'o> {
    #[serde(rename = "type")]
    kind: &'o str,
    object: &'o Value,
}
