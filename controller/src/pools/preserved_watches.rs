//! The watches of the storage that machines left behind. They last while the cluster has its definitions.

use kube::Api;
use vmpool_kit::definitions;
use vmpool_kit::definitions::DefinitionsObserver;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::WatchScope;
use vmpool_platforms::{ApiObject, ClaimOf, MachineStorage, Platform, VolumeOf, intern_text};
use vmpool_runtime::env::Task;

use crate::leadership::LeadershipResources;
use crate::pools::preserved::{PreservedKind, PreservedStorageSink};

/// Watches the preserved storage of a platform, until the tasks are dropped.
pub(crate) fn watch_preserved_storage<P: Platform>(
    shared: &LeadershipResources,
    known: &DefinitionsObserver,
) -> Vec<Task> {
    let Some(label) = P::Storage::PRESERVED_LABEL else { return Vec::new() };
    let (shared, env) = (shared.clone(), shared.env().clone());
    let volumes = {
        let (shared, known) = (shared.clone(), known.clone());
        async move {
            let name = definitions::definition_name::<VolumeOf<P>>();
            let watch = || watch_preserved_kind::<P, VolumeOf<P>>(&shared, label, |all| &all.volumes);
            let forget = || shared.preserved().volumes.lock().clear();
            definitions::while_served(known, &name, watch, forget).await;
        }
    };
    let claims =
        async move { watch_preserved_kind::<P, ClaimOf<P>>(&shared, label, |all| &all.claims).await };
    vec![env.spawn("watch of preserved volumes", volumes), env.spawn("watch of preserved claims", claims)]
}

async fn watch_preserved_kind<P: Platform, K: ApiObject>(
    shared: &LeadershipResources,
    label: &'static str,
    objects: PreservedKind,
) {
    let api: Api<K> = api_for_namespace(shared.client(), shared.namespace());
    let scope = WatchScope { label: Some(label), metadata_only: true };
    let pool = |object: &K| P::Storage::preserved_for(object.meta()).map(intern_text);
    let sink = PreservedStorageSink::new(shared.preserved().clone(), objects, pool);
    vmpool_kit::watch::list_and_watch(api, shared.env().clone(), scope, sink).await;
}
