//! Kubernetes events of pools.
//!
//! A task sends them one after the other, independent of the passes, so that an event that cannot be stored
//! does not delay a machine. Their number is limited: up to ten events per reason and pass are sent
//! separately, one event lists the names of the rest, a repeated event becomes a series, and a pool gets up
//! to ten warnings per reason in ten minutes.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use vmpool_engine::ObjectId;
use vmpool_engine::condition::ConditionReason;
use vmpool_engine::limits::shorten_message;
use vmpool_platforms::{ConditionEvent, Wording};
use vmpool_runtime::Env;

use crate::metrics::WriteKind;
use crate::write::Writer;

/// The reporting controller of events that belong to no platform.
const SOURCE: &str = "vmpool.dev/controller";
/// Maximum number of separate events per reason and pass.
pub(crate) const INDIVIDUAL: usize = 10;
/// Maximum number of queued events. Further events are dropped.
const BACKLOG: usize = 1000;
/// An event that is repeated within this time continues its series.
const SERIES: Duration = Duration::from_mins(10);
/// Maximum number of warnings per pool and reason in the time of [`SERIES`].
const WARNINGS: usize = 10;
/// Maximum number of series. A new series replaces the one that was not repeated for the longest time.
const MOST_SERIES: usize = 1000;

/// The reason of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventReason {
    /// A machine was created.
    SuccessfulCreate,
    /// Creating a machine failed.
    FailedCreate,
    /// The controller deleted a machine, or the target of a targeted removal is gone.
    SuccessfulDelete,
    /// A machine that the controller created does not belong to the pool.
    MachineLost,
    /// A disk that the controller created does not have its owner.
    DiskLost,
    /// Deleting a machine failed.
    FailedDelete,
    /// A missing disk of a machine was created.
    DiskCreated,
    /// The platform restored a disk, and the controller made it a disk of its machine again.
    DiskRestored,
    /// A free disk was allocated to a machine.
    DiskReused,
    /// The controller detached a disk from a machine.
    DiskDetached,
    /// A user detached a disk from a machine.
    DiskDetachedByHand,
    /// A free disk was deleted.
    DiskDeleted,
    /// A disk was expanded.
    DiskResized,
    /// Creating, allocating, marking, expanding or deleting a disk, or changing the disk that a machine
    /// refers to, failed.
    FailedDisk,
    /// Restoring labels, or writing the removal record, failed.
    FailedRepair,
    /// Deleting a revision that no machine needs failed.
    FailedRevisionPruning,
    /// A changed template was written to a machine.
    TemplateApplied,
    /// The controller requested a restart of a machine, so that a changed template takes effect.
    RestartRequested,
    /// The controller changed the end of the protection of a machine, which could not be read or was too
    /// late.
    ProtectionShortened,
    /// Writing a changed template to a machine failed.
    FailedTemplateUpdate,
    /// A reservation of a targeted removal expired.
    ReservationExpired,
    /// A setting of the pool cannot be read.
    InvalidSettings,
    /// An object that the template refers to is missing or does not fit. The reason is that of the condition.
    TemplateUnresolved(ConditionReason),
    /// The controller restored a copy of an object that the template refers to.
    PinRepaired,
    /// Reading objects that the plan depends on failed.
    FailedRead,
    /// A machine does not become ready by itself: the platform does not start it, or reports a failure.
    MachineNotStarted,
    /// Another controller may reconcile the pool, so this one does not.
    OtherControllerActive,
}

