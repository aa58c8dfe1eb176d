//! The leadership: the watches and the workers, while the cluster serves the kinds. Copies are made while the cluster has no
//! installation of the platform's own controller. Beside one, the controller only protects instance types and preferences.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, ready, select};
use kube::Api;
use kube::core::PartialObjectMeta;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_platforms::kubevirt::copies::{
    ClusterInstancetype, ClusterPreference, Document, Instancetype, LABEL, Machine, Pool, Preference,
    Revision,
};
use vmpool_platforms::kubevirt::protection::Kind;
use vmpool_platforms::{ApiObject, KubeVirt, OtherController, Platform};
use vmpool_runtime::env::Task;

use super::context::Context;
use super::pass::reconcile;
use super::protection;
use super::store::{Key, Table, TableSink};
use super::types::TypeKey;
use crate::definitions::{Definitions, Known, name};
use crate::lead::{Shared, oversee};
use crate::passes;
use crate::queue::{Queue, Requeue};
use crate::watch::{Change, MapSink, Scope, Sink, watch as follow};
use crate::watches::api;

/// The wait of the passes of finalizers for the first lists.
const UNSYNCED: Duration = Duration::from_millis(200);
/// The number of watches of the four kinds, whose first lists passes wait for.
const TYPE_WATCHES: usize = 4;
/// The number of further ones, if the controller makes copies: machines and copies.
const COPY_WATCHES: usize = 2;

type Installation = <<KubeVirt as Platform>::OtherController as OtherController>::Installation;

fn required() -> [String; 5] {
    [
        name::<Machine>(),
        name::<Instancetype>(),
        name::<ClusterInstancetype>(),
        name::<Preference>(),
        name::<ClusterPreference>(),
    ]
}

/// The definitions that the controller of copies needs to know.
pub(crate) fn definitions() -> Vec<String> {
    required().into_iter().chain([name::<Installation>(), name::<Pool>()]).collect()
}

/// What decides whether the controller makes copies.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A definition is missing, or the installations are not listed yet.
    Unknown,
    /// The platform's own controller is installed.
    Occupied,
    /// The definitions have these UIDs.
    Free(Vec<String>),
}

/// Protects instance types and preferences, and makes copies if the settings say so, until `stop`, while the cluster has the
/// definitions. If it makes copies, it does so only while there is no installation of the platform's own controller.
pub(crate) async fn lead(shared: Shared, known: Known, stop: CancellationToken) {
    let (sender, mut place) = watch::channel(Place::Unknown);
    let _observer =
        shared.env().spawn("watch of installations", observe(shared.clone(), known.clone(), sender));
    loop {
        let is_free = |place: &Place| matches!(place, Place::Free(_));
        let free = match select(place.wait_for(is_free).boxed(), stop.cancelled().boxed()).await {
            Either::Left((Ok(free), _)) => free.clone(),
            _ => return,
        };
        let makes_copies = shared.settings().copies.is_some();
        tracing::info!(makes_copies, "protecting instance types and preferences");
        let turn = stop.child_token();
        let leading = protect_and_copy(shared.clone(), known.clone(), turn.clone()).boxed();
        let changes = place.wait_for(|now| *now != free).map(drop).boxed();
        match select(leading, changes).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), leading)) => {
                turn.cancel();
                leading.await;
            }
        }
    }
}

/// Keeps the place up to date.
async fn observe(shared: Shared, mut known: Known, place: watch::Sender<Place>) {
    let installations = name::<Installation>();
    let relevant = |known: &Option<Definitions>| {
        known.as_ref().map(|known| {
            let uids: Option<Vec<String>> = required().iter().map(|name| known.uid(name).cloned()).collect();
            (uids, known.uid(&installations).cloned())
        })
    };
    let makes_copies = shared.settings().copies.is_some();
    loop {
        let served = relevant(&known.borrow_and_update());
        let changed = known.wait_for(|known| relevant(known) != served);
        match &served {
            Some((Some(uids), installations)) if installations.is_none() || !makes_copies => {
                show(&place, Place::Free(uids.clone()));
                if changed.await.is_err() {
                    return;
                }
            }
            Some((Some(uids), _)) => {
                let sink = MapSink::new(Some, |found: &crate::watch::Objects<Installation>| {
                    if found.is_empty() {
                        return show(&place, Place::Free(uids.clone()));
                    }
                    tracing::error!(
                        "the cluster has an installation of the platform's own controller, which makes copies of instance \
                         types: this controller makes none; start it with --instancetype-mode=Coexist"
                    );
                    show(&place, Place::Occupied);
                });
                let watch = follow(
                    Api::<Installation>::all(shared.client().clone()),
                    shared.env().clone(),
                    Scope::default(),
                    sink,
                );
                select(std::pin::pin!(changed), std::pin::pin!(watch)).await;
                show(&place, Place::Unknown);
            }
            _ => {
                show(&place, Place::Unknown);
                if changed.await.is_err() {
                    return;
                }
            }
        }
    }
}

fn show(place: &watch::Sender<Place>, now: Place) {
    place.send_if_modified(|place| {
        let is_new = *place != now;
        *place = now;
        is_new
    });
}

