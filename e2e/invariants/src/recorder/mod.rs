//! Watches a namespace from the start of a scenario and records all changes.
//!
//! One watch per kind feeds one [`RecordedHistory`]. Scenarios wait on it instead of polling. A condition is
//! evaluated after every change, so that short-lived states are seen, too.

mod history;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use history::{RecordedChange, RecordedHistory, RecordedState};

use vmpool_test_cluster::deadline::{Deadline, ElapsedTime};
use vmpool_test_cluster::error::{Error, Result};

use crate::object::{JsonObject, TestedKind};
use crate::platform::TestedPlatform;

/// Maximum delay of the watches behind the store on a busy host.
const CATCH_UP_DEADLINE: Duration = Duration::from_secs(30);

/// A silently dropped watch is detected after this time, in seconds.
const WATCH_TIMEOUT_SECONDS: u32 = 30;

/// Records the changes in one namespace until it is dropped.
pub struct Recorder {
    platform: TestedPlatform,
    client: Client,
    namespace: String,
    history: Arc<Mutex<RecordedHistory>>,
    changed: watch::Receiver<u64>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Recorder {
    /// Starts the watches of DVP, and returns once all existing objects are recorded.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn start(client: Client, namespace: &str) -> Result<Self> {
        Self::start_on(TestedPlatform::Dvp, client, namespace).await
    }

    /// As [`Recorder::start`], for a platform.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub async fn start_on(platform: TestedPlatform, client: Client, namespace: &str) -> Result<Self> {
        let history = Arc::new(Mutex::new(RecordedHistory::default()));
        let (notify, changed) = watch::channel(0);
        let notify = Arc::new(notify);
        let tasks = TestedKind::RECORDED.map(|kind| {
            let sink = HistorySink { kind, history: history.clone(), notify: notify.clone() };
            let api = platform.api(kind, client.clone(), namespace);
            let task = follow(api, sink);
            AbortOnDropHandle::new(tokio::spawn(task))
        });
        let recorder = Self {
            platform,
            client,
            namespace: namespace.to_owned(),
            history,
            changed,
            _tasks: tasks.into(),
        };
        recorder.catch_up().await?;
        Ok(recorder)
    }

    /// The history so far. Do not hold the guard across an await.
    pub fn history(&self) -> MutexGuard<'_, RecordedHistory> {
        self.history.lock()
    }

    /// As [`RecordedHistory::forget`].
    pub fn forget(&self) {
        self.history.lock().forget();
    }

    /// A copy of the current state, as far as the watches have shown it.
    pub fn state(&self) -> RecordedState {
        self.history.lock().state().clone()
    }

    /// Notifies the receiver of new changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Waits at most for `deadline` until `look` returns a result. The inner error is the elapsed time.
    ///
    /// # Errors
    /// [`Error::TaskEnded`] if the recorder has stopped.
    pub async fn until(
        &self,
        deadline: Duration,
        holds: impl Fn(&RecordedHistory) -> bool,
    ) -> Result<Result<(), ElapsedTime>> {
        let deadline = Deadline::after(deadline);
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if holds(&self.history.lock()) {
                return Ok(Ok(()));
            }
            match deadline.within(changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Error::TaskEnded { task: "the recorder" }),
                Err(elapsed) => return Ok(Err(elapsed)),
            }
        }
    }

    /// Waits until all objects that are stored now have been recorded.
    ///
    /// # Errors
    /// [`Error::Api`] if a list fails, [`Error::Deadline`] if the watches are too slow.
    pub async fn catch_up(&self) -> Result<()> {
        for kind in [TestedKind::Pool, TestedKind::Machine, TestedKind::Disk] {
            let (revision, listed) = self.list(kind).await?;
            let shown = |history: &RecordedHistory| shows(history, kind, revision, &listed);
            if let Err(after) = self.until(CATCH_UP_DEADLINE, shown).await? {
                return Err(Error::Deadline {
                    what: format!("the watch of {} shows what a list shows", kind.plural()),
                    after,
                    last: format!("revision {revision}, {} objects", listed.len()),
                });
            }
        }
        Ok(())
    }

    /// Waits until an object that was just written has been recorded in this or a later state. Otherwise a
    /// caller that waits for the consequences could see the state before its write.
    ///
    /// # Errors
    /// [`Error::Deadline`] if the watch is too slow.
    pub async fn until_shown(&self, kind: TestedKind, object: &JsonObject) -> Result<()> {
        if !TestedKind::RECORDED.contains(&kind) {
            return Ok(());
        }
        let shown = |history: &RecordedHistory| shows_object(history, kind, object.uid(), object.revision());
        let waited = self.until(CATCH_UP_DEADLINE, shown).await?;
        waited.map_err(|after| Error::Deadline {
            what: format!("the watch of {} shows what was written", kind.plural()),
            after,
            last: format!("{} at revision {} is missing", object.name(), object.revision()),
        })
    }

    /// The revision of a list, and the revision of each object in it by UID.
    async fn list(&self, kind: TestedKind) -> Result<(u64, BTreeMap<String, u64>)> {
        let list = self
            .platform
            .api(kind, self.client.clone(), &self.namespace)
            .list_metadata(&ListParams::default())
            .await
            .map_err(Error::api(format!("listing the {} of {}", kind.plural(), self.namespace)))?;
        let parse =
            |revision: Option<String>| revision.and_then(|text| text.parse().ok()).unwrap_or_default();
        let objects = list
            .items
            .into_iter()
            .filter_map(|object| Some((object.metadata.uid?, parse(object.metadata.resource_version))));
        Ok((parse(list.metadata.resource_version), objects.collect()))
    }
}

