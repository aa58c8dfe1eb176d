//! The errors of a removal.

use vmpool_engine::{ObjectId, Uid};

use super::model::PoolName;
use crate::cluster::CallError;
use crate::error::{Error, ProtectedTarget};

/// The pool does not exist.
pub(super) fn pool_not_found(pool: &PoolName) -> Error {
    let pools = &pool.stored.pools;
    Error::PoolNotFound { plural: pools.plural, group: pools.group, pool: pool.name.clone() }
}

/// The state of the pool or of a target prevents the removal.
pub(super) fn removal_conflict_error(pool: &PoolName, why: impl Into<String>) -> Error {
    Error::Conflict { stored: pool.stored, pool: pool.name.clone(), why: why.into() }
}

/// Targets are protected.
pub(super) fn machines_protected(pool: &PoolName, targets: Vec<ProtectedTarget>) -> Error {
    Error::MachineProtected { stored: pool.stored, pool: pool.name.clone(), targets }
}

/// A target is a standby machine.
pub(super) fn machine_standby(pool: &PoolName, index: usize, machine: &str) -> Error {
    Error::MachineStandby { stored: pool.stored, pool: pool.name.clone(), index, machine: machine.to_owned() }
}

/// The pool is being deleted.
pub(super) fn pool_deleting(pool: &PoolName) -> Error {
    removal_conflict_error(pool, "the pool is being deleted together with its machines")
}

/// All writes to the pool failed until the deadline, and none had an effect.
pub(super) fn pool_unavailable_error(pool: &PoolName, why: &str) -> Error {
    Error::Unavailable { stored: pool.stored, pool: pool.name.clone(), why: why.to_owned() }
}

/// The machine does not exist.
pub(super) fn target_not_found(target: &str, pool: &PoolName) -> Error {
    Error::TargetNotFound {
        stored: pool.stored,
        target: target.to_owned(),
        namespace: pool.namespace.clone(),
    }
}

/// An earlier request removed the target `earlier`, and another machine has its name.
pub(super) fn name_returned_error(pool: &PoolName, earlier: &Uid, found: &ObjectId) -> Error {
    let ObjectId { name, uid } = found;
    removal_conflict_error(
        pool,
        format!(
            "an earlier request removed virtual machine \"{name}\" with UID {earlier}, and another machine with UID {uid} \
             has its name: if you repeat that request, it is complete; to remove the other machine, send its UID in \
             targetUIDs"
        ),
    )
}

/// The result of a write is unknown.
pub(super) fn unconfirmed_removal_error() -> Error {
    Error::Internal(
        "the response of the API server was lost: the removal is applied either completely or not at all; repeat the request"
            .to_owned(),
    )
}

/// The error for a write that the API server refused.
pub(super) fn refused_write_error(error: CallError, pool: &PoolName) -> Error {
    match error {
        CallError::Refused(refusal) if refusal.code == 404 => pool_not_found(pool),
        CallError::Refused(refusal) => {
            Error::Forwarded { code: refusal.code, reason: refusal.reason, message: refusal.message }
        }
        CallError::Unconfirmed(why) => Error::Internal(format!("writing pool \"{}\": {why}", pool.name)),
    }
}
