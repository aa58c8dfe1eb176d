//! Runs one sequence of operations on both servers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use vmpool_model::{ApiServerModel, platform_resources};
use vmpool_runtime::testing::{ManualClock, test_env};
use vmpool_test_cluster::deadline::Deadline;

use crate::kind::ConformanceKind;
use crate::normalized::{Normalized, difference, paths};
use crate::operation::{ConformanceOperation, NumberedOperation, SelectorWithLabels, Since};
use crate::view::{ServerView, UNUSED_UID};

/// Timeout for the real garbage collector, on a busy host.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Poll interval.
const POLL: Duration = Duration::from_millis(25);

/// The namespace of objects whose deletion shows the progress of the real garbage collector.
const SENTINELS: &str = "sentinels";

/// The real server.
#[derive(Clone)]
pub(crate) struct RealServer {
    client: Client,
    serial: Arc<AtomicUsize>,
    /// The number of watches, and the number of those whose start version had expired.
    watches: Arc<(AtomicUsize, AtomicUsize)>,
}

/// The first difference between the servers.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The step; `None` for the final state.
    pub(crate) step: Option<NumberedOperation>,
    pub(crate) what: String,
}

/// The model and the actions of its garbage collector.
struct Model {
    server: ApiServerModel,
    garbage: BTreeSet<String>,
    seed: u64,
}

impl RealServer {
    pub(crate) async fn new(client: Client) -> Result<Self> {
        let real = Self { client, serial: Arc::default(), watches: Arc::default() };
        real.namespace(SENTINELS).await?;
        Ok(real)
    }

    async fn namespace(&self, name: &str) -> Result<()> {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let request = http::Request::post("/api/v1/namespaces").body(serde_json::to_vec(&object)?)?;
        self.client.request::<Value>(request).await.map(drop).context("making a namespace")
    }

    /// Whether enough watches could be compared.
    pub(crate) fn has_compared_enough_watches(&self) -> bool {
        let (all, expired) = (&self.watches.0, &self.watches.1);
        expired.load(Ordering::Relaxed) * 10 <= all.load(Ordering::Relaxed)
    }