/// Whether everything in a list of this revision is recorded; `listed` maps UIDs to revisions.
fn shows(history: &RecordedHistory, kind: TestedKind, revision: u64, listed: &BTreeMap<String, u64>) -> bool {
    let everything_listed_is_known = listed.iter().all(|(uid, &at)| shows_object(history, kind, uid, at));
    let everything_gone_is_known = history
        .state()
        .all(kind)
        .all(|known| listed.contains_key(known.uid()) || known.revision() > revision);
    everything_listed_is_known && everything_gone_is_known
}

/// Whether the object is recorded at this revision or a later one, or was removed again.
fn shows_object(history: &RecordedHistory, kind: TestedKind, uid: &str, at: u64) -> bool {
    history.state().get(kind, uid).map_or_else(|| history.was_removed(uid), |known| known.revision() >= at)
}

/// Receives the events of one watch.
struct HistorySink {
    kind: TestedKind,
    history: Arc<Mutex<RecordedHistory>>,
    notify: Arc<watch::Sender<u64>>,
}

impl HistorySink {
    fn stored(&self, object: JsonObject) {
        let mut history = self.history.lock();
        // A relist repeats known objects.
        let known = history.state().get(self.kind, object.uid()).map(JsonObject::revision);
        if known.is_none_or(|known| known < object.revision()) {
            history.push(self.change(object.revision(), object, false));
        }
    }

    fn removed(&self, object: JsonObject) {
        // For a removal the watch shows the last state with the revision of the removal.
        self.history.lock().push(self.change(object.revision(), object, true));
    }

    /// After a relist: records the removal of objects that are no longer in the list.
    fn relisted(&self, listed: &BTreeSet<String>, revision: u64) {
        let mut history = self.history.lock();
        let gone: Vec<JsonObject> =
            history.state().all(self.kind).filter(|object| !listed.contains(object.uid())).cloned().collect();
        for object in gone {
            let revision = revision.max(object.revision());
            history.push(self.change(revision, object, true));
        }
    }

    fn change(&self, revision: u64, object: JsonObject, removed: bool) -> RecordedChange {
        RecordedChange { revision, at: Timestamp::now(), kind: self.kind, object, removed }
    }

    fn notify(&self) {
        self.notify.send_modify(|count| *count += 1);
    }
}

/// A constant pause before each attempt to watch again. With an exponential backoff, the recorder would be
/// too late after the third restart of an API server.
struct ConstantBackoff;

impl Iterator for ConstantBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }
}

impl kube::runtime::utils::Backoff for ConstantBackoff {
    fn reset(&mut self) {}
}

/// Follows one kind forever. The watcher reconnects and relists on its own.
async fn follow(api: Api<DynamicObject>, sink: HistorySink) {
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT_SECONDS);
    let mut stream = watcher(api, config).backoff(ConstantBackoff).boxed();
    let mut listed = BTreeSet::new();
    let mut newest = 0;
    loop {
        match stream.try_next().await {
            Ok(None) => return,
            Ok(Some(event)) => receive(event, &sink, &mut listed, &mut newest),
            // The watcher's stream applies the backoff. Scenarios restart the API server, so this is
            // expected.
            Err(error) => tracing::debug!(kind = sink.kind.plural(), %error, "the watch failed"),
        }
    }
}

fn receive(
    event: watcher::Event<DynamicObject>,
    sink: &HistorySink,
    listed: &mut BTreeSet<String>,
    newest: &mut u64,
) {
    let read = |object: DynamicObject| JsonObject::try_from(object).ok();
    match event {
        watcher::Event::Init => {
            listed.clear();
            return;
        }
        watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
            let Some(object) = read(object) else { return };
            listed.insert(object.uid().to_owned());
            *newest = object.revision().max(*newest);
            sink.stored(object);
        }
        watcher::Event::Delete(object) => {
            let Some(object) = read(object) else { return };
            *newest = object.revision().max(*newest);
            sink.removed(object);
        }
        watcher::Event::InitDone => sink.relisted(listed, *newest),
    }
    sink.notify();
}
