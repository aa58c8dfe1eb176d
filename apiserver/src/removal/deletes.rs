//! The delete requests at the end of a removal.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::PropagationPolicy;
use vmpool_engine::ObjectId;
use vmpool_runtime::Env;

use super::model::{PoolName, RemovalTarget};
use crate::cluster::{CallError, ClusterClient, WritePatience};
use crate::error::Error;

/// Delete requests that one removal has in flight.
const CONCURRENT_DELETES: usize = 16;
/// The maximum pause before a delete request is repeated.
const PAUSE: Duration = Duration::from_millis(500);

/// Deletes the targets that are not being deleted yet. Retries failed requests until `deadline`, an uptime.
///
/// # Errors
/// [`Error::Internal`] if a delete request failed. The controller deletes the machine in that case.
pub(super) async fn delete_targets(
    cluster: &ClusterClient,
    env: &Env,
    pool: &PoolName,
    targets: &[RemovalTarget],
    deadline: Duration,
) -> Result<(), Error> {
    let machines: Vec<ObjectId> =
        targets.iter().filter(|target| !target.deleted).map(|target| target.id.clone()).collect();
    let failed: Vec<String> = stream::iter(machines)
        .map(async |machine| {
            let why = delete_target(cluster, env, pool, &machine, deadline).await.err()?;
            Some(format!("deleting virtual machine \"{machine}\": {why}"))
        })
        .buffer_unordered(CONCURRENT_DELETES)
        .filter_map(std::future::ready)
        .collect()
        .await;
    match failed.first() {
        None => Ok(()),
        Some(first) => Err(Error::Internal(format!(
            "pool \"{}\": the removal is accepted and the controller will delete the remaining machines; \
             {} delete requests failed: {first}",
            pool.name,
            failed.len(),
        ))),
    }
}

async fn delete_target(
    cluster: &ClusterClient,
    env: &Env,
    pool: &PoolName,
    machine: &ObjectId,
    deadline: Duration,
) -> Result<(), CallError> {
    loop {
        match cluster
            .delete_machine(
                pool.stored,
                &pool.namespace,
                machine,
                None,
                PropagationPolicy::Background,
                // The controller waits for longer.
                WritePatience::Ordinary,
            )
            .await
        {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() && is_gone(cluster, pool, machine).await => return Ok(()),
            Err(error) if (error.is_transient() || error.is_conflict()) && env.uptime() < deadline => {
                env.sleep(env.jitter(PAUSE)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the machine is gone or is being deleted, according to a live read. Another machine may have its
/// name. The API server also responds with a conflict if an object changes while it is being deleted.
async fn is_gone(cluster: &ClusterClient, pool: &PoolName, machine: &ObjectId) -> bool {
    match cluster.machine(pool.stored, &pool.namespace, &machine.name).await {
        Ok(live) => live.metadata.uid != machine.uid.as_str() || live.metadata.deletion_timestamp.is_some(),
        Err(error) => error.is_not_found(),
    }
}
