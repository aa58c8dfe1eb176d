//! Releasing what only vmpool keeps up to date, before another controller reconciles the pools: rounds of a
//! list, and a patch of each object that it finds.

use std::time::Duration;

use json_patch::Patch;
use kube::{Client, Resource};
use serde::de::IgnoredAny;
use vmpool_kit::object::collection_path;
use vmpool_kit::watch::WatchError;
use vmpool_kit::write::WriteError;

use crate::leadership::LeadershipResources;
use crate::metrics::WriteKind;

/// How often the leader lists the objects, because one changed meanwhile or a request failed.
const ROUNDS: usize = 5;
/// Time between two such lists.
const PAUSE: Duration = Duration::from_secs(1);

/// The patch of an object.
pub(crate) struct ReleasePatch {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) patch: Patch,
}

/// What is released, on one platform.
pub(crate) trait Release {
    /// The patched objects.
    type Object: Resource<DynamicType = ()>;
    /// Their name in errors.
    const NOUN: &'static str;
    /// The kind of the writes.
    const WRITE: WriteKind;
    /// The patched subresource; `None` for the object itself.
    const SUBRESOURCE: Option<&'static str>;

    /// The patches that are left.
    ///
    /// # Errors
    /// Objects cannot be listed.
    fn find_patches(
        client: &Client,
        namespace: Option<&str>,
    ) -> impl Future<Output = Result<Vec<ReleasePatch>, WatchError>> + Send;

    /// Logs how many objects a round has released, or why it failed.
    fn log_round(round: Result<usize, String>);
}

/// Sends the patches that are left. Returns their number, which is zero when all is released. `send` ignores
/// that an object changed, because the next round reads it again.
///
/// # Errors
/// Objects cannot be listed, or the error of `send`.
pub(crate) async fn release_once<R: Release, E: From<WatchError>, F: Future<Output = Result<(), E>>>(
    client: &Client,
    namespace: Option<&str>,
    send: impl Fn(ReleasePatch) -> F,
) -> Result<usize, E> {
    let found = R::find_patches(client, namespace).await?;
    let count = found.len();
    for patch in found {
        send(patch).await?;
    }
    Ok(count)
}

/// Releases as the leader, until nothing is left or too many rounds failed.
pub(crate) async fn release_until_done<R: Release>(shared: &LeadershipResources) {
    for _ in 0..ROUNDS {
        let send = |patch| send_patch::<R>(shared, patch);
        match release_once::<R, RoundFailure, _>(shared.client(), shared.namespace(), send).await {
            Ok(0) => return,
            round => R::log_round(round.map_err(|RoundFailure(error)| error)),
        }
        shared.env().sleep(PAUSE).await;
    }
}

/// Why a round of the leader failed.
struct RoundFailure(String);

impl From<WatchError> for RoundFailure {
    fn from(error: WatchError) -> Self {
        Self(vmpool_runtime::telemetry::with_causes(&error))
    }
}

async fn send_patch<R: Release>(
    shared: &LeadershipResources,
    ReleasePatch { namespace, name, patch }: ReleasePatch,
) -> Result<(), RoundFailure> {
    let (path, patch) = (collection_path::<R::Object>(&namespace), kube::api::Patch::<()>::Json(patch));
    let written = shared.writer().patch::<IgnoredAny, _>(R::WRITE, path, &name, R::SUBRESOURCE, patch);
    match written.await {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() || error.is_conflict() || error.is_unprocessable() => Ok(()),
        Err(error @ WriteError::Fenced) => Err(RoundFailure(error.to_string())),
        Err(error) => Err(RoundFailure(format!("{} {namespace}/{name}: {error}", R::NOUN))),
    }
}
