//! `scale`, `pause` and `resume`.

use anyhow::{Result, bail};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_platforms::View;

use crate::arguments::{PauseArguments, ScaleArguments};
use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::explain::explain;
use crate::output::write;
use crate::pool::read;

/// Sets the number of replicas, through the scale subresource.
///
/// # Errors
/// The request was refused.
pub(crate) async fn scale<P: View>(
    cluster: &Cluster,
    _: P,
    pool: Value,
    arguments: &ScaleArguments,
) -> Result<()> {
    let (_, before) = read::<P>(&pool)?;
    let wanted =
        json!({ "metadata": { "uid": before.id.uid.as_str() }, "spec": { "replicas": arguments.replicas } });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let scaled = cluster.api::<P::Pool>().patch_scale(&arguments.pool, &params, &Patch::Merge(wanted)).await;
    let mut attempt = cluster.attempt::<P::Pool>("patch", &arguments.pool);
    attempt.resource = attempt.resource.replacen('.', "/scale.", 1);
    scaled.map_err(|error| explain(&attempt, &error))?;
    write(&format!("pool {}: {} -> {} replicas\n", arguments.pool, before.desired, arguments.replicas))
}

/// Pauses the pool or its rollout.
///
/// # Errors
/// The request was refused.
pub(crate) async fn pause<P: View>(
    cluster: &Cluster,
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
pub(crate) async fn resume<P: View>(
    cluster: &Cluster,
    _: P,
    pool: Value,
    arguments: &PauseArguments,
) -> Result<()> {
    set_paused::<P>(cluster, &pool, &arguments.pool, false).await
}

async fn set_paused<P: View>(cluster: &Cluster, pool: &Value, name: &str, paused: bool) -> Result<()> {
    let (_, before) = read::<P>(pool)?;
    let done = if paused { "paused" } else { "resumed" };
    if P::is_paused(&before) == paused {
        return write(&format!("pool {name}: {} is already {done}\n", P::PAUSES));
    }
    for patch in P::pause(paused) {
        let mut patch = patch;
        patch["metadata"]["uid"] = before.id.uid.as_str().into();
        let after = cluster.patch::<P::Pool>(name, &Patch::Merge(patch)).await?;
        // The cluster's definition of pools may drop the field.
        if P::is_paused(&read::<P>(&after)?.1) == paused {
            return write(&format!("pool {name}: {} {done}\n", P::PAUSES));
        }
    }
    bail!(
        "pool {name}: {} was not {done}, because the cluster's definition of pools drops the field",
        P::PAUSES
    )
}
