//! Kubernetes events.
//!
//! A task sends them one after the other, independent of the passes, so that an event that cannot be stored
//! does not delay other writes. Their number is limited: a repeated event becomes a series, and an object
//! gets up to ten warnings per reason in ten minutes.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use vmpool_api::ObjectId;
use vmpool_runtime::Env;

use crate::write::{WriteCategory, WriteError, Writer};

/// Maximum number of queued events. Further events are dropped.
const BACKLOG: usize = 1000;
/// An event that is repeated within this time continues its series.
const SERIES: Duration = Duration::from_mins(10);
/// Maximum number of warnings per object and reason in the time of [`SERIES`].
const WARNINGS: usize = 10;
/// Maximum number of series. A new series replaces the one that was not repeated for the longest time.
const MOST_SERIES: usize = 1000;

/// The object that an event is about.
#[derive(Clone, Debug)]
pub struct EventSubject {
    /// `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for an object of the cluster.
    pub namespace: Arc<str>,
    /// Name and UID.
    pub id: ObjectId,
}

/// An event without its object and its note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKind {
    /// The reporting controller.
    pub source: &'static str,
    /// Why it happened, in one word.
    pub reason: Cow<'static, str>,
    /// What the controller did, in one word.
    pub action: &'static str,
    /// Whether it is a warning rather than a normal event.
    pub is_warning: bool,
}

struct Message {
    subject: EventSubject,
    kind: EventKind,
    note: String,
}

/// Queues events without waiting.
#[derive(Clone)]
pub struct EventSender {
    sender: mpsc::Sender<Message>,
}

impl EventSender {
    /// Creates the queue, and the task that sends its events in the name of this instance.
    pub fn new<W: WriteCategory>(
        writer: Writer<W>,
        env: Env,
        instance: String,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (
            Self { sender },
            Sender { writer, env, instance, series: BTreeMap::new(), warnings: BTreeMap::new() }
                .run(receiver),
        )
    }

    /// Queues an event. The note has at most 1024 bytes, which is the limit of the API server.
    pub fn publish(&self, subject: &EventSubject, kind: EventKind, note: String) {
        let message = Message { subject: subject.clone(), kind, note };
        if self.sender.try_send(message).is_err() {
            tracing::debug!("the event queue is full: dropped an event");
        }
    }
}

struct Sender<W> {
    writer: Writer<W>,
    env: Env,
    instance: String,
    series: BTreeMap<SeriesKey, Series>,
    /// The uptimes of the last warnings of each object and reason.
    warnings: BTreeMap<(ObjectId, EventKind), VecDeque<Duration>>,
}

/// The time of an event in both spellings of the API.
struct EventTime {
    micros: String,
    seconds: String,
}

impl EventTime {
    fn of(time: Timestamp) -> Self {
        Self {
            micros: time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }
}

/// The object, the reason and the note.
type SeriesKey = (ObjectId, EventKind, String);

struct Series {
    event: String,
    count: u32,
    last: Duration,
}

impl<W: WriteCategory> Sender<W> {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            let uptime = self.env.uptime();
            let is_recent = |at: &Duration| uptime.saturating_sub(*at) < SERIES;
            self.series.retain(|_, series| is_recent(&series.last));
            self.warnings.retain(|_, warnings| warnings.back().is_some_and(is_recent));
            if let Err(error) = self.send(message, uptime).await {
                tracing::debug!(%error, "an event was not stored");
            }
        }
    }

    async fn send(&mut self, message: Message, uptime: Duration) -> Result<(), WriteError> {
        let Message { subject, kind, note } = message;
        // Events of objects of the cluster are in this namespace.
        let namespace = if subject.namespace.is_empty() { "default" } else { &*subject.namespace };
        // Only this API stores `source`, which clients of older events read.
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let time = EventTime::of(self.env.now());
        let key = (subject.id.clone(), kind.clone(), note.clone());
        if let Some(series) = self.series.get_mut(&key) {
            series.count += 1;
            series.last = uptime;
            let patch = Patch::Merge(json!({
                "series": { "count": series.count, "lastObservedTime": time.micros },
                "count": series.count,
                "lastTimestamp": time.seconds,
            }));
            let patched: Result<Value, _> =
                self.writer.patch(W::EVENT, path.clone(), &series.event, None, patch).await;
            match patched {
                Err(error) if error.is_gone() => {}
                other => return other.map(|_| ()),
            }
        }
        if kind.is_warning && !self.may_warn(&subject.id, &kind, uptime) {
            tracing::debug!(object = &*subject.id.name, reason = &*kind.reason, note, "omitted a warning");
            return Ok(());
        }
        let name = format!("{}.{:016x}", subject.id.name, self.env.random());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": namespace },
            "eventTime": time.micros,
            "firstTimestamp": time.seconds,
            "lastTimestamp": time.seconds,
            "count": 1,
            "source": { "component": kind.source },
            "reportingComponent": kind.source,
            "reportingInstance": self.instance,
            "action": kind.action,
            "reason": kind.reason,
            "type": if kind.is_warning { "Warning" } else { "Normal" },
            "message": note,
            "involvedObject": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "namespace": &*subject.namespace,
                "name": &*subject.id.name,
                "uid": subject.id.uid.as_str(),
            },
        });
        let _: Value = self.writer.create(W::EVENT, path, event).await?;
        // A normal event names its object and is not repeated.
        if kind.is_warning {
            self.remember(key, Series { event: name, count: 1, last: uptime });
        }
        Ok(())
    }

    /// Whether the object has had fewer than [`WARNINGS`] warnings of this reason in the time of [`SERIES`].
    /// If so, this one counts. Each of them is a new object, and its conditions contain the last failure
    /// anyway.
    fn may_warn(&mut self, object: &ObjectId, kind: &EventKind, uptime: Duration) -> bool {
        let warnings = self.warnings.entry((object.clone(), kind.clone())).or_default();
        warnings.retain(|at| uptime.saturating_sub(*at) < SERIES);
        let may = warnings.len() < WARNINGS;
        if may {
            warnings.push_back(uptime);
        }
        may
    }

    fn remember(&mut self, key: SeriesKey, series: Series) {
        if self.series.len() >= MOST_SERIES {
            let quietest = self.series.iter().min_by_key(|(_, series)| series.last);
            if let Some(quietest) = quietest.map(|(key, _)| key.clone()) {
                self.series.remove(&quietest);
            }
        }
        self.series.insert(key, series);
    }
}

#[cfg(test)]
mod tests;
