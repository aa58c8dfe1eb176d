//! The leadership: the watches and the workers, while the cluster serves the kinds. Copies are made while the
//! cluster has all kinds and no installation of the platform's own controller. Otherwise, the controller only
//! protects the instance types and preferences whose kinds the cluster has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::select;
use kube::Api;
use kube::core::PartialObjectMeta;
use tokio_util::sync::CancellationToken;
use vmpool_api::ObjectKey;
use vmpool_kit::controller::{Controller, WorkerGroup, run_controller};
use vmpool_kit::definitions::{Definitions, DefinitionsObserver, definition_name, while_served};
use vmpool_kit::first_lists::FirstLists;
use vmpool_kit::leadership::{ConditionalLeadership, lead_on_duty};
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::object::object_key;
use vmpool_kit::observed_value::ValuePublisher;
use vmpool_kit::passes::PassEnd;
use vmpool_kit::sink::{MapSink, Objects, Sink, WatchChange, Watched};
use vmpool_kit::watch::{WatchScope, list_and_watch as follow};
use vmpool_platforms::instancetype::copies::{
    ClusterInstancetype, ClusterPreference, Document, Instancetype, LABEL, Machine, Pool, Preference,
    Revision,
};
use vmpool_platforms::instancetype::type_protection::InstanceTypeKind;
use vmpool_platforms::{ApiObject, KubeVirt, OtherController, Platform};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;

use super::context::{
    CopyContext, CopyScope, KubeVirtInstallation, describe_machine as machine_name,
    describe_pool as pool_name,
};
use super::pass::reconcile_machine_copies;
use super::protection;
use super::store::{ObjectTable, TableSink};
use super::types::TypeKey;
use crate::leadership::LeadershipResources;

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

/// What the controller does, until this changes; `None` if there is nothing to protect, or if the definitions
/// or the installations are not listed yet.
type ObservedDuties = Option<Duties>;

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
    known: DefinitionsObserver,
    stop: CancellationToken,
) {
    let publisher = ValuePublisher::new(None);
    let duties = publisher.observe();
    let others_pools = Arc::new(AtomicBool::new(false));
    let observer = observe_installations(shared.clone(), known.clone(), publisher, others_pools.clone());
    let _observer = shared.env().spawn("watch of installations", observer);
    lead_on_duty(WhileTypesServed { shared, known, others_pools }, duties, stop).await;
}

/// The leadership while the cluster has definitions of instance types or preferences.
struct WhileTypesServed {
    shared: LeadershipResources,
    known: DefinitionsObserver,
    /// Whether another controller is set to reconcile pools.
    others_pools: Arc<AtomicBool>,
}

impl ConditionalLeadership for WhileTypesServed {
    type Observed = ObservedDuties;
    type Duty = Duties;

    fn find_duty(duties: &ObservedDuties) -> Option<Duties> {
        duties.clone()
    }

    async fn lead(&mut self, Duties { makes_copies, .. }: Duties, stop: CancellationToken) {
        tracing::info!(makes_copies, "protecting instance types and preferences");
        let (known, others_pools) = (self.known.clone(), self.others_pools.clone());
        protect_and_copy(&self.shared, known, makes_copies, others_pools, stop).await;
    }
}

