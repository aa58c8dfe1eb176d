//! The leadership: the watches and the workers, while the cluster serves the kinds. Copies are made while the
//! cluster has all kinds and no installation of the platform's own controller. Otherwise, the controller only
//! protects the instance types and preferences whose kinds the cluster has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use vmpool_platforms::kubevirt::protection::InstanceTypeKind;
use vmpool_platforms::{ApiObject, KubeVirt, OtherController, Platform};
use vmpool_runtime::env::Task;

use super::context::{
    CopyContext, CopyScope, KubeVirtInstallation, describe_machine as machine_name,
    describe_pool as pool_name,
};
use super::pass::reconcile_machine_copies;
use super::protection;
use super::store::{ObjectTable, QualifiedName, TableSink, object_key};
use super::types::TypeKey;
use crate::definitions::{Definitions, DefinitionsReceiver, definition_name};
use crate::lead::{LeadershipResources, oversee_workers};
use crate::passes;
use crate::pools::watches::api_for_namespace;
use crate::queue::Requeue;
use crate::watch::{MapSink, Sink, WatchChange, WatchScope, list_and_watch as follow};

/// The wait of the passes of finalizers for the first lists.
const UNSYNCED: Duration = Duration::from_millis(200);
/// The number of watches whose first lists passes wait for, besides those of the four kinds, if the
/// controller makes copies: machines and copies.
const COPY_WATCHES: usize = 2;

/// The definitions of the objects that are protected.
fn protected_definitions() -> [String; 4] {
    [
        definition_name::<Instancetype>(),
        definition_name::<ClusterInstancetype>(),
        definition_name::<Preference>(),
        definition_name::<ClusterPreference>(),
    ]
}

/// The definitions that the controller of copies needs to know.
pub(crate) fn definitions_for_copies() -> Vec<String> {
    protected_definitions()
        .into_iter()
        .chain([
            definition_name::<Machine>(),
            definition_name::<KubeVirtInstallation>(),
            definition_name::<Pool>(),
        ])
        .collect()
}

/// What decides what the controller does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ObservedDuties {
    /// There is nothing to protect, or the definitions or the installations are not listed yet.
    Unknown,
    Known(Duties),
}

/// What the controller does, until this changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Duties {
    /// The UIDs of the definitions of machines and of the four kinds, as far as the cluster has them. While
    /// definitions are being removed, their objects wait for the finalizer, so each kind is protected on its
    /// own.
    definitions: Vec<Option<String>>,
    /// Whether it makes copies.
    makes_copies: bool,
}

/// Protects instance types and preferences, and makes copies if the settings say so, until `stop`, while the
/// cluster has definitions of them. It makes copies only while the cluster has all definitions, and no
/// installation of the platform's own controller.
pub(crate) async fn lead_copies(
    shared: LeadershipResources,
    known: DefinitionsReceiver,
    stop: CancellationToken,
) {
    let (sender, mut place) = watch::channel(ObservedDuties::Unknown);
    let others_pools = Arc::new(AtomicBool::new(false));
    let observer = observe_installations(shared.clone(), known.clone(), sender, others_pools.clone());
    let _observer = shared.env().spawn("watch of installations", observer);
    loop {
        let is_known = |place: &ObservedDuties| matches!(place, ObservedDuties::Known(_));
        let turn = match select(place.wait_for(is_known).boxed(), stop.cancelled().boxed()).await {
            Either::Left((Ok(place), _)) => place.clone(),
            _ => return,
        };
        let ObservedDuties::Known(Duties { makes_copies, .. }) = turn else { continue };
        tracing::info!(makes_copies, "protecting instance types and preferences");
        let end = stop.child_token();
        let leading =
            protect_and_copy(shared.clone(), known.clone(), makes_copies, others_pools.clone(), end.clone())
                .boxed();
        let changes = place.wait_for(|now| *now != turn).map(drop).boxed();
        match select(leading, changes).await {
            Either::Left(_) => return stop.cancel(),
            Either::Right(((), leading)) => {
                end.cancel();
                leading.await;
            }
        }
    }
}

