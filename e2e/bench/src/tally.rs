//! Counts the objects of one kind with a metadata watch, and records when the count changed.
//!
//! It measures both the bare client and the controller, so its cost and delay affect both.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
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
        let (sender, count) = watch::channel(Count { objects: 0, at: Instant::now(), complete: false });
        let task = AbortOnDropHandle::new(tokio::spawn(follow(
            client,
            resource.clone(),
            namespace.to_owned(),
            sender,
        )));
        let mut tally = Self { resource, count, _task: task };
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
        let begin = Instant::now();
        let start = self.count.borrow().objects;
        let deadline = step_timeout(objects.abs_diff(start));
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
}

async fn follow(client: Client, resource: ApiResource, namespace: String, sender: watch::Sender<Count>) {
    let api: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(client, &namespace, &resource);
    let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut known = HashSet::new();
    let mut complete = false;
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init) => {
                known.clear();
                complete = false;
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => known.extend(object.metadata.uid),
            Ok(Event::Delete(object)) => {
                known.remove(&object.metadata.uid.unwrap_or_default());
            }
            Ok(Event::InitDone) => complete = true,
            Err(error) => tracing::warn!(kind = resource.plural, %error, "the watch failed"),
        }
        // A count during the initial list is incomplete.
        if complete {
            sender.send_if_modified(|count| {
                let changed = count.objects != known.len() || !count.complete;
                if changed {
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
