//! The delete requests at the end of a removal.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::PropagationPolicy;
use vmpool_engine::ObjectId;
use vmpool_runtime::Env;

use super::model::{PoolName, RemovalTarget, TargetDeletion};
use crate::cluster::{CallError, ClusterClient, MachineFields, WritePatience};
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
    let targets: Vec<RemovalTarget> = targets.iter().filter(|target| !target.deleted).cloned().collect();
    let failed: Vec<String> = stream::iter(targets)
        .map(async |target| {
            let why = delete_target(cluster, env, pool, &target, deadline).await.err()?;
            Some(format!("deleting virtual machine \"{}\": {why}", target.id))
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
    target: &RemovalTarget,
    deadline: Duration,
) -> Result<(), CallError> {
    let machine = &target.id;
    let mut deletion = target.deletion.clone();
    loop {
        let version = match &deletion {
            TargetDeletion::AnyState => None,
            TargetDeletion::AtVersion(version) => Some(version.as_str()),
            TargetDeletion::ByController => return Ok(()),
        };
        match cluster
            .delete_machine(
                pool.stored,
                &pool.namespace,
                machine,
                version,
                PropagationPolicy::Background,
                // The controller waits for longer.
                WritePatience::Ordinary,
            )
            .await
        {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => match read_remaining_target(cluster, pool, machine).await {
                Ok(None) => return Ok(()),
                Ok(Some(live)) if env.uptime() < deadline => {
                    // A client has changed the machine, and may have set a hook.
                    if deletion != TargetDeletion::AnyState {
                        deletion = TargetDeletion::of(&live, false);
                    }
                    env.sleep(env.jitter(PAUSE)).await;
                }
                Ok(Some(_)) | Err(_) => return Err(error),
            },
            Err(error) if error.is_transient() && env.uptime() < deadline => {
                env.sleep(env.jitter(PAUSE)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The machine according to a live read; `None` if it is gone or is being deleted. Another machine may have
/// its name. The API server also responds with a conflict if an object changes while it is being deleted.
async fn read_remaining_target(
    cluster: &ClusterClient,
    pool: &PoolName,
    machine: &ObjectId,
) -> Result<Option<MachineFields>, CallError> {
    match cluster.machine(pool.stored, &pool.namespace, &machine.name).await {
        Ok(live) => {
            let remains =
                live.metadata.uid == machine.uid.as_str() && live.metadata.deletion_timestamp.is_none();
            Ok(remains.then_some(live))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