    fn number(&self) -> usize {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until the garbage collector has observed all changes: it has deleted an object that was created
    /// afterwards. Its decisions depend on what it has observed.
    async fn until_garbage_collected(&self, real_view: &ServerView) -> Result<()> {
        let mut paths = Vec::new();
        for kind in ConformanceKind::OWNED {
            let name = format!("s-{}", self.number());
            let mut object = kind.object(0, SENTINELS);
            let owner = ConformanceKind::Pool.reference("missing", UNUSED_UID, false, false);
            object["metadata"] = json!({ "name": name, "ownerReferences": [owner] });
            let path = kind.collection(SENTINELS);
            let created = real_view.send(Method::POST, &path, Some(("application/json", object))).await?;
            anyhow::ensure!(created.is_success(), "making a sentinel: {}", created.body);
            paths.push(format!("{path}/{name}"));
        }
        let deadline = Deadline::after(TIMEOUT);
        for path in paths {
            while real_view.send(Method::GET, &path, None).await?.code != 404 {
                anyhow::ensure!(!deadline.is_over(), "the garbage collector does not delete {path}");
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        let server = ApiServerModel::new(&test_env(&ManualClock::new(), seed), platform_resources());
        Self { server, garbage: BTreeSet::new(), seed }
    }

    /// Makes version 1 expire, as on a server that has been running for a while.
    async fn expire_first_version(&self) -> Result<()> {
        let view = ServerView::new(self.server.client("user", "before"), "before").await?;
        let mut object = ConformanceKind::Lease.object(0, "before");
        for name in ["x", "y"] {
            object["metadata"] = json!({ "name": name });
            let path = ConformanceKind::Lease.collection("before");
            view.send(Method::POST, &path, Some(("application/json", object.clone()))).await?;
        }
        self.server.compact();
        Ok(())
    }

    /// Collects all garbage. Returns whether there was any.
    fn collect(&mut self) -> bool {
        let before = self.server.history().len();
        while self.server.collect_garbage(self.seed).is_some() {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        let changes = self.server.changes_since(before);
        self.garbage.extend(changes.iter().map(|change| change.version.to_string()));
        !changes.is_empty()
    }

    /// Whether an object has an owner with this UID.
    fn has_dependents(&self, uid: &str) -> bool {
        let mut objects =
            ConformanceKind::OWNED.into_iter().flat_map(|kind| self.server.all(&kind.full_name()));
        objects.any(|object| {
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["uid"] == uid)
        })
    }
}

/// Runs all steps on both servers. Returns the first difference.
pub(crate) async fn run(
    real: &RealServer,
    seed: u64,
    steps: &[NumberedOperation],
) -> Result<Option<Difference>> {
    let namespace = format!("seed-{seed}-{}", real.number());
    let mut model = Model::new(seed);
    model.expire_first_version().await?;
    let mut model_view = ServerView::new(model.server.client("user", &namespace), &namespace).await?;
    real.namespace(&namespace).await?;
    let mut real_view = ServerView::new(real.client.clone(), &namespace).await?;
    for step in steps {
        let differs = |what| Difference { step: Some(step.clone()), what };
        if let ConformanceOperation::Delete { target, policy: Some("Foreground" | "Orphan"), .. } = &step.op
            && model.has_dependents(model_view.uid(Some(*target)))
        {
            real.until_garbage_collected(&real_view).await?;
        }
        let (expected, found) = match &step.op {
            ConformanceOperation::Watch { kind, since, selector } => {
                compare_watch(real, &model, (&mut model_view, &mut real_view), (*kind, *since, *selector))
                    .await?
            }
            _ => (model_view.perform(step).await?, real_view.perform(step).await?),
        };
        if let Some(what) = difference(&expected, &found) {
            return Ok(Some(differs(what)));
        }
        if model.collect()
            && let Some(what) = until_equal(&model_view, &real_view).await?
        {
            return Ok(Some(differs(what)));
        }
    }
    finish(real, &model, &mut model_view, &mut real_view).await
}

/// Compares the final state and the events of all watches.
async fn finish(
    real: &RealServer,
    model: &Model,
    model_view: &mut ServerView,
    real_view: &mut ServerView,
) -> Result<Option<Difference>> {
    real.until_garbage_collected(real_view).await?;
    let differs = |what| Some(Difference { step: None, what });
    if let Some(what) = until_equal(model_view, real_view).await? {
        return Ok(differs(what));
    }
    for kind in ConformanceKind::ALL {
        let all = (kind, Since::Start, SelectorWithLabels("", &[]));
        let (expected, found) = compare_watch(real, model, (model_view, real_view), all).await?;
        if let Some(what) = difference(&expected, &found) {
            return Ok(differs(what));
        }
    }
    Ok(None)
}

/// Compares the events of a watch. The real server may expire any version, in which case there is nothing to
/// compare; this must happen only rarely.
async fn compare_watch(
    real: &RealServer,
    model: &Model,
    (model_view, real_view): (&mut ServerView, &mut ServerView),
    (kind, since, selector): (ConformanceKind, Since, SelectorWithLabels),
) -> Result<(Vec<Normalized>, Vec<Normalized>)> {
    let is_unordered = |version: &str| since == Since::Now || model.garbage.contains(version);
    let expected = model_view.watch(kind, since, selector).await?;
    let found = real_view.watch(kind, since, selector).await?;
    real.watches.0.fetch_add(1, Ordering::Relaxed);
    let expired = found.first().is_some_and(|event| event["object"]["code"] == 410);
    if expired && matches!(since, Since::Start | Since::Step(_)) {
        real.watches.1.fetch_add(1, Ordering::Relaxed);
        return Ok((Vec::new(), Vec::new()));
    }
    Ok((vec![model_view.events(&expected, is_unordered)], vec![real_view.events(&found, |_| false)]))
}

/// Waits until the real server has reached the same state; otherwise returns the difference.
async fn until_equal(model_view: &ServerView, real_view: &ServerView) -> Result<Option<String>> {
    let expected = model_view.state().await?;
    let deadline = Deadline::after(TIMEOUT);
    loop {
        let found = real_view.state().await?;
        if found == expected {
            return Ok(None);
        }
        if deadline.is_over() {
            return Ok(Some(format!("    final state:{}", paths(&expected, &found, ""))));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Removes the steps that are not needed for the difference.
pub(crate) async fn shrink(
    real: &RealServer,
    seed: u64,
    steps: Vec<NumberedOperation>,
    found: Difference,
) -> (Vec<NumberedOperation>, Difference) {
    let (mut steps, mut found) = (steps, found);
    if let Some(last) = &found.step {
        steps.truncate(steps.iter().position(|step| step.id == last.id).map_or(steps.len(), |at| at + 1));
    }
    let mut at = steps.len();
    while at > 0 {
        at -= 1;
        let mut fewer = steps.clone();
        fewer.remove(at);
        // An error is not a difference.
        if let Ok(Some(still)) = run(real, seed, &fewer).await {
            (steps, found) = (fewer, still);
        }
    }
    (steps, found)
}
