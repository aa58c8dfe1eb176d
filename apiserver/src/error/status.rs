//! The Kubernetes `Status` of each error.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use vmpool_platforms::removal::StoredResource;

use super::{Error, FieldCause, ProtectedTarget};

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
            | Self::MachineStandby { .. }
            | Self::StandbyClaimed { .. }
            | Self::NoMachineAvailable { .. }
            | Self::ClaimHeld { .. } => StatusCode::CONFLICT,
            Self::Unavailable { .. } | Self::OtherControllerActive { .. } => StatusCode::SERVICE_UNAVAILABLE,
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
            Self::Conflict { .. }
            | Self::MachineProtected { .. }
            | Self::MachineStandby { .. }
            | Self::StandbyClaimed { .. } => "Conflict",
            Self::NoMachineAvailable { .. } => "NoMachineAvailable",
            Self::ClaimLost { .. } => "ClaimLost",
            Self::ClaimHeld { .. } => "ClaimHeld",
            Self::ClaimNotFound { .. } => "ClaimNotFound",
            Self::Unavailable { .. } | Self::OtherControllerActive { .. } => "ServiceUnavailable",
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
            | Self::OtherControllerActive { stored, pool, .. }
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
            Self::MachineStandby { stored, pool, index, machine } => {
                let causes = Some(vec![standby_cause(format!("targets[{index}]"), machine)]);
                StatusDetails { causes, ..of_resource(&stored.pools, pool) }
            }
            Self::StandbyClaimed { stored, pool, machine } => {
                let causes = Some(vec![standby_cause("machine".to_owned(), machine)]);
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
        let mut response = json_response(error.code(), &Status::from(error));
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
pub(crate) fn json_response(code: StatusCode, body: &impl serde::Serialize) -> Response<Body> {
    let text = serde_json::to_vec(body).expect("responses can be serialized as JSON");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The cause that a machine is a standby machine.
fn standby_cause(field: String, machine: &str) -> StatusCause {
    StatusCause {
        field: Some(field),
        message: Some(format!("virtual machine \"{machine}\" is a standby machine")),
        reason: Some("MachineStandby".to_owned()),
    }
}

#[cfg(test)]
mod tests;
