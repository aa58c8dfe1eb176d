//! The deletes at the end of a removal.

use std::time::Duration;

use futures::{StreamExt, stream};
use vmpool_engine::ObjectId;
use vmpool_runtime::Env;

use super::{Leaving, PoolName};
use crate::cluster::Cluster;
use crate::error::Error;

/// Deletes that are under way at a time for one request.
const SIDE_BY_SIDE: usize = 16;
/// The longest pause before a delete is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Deletes the machines that nobody has deleted yet, trying again until `until`, an uptime.
///
/// # Errors
/// [`Error::Internal`] if one of them was not accepted; the controller will delete it then.
pub(super) async fn delete(
    cluster: &Cluster,
    env: &Env,
    pool: &PoolName,
    machines: &[Leaving],
    until: Duration,
) -> Result<(), Error> {
    let targets: Vec<ObjectId> =
        machines.iter().filter(|machine| !machine.deleted).map(|machine| machine.id.clone()).collect();
    let failed: Vec<String> = stream::iter(targets)
        .map(async |target| {
            let why = delete_one(cluster, env, pool, &target, until).await.err()?;
            Some(format!("deleting virtual machine \"{target}\": {why}"))
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Error::Internal(format!(
            "pool \"{}\" has let the machines go, and its controller will delete what is left of them; \
             {} deletes failed: {first}",
            pool.name,
            failed.len(),
        ))),
    }
}

async fn delete_one(
    cluster: &Cluster,
    env: &Env,
    pool: &PoolName,
    target: &ObjectId,
    until: Duration,
) -> Result<(), String> {
    loop {
        match cluster.delete_machine(&pool.namespace, target).await {
            Ok(()) => return Ok(()),
            // Gone, or another machine of this name by now.
            Err(error) if error.is_gone() || error.is_conflict() => return Ok(()),
            Err(error) if error.is_transient() && env.uptime() < until => {
                env.sleep(env.jitter(PAUSE)).await;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
