//! The watches of the storage that machines left behind. They last while the cluster has its definitions.

use kube::Api;
use vmpool_platforms::{ApiObject, ClaimOf, Platform, Storage, VolumeOf, intern};
use vmpool_runtime::env::Task;

use crate::definitions::{self, Known};
use crate::lead::Shared;
use crate::preserved::{OfKind, Preserving};
use crate::watch::Scope;
use crate::watches;

/// Watches the preserved storage of a platform, until the tasks are dropped.
pub(crate) fn observe<P: Platform>(shared: &Shared, known: &Known) -> Vec<Task> {
    let Some(label) = P::Storage::PRESERVED_LABEL else { return Vec::new() };
    let (shared, env) = (shared.clone(), shared.env().clone());
    let volumes = {
        let (shared, known) = (shared.clone(), known.clone());
        async move {
            let name = definitions::name::<VolumeOf<P>>();
            let watch = || follow::<P, VolumeOf<P>>(&shared, label, |all| &all.volumes);
            let forget = || shared.preserved().volumes.lock().clear();
            definitions::while_served(known, &name, watch, forget).await;
        }
    };
    let claims = async move { follow::<P, ClaimOf<P>>(&shared, label, |all| &all.claims).await };
    vec![env.spawn("watch of preserved volumes", volumes), env.spawn("watch of preserved claims", claims)]
}

async fn follow<P: Platform, K: ApiObject>(shared: &Shared, label: &'static str, objects: OfKind) {
    let api: Api<K> = watches::api(shared.client(), shared.namespace());
    let scope = Scope { label: Some(label), metadata_only: true };
    let pool = |object: &K| P::Storage::preserved_for(object.meta()).map(intern);
    let sink = Preserving::new(shared.preserved().clone(), objects, pool);
    crate::watch::watch(api, shared.env().clone(), scope, sink).await;
}