impl EventReason {
    /// The reason in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SuccessfulCreate => "SuccessfulCreate",
            Self::FailedCreate => "FailedCreate",
            Self::SuccessfulDelete => "SuccessfulDelete",
            Self::MachineLost => "MachineLost",
            Self::DiskLost => "DiskLost",
            Self::FailedDelete => "FailedDelete",
            Self::DiskCreated => "DiskCreated",
            Self::DiskRestored => "DiskRestored",
            Self::DiskReused => "DiskReused",
            Self::DiskDetached => "DiskDetached",
            Self::DiskDetachedByHand => "DiskDetachedByHand",
            Self::DiskDeleted => "DiskDeleted",
            Self::DiskResized => "DiskResized",
            Self::FailedDisk => "FailedDisk",
            Self::FailedRepair => "FailedRepair",
            Self::FailedRevisionPruning => "FailedRevisionPruning",
            Self::TemplateApplied => "TemplateApplied",
            Self::RestartRequested => "RestartRequested",
            Self::ProtectionShortened => "ProtectionShortened",
            Self::FailedTemplateUpdate => "FailedTemplateUpdate",
            Self::ReservationExpired => "ReservationExpired",
            Self::InvalidSettings => "InvalidSettings",
            Self::TemplateUnresolved(reason) => reason.as_str(),
            Self::PinRepaired => "PinRepaired",
            Self::FailedRead => "FailedRead",
            Self::MachineNotStarted => "MachineNotStarted",
            Self::OtherControllerActive => "OtherControllerActive",
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::SuccessfulCreate | Self::FailedCreate | Self::MachineLost => "Create",
            Self::SuccessfulDelete | Self::FailedDelete => "Delete",
            Self::DiskCreated
            | Self::DiskRestored
            | Self::DiskReused
            | Self::DiskDetached
            | Self::DiskDetachedByHand
            | Self::DiskDeleted
            | Self::DiskResized
            | Self::DiskLost
            | Self::FailedDisk => "Disk",
            Self::FailedRepair
            | Self::FailedRevisionPruning
            | Self::ProtectionShortened
            | Self::PinRepaired => "Repair",
            Self::TemplateApplied | Self::RestartRequested | Self::FailedTemplateUpdate => "Update",
            Self::ReservationExpired => "Remove",
            Self::InvalidSettings | Self::TemplateUnresolved(_) | Self::FailedRead => "Read",
            Self::MachineNotStarted => "Start",
            Self::OtherControllerActive => "Reconcile",
        }
    }

    /// Whether the event is a warning rather than a normal one.
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            Self::FailedCreate
                | Self::MachineLost
                | Self::DiskLost
                | Self::FailedDelete
                | Self::FailedDisk
                | Self::DiskDetachedByHand
                | Self::FailedRepair
                | Self::FailedRevisionPruning
                | Self::FailedTemplateUpdate
                | Self::ProtectionShortened
                | Self::ReservationExpired
                | Self::InvalidSettings
                | Self::TemplateUnresolved(_)
                | Self::PinRepaired
                | Self::FailedRead
                | Self::MachineNotStarted
                | Self::OtherControllerActive
        )
    }
}

/// The object that an event is about.
#[derive(Clone, Debug)]
pub(crate) struct EventSubject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Arc<str>,
    pub(crate) id: ObjectId,
}

/// One event of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolEvent {
    pub(crate) reason: EventReason,
    /// The name of the object, for the event that lists names.
    pub(crate) name: String,
    pub(crate) note: String,
}

struct Message {
    subject: EventSubject,
    kind: Kind,
    note: String,
}

/// An event without its message, in the words of a platform.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    source: &'static str,
    reason: Cow<'static, str>,
    action: &'static str,
    is_warning: bool,
}

/// Queues events without waiting.
#[derive(Clone)]
pub(crate) struct Events {
    sender: mpsc::Sender<Message>,
}

