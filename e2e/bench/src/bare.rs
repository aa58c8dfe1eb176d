//! The bare client. It creates and deletes the same objects as the controller, with the same bodies, under
//! the same account, and over the same kind of connections. It does not watch or decide anything, so no
//! controller can be faster with the same number of concurrent requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context;
use kube::Client;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request::Request;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::task::JoinSet;
use vmpool_controller::platform::{DiskOf, Disks, Finalizers, Platform};
use vmpool_engine::ObjectId;
use vmpool_engine::membership::losses::Rehearsal;
use vmpool_engine::model::{DiskDraft, Draft, Naming};
use vmpool_engine::scale_up::names::Namer;
use vmpool_installation::programs::{CONTROLLER_ACCOUNT, SYSTEM_NAMESPACE};
use vmpool_invariants::object::TestedKind;

use crate::lab::{Lab, POOL, seconds_between};
use crate::load::{CpuLoad, CpuSnapshot};

/// The numbers of concurrent requests that are measured.
pub(crate) const WIDTHS: [usize; 2] = [8, 32];

/// Field manager of the objects, with the same length as the controller's.
const MANAGER: &str = "vmpool-bareclient";

/// Number of machines created as a warm-up.
const WARM_UP: usize = 64;

/// One measurement.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Number of concurrent requests.
    pub(crate) width: usize,
    /// From the first request until the last object is observed.
    pub(crate) create_seconds: f64,
    /// From the first request until the last machine is observed as deleted.
    pub(crate) delete_seconds: f64,
    /// CPU usage during the creation.
    pub(crate) load: CpuLoad,
}

/// The bare client, with a pool that owns its objects.
pub(crate) struct BareClient<P: Platform> {
    inner: Arc<Inner<P>>,
    /// The first unused number for names.
    next: usize,
}

struct Inner<P: Platform> {
    client: Client,
    namespace: &'static str,
    pool: P::Pool,
}

impl<P: Platform> BareClient<P> {
    /// Creates a namespace with a pool, and warms up the client and the API server.
    pub(crate) async fn start(lab: &Lab, namespace: &'static str) -> anyhow::Result<Self> {
        lab.namespace(namespace).await?;
        // Owners must exist, because the garbage collector checks them.
        let pool = serde_json::from_value(lab.pool(namespace, POOL, 0).await?)?;
        let client = lab.cluster().service_account_client(SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let mut bare = Self { inner: Arc::new(Inner { client, namespace, pool }), next: 0 };
        bare.once(lab, WARM_UP, 32).await.context("warming the bare client up")?;
        Ok(bare)
    }

    /// Creates and deletes this number of machines, once for each number of concurrent requests.
    pub(crate) async fn measure(&mut self, lab: &Lab, machine_count: usize) -> anyhow::Result<Vec<Run>> {
        let mut runs = Vec::new();
        for width in WIDTHS {
            let run = self.once(lab, machine_count, width).await?;
            Lab::note(&format!(
                "{width:>2} in flight: created in {:.2} s ({}), deleted in {:.2} s",
                run.create_seconds, run.load, run.delete_seconds,
            ));
            runs.push(run);
        }
        Ok(runs)
    }

    async fn once(&mut self, lab: &Lab, machine_count: usize, width: usize) -> anyhow::Result<Run> {
        let (mut last, objects) = lab.tally_of_last(self.inner.namespace, machine_count).await?;
        let drafts = self.inner.drafts(self.next, machine_count);
        self.next += machine_count;

        let before = CpuSnapshot::now()?;
        let begin = Instant::now();
        let machines = side_by_side(width, drafts, {
            let inner = self.inner.clone();
            move |draft| unit(inner.clone(), draft)
        })
        .await?;
        let create_seconds = seconds_between(begin, last.reach(objects).await?);
        let load = CpuSnapshot::now()?.since(&before);
        lab.quiet().await?;

        let mut left = lab.tally(TestedKind::Machine, self.inner.namespace).await?;
        let begin = Instant::now();
        side_by_side(width, machines, {
            let inner = self.inner.clone();
            move |machine: Arc<P::Machine>| delete(inner.clone(), machine)
        })
        .await?;
        let delete_seconds = seconds_between(begin, left.reach(0).await?);
        // The garbage collector deletes the disks with their machines.
        last.reach(0).await?;
        lab.quiet().await?;
        Ok(Run { width, create_seconds, delete_seconds, load })
    }
}

impl<P: Platform> Inner<P> {
    /// The objects that the controller would create, with names numbered from `first`.
    fn drafts(&self, first: usize, count: usize) -> Vec<Draft> {
        let pool = P::read_pool(&self.pool);
        let namer = Namer::new(&pool.id.name, &pool.id.uid);
        let revision = P::first_revision(&self.pool, &pool);
        let draft = |number: u64| {
            let name: Arc<str> = match pool.naming {
                Naming::Ordinal => format!("{}-{number}", pool.id.name).into(),
                Naming::Random => namer.name(number).into(),
            };
            let disk =
                |template: &Arc<str>| DiskDraft::new(format!("{name}-{template}").into(), template.clone());
            let disks = pool.disks.iter().map(|template| disk(&template.name)).collect();
            Draft {
                name,
                number,
                revision: revision.clone(),
                disks,
                rehearsal: Rehearsal::None,
                standby: None,
            }
        };
        (first..first + count).map(|number| draft(number as u64)).collect()
    }

