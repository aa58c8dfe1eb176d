//! The watches of the objects that disk templates name as sources. They last while the cluster has the
//! definitions of these objects. Without the feature gate ImageRefresh, there are none.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use kube::Api;
use vmpool_api::ObjectKey;
use vmpool_kit::definitions;
use vmpool_kit::definitions::DefinitionsObserver;
use vmpool_kit::object::{api_for_namespace, object_key};
use vmpool_kit::sink::{Sink, WatchChange};
use vmpool_kit::watch::{WatchScope, list_and_watch};
use vmpool_platforms::{
    DiskSourceKind, DiskSourceRef, DiskSourceState, DiskSourceVisitor, DiskSources, Platform,
};
use vmpool_runtime::env::Task;

use crate::leadership::LeadershipResources;
use crate::pools::disk_sources::DiskSourceStore;

/// Watches all kinds, until the tasks are dropped.
pub(crate) fn watch_disk_sources<P: Platform>(
    shared: &LeadershipResources,
    known: &DefinitionsObserver,
) -> Vec<Task> {
    struct Watches<'a>(&'a LeadershipResources, &'a DefinitionsObserver, Vec<Task>);
    impl DiskSourceVisitor for Watches<'_> {
        fn visit<K: DiskSourceKind>(&mut self) {
            let Self(shared, known, tasks) = self;
            let watch = watch_kind::<K>(shared.clone(), known.clone());
            tasks.push(shared.env().spawn("watch of sources of disks", watch));
        }
    }
    if shared.disk_sources().settings().is_none() {
        return Vec::new();
    }
    let mut watches = Watches(shared, known, Vec::new());
    P::DiskSources::each_kind(&mut watches);
    watches.2
}

async fn watch_kind<K: DiskSourceKind>(shared: LeadershipResources, known: DefinitionsObserver) {
    let namespaces = list_watched_namespaces::<K>(&shared);
    if K::IS_BUILT_IN {
        watch_namespaces::<K>(&shared, &namespaces).await;
        return;
    }
    let forget = || shared.disk_sources().replace(K::KIND, None, BTreeMap::new());
    let watch = || watch_namespaces::<K>(&shared, &namespaces);
    definitions::while_served(known, &definitions::definition_name::<K>(), watch, forget).await;
}

/// The namespaces of a kind that are watched, one after the other; `None` stands for all objects of the kind.
fn list_watched_namespaces<K: DiskSourceKind>(shared: &LeadershipResources) -> Vec<Option<String>> {
    let Some(own) = shared.namespace().filter(|_| K::IS_NAMESPACED) else { return vec![None] };
    let others = shared.disk_sources().settings().map(|settings| settings.namespaces.clone());
    let others = others.unwrap_or_default().into_iter().filter(|namespace| namespace != own);
    std::iter::once(own.to_owned()).chain(others).map(Some).collect()
}

async fn watch_namespaces<K: DiskSourceKind>(shared: &LeadershipResources, namespaces: &[Option<String>]) {
    let watches = namespaces.iter().map(|namespace| {
        let api: Api<K> = api_for_namespace(shared.client(), namespace.as_deref());
        let sink = DiskSourceSink::new(shared.disk_sources().clone(), namespace.clone());
        list_and_watch(api, shared.env().clone(), WatchScope::default(), sink)
    });
    join_all(watches).await;
}

/// Passes the objects of a watch on to the store.
struct DiskSourceSink {
    store: Arc<DiskSourceStore>,
    namespace: Option<String>,
    listing: BTreeMap<ObjectKey, DiskSourceState>,
}

impl DiskSourceSink {
    fn new(store: Arc<DiskSourceStore>, namespace: Option<String>) -> Self {
        Self { store, namespace, listing: BTreeMap::new() }
    }
}

impl<K: DiskSourceKind> Sink<K> for DiskSourceSink {
    fn list_begins(&mut self) {
        self.listing.clear();
    }
    fn listed(&mut self, object: K) {
        self.listing.insert(object_key(&object), object.state());
    }
    fn list_ends(&mut self) {
        let listed = std::mem::take(&mut self.listing);
        self.store.replace(K::KIND, self.namespace.as_deref(), listed);
    }
    fn changed(&mut self, change: WatchChange<K>) {
        let reference = |object: &K| DiskSourceRef { kind: K::KIND, key: object_key(object) };
        match change {
            WatchChange::Applied(object) => self.store.set(&reference(&object), Some(object.state())),
            WatchChange::Deleted(object) => self.store.set(&reference(&object), None),
        }
    }
}
