//! Watches.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::call::Call;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::store::{Change, ChangeKind, Store};

/// How far a watch may follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// It hears at once.
    #[default]
    Prompt,
    /// It hears nothing.
    Held,
    /// It is so many events of its own behind.
    Behind(usize),
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The connection closes.
    Close,
    /// It is told that its version is too old.
    Expire,
}

/// One open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) id: u64,
    /// Who watches which resource.
    pub(crate) place: (String, String),
    namespace: String,
    selector: Selector,
    bookmarks: bool,
    api_version: String,
    kind: String,
    /// How much of the history it has been through.
    position: usize,
    lines: UnboundedSender<Bytes>,
}

impl Watch {
    /// Opens a watch that goes on where a list ended, or begins with what there is if no version is named; `None` with
    /// what it is told if the version is too old, which the real server says on an open watch, too.
    ///
    /// # Errors
    /// What the server says of selectors that it cannot read.
    pub(crate) fn open(
        id: u64,
        store: &Store,
        resource: &Resource,
        call: &Call,
    ) -> Result<(Option<Self>, UnboundedReceiver<Bytes>), Refusal> {
        let since = call.parameter("resourceVersion").unwrap_or_default();
        let since = since.parse::<u64>().ok().filter(|version| *version > 0);
        let position = since.unwrap_or(store.version()).min(store.version());
        let (lines, receiver) = unbounded();
        let watch = Self {
            id,
            place: (call.who.clone(), resource.full_name()),
            namespace: call.namespace.clone(),
            selector: Selector::of(call)?,
            bookmarks: call.parameter("allowWatchBookmarks") == Some("true"),
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            position: usize::try_from(position).unwrap_or(usize::MAX),
            lines,
        };
        if position < store.compacted() {
            watch.end(Break::Expire);
            return Ok((None, receiver));
        }
        if since.is_none() {
            let there = store.of(watch.resource(), &watch.namespace).map(|(_, object)| object);
            for object in there.filter(|object| watch.selector.matches(object)) {
                watch.send(&Event { kind: ChangeKind::Added.word(), object });
            }
        }
        Ok((Some(watch), receiver))
    }

    /// Tells what its pace allows; false once nobody listens.
    pub(crate) fn follow(&mut self, history: &[Change], pace: Pace) -> bool {
        let behind = match pace {
            Pace::Prompt => 0,
            Pace::Behind(events) => events,
            Pace::Held => return !self.lines.is_closed(),
        };
        let news: Vec<usize> =
            (self.position..history.len()).filter(|index| self.concerns(&history[*index])).collect();
        let told = news.len().saturating_sub(behind);
        for index in &news[..told] {
            self.tell(&history[*index]);
        }
        self.position = match news.get(told) {
            Some(next) => *next,
            None => history.len(),
        };
        !self.lines.is_closed()
    }

    /// Leaves out all but the last of the changes of an object that are due.
    pub(crate) fn coalesce(&mut self, history: &[Change]) {
        let mut last: BTreeMap<_, usize> = BTreeMap::new();
        let due: Vec<usize> =
            (self.position..history.len()).filter(|index| self.concerns(&history[*index])).collect();
        for index in &due {
            last.insert(history[*index].key.clone(), *index);
        }
        // Only changes of one object that lives on may fall together.
        for index in due {
            let change = &history[index];
            let later = last[&change.key];
            let skipped = change.kind == ChangeKind::Modified
                && later > index
                && history[later].kind == ChangeKind::Modified;
            if !skipped {
                self.tell(change);
            }
        }
        self.position = history.len();
    }

    /// Tells once more what it told last.
    pub(crate) fn repeat(&self, history: &[Change]) {
        let told = history.get(..self.position).unwrap_or_default();
        let last = told.iter().rev().find(|change| self.concerns(change));
        if let Some(change) = last {
            self.tell(change);
        }
    }

    /// Says how far it is, if it was asked to.
    pub(crate) fn bookmark(&self, history: &[Change]) {
        if !self.bookmarks {
            return;
        }
        // What it was told, or passed over, and no more.
        let version = history.get(self.position).map_or(history.len() as u64, |next| next.version - 1);
        let metadata = json!({ "resourceVersion": version.to_string(), "creationTimestamp": null });
        let object = json!({ "apiVersion": self.api_version, "kind": self.kind, "metadata": metadata });
        self.send(&Event { kind: "BOOKMARK", object: &object });
    }

    /// The last thing that it is told.
    pub(crate) fn end(self, how: Break) {
        if how == Break::Expire {
            let gone = Refusal::new(410, "Expired", "too old resource version");
            self.send(&Event { kind: "ERROR", object: &gone.body() });
        }
    }

    /// Who watches.
    pub(crate) fn who(&self) -> &str {
        &self.place.0
    }

    /// The resource, with its group.
    pub(crate) fn resource(&self) -> &str {
        &self.place.1
    }

    fn concerns(&self, change: &Change) -> bool {
        *change.key.resource == *self.resource()
            && (self.namespace.is_empty() || *change.key.namespace == *self.namespace)
    }

    /// Tells of a change as somebody sees it who asked for some objects only.
    fn tell(&self, change: &Change) {
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
            // What leaves the selection is told as it was in it, under the version of its leaving.
            let mut object = (**before).clone();
            object["metadata"]["resourceVersion"] = json!(change.version.to_string());
            return self.send(&Event { kind: kind.word(), object: &object });
        }
        self.send(&Event { kind: kind.word(), object: &change.object });
    }

    fn send(&self, event: &Event<'_>) {
        let mut line = serde_json::to_vec(event).expect("JSON can be written");
        line.push(b'\n');
        // Nobody listening is found out by whoever follows.
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
