//! The CustomResourceDefinitions in the cluster.

use std::collections::BTreeMap;

use futures::future::select;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use vmpool_runtime::Env;

use crate::observed_value::{ValueObserver, ValuePublisher};
use crate::sink::{MapSink, Objects, Watched};
use crate::watch::{WatchError, WatchScope, list_and_watch, list_served};

/// The name of the definition of `K`.
pub fn definition_name<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}

/// The UIDs of definitions by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions(BTreeMap<String, String>);

impl Definitions {
    /// The UID of a definition.
    pub fn uid(&self, name: &str) -> Option<&String> {
        self.0.get(name)
    }
}

/// The definitions of certain names, which [`observe_definitions`] keeps up to date. `None` before the first
/// list.
pub type DefinitionsObserver = ValueObserver<Option<Definitions>>;

/// Runs what `watch` returns while the cluster has the definition `name`, and `forget` when it does not any
/// more.
pub async fn while_served<F: Future<Output = ()>>(
    known: DefinitionsObserver,
    name: &str,
    mut watch: impl FnMut() -> F,
    mut forget: impl FnMut(),
) {
    let uid = |known: &Option<Definitions>| known.as_ref().and_then(|known| known.uid(name).cloned());
    loop {
        let served = known.read(uid);
        let changed = known.wait_for(|known| uid(known) != served);
        if served.is_some() {
            select(std::pin::pin!(changed), std::pin::pin!(watch())).await;
            forget();
        } else {
            changed.await;
        }
    }
}

/// A list of definitions, without the schemas of their versions, which are large.
#[derive(Deserialize)]
struct DefinitionList {
    items: Vec<Definition>,
}

#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    served: bool,
}

/// Lists all objects. A kind that the cluster does not define, or whose version it does not serve, has none.
/// One API server of several can lack a definition for a while: its response does not mean that there are no
/// objects.
///
/// # Errors
/// A request failed, or only this API server does not serve the kind.
pub async fn list_defined<K: Watched>(
    api: &Api<K>,
    scope: WatchScope,
    visit: impl FnMut(K),
) -> Result<(), WatchError> {
    if list_served(api, scope, visit).await? {
        return Ok(());
    }
    let is_defined = is_defined::<K>(&api.clone().into_client()).await.map_err(WatchError::List)?;
    if is_defined { Err(WatchError::NotServed(definition_name::<K>())) } else { Ok(()) }
}

/// Whether the cluster defines the version of `K`, read now.
async fn is_defined<K: Resource<DynamicType = ()>>(client: &Client) -> Result<bool, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={}", definition_name::<K>()));
    let request = Request::new(CustomResourceDefinition::url_path(&(), None)).list(&named);
    let request = request.map_err(kube::Error::BuildRequest)?;
    let found: DefinitionList = client.request(request).await?;
    let mut versions = found.items.iter().flat_map(|definition| &definition.spec.versions);
    Ok(versions.any(|version| version.served && version.name == K::version(&())))
}

/// Keeps `known` up to date, forever. Only the metadata of the definitions is requested, and only their UIDs
/// are stored, because definitions are large.
pub async fn observe_definitions(
    client: Client,
    env: Env,
    names: Vec<String>,
    known: ValuePublisher<Option<Definitions>>,
) {
    let read = move |definition: PartialObjectMeta<CustomResourceDefinition>| {
        let metadata = definition.metadata;
        metadata.uid.filter(|_| metadata.name.is_some_and(|name| names.contains(&name)))
    };
    let sink = MapSink::new(read, |uids: &Objects<String>| {
        let now = Definitions(uids.iter().map(|(key, uid)| (key.name.clone(), uid.clone())).collect());
        known.publish(Some(now));
    });
    let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
    list_and_watch(Api::all(client), env, scope, sink).await;
}
