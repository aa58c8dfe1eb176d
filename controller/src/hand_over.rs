//! Handing the pins of pools over to the machines that use them, before another controller reconciles the pools.
//!
//! Another controller knows no pins. It deletes the revisions that a pool owns and no machine names, and with them the copies
//! that machines need to start. Afterwards, it creates machines without pins, so those that use a pin now are its only users.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource as _};
use serde::de::IgnoredAny;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_platforms::{Pins, Platform};

use crate::lead::Shared;
use crate::metrics::WriteKind;
use crate::object::collection;
use crate::revisions::stored::RevisionObject;
use crate::watch::{Broken, Scope, list};
use crate::watches::api;
use crate::write::WriteError;

/// How often the pins are listed, because an object changed meanwhile or a request failed.
const ROUNDS: usize = 5;
/// Time between two such lists.
const PAUSE: Duration = Duration::from_secs(1);

/// A patch of a pin.
pub(crate) struct HandOver {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// A JSON patch.
    pub(crate) operations: Value,
}

/// The patches of all pins that pools own and machines use.
///
/// # Errors
/// Pins or machines cannot be listed.
pub(crate) async fn patches<P: Platform>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<HandOver>, Broken> {
    let Some(labels) = P::Pins::LABELS else { return Ok(Vec::new()) };
    let scope = Scope { label: Some(labels), metadata_only: true };
    let revisions = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut pins = Vec::new();
    list(&revisions, scope, |pin: PartialObjectMeta<ControllerRevision>| pins.push(pin.metadata)).await?;
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    let mut users: HashMap<(String, Arc<str>), Vec<ObjectId>> = HashMap::new();
    list(&api::<P::Machine>(client, namespace), Scope::default(), |machine| {
        let meta = machine.meta();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let id = ObjectId::new(name, meta.uid.as_deref().unwrap_or_default());
        for pin in P::Pins::used_by(&machine) {
            users.entry((namespace.clone(), pin.clone())).or_default().push(id.clone());
        }
    })
    .await?;
    let patch = |pin: ObjectMeta| {
        let (namespace, name) = (pin.namespace.clone()?, pin.name.clone()?);
        let machines = users.get(&(namespace.clone(), name.as_str().into()))?;
        Some(HandOver { namespace, name, operations: P::Pins::hand_over(&pin, machines)? })
    };
    Ok(pins.into_iter().filter_map(patch).collect())
}

/// Hands the pins over as the leader, until all are handed over or too many attempts failed.
pub(crate) async fn run<P: Platform>(shared: &Shared) {
    for _ in 0..ROUNDS {
        match round::<P>(shared).await {
            Ok(0) => return,
            Ok(handed) => tracing::info!(
                platform = P::NAME,
                handed,
                "handed copies of objects that templates refer to over to the machines that use them"
            ),
            Err(error) => tracing::warn!(
                platform = P::NAME,
                error,
                "cannot hand over the copies of objects that templates refer to"
            ),
        }
        shared.env().sleep(PAUSE).await;
    }
}

/// Returns the number of pins that were to be handed over.
async fn round<P: Platform>(shared: &Shared) -> Result<usize, String> {
    let found = patches::<P>(shared.client(), shared.namespace()).await;
    let found = found.map_err(|error| vmpool_runtime::telemetry::with_causes(&error))?;
    let count = found.len();
    for HandOver { namespace, name, operations } in found {
        let operations = serde_json::from_value(operations).map_err(|error| error.to_string())?;
        let (path, patch) = (collection::<RevisionObject>(&namespace), Patch::<()>::Json(operations));
        let writer = shared.writer();
        match writer.patch::<IgnoredAny, _>(WriteKind::PatchRevision, path, &name, None, patch).await {
            Ok(_) => {}
            // The next round reads it again.
            Err(error) if error.is_gone() || error.is_conflict() || error.is_unprocessable() => {}
            Err(error @ WriteError::Fenced) => return Err(error.to_string()),
            Err(error) => return Err(format!("ControllerRevision {namespace}/{name}: {error}")),
        }
    }
    Ok(count)
}