async fn protect_and_copy(shared: Shared, known: Known, stop: CancellationToken) {
    let limits = shared.settings();
    let env = shared.env().clone();
    let queue = Queue::new(env.clone(), limits.debounce, shared.metrics().queue.clone());
    let (client, writer, events) = (shared.client(), shared.writer(), shared.events());
    let parts = (env.clone(), client.clone(), writer.clone(), events.clone(), shared.metrics().clone());
    let type_queue = Queue::new(env.clone(), limits.debounce, shared.metrics().queue.clone());
    let queues = (queue, type_queue);
    let scope = (shared.namespace(), limits.copies);
    let lists = TYPE_WATCHES + limits.copies.map_or(0, |_| COPY_WATCHES);
    let context = Context::new(parts, limits.request_deadline, scope, queues, lists);
    let context = Arc::new(context);
    shared.metrics().types.follow({
        let context = Arc::downgrade(&context);
        move || {
            let context = context.upgrade()?;
            let blocked = context.blocked_types.lock();
            let named = |(kind, (namespace, name)): &TypeKey| (*kind, namespace.clone(), name.clone());
            Some(blocked.keys().map(named).collect())
        }
    });
    let tasks = begin(&context, &known);
    let _listing = shared.leader_health().listing({
        let context = Arc::downgrade(&context);
        move || context.upgrade().is_none_or(|context| context.is_synced())
    });
    let mut workers: Vec<Task> = (0..limits.copies.map_or(0, |_| limits.workers))
        .map(|_| env.spawn("worker of copies", work(context.clone(), stop.clone())))
        .collect();
    workers.push(env.spawn("worker of finalizers", protect(context.clone(), stop.clone())));
    oversee(workers, tasks, &stop).await;
}

/// Starts the watches.
fn begin(context: &Arc<Context>, known: &Known) -> Vec<Task> {
    let namespace = context.namespace.as_deref();
    let mut tasks = vec![
        types(context, namespace, context.types.instancetypes.clone(), Kind::Instancetype),
        types(context, None, context.types.cluster_instancetypes.clone(), Kind::ClusterInstancetype),
        types(context, namespace, context.types.preferences.clone(), Kind::Preference),
        types(context, None, context.types.cluster_preferences.clone(), Kind::ClusterPreference),
        changes::<Pool>(context, known),
    ];
    if context.policy.is_none() {
        tasks.push(changes::<Machine>(context, known));
        return tasks;
    }
    let machines = context.machines.clone();
    let revisions = context.revisions.clone();
    let labeled = Scope { label: Some(LABEL), ..Scope::default() };
    let wake = |context: &Context, key: &Key, _: &Machine| {
        context.wake(key);
        context.wake_blocked_types();
    };
    let wake_owners = |context: &Context, key: &Key, copy: &Revision| {
        for owner in kube::Resource::meta(copy).owner_references.iter().flatten() {
            context.wake(&(key.0.clone(), owner.name.clone()));
        }
        context.wake_blocked_types();
    };
    tasks.push(watched(context, namespace, machines, Scope::default(), wake));
    tasks.push(watched(context, namespace, revisions, labeled, wake_owners));
    tasks
}

/// Wakes the objects that are still needed at each change of a kind whose objects may need them. No object is stored, and only
/// the metadata is requested. Without the kind in the cluster, there is nothing to watch.
fn changes<K: ApiObject>(context: &Arc<Context>, known: &Known) -> Task {
    let (context, mut known) = (context.clone(), known.clone());
    let env = context.env.clone();
    let definition = name::<K>();
    let uid = move |known: &Option<Definitions>| {
        known.as_ref().and_then(|definitions| definitions.uid(&definition).cloned())
    };
    env.spawn("watch of changes for protection", async move {
        loop {
            let served = uid(&known.borrow_and_update());
            let changed = known.wait_for(|known| uid(known) != served);
            if served.is_none() {
                if changed.await.is_err() {
                    return;
                }
                continue;
            }
            let scope = Scope { metadata_only: true, ..Scope::default() };
            let api = api::<PartialObjectMeta<K>>(&context.client, context.namespace.as_deref());
            let watch = follow(api, context.env.clone(), scope, ChangeSink(context.clone()));
            select(std::pin::pin!(changed), std::pin::pin!(watch)).await;
        }
    })
}

/// Wakes the objects that are still needed, and stores nothing.
struct ChangeSink(Arc<Context>);

impl<K> Sink<K> for ChangeSink {
    fn list_begins(&mut self) {}
    fn listed(&mut self, _: K) {}
    fn list_ends(&mut self) {
        self.0.wake_blocked_types();
    }
    fn changed(&mut self, _: Change<K>) {
        self.0.wake_blocked_types();
    }
}

/// Watches the objects of one of the four kinds.
fn types<K: Document + crate::watch::Watched>(
    context: &Arc<Context>,
    namespace: Option<&str>,
    table: Arc<Table<K>>,
    kind: Kind,
) -> Task {
    watched(context, namespace, table, Scope::default(), move |context, key, _| {
        context.wake_blocked();
        context.type_queue.wake(&(kind, key.clone()));
    })
}

fn watched<K: Document + crate::watch::Watched>(
    context: &Arc<Context>,
    namespace: Option<&str>,
    table: Arc<Table<K>>,
    scope: Scope,
    changed: impl Fn(&Context, &Key, &K) + Send + 'static,
) -> Task {
    let (changing, synced) = (context.clone(), context.clone());
    let sink = TableSink::new(
        table,
        move |key: &Key, object: &K| changed(&changing, key, object),
        move || synced.list_ended(),
    );
    let watch = follow(api::<K>(&context.client, namespace), context.env.clone(), scope, sink);
    context.env.spawn("watch for copies", watch)
}

async fn work(context: Arc<Context>, stop: CancellationToken) {
    passes::work(&*context, &context.queue, &stop, |context, key| reconcile(context, key).boxed()).await;
}

async fn protect(context: Arc<Context>, stop: CancellationToken) {
    passes::work(&*context, &context.type_queue, &stop, |context, key| {
        // Without all copies, every machine would seem to need its objects.
        if context.is_synced() {
            protection::reconcile(context, key).boxed()
        } else {
            ready(Requeue::After(UNSYNCED)).boxed()
        }
    })
    .await;
}
