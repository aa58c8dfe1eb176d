//! The watches of the objects that templates refer to. They last while the cluster has the definitions of
//! these objects.

use kube::Api;
use vmpool_kit::definitions;
use vmpool_kit::definitions::DefinitionsObserver;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::sink::MapSink;
use vmpool_kit::watch::WatchScope;
use vmpool_platforms::{CopySource, CopySourceVisitor, Platform, TemplateCopies};
use vmpool_runtime::env::Task;

use crate::leadership::LeadershipResources;

/// Watches all kinds, until the tasks are dropped.
pub(crate) fn watch_sources<P: Platform>(
    shared: &LeadershipResources,
    known: &DefinitionsObserver,
) -> Vec<Task> {
    struct Watches<'a>(&'a LeadershipResources, &'a DefinitionsObserver, Vec<Task>);
    impl CopySourceVisitor for Watches<'_> {
        fn visit<K: CopySource>(&mut self) {
            let Self(shared, known, tasks) = self;
            let watch = watch_source_kind::<K>(shared.clone(), known.clone());
            tasks.push(shared.env().spawn("watch of objects that templates refer to", watch));
        }
    }
    let mut watches = Watches(shared, known, Vec::new());
    P::TemplateCopies::each_source(&mut watches);
    watches.2
}

async fn watch_source_kind<K: CopySource>(shared: LeadershipResources, known: DefinitionsObserver) {
    let kind = K::kind(&()).into_owned();
    let watch = || {
        let sources = shared.sources().clone();
        let kind = kind.clone();
        let sink = MapSink::new(
            |object: K| Some(object.content()),
            move |objects| sources.show(&kind, Some(objects)),
        );
        let namespace = shared.namespace().filter(|_| K::IS_NAMESPACED);
        let api: Api<K> = api_for_namespace(shared.client(), namespace);
        vmpool_kit::watch::list_and_watch(api, shared.env().clone(), WatchScope::default(), sink)
    };
    definitions::while_served(known, &definitions::definition_name::<K>(), watch, || {
        shared.sources().show(&kind, None);
    })
    .await;
}
