//! Releases of claimed machines.

use std::sync::Arc;
use std::time::Duration;

use kube::api::PropagationPolicy;
use serde_json::json;
use vmpool_api::subresources::ReleaseAction;
use vmpool_engine::protection::{BY, CLAIM, REASON, UNTIL};
use vmpool_platforms::removal::StoredMachine;

use super::model::{DEADLINE, ReleaseRequest, ReleasedMachine};
use super::observe;
use super::writer::ClaimWriter;
use crate::audit::AuditInfo;
use crate::body::{RemovalRequest, RequestedTarget};
use crate::cluster::WritePatience;
use crate::error::Error;
use crate::removal::Remover;

/// Releases a machine that the caller has claimed.
///
/// # Errors
/// [`Error::ClaimNotFound`], also if the claim was released before, [`Error::Forbidden`] if another user
/// holds it, and those of the writes. [`Error::ClaimTimeout`] if other clients still change the machine at
/// the deadline.
pub(super) async fn release_claimed_machine(
    writer: &ClaimWriter<'_>,
    remover: &Arc<Remover>,
    request: &ReleaseRequest,
    audit: &AuditInfo,
    deadline: Duration,
) -> Result<ReleasedMachine, Error> {
    let world = observe::read_claim_snapshot(writer.cluster, writer.env, writer.pool).await?;
    let replicas = i64::try_from(world.pool.desired).unwrap_or(i64::MAX);
    let not_found = || Error::ClaimNotFound { stored: writer.pool.stored, pool: writer.pool.name.clone() };
    let found =
        world.machines.into_iter().find(|stored| stored.machine.id.uid.as_str() == request.machine_uid);
    let mut machine = found.ok_or_else(not_found)?;
    let pool_uid = world.pool.id.uid.as_str();
    loop {
        check_claim_holder(&machine, pool_uid, request, &audit.user.name)?.ok_or_else(not_found)?;
        let released =
            |replicas| ReleasedMachine { machine: machine.machine.id.clone(), then: request.then, replicas };
        if request.dry_run {
            return Ok(released(replicas));
        }
        let done = match request.then {
            ReleaseAction::Keep => {
                let body = json!({ UNTIL: null, BY: null, REASON: null, CLAIM: null });
                writer.write(&machine, &body, deadline).await?.is_some()
            }
            ReleaseAction::Replace => replace_claimed_machine(writer, &machine, deadline).await?,
            ReleaseAction::Remove => {
                let id = &machine.machine.id;
                let uid = Some(id.uid.as_str().to_owned());
                let targets = vec![RequestedTarget { name: id.name.to_string(), uid }];
                let pool_uid = Some(pool_uid.to_owned());
                // The machine stays protected until it is deleted, so that no other caller claims it.
                let removal = RemovalRequest { targets, pool_uid, dry_run: false, force: true };
                let accepted = remover.remove(writer.pool.clone(), removal, audit.clone()).await?;
                return Ok(released(accepted.replicas.unwrap_or(replicas)));
            }
        };
        if done {
            return Ok(released(replicas));
        }
        if writer.env.uptime() >= deadline {
            return Err(Error::ClaimTimeout(DEADLINE));
        }
        writer.pause().await;
        let live = writer.read_until_deadline(&machine.machine.id.name, deadline).await?;
        machine = live.filter(|live| live.machine.id == machine.machine.id).ok_or_else(not_found)?;
    }
}

/// `None` if the machine has no such claim.
///
/// # Errors
/// [`Error::Forbidden`] if another user holds the claim.
fn check_claim_holder(
    machine: &StoredMachine,
    pool_uid: &str,
    request: &ReleaseRequest,
    user: &str,
) -> Result<Option<()>, Error> {
    let protection = machine.machine.protection.as_ref();
    let claim = protection.and_then(|protection| protection.claim_of(pool_uid));
    let Some(claim) = claim.filter(|claim| claim.id == request.id && !machine.machine.terminating) else {
        return Ok(None);
    };
    if claim.user != user {
        let machine = &machine.machine.id;
        return Err(Error::Forbidden(format!(
            "virtual machine \"{machine}\" is claimed by another user: only that user may release it"
        )));
    }
    Ok(Some(()))
}

/// Deletes a machine at the version that was read, with its own storage. The number of machines stays, so the
/// controller creates another one. Returns whether the machine is deleted; otherwise it has changed.
async fn replace_claimed_machine(
    writer: &ClaimWriter<'_>,
    machine: &StoredMachine,
    deadline: Duration,
) -> Result<bool, Error> {
    let (stored, namespace) = (writer.pool.stored, &*writer.pool.namespace);
    let id = &machine.machine.id;
    // The next user must not get the data of this one. The storage is deleted before the machine, so no pool
    // preserves it.
    let propagation =
        if stored.preserves_storage { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
    let mut unconfirmed = false;
    loop {
        let version = Some(machine.version.as_str());
        let patience = WritePatience::after(unconfirmed);
        let deleted =
            writer.cluster.delete_machine(stored, namespace, id, version, propagation.clone(), patience);
        match deleted.await {
            Ok(()) => return Ok(true),
            Err(error) if error.is_not_found() => return Ok(true),
            Err(error) if error.is_conflict() && unconfirmed => {
                // The first request may have begun the deletion, which is a version of its own.
                let live = writer.read_until_deadline(&id.name, deadline).await?;
                let live = live.filter(|live| live.machine.id == *id);
                return Ok(live.is_none_or(|live| live.machine.terminating));
            }
            Err(error) if error.is_conflict() => return Ok(false),
            Err(error) if error.is_transient() => unconfirmed = true,
            Err(error) => {
                return Err(observe::failed_call_error(
                    &format!("deleting virtual machine \"{id}\""),
                    &error,
                ));
            }
        }
        if writer.env.uptime() >= deadline {
            return Err(Error::ClaimTimeout(DEADLINE));
        }
        writer.pause().await;
    }
}
