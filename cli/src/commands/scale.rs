//! `scale`, `pause` and `resume`.

use anyhow::{Result, bail};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_platforms::ClientPlatform;

use crate::arguments::{PauseArguments, ScaleArguments};
use crate::cluster::{FIELD_MANAGER, UserClusterClient};
use crate::explain::explain_request_error;
use crate::output::print_text;
use crate::pool::decode_pool;

/// Sets the number of replicas, through the scale subresource.
///
/// # Errors
/// The request was refused.
pub(crate) async fn scale_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &ScaleArguments,
) -> Result<()> {
    let (_, before) = decode_pool::<P>(&pool)?;
    let wanted =
        json!({ "metadata": { "uid": before.id.uid.as_str() }, "spec": { "replicas": arguments.replicas } });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let scaled = cluster.api::<P::Pool>().patch_scale(&arguments.pool, &params, &Patch::Merge(wanted)).await;
    let mut attempt = cluster.attempt::<P::Pool>("patch", &arguments.pool);
    attempt.resource = attempt.resource.replacen('.', "/scale.", 1);
    scaled.map_err(|error| explain_request_error(&attempt, &error))?;
    print_text(&format!("pool {}: {} -> {} replicas\n", arguments.pool, before.desired, arguments.replicas))
}

/// Pauses the pool or its rollout.
///
/// # Errors
/// The request was refused.
pub(crate) async fn pause_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &PauseArguments,
) -> Result<()> {
    set_paused::<P>(cluster, &pool, &arguments.pool, true).await
}

/// Resumes the pool or its rollout.
///
/// # Errors
/// The request was refused.
pub(crate) async fn resume_pool<P: ClientPlatform>(
    cluster: &UserClusterClient,
    _: P,
    pool: Value,
    arguments: &PauseArguments,
) -> Result<()> {
    set_paused::<P>(cluster, &pool, &arguments.pool, false).await
}

async fn set_paused<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &Value,
    name: &str,
    paused: bool,
) -> Result<()> {
    let (_, before) = decode_pool::<P>(pool)?;
    let done = if paused { "paused" } else { "resumed" };
    if P::is_paused(&before) == paused {
        return print_text(&format!("pool {name}: {} is already {done}\n", P::PAUSES));
    }
    for patch in P::pause(paused) {
        let mut patch = patch;
        patch["metadata"]["uid"] = before.id.uid.as_str().into();
        let after = cluster.patch::<P::Pool>(name, &Patch::Merge(patch)).await?;
        // The cluster's definition of pools may drop the field.
        if P::is_paused(&decode_pool::<P>(&after)?.1) == paused {
            return print_text(&format!("pool {name}: {} {done}\n", P::PAUSES));
        }
    }
    bail!(
        "pool {name}: {} was not {done}, because the cluster's definition of pools drops the field",
        P::PAUSES
    )
}
