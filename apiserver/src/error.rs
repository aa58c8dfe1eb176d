//! Errors, and the Kubernetes `Status` that a caller receives for each.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use vmpool_platforms::removal::{Stored, StoredResource};

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
        stored: &'static Stored,
        /// The name of the machine.
        target: String,
        /// The namespace of the pool.
        namespace: String,
    },
    /// The pool does not own a target.
    #[error("virtual machine \"{target}\" does not belong to pool \"{pool}\"")]
    TargetNotInPool {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the machine.
        target: String,
        /// The name of the pool.
        pool: String,
    },
    /// The state of the pool or of a target prevents the removal. The text says why.
    #[error("Operation cannot be fulfilled on {}.{} \"{pool}\": {why}", stored.pools.plural, stored.pools.group)]
    Conflict {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
        /// The reason.
        why: String,
    },
    /// Targets of a removal are protected.
    #[error(
        "Operation cannot be fulfilled on {}.{} \"{pool}\": {}; wait until the protection ends, or send the request with \
         force: true",
        stored.pools.plural, stored.pools.group, protected(targets)
    )]
    MachineProtected {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
        /// The protected targets.
        targets: Vec<ProtectedTarget>,
    },
    /// No machine of the pool can be claimed now.
    #[error("no machine of pool \"{pool}\" is free; try again later, or scale the pool up")]
    NoMachineAvailable {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
    },
    /// The claim to renew does not exist any more.
    #[error(
        "the claim of a machine of pool \"{pool}\" has ended, and the machine may be in use by another client"
    )]
    ClaimLost {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
    },
    /// Another user holds a claim with this id.
    #[error("another user holds a claim with this id in pool \"{pool}\"; choose another id")]
    ClaimHeld {
        /// The stored objects.
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
    },
    /// The claim to release does not exist, or was released before.
    #[error(
        "pool \"{pool}\" has no such claim of this machine: it was released before, or has ended and was claimed again"
    )]
    ClaimNotFound {
        /// The stored objects.
        stored: &'static Stored,
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
        stored: &'static Stored,
        /// The name of the pool.
        pool: String,
        /// The failure of the last write.
        why: String,
    },
    /// The removal record of the pool is full.
    #[error("pool \"{pool}\": {why}; try again when the targets of earlier removals are deleted")]
    RecordFull {
        /// The stored objects.
        stored: &'static Stored,
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
fn protected(targets: &[ProtectedTarget]) -> String {
    let first = targets.first().map(ProtectedTarget::sentence).unwrap_or_default();
    match targets.len() {
        0 | 1 => first,
        more => format!("{first}, and {} more targets are protected", more - 1),
    }
}

/// The `Retry-After` of errors that a later attempt can avoid.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Error {
    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::UnknownPath
            | Self::PoolNotFound { .. }
            | Self::RevisionNotFound { .. }
            | Self::ClaimLost { .. }
            | Self::ClaimNotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::IncompleteBody
            | Self::BadRequest(_)
            | Self::TargetNotFound { .. }
            | Self::TargetNotInPool { .. } => StatusCode::BAD_REQUEST,
            Self::Conflict { .. }
            | Self::MachineProtected { .. }
            | Self::NoMachineAvailable { .. }
            | Self::ClaimHeld { .. } => StatusCode::CONFLICT,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::RecordFull { .. } | Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Timeout(_) | Self::ClaimTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::NotExpanded { code, .. } => *code,
            Self::Forwarded { code, .. } => {
                StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// The reason in the `Status` and in logs.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden(_) => "Forbidden",
            Self::UnknownPath | Self::PoolNotFound { .. } | Self::RevisionNotFound { .. } => "NotFound",
            Self::MethodNotAllowed { .. } => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::TooLarge { .. } => "RequestEntityTooLarge",
            Self::IncompleteBody
            | Self::BadRequest(_)
            | Self::TargetNotFound { .. }
            | Self::TargetNotInPool { .. }
            | Self::NotExpanded { code: StatusCode::BAD_REQUEST, .. } => "BadRequest",
            Self::NotExpanded { code: StatusCode::UNPROCESSABLE_ENTITY, .. } => "Invalid",
            Self::Conflict { .. } | Self::MachineProtected { .. } => "Conflict",
            Self::NoMachineAvailable { .. } => "NoMachineAvailable",
            Self::ClaimLost { .. } => "ClaimLost",
            Self::ClaimHeld { .. } => "ClaimHeld",
            Self::ClaimNotFound { .. } => "ClaimNotFound",
            Self::Unavailable { .. } => "ServiceUnavailable",
            Self::RecordFull { .. } | Self::Overloaded => "TooManyRequests",
            Self::Internal(_) | Self::NotExpanded { .. } => "InternalError",
            Self::Timeout(_) | Self::ClaimTimeout(_) => "Timeout",
            Self::Forwarded { reason, .. } => reason,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { .. }
            | Self::RecordFull { .. }
            | Self::Overloaded
            | Self::NoMachineAvailable { .. }
            | Self::Timeout(_)
            | Self::ClaimTimeout(_) => Some(RETRY_AFTER),
            _ => None,
        }
    }

    /// The object that the error refers to, and the time to wait before a retry.
    fn details(&self) -> StatusDetails {
        let named = |group: &str, kind: &str, name: &str| StatusDetails {
            group: Some(group.to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(name.to_owned()),
            ..StatusDetails::default()
        };
        let of_resource =
            |resource: &StoredResource, name: &str| named(resource.group, resource.plural, name);
        let details = match self {
            Self::PoolNotFound { plural, group, pool } => named(group, plural, pool),
            Self::Conflict { stored, pool, .. }
            | Self::Unavailable { stored, pool, .. }
            | Self::RecordFull { stored, pool, .. }
            | Self::NoMachineAvailable { stored, pool }
            | Self::ClaimLost { stored, pool }
            | Self::ClaimHeld { stored, pool }
            | Self::ClaimNotFound { stored, pool } => of_resource(&stored.pools, pool),
            Self::MachineProtected { stored, pool, targets } => {
                let cause = |target: &ProtectedTarget| StatusCause {
                    field: Some(format!("targets[{}]", target.index)),
                    message: Some(target.sentence()),
                    reason: Some("MachineProtected".to_owned()),
                };
                let causes = Some(targets.iter().map(cause).collect());
                StatusDetails { causes, ..of_resource(&stored.pools, pool) }
            }
            Self::NotExpanded { causes, .. } => {
                let cause = |cause: &FieldCause| StatusCause {
                    field: Some(cause.field.clone()),
                    message: Some(cause.message.clone()),
                    reason: Some(cause.reason.clone()),
                };
                StatusDetails { causes: Some(causes.iter().map(cause).collect()), ..StatusDetails::default() }
            }
            Self::RevisionNotFound { revision } => named("apps", "controllerrevisions", revision),
            Self::TargetNotFound { stored, target, .. } | Self::TargetNotInPool { stored, target, .. } => {
                of_resource(&stored.machines, target)
            }
            _ => StatusDetails::default(),
        };
        let retry_after_seconds =
            self.retry_after().map(|wait| i32::try_from(wait.as_secs()).unwrap_or(i32::MAX));
        StatusDetails { retry_after_seconds, ..details }
    }
}

impl From<&Error> for Status {
    fn from(error: &Error) -> Self {
        Self {
            code: Some(error.code().as_u16().into()),
            status: Some("Failure".to_owned()),
            reason: Some(error.reason().to_owned()),
            message: Some(error.to_string()),
            details: Some(error.details()),
            ..Self::default()
        }
    }
}

impl From<&Error> for Response<Body> {
    fn from(error: &Error) -> Self {
        let mut response = json(error.code(), &Status::from(error));
        if let Some(wait) = error.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, wait.as_secs().into());
        }
        if let Error::MethodNotAllowed { allowed } = error {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

/// A response with a JSON body.
pub(crate) fn json(code: StatusCode, body: &impl serde::Serialize) -> Response<Body> {
    let text = serde_json::to_vec(body).expect("responses can be serialized as JSON");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests;