    async fn create<T: DeserializeOwned>(
        &self,
        path: String,
        object: &serde_json::Value,
    ) -> anyhow::Result<T> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let request = Request::new(path).create(&params, serde_json::to_vec(object)?)?;
        Ok(self.client.request(request).await?)
    }
}

/// Creates a machine, then its disks.
async fn unit<P: Platform>(inner: Arc<Inner<P>>, draft: Draft) -> anyhow::Result<Arc<P::Machine>> {
    let namespace = Some(inner.namespace);
    let path = P::Machine::url_path(&(), namespace);
    let created: P::Machine =
        inner.create(path, &P::machine(&inner.pool, &P::template(&inner.pool), &draft)).await?;
    let machine = ObjectId::new(&draft.name, uid(&created));
    for disk in &draft.disks {
        let body = P::Disks::object(&inner.pool, &machine, disk)
            .context("the pool has the template of every draft")?;
        let _: IgnoredAny = inner.create(DiskOf::<P>::url_path(&(), namespace), &body).await?;
    }
    Ok(Arc::new(created))
}

/// Deletes a machine and, if the pools have one, removes the finalizer.
async fn delete<P: Platform>(inner: Arc<Inner<P>>, machine: Arc<P::Machine>) -> anyhow::Result<()> {
    let name = machine.meta().name.as_deref().unwrap_or_default();
    let uid = Some(uid(&*machine).to_owned());
    let params = DeleteParams::background().preconditions(Preconditions { uid, resource_version: None });
    let request = Request::new(P::Machine::url_path(&(), Some(inner.namespace)));
    inner.client.request::<IgnoredAny>(request.delete(name, &params)?).await?;
    if let Some(patch) = P::Finalizers::remove(&machine) {
        let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
        inner.client.request::<IgnoredAny>(request.patch(name, &PatchParams::default(), &patch)?).await?;
    }
    Ok(())
}

fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// Applies `each` to every item, with `width` concurrent calls, on all CPUs.
async fn side_by_side<T, R, F>(
    width: usize,
    items: Vec<T>,
    each: impl Fn(T) -> F + Clone + Send + 'static,
) -> anyhow::Result<Vec<R>>
where
    T: Clone + Send + Sync + 'static,
    R: Send + 'static,
    F: Future<Output = anyhow::Result<R>> + Send,
{
    let items = Arc::new(items);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..width {
        let (items, next, each) = (items.clone(), next.clone(), each.clone());
        workers.spawn(async move {
            let mut done = Vec::new();
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push(each(item.clone()).await?);
            }
            anyhow::Ok(done)
        });
    }
    let mut all = Vec::with_capacity(items.len());
    while let Some(worker) = workers.join_next().await {
        all.extend(worker.context("a worker of the bare client")??);
    }
    Ok(all)
}