/// Keeps the place up to date, and whether another controller is set to reconcile pools.
async fn observe_installations(
    shared: LeadershipResources,
    mut known: DefinitionsReceiver,
    place: watch::Sender<ObservedDuties>,
    others_pools: Arc<AtomicBool>,
) {
    let installations = definition_name::<KubeVirtInstallation>();
    let relevant = |known: &Option<Definitions>| {
        known.as_ref().map(|known| {
            let uid = |name: &String| known.uid(name).cloned();
            let protected: Vec<_> = protected_definitions().iter().map(uid).collect();
            let has_any = protected.iter().any(Option::is_some);
            let definitions: Vec<_> =
                protected.into_iter().chain([uid(&definition_name::<Machine>())]).collect();
            (has_any.then_some(definitions), uid(&installations))
        })
    };
    let copies = shared.settings().copies.is_some();
    loop {
        let served = relevant(&known.borrow_and_update());
        let changed = known.wait_for(|known| relevant(known) != served);
        let Some((Some(definitions), installed)) = &served else {
            publish_duties(&place, ObservedDuties::Unknown);
            if changed.await.is_err() {
                return;
            }
            continue;
        };
        let show_turn = |is_alone: bool| {
            let makes_copies = copies && is_alone && definitions.iter().all(Option::is_some);
            publish_duties(
                &place,
                ObservedDuties::Known(Duties { definitions: definitions.clone(), makes_copies }),
            )
        };
        if installed.is_none() {
            others_pools.store(false, Ordering::Relaxed);
            show_turn(true);
            if changed.await.is_err() {
                return;
            }
            continue;
        }
        if copies {
            // Protection alone would begin, and begin again with copies.
            publish_duties(&place, ObservedDuties::Unknown);
        } else {
            show_turn(false);
        }
        let sink = MapSink::new(Some, |found: &crate::watch::Objects<KubeVirtInstallation>| {
            let found: Vec<KubeVirtInstallation> = found.values().cloned().collect();
            others_pools
                .store(<KubeVirt as Platform>::OtherController::is_set_to_run(&found), Ordering::Relaxed);
            if show_turn(found.is_empty()) && copies && !found.is_empty() {
                tracing::error!(
                    "the cluster has an installation of the platform's own controller, which makes copies of instance \
                     types: this controller makes none, and protects the instance types; start it with \
                     --instancetype-mode=Coexist"
                );
            }
        });
        let watch = follow(
            Api::<KubeVirtInstallation>::all(shared.client().clone()),
            shared.env().clone(),
            WatchScope::default(),
            sink,
        );
        select(std::pin::pin!(changed), std::pin::pin!(watch)).await;
    }
}

/// Returns whether this is new.
fn publish_duties(place: &watch::Sender<ObservedDuties>, now: ObservedDuties) -> bool {
    place.send_if_modified(|place| {
        let is_new = *place != now;
        *place = now;
        is_new
    })
}

async fn protect_and_copy(
    shared: LeadershipResources,
    known: DefinitionsReceiver,
    makes_copies: bool,
    others_pools: Arc<AtomicBool>,
    stop: CancellationToken,
) {
    let limits = shared.settings();
    let env = shared.env().clone();
    let policy = limits.copies.filter(|_| makes_copies);
    let served = known.borrow().clone().unwrap_or_default();
    let types = protected_definitions().iter().filter(|name| served.uid(name).is_some()).count();
    let scope = CopyScope {
        namespace: shared.namespace().map(str::to_owned),
        policy,
        lists: types + policy.map_or(0, |_| COPY_WATCHES),
    };
    let (handles, metrics) = (shared.handles(), shared.metrics().clone());
    let context = CopyContext::new(handles, metrics, limits, scope, known.clone(), others_pools);
    let context = Arc::new(context);
    shared.metrics().types.follow({
        let context = Arc::downgrade(&context);
        move || {
            let context = context.upgrade()?;
            let named = |(kind, (namespace, name)): TypeKey| (kind, namespace, name);
            Some(context.blocked_types.keys().into_iter().map(named).collect())
        }
    });
    let tasks = start_copy_watches(&context, &known, &served);
    let _listing = shared.leader_health().listing({
        let context = Arc::downgrade(&context);
        move || context.upgrade().is_none_or(|context| context.is_synced())
    });
    let mut workers: Vec<Task> = (0..policy.map_or(0, |_| limits.workers))
        .map(|_| env.spawn("worker of copies", run_copy_worker(context.clone(), stop.clone())))
        .collect();
    workers.push(env.spawn("worker of finalizers", run_finalizer_worker(context.clone(), stop.clone())));
    oversee_workers(workers, tasks, &stop).await;
}

