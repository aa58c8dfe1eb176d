//! The API server's error responses.

use http::StatusCode;
use serde_json::{Value, json};

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status code.
    pub code: StatusCode,
    /// The `reason` of the
    /// [`Status`](https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/); may be
    /// empty.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The value of `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal without `Retry-After`.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, reason: reason.to_owned(), message: message.into(), retry_after: None }
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} not found"))
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "Conflict", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The `Status` object.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if let Some(seconds) = self.retry_after {
            body["details"] = json!({ "retryAfterSeconds": seconds });
        }
        body
    }
}