impl Events {
    /// Creates the queue, and the task that sends its events.
    pub(crate) fn new(writer: Writer, env: Env, instance: String) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (
            Self { sender },
            Sender { writer, env, instance, series: HashMap::new(), warnings: HashMap::new() }.run(receiver),
        )
    }

    /// Queues the events of one pass.
    pub(crate) fn publish<W: Wording>(&self, subject: &EventSubject, events: Vec<PoolEvent>) {
        for (reason, note) in condense_events(events) {
            let kind = Kind {
                source: W::SOURCE,
                reason: W::reason(reason.as_str()).into(),
                action: reason.action(),
                is_warning: reason.is_warning(),
            };
            self.send(Message { subject: subject.clone(), kind, note });
        }
    }

    /// Queues the events about changed conditions.
    pub(crate) fn publish_transitions<W: Wording>(
        &self,
        subject: &EventSubject,
        transitions: Vec<ConditionEvent>,
    ) {
        for ConditionEvent { reason, is_warning, note } in transitions {
            let kind = Kind { source: W::SOURCE, reason: reason.into(), action: "Status", is_warning };
            self.send(Message { subject: subject.clone(), kind, note: shorten_message(note) });
        }
    }

    /// Queues an event of a kind that belongs to no platform.
    pub(crate) fn publish_plain(
        &self,
        subject: &EventSubject,
        reason: &'static str,
        is_warning: bool,
        note: String,
    ) {
        let kind = Kind { source: SOURCE, reason: reason.into(), action: "Reconcile", is_warning };
        self.send(Message { subject: subject.clone(), kind, note: shorten_message(note) });
    }

    fn send(&self, message: Message) {
        if self.sender.try_send(message).is_err() {
            tracing::debug!("the event queue is full: dropped an event");
        }
    }
}

/// Maximum length of the note that the event about the rest repeats, in bytes.
const EXAMPLE: usize = 400;

/// At most [`INDIVIDUAL`] notes per reason, and one note with the names of the rest and the note of the first
/// of them. Equal notes are merged.
fn condense_events(events: Vec<PoolEvent>) -> Vec<(EventReason, String)> {
    let mut notes: Vec<(EventReason, String)> = Vec::new();
    let mut rest: Vec<(EventReason, String, Vec<String>)> = Vec::new();
    for PoolEvent { reason, name, note } in events {
        if notes.contains(&(reason, note.clone())) {
            continue;
        }
        if notes.iter().filter(|(other, _)| *other == reason).count() < INDIVIDUAL {
            notes.push((reason, note));
        } else if let Some((.., names)) = rest.iter_mut().find(|(other, ..)| *other == reason) {
            names.push(name);
        } else {
            rest.push((reason, note, vec![name]));
        }
    }
    notes.extend(rest.into_iter().map(|(reason, first, names)| {
        let first = first.get(..first.floor_char_boundary(EXAMPLE)).unwrap_or_default();
        (reason, format!("and {} more, the first: {first}; all: {}", names.len(), names.join(", ")))
    }));
    notes.into_iter().map(|(reason, note)| (reason, shorten_message(note))).collect()
}

struct Sender {
    writer: Writer,
    env: Env,
    instance: String,
    series: HashMap<SeriesKey, Series>,
    /// The uptimes of the last warnings of each pool and reason.
    warnings: HashMap<(ObjectId, Kind), VecDeque<Duration>>,
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

/// The pool, the reason and the note.
type SeriesKey = (ObjectId, Kind, String);

struct Series {
    event: String,
    count: u32,
    last: Duration,
}

impl Sender {
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

    async fn send(&mut self, message: Message, uptime: Duration) -> Result<(), crate::write::WriteError> {
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
                self.writer.patch(WriteKind::Event, path.clone(), &series.event, None, patch).await;
            match patched {
                Err(error) if error.is_gone() => {}
                other => return other.map(|_| ()),
            }
        }
        if kind.is_warning && !self.may_warn(&subject.id, &kind, uptime) {
            tracing::debug!(pool = &*subject.id.name, reason = &*kind.reason, note, "omitted a warning");
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
        let _: Value = self.writer.create(WriteKind::Event, path, event).await?;
        // A normal event names its object and is not repeated.
        if kind.is_warning {
            self.remember(key, Series { event: name, count: 1, last: uptime });
        }
        Ok(())
    }

    /// Whether the pool has had fewer than [`WARNINGS`] warnings of this reason in the time of [`SERIES`]. If
    /// so, this one counts. Each of them is a new object, and the conditions of the pool contain the last
    /// failure anyway.
    fn may_warn(&mut self, pool: &ObjectId, kind: &Kind, uptime: Duration) -> bool {
        let warnings = self.warnings.entry((pool.clone(), kind.clone())).or_default();
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
