//! Removing the conditions in the meaning of kstatus from pools that vmpool does not reconcile any more. No
//! other controller knows them, so they would stay for ever and say what was true once.

use std::time::Duration;

use json_patch::Patch;
use kube::{Client, Resource as _};
use serde::de::IgnoredAny;
use vmpool_kit::object::{api_for_namespace, collection_path};
use vmpool_kit::watch::{WatchError, WatchScope, list_served};
use vmpool_kit::write::WriteError;
use vmpool_platforms::Platform;

use crate::leadership::LeadershipResources;
use crate::metrics::WriteKind;

/// How often the leader lists the pools, because an object changed meanwhile or a request failed.
const ROUNDS: usize = 5;
/// Time between two such lists.
const PAUSE: Duration = Duration::from_secs(1);

/// A pool whose status loses conditions.
pub(crate) struct ReleasedStatus {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) patch: Patch,
}

/// Lists the pools with such conditions, and sends a patch of the status of each. Returns their number, which
/// is zero when no pool has one. `send` ignores that an object changed, because the next round reads it
/// again.
///
/// # Errors
/// Pools cannot be listed, or the error of `send`.
pub(crate) async fn remove_conditions_once<
    P: Platform,
    E: From<WatchError>,
    F: Future<Output = Result<(), E>>,
>(
    client: &Client,
    namespace: Option<&str>,
    send: impl Fn(ReleasedStatus) -> F,
) -> Result<usize, E> {
    let mut found = Vec::new();
    let pools = api_for_namespace::<P::Pool>(client, namespace);
    list_served(&pools, WatchScope::default(), |pool| found.extend(release_status::<P>(&pool))).await?;
    let count = found.len();
    for status in found {
        send(status).await?;
    }
    Ok(count)
}

fn release_status<P: Platform>(pool: &P::Pool) -> Option<ReleasedStatus> {
    let patch = serde_json::from_value(P::remove_kstatus_conditions(pool)?).ok()?;
    let metadata = pool.meta();
    Some(ReleasedStatus { namespace: metadata.namespace.clone()?, name: metadata.name.clone()?, patch })
}

/// Removes the conditions as the leader, until no pool has one or too many rounds failed.
pub(crate) async fn remove_conditions_until_done<P: Platform>(shared: &LeadershipResources) {
    for _ in 0..ROUNDS {
        let send = |status| send_status_patch::<P>(shared, status);
        match remove_conditions_once::<P, Failure, _>(shared.client(), shared.namespace(), send).await {
            Ok(0) => return,
            Ok(pools) => tracing::info!(
                platform = P::NAME,
                pools,
                "removed conditions of vmpool from pools that another controller may reconcile"
            ),
            Err(Failure(error)) => {
                tracing::warn!(platform = P::NAME, error, "cannot remove conditions of vmpool from pools");
            }
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

async fn send_status_patch<P: Platform>(
    shared: &LeadershipResources,
    ReleasedStatus { namespace, name, patch }: ReleasedStatus,
) -> Result<(), Failure> {
    let (path, patch) = (collection_path::<P::Pool>(&namespace), kube::api::Patch::<()>::Json(patch));
    let written =
        shared.writer().patch::<IgnoredAny, _>(WriteKind::PatchStatus, path, &name, Some("status"), patch);
    match written.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() || error.is_conflict() || error.is_unprocessable() => Ok(()),
        Err(error @ WriteError::Fenced) => Err(Failure(error.to_string())),
        Err(error) => Err(Failure(format!("pool {namespace}/{name}: {error}"))),
    }
}
