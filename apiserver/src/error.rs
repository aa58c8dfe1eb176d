//! Errors. The module `status` makes the Kubernetes `Status` that a caller receives for each.

mod status;

use std::time::Duration;

use http::StatusCode;
use vmpool_platforms::removal::StoredApi;

pub(crate) use status::json_response;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The front proxy of the API server did not authenticate the caller.
    #[error("Unauthorized")]
    Unauthorized,
    /// The caller lacks a permission. The text names it.
    #[error("{0}")]
    Forbidden(String),
    /// The path does not exist.
    #[error("the server could not find the requested resource")]
    UnknownPath,
    /// The pool does not exist. `group` is the API group of the request.
    #[error("{plural}.{group} \"{pool}\" not found")]
    PoolNotFound {
        /// The plural name of the resource in the request.
        plural: &'static str,
        /// The API group of the request.
        group: &'static str,
        /// The name of the pool.
        pool: String,
    },
    /// The path does not support the method.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed {
        /// The supported methods.
        allowed: &'static str,
    },
    /// The caller accepts none of the supported media types.
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,
    /// The media type of the body is not supported.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: application/json"
    )]
    UnsupportedMediaType,
    /// The body exceeds the limit.
    #[error("the body of the request is longer than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection ended before the whole body arrived.
    #[error("reading the body of the request: the connection ended early; try again")]
    IncompleteBody,
    /// The request is invalid. The text says why, and how to correct it.
    #[error("{0}")]
    BadRequest(String),
    /// A target does not exist.
    #[error("virtual machine \"{target}\" not found in namespace \"{namespace}\"")]
    TargetNotFound {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the machine.
        target: String,
        /// The namespace of the pool.
        namespace: String,
    },
    /// The pool does not own a target.
    #[error("virtual machine \"{target}\" does not belong to pool \"{pool}\"")]
    TargetNotInPool {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the machine.
        target: String,
        /// The name of the pool.
        pool: String,
    },
    /// The state of the pool or of a target prevents the removal. The text says why.
    #[error("Operation cannot be fulfilled on {}.{} \"{pool}\": {why}", stored.pools.plural, stored.pools.group)]
    Conflict {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The reason.
        why: String,
    },
    /// Targets of a removal are protected.
    #[error(
        "Operation cannot be fulfilled on {}.{} \"{pool}\": {}; wait until the protection ends, or send the request with \
         force: true",
        stored.pools.plural, stored.pools.group, describe_protected_targets(targets)
    )]
    MachineProtected {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The protected targets.
        targets: Vec<ProtectedTarget>,
    },
    /// A target of a removal is a standby machine, which no count of the pool contains.
    #[error(
        "Operation cannot be fulfilled on {}.{} \"{pool}\": virtual machine \"{machine}\" is a standby machine, which \
         replicas does not count; lower standby.replicas, or delete the machine",
        stored.pools.plural, stored.pools.group
    )]
    MachineStandby {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The position of the target in the request.
        index: usize,
        /// The name of the machine.
        machine: String,
    },
    /// A claim names a standby machine.
    #[error(
        "Operation cannot be fulfilled on {}.{} \"{pool}\": virtual machine \"{machine}\" is a standby machine, which \
         cannot be claimed; name another machine, or none",
        stored.pools.plural, stored.pools.group
    )]
    StandbyClaimed {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The name of the machine.
        machine: String,
    },
    /// No machine of the pool can be claimed now.
    #[error("no machine of pool \"{pool}\" is free; try again later, or scale the pool up")]
    NoMachineAvailable {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
    },
    /// The claim to renew does not exist any more.
    #[error(
        "the claim of a machine of pool \"{pool}\" has ended, and the machine may be in use by another client"
    )]
    ClaimLost {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
    },
    /// Another user holds a claim with this id.
    #[error("another user holds a claim with this id in pool \"{pool}\"; choose another id")]
    ClaimHeld {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
    },
    /// The claim to release does not exist, or was released before.
    #[error(
        "pool \"{pool}\" has no such claim of this machine: it was released before, or has ended and was claimed again"
    )]
    ClaimNotFound {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
    },
    /// The deadline of a claim or a release passed. The text says how to find out its result.
    #[error("no result within {0:?}: repeat the request with the same id")]
    ClaimTimeout(Duration),
    /// Writes to the pool failed, and the removal was not applied. The text contains the last failure.
    #[error("writing pool \"{pool}\" failed, so no machine was removed: {why}; try again later")]
    Unavailable {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The failure of the last write.
        why: String,
    },
    /// Another controller may serve the pools of the platform. The text says why.
    #[error(
        "another controller may serve pool \"{pool}\", so vmpool removes, claims and releases none of its machines: {why}"
    )]
    OtherControllerActive {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// What to change, or what to wait for.
        why: String,
    },
    /// The removal record of the pool is full.
    #[error("pool \"{pool}\": {why}; try again when the targets of earlier removals are deleted")]
    RecordFull {
        /// The stored objects.
        stored: &'static StoredApi,
        /// The name of the pool.
        pool: String,
        /// The exceeded limit.
        why: String,
    },
    /// Too many requests wait in this process.
    #[error("too many requests are in flight; try again later")]
    Overloaded,
    /// A machine or a pool cannot be expanded.
    #[error("{message}")]
    NotExpanded {
        /// The HTTP status.
        code: StatusCode,
        /// What is wrong, and what to do.
        message: String,
        /// The fields that are wrong.
        causes: Vec<FieldCause>,
    },
    /// The pool has no such revision.
    #[error(
        "controllerrevisions.apps \"{revision}\" not found: the pool has no stored revision of this name"
    )]
    RevisionNotFound {
        /// The requested name.
        revision: String,
    },
    /// A request to kube-apiserver failed, or this program has a bug.
    #[error("{0}")]
    Internal(String),
    /// The deadline passed. The removal is applied either completely or not at all.
    #[error(
        "no result within {0:?}: the removal is applied either completely or not at all; repeat the request"
    )]
    Timeout(Duration),
    /// A refusal of kube-apiserver, for example by an admission webhook.
    #[error("{message}")]
    Forwarded {
        /// The HTTP status.
        code: u16,
        /// The reason, for programs.
        reason: String,
        /// The message, for users.
        message: String,
    },
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCause {
    /// The reason, for programs.
    pub reason: String,
    /// What is wrong, and what to do.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

/// A protected target of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedTarget {
    /// Its position in the targets of the request.
    pub index: usize,
    /// The name of the machine.
    pub machine: String,
    /// When the protection ends; `None` if it cannot be read.
    pub until: Option<String>,
}

impl ProtectedTarget {
    fn sentence(&self) -> String {
        let until = self.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
        format!("virtual machine \"{}\" is protected{until}", self.machine)
    }
}

/// The first of these targets in words, and the number of the others.
fn describe_protected_targets(targets: &[ProtectedTarget]) -> String {
    let first = targets.first().map(ProtectedTarget::sentence).unwrap_or_default();
    match targets.len() {
        0 | 1 => first,
        more => format!("{first}, and {} more targets are protected", more - 1),
    }
}
