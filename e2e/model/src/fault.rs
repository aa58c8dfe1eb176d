//! Hooks for tests: how each request is treated, and whether admission allows it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::call::Call;

/// Decides how each request is treated, in the order of arrival.
pub trait FaultInjector: Send {
    /// Decides about `call`. The server holds no lock during this call. Changes that the fault injector makes
    /// to the server take effect before the request is served.
    fn decide(&mut self, call: &Call) -> Handling;
}

/// How one request is treated.
#[derive(Debug, Default)]
pub struct Handling {
    /// How long the request takes to arrive.
    pub before: Duration,
    /// What the server does with it.
    pub outcome: RequestOutcome,
    /// How long the response takes to arrive.
    pub after: Duration,
}

impl Handling {
    /// Serves the request at once; the response takes this long.
    pub fn slow(after: Duration) -> Self {
        Self { after, ..Self::default() }
    }
}

/// Without delays.
impl From<RequestOutcome> for Handling {
    fn from(outcome: RequestOutcome) -> Self {
        Self { outcome, ..Self::default() }
    }
}

/// What the server does with a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RequestOutcome {
    /// It is served.
    #[default]
    Serve,
    /// It is served, unless its sender has given up before it arrives. The real API server cancels a request
    /// in admission if its client closes the connection.
    ServeIfAwaited,
    /// It is refused, without an effect.
    Refuse(ApiError),
    /// It does not arrive: a proxy on the way responds with this status code and body.
    Respond(u16, Value),
    /// It is served, but the sender receives this refusal instead of the response.
    ServeAndRefuse(ApiError),
    /// It is served, and the connection breaks before the response arrives.
    ResponseLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is served, but no response is sent.
    ServeAndHang,
    /// It does not arrive, and no response is sent.
    Hang,
}

/// Decides whether an object may be stored.
pub trait Admission: Send + Sync {
    /// Decides about a review. An implementation reads other objects through a client, as a webhook does.
    fn admit(&self, review: AdmissionInput) -> BoxFuture<'static, Result<(), ApiError>>;
}

/// The input of an admission decision.
#[derive(Clone, Debug)]
pub struct AdmissionInput {
    /// The request.
    pub call: Call,
    /// The object before the request; null for a create.
    pub old: Value,
    /// The object that would be stored; null for a deletion.
    pub new: Value,
}

/// A request that the server has handled, even if its response was lost.
#[derive(Clone, Debug)]
pub struct HandledRequest {
    /// When it was handled.
    pub at: Timestamp,
    /// The request.
    pub call: Arc<Call>,
    /// The HTTP status code of the response.
    pub code: u16,
}
