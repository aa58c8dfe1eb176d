//! Counts the objects of one kind with a watch, and records when the count changed.
//!
//! A metadata watch measures both the bare client and the controller, so its cost and delay affect both.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Interval of progress lines during a long wait.
const PROGRESS: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Count {
    objects: usize,
    at: Instant,
    complete: bool,
}

/// Counts the objects of one kind in one namespace until it is dropped.
pub(crate) struct ObjectCounter {
    resource: ApiResource,
    count: watch::Receiver<Count>,
    least: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl ObjectCounter {
    /// Starts counting. Returns once all existing objects are counted.
    ///
    /// # Errors
    /// If the watch does not start.
    pub(crate) async fn start(
        client: Client,
        resource: ApiResource,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(client, namespace, &resource);
        let events = watcher(api, watcher::Config::default());
        Self::start_with(resource, |sender, least| count_watched_objects(events, |_| true, sender, least))
            .await
    }

    /// Starts counting the objects of which `is_counted` is true, with a watch of complete objects.
    ///
    /// # Errors
    /// If the watch does not start.
    pub(crate) async fn start_where(
        client: Client,
        resource: ApiResource,
        namespace: &str,
        is_counted: impl Fn(&DynamicObject) -> bool + Send + 'static,
    ) -> anyhow::Result<Self> {
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
        let events = watcher(api, watcher::Config::default());
        Self::start_with(resource, |sender, least| count_watched_objects(events, is_counted, sender, least))
            .await
    }

    async fn start_with<F: Future<Output = ()> + Send + 'static>(
        resource: ApiResource,
        count_events: impl FnOnce(watch::Sender<Count>, Arc<AtomicUsize>) -> F,
    ) -> anyhow::Result<Self> {
        let least = Arc::new(AtomicUsize::new(usize::MAX));
        let (sender, count) = watch::channel(Count { objects: 0, at: Instant::now(), complete: false });
        let task = AbortOnDropHandle::new(tokio::spawn(count_events(sender, Arc::clone(&least))));
        let mut tally = Self { resource, count, least, _task: task };
        let listed = tally.count.wait_for(|count| count.complete);
        tokio::time::timeout(step_timeout(0), listed)
            .await
            .with_context(|| format!("the watch of {} does not start", tally.resource.plural))??;
        Ok(tally)
    }

    /// Waits until exactly `objects` objects exist. Returns when that was observed.
    ///
    /// # Errors
    /// If it takes longer than the timeout for this number of objects.
    pub(crate) async fn reach(&mut self, objects: usize) -> anyhow::Result<Instant> {
        let start = self.count.borrow().objects;
        self.reach_within(objects, step_timeout(objects.abs_diff(start))).await
    }

    /// As [`ObjectCounter::reach`], with another timeout.
    ///
    /// # Errors
    /// If it takes longer.
    pub(crate) async fn reach_within(
        &mut self,
        objects: usize,
        deadline: Duration,
    ) -> anyhow::Result<Instant> {
        let begin = Instant::now();
        loop {
            let reached = self.count.wait_for(|count| count.objects == objects);
            if let Ok(count) = tokio::time::timeout(PROGRESS, reached).await {
                return Ok(count?.at);
            }
            let now = self.count.borrow().objects;
            println!("      {now} of {objects} {}", self.resource.plural);
            if begin.elapsed() > deadline {
                bail!("{now} {} instead of {objects} after {deadline:?}", self.resource.plural);
            }
        }
    }

    /// Forgets counts before now for [`ObjectCounter::least`].
    pub(crate) fn forget_least(&self) {
        self.least.store(self.count.borrow().objects, Ordering::Relaxed);
    }

    /// The least count since [`ObjectCounter::forget_least`].
    pub(crate) fn least(&self) -> usize {
        self.least.load(Ordering::Relaxed)
    }
}

async fn count_watched_objects<K: ResourceExt>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    is_counted: impl Fn(&K) -> bool,
    sender: watch::Sender<Count>,
    least: Arc<AtomicUsize>,
) {
    let mut events = std::pin::pin!(events.default_backoff());
    let mut known = HashSet::new();
    let mut complete = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                known.clear();
                complete = false;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let uid = object.uid().unwrap_or_default();
                if is_counted(&object) {
                    known.insert(uid);
                } else {
                    known.remove(&uid);
                }
            }
            Ok(Event::Delete(object)) => {
                known.remove(&object.uid().unwrap_or_default());
            }
            Ok(Event::InitDone) => complete = true,
            Err(error) => tracing::warn!(%error, "the watch of a counter failed"),
        }
        // A count during the initial list is incomplete.
        if complete {
            sender.send_if_modified(|count| {
                let changed = count.objects != known.len() || !count.complete;
                if changed {
                    // A receiver may miss a count that changes again at once.
                    least.fetch_min(known.len(), Ordering::Relaxed);
                    *count = Count { objects: known.len(), at: Instant::now(), complete };
                }
                changed
            });
        }
    }
}

/// Timeout of a step with this number of objects, on a slow and busy host.
pub(crate) fn step_timeout(objects: usize) -> Duration {
    Duration::from_mins(1)
        + Duration::from_millis(100).saturating_mul(u32::try_from(objects).unwrap_or(u32::MAX))
}
