//! Releasing the pins of pools to the machines that use them, before another controller reconciles the pools.
//!
//! Another controller knows no pins. It deletes the revisions that a pool owns and no machine names, and with
//! them the copies that machines need to start. Afterwards, it creates machines without pins, so those that
//! use a pin now are its only users.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::{Client, Resource as _};
use vmpool_engine::ObjectId;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::{WatchError, WatchScope, list_all_pages, list_served};
use vmpool_platforms::{Platform, TemplateCopies};

use crate::metrics::WriteKind;
use crate::pools::release::{Release, ReleasePatch};
use crate::pools::revisions::stored::RevisionObject;

/// The pins that pools of a platform own and machines use.
pub(crate) struct UsedCopies<P>(PhantomData<P>);

impl<P: Platform> Release for UsedCopies<P> {
    type Object = RevisionObject;
    const NOUN: &'static str = "ControllerRevision";
    const WRITE: WriteKind = WriteKind::PatchRevision;
    const SUBRESOURCE: Option<&'static str> = None;

    async fn find_patches(client: &Client, namespace: Option<&str>) -> Result<Vec<ReleasePatch>, WatchError> {
        copies_to_release::<P>(client, namespace).await
    }

    fn log_round(round: Result<usize, String>) {
        match round {
            Ok(released) => tracing::info!(
                platform = P::NAME,
                released,
                "released copies of objects that templates refer to, to the machines that use them"
            ),
            Err(error) => tracing::warn!(
                platform = P::NAME,
                error,
                "cannot release the copies of objects that templates refer to"
            ),
        }
    }
}

async fn copies_to_release<P: Platform>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<ReleasePatch>, WatchError> {
    let Some(labels) = P::TemplateCopies::LABELS else { return Ok(Vec::new()) };
    let scope = WatchScope { label: Some(labels), metadata_only: true };
    let revisions = api_for_namespace(client, namespace);
    let mut pins = Vec::new();
    list_all_pages(&revisions, scope, |pin: PartialObjectMeta<ControllerRevision>| pins.push(pin.metadata))
        .await?;
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    let mut users: BTreeMap<(String, Arc<str>), Vec<ObjectId>> = BTreeMap::new();
    let machines = api_for_namespace::<P::Machine>(client, namespace);
    list_served(&machines, WatchScope::default(), |machine| {
        let meta = machine.meta();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let id = ObjectId::new(name, meta.uid.as_deref().unwrap_or_default());
        for pin in P::TemplateCopies::copies_used_by(&machine) {
            users.entry((namespace.clone(), pin.clone())).or_default().push(id.clone());
        }
    })
    .await?;
    let released = |pin: ObjectMeta| {
        let (namespace, name) = (pin.namespace.clone()?, pin.name.clone()?);
        let machines = users.get(&(namespace.clone(), name.as_str().into()))?;
        let patch = serde_json::from_value(P::TemplateCopies::transfer_to_machines(&pin, machines)?).ok()?;
        Some(ReleasePatch { namespace, name, patch })
    };
    Ok(pins.into_iter().filter_map(released).collect())
}