/// Starts the watches of the kinds that the cluster has.
fn start_copy_watches(
    context: &Arc<CopyContext>,
    known: &DefinitionsReceiver,
    served: &Definitions,
) -> Vec<Task> {
    let namespace = context.namespace.as_deref();
    let watches = [
        watch_served_type(
            context,
            namespace,
            context.types.instancetypes.clone(),
            InstanceTypeKind::Instancetype,
            served,
        ),
        watch_served_type(
            context,
            None,
            context.types.cluster_instancetypes.clone(),
            InstanceTypeKind::ClusterInstancetype,
            served,
        ),
        watch_served_type(
            context,
            namespace,
            context.types.preferences.clone(),
            InstanceTypeKind::Preference,
            served,
        ),
        watch_served_type(
            context,
            None,
            context.types.cluster_preferences.clone(),
            InstanceTypeKind::ClusterPreference,
            served,
        ),
    ];
    let mut tasks: Vec<Task> = watches.into_iter().flatten().collect();
    tasks.push(watch_type_users::<Pool>(context, known, pool_name));
    if context.policy.is_none() {
        tasks.push(watch_type_users::<Machine>(context, known, machine_name));
        return tasks;
    }
    let machines = context.machines.clone();
    let revisions = context.revisions.clone();
    let labeled = WatchScope { label: Some(LABEL), ..WatchScope::default() };
    let wake = |context: &CopyContext, key: &QualifiedName, _: &Machine| {
        context.wake(key);
        context.wake_types_needed_by(&[machine_name(key)]);
    };
    let wake_owners = |context: &CopyContext, key: &QualifiedName, copy: &Revision| {
        context.wake_waiting_for(key);
        for owner in kube::Resource::meta(copy).owner_references.iter().flatten() {
            let owner = (key.0.clone(), owner.name.clone());
            context.wake(&owner);
            context.wake_types_needed_by(&[machine_name(&owner), pool_name(&owner)]);
        }
    };
    tasks.push(watch_into_table(context, namespace, machines, WatchScope::default(), wake));
    tasks.push(watch_into_table(context, namespace, revisions, labeled, wake_owners));
    tasks
}

/// Wakes the objects that are still needed at each change of an object that needs them. No object is stored,
/// and only the metadata is requested. Without the kind in the cluster, there is nothing to watch. Without
/// objects that are still needed, the watch would serve nothing, but the API server would encode each change
/// of a machine a second time for it.
fn watch_type_users<K: ApiObject>(
    context: &Arc<CopyContext>,
    known: &DefinitionsReceiver,
    shown: fn(&QualifiedName) -> String,
) -> Task {
    let (context, mut known) = (context.clone(), known.clone());
    let env = context.env.clone();
    let definition = definition_name::<K>();
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
            let watches = async {
                loop {
                    context.blocked_types.until(true).await;
                    let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
                    let api = api_for_namespace::<PartialObjectMeta<K>>(
                        &context.client,
                        context.namespace.as_deref(),
                    );
                    let watch = follow(api, context.env.clone(), scope, ChangeSink(context.clone(), shown));
                    let all_released = context.blocked_types.until(false);
                    select(std::pin::pin!(all_released), std::pin::pin!(watch)).await;
                }
            };
            select(std::pin::pin!(changed), std::pin::pin!(watches)).await;
        }
    })
}

/// Wakes the objects that are still needed, and stores nothing.
struct ChangeSink(Arc<CopyContext>, fn(&QualifiedName) -> String);

impl<K: kube::Resource> Sink<K> for ChangeSink {
    fn list_begins(&mut self) {}
    fn listed(&mut self, _: K) {}
    fn list_ends(&mut self) {
        self.0.wake_blocked_types();
    }
    fn changed(&mut self, change: WatchChange<K>) {
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        self.0.wake_types_needed_by(&[(self.1)(&object_key(object))]);
    }
}

/// Watches the objects of one of the four kinds, if the cluster has it.
fn watch_served_type<K: Document + crate::watch::Watched>(
    context: &Arc<CopyContext>,
    namespace: Option<&str>,
    table: Arc<ObjectTable<K>>,
    kind: InstanceTypeKind,
    served: &Definitions,
) -> Option<Task> {
    served.uid(&definition_name::<K>())?;
    Some(watch_into_table(context, namespace, table, WatchScope::default(), move |context, key, _| {
        let key = (kind, key.clone());
        context.wake_blocked_by(&key);
        context.type_queue.wake(&key);
    }))
}

fn watch_into_table<K: Document + crate::watch::Watched>(
    context: &Arc<CopyContext>,
    namespace: Option<&str>,
    table: Arc<ObjectTable<K>>,
    scope: WatchScope,
    changed: impl Fn(&CopyContext, &QualifiedName, &K) + Send + 'static,
) -> Task {
    let (changing, synced) = (context.clone(), context.clone());
    let sink = TableSink::new(
        table,
        move |key: &QualifiedName, object: &K| changed(&changing, key, object),
        move || synced.list_ended(),
    );
    let watch = follow(api_for_namespace::<K>(&context.client, namespace), context.env.clone(), scope, sink);
    context.env.spawn("watch for copies", watch)
}

async fn run_copy_worker(context: Arc<CopyContext>, stop: CancellationToken) {
    passes::reconcile_queue(&*context, &context.queue, &stop, |context, key| {
        reconcile_machine_copies(context, key).boxed()
    })
    .await;
}

async fn run_finalizer_worker(context: Arc<CopyContext>, stop: CancellationToken) {
    passes::reconcile_queue(&*context, &context.type_queue, &stop, |context, key| {
        // Without all copies, every machine would seem to need its objects.
        if context.is_synced() {
            protection::reconcile_type_finalizer(context, key).boxed()
        } else {
            ready(Requeue::After(UNSYNCED)).boxed()
        }
    })
    .await;
}
