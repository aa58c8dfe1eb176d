//! The watches of the objects that templates refer to. They last while the cluster has the definitions of these objects.

use kube::Api;
use vmpool_platforms::{Pins, Platform, Source, SourceVisitor};
use vmpool_runtime::env::Task;

use crate::definitions::{self, Known};
use crate::lead::Shared;
use crate::watch::{MapSink, Scope};
use crate::watches;

/// Watches all kinds, until the tasks are dropped.
pub(crate) fn observe<P: Platform>(shared: &Shared, known: &Known) -> Vec<Task> {
    struct Watches<'a>(&'a Shared, &'a Known, Vec<Task>);
    impl SourceVisitor for Watches<'_> {
        fn visit<K: Source>(&mut self) {
            let Self(shared, known, tasks) = self;
            let watch = follow::<K>(shared.clone(), known.clone());
            tasks.push(shared.env().spawn("watch of objects that templates refer to", watch));
        }
    }
    let mut watches = Watches(shared, known, Vec::new());
    P::Pins::each_source(&mut watches);
    watches.2
}

async fn follow<K: Source>(shared: Shared, known: Known) {
    let kind = K::kind(&()).into_owned();
    let watch = || {
        let sources = shared.sources().clone();
        let kind = kind.clone();
        let sink = MapSink::new(
            |object: K| Some(object.content()),
            move |objects| sources.show(&kind, Some(objects)),
        );
        let namespace = shared.namespace().filter(|_| K::IS_NAMESPACED);
        let api: Api<K> = watches::api(shared.client(), namespace);
        crate::watch::watch(api, shared.env().clone(), Scope::default(), sink)
    };
    definitions::while_served(known, &definitions::name::<K>(), watch, || shared.sources().show(&kind, None))
        .await;
}
