//! Releasing the pins of pools to the machines that use them, before another controller reconciles the pools.
//!
//! Another controller knows no pins. It deletes the revisions that a pool owns and no machine names, and with
//! them the copies that machines need to start. Afterwards, it creates machines without pins, so those that
//! use a pin now are its only users.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use json_patch::Patch;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource as _};
use serde::de::IgnoredAny;
use vmpool_engine::ObjectId;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::object::collection_path;
use vmpool_kit::watch::{WatchError, WatchScope, list_all_pages, list_served};
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, TemplateCopies};

use crate::leadership::LeadershipResources;
use crate::metrics::WriteKind;
use crate::pools::revisions::stored::RevisionObject;

/// How often the leader lists the pins, because an object changed meanwhile or a request failed.
const ROUNDS: usize = 5;
/// Time between two such lists.
const PAUSE: Duration = Duration::from_secs(1);

/// A pin that its pool releases.
pub(crate) struct ReleasedCopy {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) patch: Patch,
}

/// Lists the pins that pools own and machines use, and sends a patch of each. Returns their number, which is
/// zero when all are released. `send` ignores that an object changed, because the next round reads it again.
///
/// # Errors
/// Pins or machines cannot be listed, or the error of `send`.
pub(crate) async fn release_copies_once<
    P: Platform,
    E: From<WatchError>,
    F: Future<Output = Result<(), E>>,
>(
    client: &Client,
    namespace: Option<&str>,
    send: impl Fn(ReleasedCopy) -> F,
) -> Result<usize, E> {
    let found = copies_to_release::<P>(client, namespace).await?;
    let count = found.len();
    for pin in found {
        send(pin).await?;
    }
    Ok(count)
}

async fn copies_to_release<P: Platform>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<ReleasedCopy>, WatchError> {
    let Some(labels) = P::TemplateCopies::LABELS else { return Ok(Vec::new()) };
    let scope = WatchScope { label: Some(labels), metadata_only: true };
    let revisions = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut pins = Vec::new();
    list_all_pages(&revisions, scope, |pin: PartialObjectMeta<ControllerRevision>| pins.push(pin.metadata))
        .await?;
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    let mut users: HashMap<(String, Arc<str>), Vec<ObjectId>> = HashMap::new();
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
        Some(ReleasedCopy { namespace, name, patch })
    };
    Ok(pins.into_iter().filter_map(released).collect())
}

/// Releases the pins as the leader, until all are released or too many rounds failed.
pub(crate) async fn release_copies_until_done<P: Platform>(shared: &LeadershipResources) {
    for _ in 0..ROUNDS {
        match release_copies_once::<P, Failure, _>(shared.client(), shared.namespace(), |pin| {
            send_release_patch(shared, pin)
        })
        .await
        {
            Ok(0) => return,
            Ok(released) => tracing::info!(
                platform = P::NAME,
                released,
                "released copies of objects that templates refer to, to the machines that use them"
            ),
            Err(Failure(error)) => tracing::warn!(
                platform = P::NAME,
                error,
                "cannot release the copies of objects that templates refer to"
            ),
        }
        shared.env().sleep(PAUSE).await;
    }
}

/// Why a round of the leader failed.
struct Failure(String);

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        Self(vmpool_runtime::telemetry::with_causes(&error))
    }
}

async fn send_release_patch(
    shared: &LeadershipResources,
    ReleasedCopy { namespace, name, patch }: ReleasedCopy,
) -> Result<(), Failure> {
    let (path, patch) = (collection_path::<RevisionObject>(&namespace), kube::api::Patch::<()>::Json(patch));
    let writer = shared.writer();
    match writer.patch::<IgnoredAny, _>(WriteKind::PatchRevision, path, &name, None, patch).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() || error.is_conflict() || error.is_unprocessable() => Ok(()),
        Err(error @ WriteError::Fenced) => Err(Failure(error.to_string())),
        Err(error) => Err(Failure(format!("ControllerRevision {namespace}/{name}: {error}"))),
    }
}
