//! Lists and watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::call::Call;
use crate::resource::Resource;
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

/// Lists in pages: what was listed for the first page.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    open: BTreeMap<String, (u64, Vec<Arc<Value>>)>,
    tokens: u64,
}

impl Pages {
    /// One page, consistent with the first.
    pub(crate) fn list(&mut self, store: &Store, resource: &Resource, call: &Call) -> Result<Value, Refusal> {
        let token = call.parameter("continue").filter(|token| !token.is_empty());
        let (version, mut items) = if let Some(token) = token {
            self.open.remove(token).ok_or_else(|| {
                Refusal::new(
                    410,
                    "Expired",
                    "The provided continue parameter is too old to display a consistent list result",
                )
            })?
        } else {
            let selector = Selector::of(call);
            let name = resource.full_name();
            let objects = store.of(&name, &call.namespace).map(|(_, object)| object.clone());
            (store.version(), objects.filter(|object| selector.matches(object)).collect())
        };
        let limit = call.parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let rest = items.split_off(items.len().min(limit.unwrap_or(usize::MAX)));
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if !rest.is_empty() {
            self.tokens += 1;
            let token = format!("page-{}", self.tokens);
            metadata["continue"] = json!(token);
            metadata["remainingItemCount"] = json!(rest.len());
            self.open.insert(token, (version, rest));
        }
        let kind = format!("{}List", resource.kind);
        Ok(
            json!({ "kind": kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items.iter().map(|item| &**item).collect::<Vec<_>>() }),
        )
    }

    /// Whoever is in the middle of a list has to begin again.
    pub(crate) fn expire(&mut self) {
        self.open.clear();
    }
}

/// One open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) id: u64,
    pub(crate) who: String,
    pub(crate) resource: String,
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
    /// Opens a watch that goes on where a list ended; `None` with what it is told if that was too long ago, which the
    /// real server says on an open watch, too.
    pub(crate) fn open(
        id: u64,
        store: &Store,
        resource: &Resource,
        call: &Call,
    ) -> (Option<Self>, UnboundedReceiver<Bytes>) {
        let since = call.parameter("resourceVersion").unwrap_or_default();
        let since = since.parse::<u64>().ok().filter(|version| *version > 0);
        let position = since.unwrap_or(store.version()).min(store.version());
        let (lines, receiver) = unbounded();
        let watch = Self {
            id,
            who: call.who.clone(),
            resource: resource.full_name(),
            namespace: call.namespace.clone(),
            selector: Selector::of(call),
            bookmarks: call.parameter("allowWatchBookmarks") == Some("true"),
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            position: usize::try_from(position).unwrap_or(usize::MAX),
            lines,
        };
        if position < store.compacted() {
            watch.end(Break::Expire);
            return (None, receiver);
        }
        (Some(watch), receiver)
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
            if let Some(event) = self.event(&history[*index]) {
                self.send(&event);
            }
        }
        self.position = match news.get(told) {
            Some(next) => *next,
            None => history.len(),
        };
        !self.lines.is_closed()
    }

    /// Tells the same event again, or leaves out all but the last of those that are due.
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
            if !skipped && let Some(event) = self.event(change) {
                self.send(&event);
            }
        }
        self.position = history.len();
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
        self.send(&json!({ "type": "BOOKMARK", "object": object }));
    }

    /// The last thing that it is told.
    pub(crate) fn end(self, how: Break) {
        if how == Break::Expire {
            let gone = Refusal::new(410, "Expired", "too old resource version");
            self.send(&json!({ "type": "ERROR", "object": gone.body() }));
        }
    }

    fn concerns(&self, change: &Change) -> bool {
        *change.key.resource == *self.resource
            && (self.namespace.is_empty() || *change.key.namespace == *self.namespace)
    }

    /// A change as somebody sees it who asked for some objects only.
    fn event(&self, change: &Change) -> Option<Value> {
        let before = change.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let after = change.kind != ChangeKind::Deleted && self.selector.matches(&change.object);
        let kind = match (before, after) {
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
            (false, false) => return None,
        };
        Some(json!({ "type": kind.word(), "object": *change.object }))
    }

    fn send(&self, event: &Value) {
        // Nobody listening is found out by whoever follows.
        let _ = self.lines.unbounded_send(format!("{event}\n").into());
    }
}

/// Label selectors of equality, and the field selector on the name.
#[derive(Debug, Default)]
struct Selector {
    labels: Vec<(String, Option<String>)>,
    name: Option<String>,
}

impl Selector {
    fn of(call: &Call) -> Self {
        let labels = call.parameter("labelSelector").unwrap_or_default();
        let labels =
            labels.split(',').filter(|part| !part.is_empty()).map(|part| match part.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.trim_start_matches('=').to_owned())),
                None => (part.to_owned(), None),
            });
        let name = call.parameter("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
        Self { labels: labels.collect(), name: name.map(|name| name.trim_start_matches('=').to_owned()) }
    }

    fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        self.name.as_ref().is_none_or(|name| metadata["name"] == name.as_str())
            && self.labels.iter().all(|(key, value)| match (&metadata["labels"][key], value) {
                (Value::Null, _) => false,
                (found, Some(value)) => *found == value.as_str(),
                (_, None) => true,
            })
    }
}
