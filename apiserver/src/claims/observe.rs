//! Reads of pools and machines.

use serde_json::value::RawValue;
use vmpool_engine::ParsedPool;
use vmpool_platforms::removal::StoredMachine;
use vmpool_runtime::Env;

use super::choose::ClaimSnapshot;
use crate::cluster::{CallError, ClusterClient};
use crate::error::Error;
use crate::removal::PoolName;

/// Reads a pool.
///
/// # Errors
/// [`Error::PoolNotFound`], [`Error::ClonePermissionConflict`] if the pool is being deleted or its removal
/// record cannot be read, and [`Error::Internal`].
pub(super) async fn read_parsed_pool(cluster: &ClusterClient, name: &PoolName) -> Result<ParsedPool, Error> {
    read_pool_with_object(cluster, name).await.map(|(pool, _)| pool)
}

/// A pool, and the object from which it was read.
async fn read_pool_with_object(
    cluster: &ClusterClient,
    name: &PoolName,
) -> Result<(ParsedPool, Box<RawValue>), Error> {
    let pools = &name.stored.pools;
    let body: Box<RawValue> =
        cluster.pool(name.stored, &name.namespace, &name.name).await.map_err(|error| {
            if error.is_not_found() {
                Error::PoolNotFound { plural: pools.plural, group: pools.group, pool: name.name.clone() }
            } else {
                failed_call_error(&format!("reading pool \"{}\"", name.name), &error)
            }
        })?;
    let pool = name.stored.read_pool(&body);
    let pool = pool.map_err(|error| Error::Internal(format!("reading pool \"{}\": {error}", name.name)))?;
    let conflict =
        |why: &str| Error::Conflict { stored: name.stored, pool: name.name.clone(), why: why.to_owned() };
    if pool.deleting {
        return Err(conflict("the pool is being deleted together with its machines"));
    }
    // It may contain the machines that are being removed.
    if let Some(error) = pool.validation_errors.iter().find(|error| error.contains(name.stored.record)) {
        return Err(conflict(error));
    }
    Ok((pool, body))
}

/// Reads a pool and then its machines. Machines that the pool gets in between are included, and removals that
/// begin in between are found by the read of the pool that follows each claim.
///
/// # Errors
/// Those of [`read_parsed_pool`], and [`Error::Internal`] if the machines cannot be listed.
pub(super) async fn read_claim_snapshot(
    cluster: &ClusterClient,
    env: &Env,
    name: &PoolName,
) -> Result<ClaimSnapshot, Error> {
    let (pool, object) = read_pool_with_object(cluster, name).await?;
    let mut machines: Vec<StoredMachine> = Vec::new();
    let mut next = None;
    loop {
        let selector = name.stored.selector(pool.id.uid.as_str());
        let page = cluster.machines(name.stored, &name.namespace, selector.as_deref(), next.as_deref()).await;
        let page = page.map_err(|error| failed_call_error("listing the machines", &error))?;
        let page = name.stored.read_page(&page);
        let page = page.map_err(|error| Error::Internal(format!("listing the machines: {error}")))?;
        let owned = |stored: &StoredMachine| stored.machine.belongs_to(&pool.id);
        machines.extend(page.items.into_iter().filter(owned));
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    Ok(ClaimSnapshot { pool, object, machines, now: env.now() })
}

/// Reads a machine; `None` if it does not exist.
///
/// # Errors
/// The error of the last attempt.
pub(super) async fn read_stored_machine(
    cluster: &ClusterClient,
    pool: &PoolName,
    name: &str,
) -> Result<Option<StoredMachine>, CallError> {
    match cluster.whole_machine(pool.stored, &pool.namespace, name).await {
        Ok(body) => {
            let body: Box<RawValue> = body;
            parse_machine_response(pool, &body).map(Some)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The machine in a response.
///
/// # Errors
/// [`CallError::UnconfirmedWrites`] if the response contains no machine.
pub(super) fn parse_machine_response(pool: &PoolName, body: &RawValue) -> Result<StoredMachine, CallError> {
    pool.stored.read_machine(body).map_err(CallError::unreadable)
}

/// The error for a request that failed.
pub(super) fn failed_call_error(what: &str, error: &CallError) -> Error {
    match error {
        CallError::Refused(refusal) if refusal.code != 404 => Error::Forwarded {
            code: refusal.code,
            reason: refusal.reason.clone(),
            message: format!("{what}: {}", refusal.message),
        },
        error => Error::Internal(format!("{what}: {error}")),
    }
}