/// Keeps the place up to date, and whether another controller is set to reconcile pools.
async fn observe_installations(
    shared: LeadershipResources,
    known: DefinitionsObserver,
    place: ValuePublisher<ObservedDuties>,
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
        let served = known.read(relevant);
        let changed = known.wait_for(|known| relevant(known) != served);
        let Some((Some(definitions), installed)) = &served else {
            place.publish(None);
            changed.await;
            continue;
        };
        let show_turn = |is_alone: bool| {
            let makes_copies = copies && is_alone && definitions.iter().all(Option::is_some);
            place.publish(Some(Duties { definitions: definitions.clone(), makes_copies }))
        };
        if installed.is_none() {
            others_pools.store(false, Ordering::Relaxed);
            show_turn(true);
            changed.await;
            continue;
        }
        if copies {
            // Protection alone would begin, and begin again with copies.
            place.publish(None);
        } else {
            show_turn(false);
        }
        let sink = MapSink::new(Some, |found: &Objects<KubeVirtInstallation>| {
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

async fn protect_and_copy(
    shared: &LeadershipResources,
    known: DefinitionsObserver,
    makes_copies: bool,
    others_pools: Arc<AtomicBool>,
    stop: CancellationToken,
) {
    let limits = shared.settings();
    let policy = limits.copies.filter(|_| makes_copies);
    let served = known.get().unwrap_or_default();
    let types = protected_definitions().iter().filter(|name| served.uid(name).is_some()).count();
    let lists = types + policy.map_or(0, |_| COPY_WATCHES);
    let scope = CopyScope { policy, known, served, others_pools, lists: FirstLists::new(lists) };
    let context = CopyContext::new(shared.handles(), shared.metrics().clone(), limits, scope);
    let context = Arc::new(context);
    shared.metrics().types.follow({
        let context = Arc::downgrade(&context);
        move || {
            let context = context.upgrade()?;
            let named = |TypeKey { kind, object }| (kind, object.namespace, object.name);
            Some(context.blocked_types.keys().into_iter().map(named).collect())
        }
    });
    run_controller(context, shared.leader_health().workers(), Vec::new(), stop).await;
}

impl Controller for CopyContext {
    fn env(&self) -> &Env {
        &self.leader.env
    }

    fn is_synced(&self) -> bool {
        self.has_all_lists()
    }

    fn start_watches(self: &Arc<Self>) -> Vec<Task> {
        start_copy_watches(self)
    }

    fn worker_groups(&self) -> Vec<WorkerGroup<Self>> {
        // Without all copies, every machine would seem to need its objects.
        let finalizers = WorkerGroup::new(
            "worker of finalizers",
            1,
            |context: &Self| &context.type_queue,
            |context, key| protection::reconcile_type_finalizer(context, key).map(PassEnd::from).boxed(),
        );
        let copies = WorkerGroup::new(
            "worker of copies",
            self.scope.policy.map_or(0, |_| self.workers),
            |context: &Self| &context.queue,
            |context, key| reconcile_machine_copies(context, key).map(PassEnd::from).boxed(),
        );
        vec![copies, finalizers]
    }
}

/// Starts the watches of the kinds that the cluster has.
fn start_copy_watches(context: &Arc<CopyContext>) -> Vec<Task> {
    let CopyScope { known, served, .. } = &context.scope;
    let namespace = context.leader.namespace.as_deref();
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
    if context.scope.policy.is_none() {
        tasks.push(watch_type_users::<Machine>(context, known, machine_name));
        return tasks;
    }
    let machines = context.machines.clone();
    let revisions = context.revisions.clone();
    let labeled = WatchScope { label: Some(LABEL), ..WatchScope::default() };
    let wake = |context: &CopyContext, key: &ObjectKey, _: &Machine| {
        context.wake(key);
        context.wake_types_needed_by(&[machine_name(key)]);
    };
    let wake_owners = |context: &CopyContext, key: &ObjectKey, copy: &Revision| {
        context.wake_waiting_for(key);
        for owner in kube::Resource::meta(copy).owner_references.iter().flatten() {
            let owner = ObjectKey::new(&*key.namespace, &*owner.name);
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
    known: &DefinitionsObserver,
    shown: fn(&ObjectKey) -> String,
) -> Task {
    let (context, known) = (context.clone(), known.clone());
    let env = context.leader.env.clone();
    env.spawn("watch of changes for protection", async move {
        let watch = || watch_while_types_blocked::<K>(&context, shown);
        while_served(known, &definition_name::<K>(), watch, || {}).await;
    })
}

/// Watches the objects of a kind while there are objects that are still needed.
async fn watch_while_types_blocked<K: ApiObject>(
    context: &Arc<CopyContext>,
    shown: fn(&ObjectKey) -> String,
) {
    loop {
        context.blocked_types.until(true).await;
        let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
        let api = api_for_namespace::<PartialObjectMeta<K>>(
            &context.leader.client,
            context.leader.namespace.as_deref(),
        );
        let watch = follow(api, context.leader.env.clone(), scope, ChangeSink(context.clone(), shown));
        let all_released = context.blocked_types.until(false);
        select(std::pin::pin!(all_released), std::pin::pin!(watch)).await;
    }
}

/// Wakes the objects that are still needed, and stores nothing.
struct ChangeSink(Arc<CopyContext>, fn(&ObjectKey) -> String);

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
fn watch_served_type<K: Document + Watched>(
    context: &Arc<CopyContext>,
    namespace: Option<&str>,
    table: Arc<ObjectTable<K>>,
    kind: InstanceTypeKind,
    served: &Definitions,
) -> Option<Task> {
    served.uid(&definition_name::<K>())?;
    Some(watch_into_table(context, namespace, table, WatchScope::default(), move |context, key, _| {
        let key = TypeKey { kind, object: key.clone() };
        context.wake_blocked_by(&key);
        context.type_queue.wake(&key);
    }))
}

fn watch_into_table<K: Document + Watched>(
    context: &Arc<CopyContext>,
    namespace: Option<&str>,
    table: Arc<ObjectTable<K>>,
    scope: WatchScope,
    changed: impl Fn(&CopyContext, &ObjectKey, &K) + Send + 'static,
) -> Task {
    let (changing, synced) = (context.clone(), context.clone());
    let sink = TableSink::new(
        table,
        move |key: &ObjectKey, object: &K| changed(&changing, key, object),
        move || synced.list_ended(),
    );
    let watch = follow(
        api_for_namespace::<K>(&context.leader.client, namespace),
        context.leader.env.clone(),
        scope,
        sink,
    );
    context.leader.env.spawn("watch for copies", watch)
}
