//! What a caller is told when something cannot be done, as a Kubernetes `Status`.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};

use crate::api::{POOLS, STORED_GROUP};

/// Why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The caller is nobody that the API server vouches for.
    #[error("Unauthorized")]
    Unauthorized,
    /// The caller may not do this; the text says what.
    #[error("{0}")]
    Forbidden(String),
    /// Nothing is served under this path.
    #[error("the server could not find the requested resource")]
    UnknownPath,
    /// There is no such pool; `group` is the one that was asked.
    #[error("{POOLS}.{group} \"{pool}\" not found")]
    PoolNotFound {
        /// The group of the resource that was not found.
        group: &'static str,
        /// The pool.
        pool: String,
    },
    /// The path exists, but not for this method.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed {
        /// The method that it exists for.
        allowed: &'static str,
    },
    /// The caller understands none of our media types.
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,
    /// The body is of another media type.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: application/json"
    )]
    UnsupportedMediaType,
    /// The body is too long.
    #[error("the body of the request is longer than {limit} bytes")]
    TooLarge {
        /// What is allowed.
        limit: usize,
    },
    /// The body did not arrive in full.
    #[error("reading the body of the request")]
    BodyLost,
    /// The request makes no sense; the text says why, and how it would.
    #[error("{0}")]
    BadRequest(String),
    /// A target is not there.
    #[error("virtual machine \"{target}\" not found in namespace \"{namespace}\"")]
    TargetMissing {
        /// The machine.
        target: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// A target belongs to somebody else.
    #[error("virtual machine \"{target}\" is not a member of pool \"{pool}\"")]
    TargetForeign {
        /// The machine.
        target: String,
        /// The pool.
        pool: String,
    },
    /// The state of the pool or of a target forbids it; the text says why.
    #[error("Operation cannot be fulfilled on {POOLS}.{STORED_GROUP} \"{pool}\": {why}")]
    Conflict {
        /// The pool.
        pool: String,
        /// What is in the way.
        why: String,
    },
    /// The pool cannot be written, and nothing of the request was done; the text says why it cannot.
    #[error("pool \"{pool}\" could not be written, so no machine was removed: {why}; try again later")]
    Unavailable {
        /// The pool.
        pool: String,
        /// What the last write failed with.
        why: String,
    },
    /// The record of the pool has no room.
    #[error("pool \"{pool}\": {why}; try again when machines that were removed before are gone")]
    Full {
        /// The pool.
        pool: String,
        /// What there is too much of.
        why: String,
    },
    /// This process has too much to do.
    #[error("too many requests are under way, try again later")]
    Overloaded,
    /// Something on the way to the answer failed.
    #[error("{0}")]
    Internal(String),
    /// No answer in time. What was asked for is either done in full or not at all.
    #[error("no answer within {0:?}: the request is done in full or not at all, and can be repeated")]
    Timeout(Duration),
    /// The API server's own refusal, for instance by an admission webhook.
    #[error("{message}")]
    Passed {
        /// The HTTP status.
        code: u16,
        /// The word for programs.
        reason: String,
        /// The text.
        message: String,
    },
}

/// How long a caller waits who is told to try again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Error {
    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::UnknownPath | Self::PoolNotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyLost
            | Self::BadRequest(_)
            | Self::TargetMissing { .. }
            | Self::TargetForeign { .. } => StatusCode::BAD_REQUEST,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Full { .. } | Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Passed { code, .. } => {
                StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// The word for programs, in logs too.
    pub fn reason(&self) -> &str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden(_) => "Forbidden",
            Self::UnknownPath | Self::PoolNotFound { .. } => "NotFound",
            Self::MethodNotAllowed { .. } => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::TooLarge { .. } => "RequestEntityTooLarge",
            Self::BodyLost
            | Self::BadRequest(_)
            | Self::TargetMissing { .. }
            | Self::TargetForeign { .. } => "BadRequest",
            Self::Conflict { .. } => "Conflict",
            Self::Unavailable { .. } => "ServiceUnavailable",
            Self::Full { .. } | Self::Overloaded => "TooManyRequests",
            Self::Internal(_) => "InternalError",
            Self::Timeout(_) => "Timeout",
            Self::Passed { reason, .. } => reason,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { .. } | Self::Full { .. } | Self::Overloaded | Self::Timeout(_) => {
                Some(RETRY_AFTER)
            }
            _ => None,
        }
    }

    /// What the refusal is about, as far as programs can use it.
    fn details(&self) -> StatusDetails {
        let named = |group: &str, kind: &str, name: &str| StatusDetails {
            group: Some(group.to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(name.to_owned()),
            ..StatusDetails::default()
        };
        let details = match self {
            Self::PoolNotFound { group, pool } => named(group, POOLS, pool),
            Self::Conflict { pool, .. } | Self::Unavailable { pool, .. } | Self::Full { pool, .. } => {
                named(STORED_GROUP, POOLS, pool)
            }
            Self::TargetMissing { target, .. } | Self::TargetForeign { target, .. } => {
                named(STORED_GROUP, crate::api::MACHINES, target)
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

/// An answer in JSON.
pub(crate) fn json(code: StatusCode, body: &impl serde::Serialize) -> Response<Body> {
    let text = serde_json::to_vec(body).expect("what is answered can be written as JSON");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests;
