//! The writer: every write of the controller passes through it.
//!
//! A write waits for a permit among the writes in flight. It starts only if the lease outlasts the deadline of the
//! write. The writer sends it once and never retries it: the caller decides about an unconfirmed write.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::core::request::Request as Path;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use vmpool_engine::ObjectId;
use vmpool_runtime::Env;
use vmpool_runtime::lease::Fence;

use crate::metrics::{WriteKind, WriteMetrics, WriteOutcome};
use crate::response_body::ResponseBodies;
use crate::{decode, rejection};

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It was not sent, because the lease does not outlast its deadline.
    #[error("not sent: the lease ends too soon")]
    Fenced,
    /// It was not sent, because the request is invalid.
    #[error("not sent: {0}")]
    Invalid(Box<dyn std::error::Error + Send + Sync>),
    /// The API server rejected it. It had no effect.
    #[error("{}", .status.message)]
    Refused {
        /// The status of the response.
        status: Box<Status>,
        /// The delay that the API server requests.
        retry_after: Option<Duration>,
    },
    /// It is unconfirmed: there was no response, or the response does not show the effect. The API server may have
    /// carried it out, or may still do so.
    #[error("unconfirmed: {0}")]
    Unconfirmed(String),
}

impl WriteError {
    /// Whether an object of this name already exists. This does not include `Conflict`, which a quota can return.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.reason == "AlreadyExists")
    }

    /// Whether the object with this name or with the required UID does not exist.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// Whether a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409 && status.reason == "Conflict")
    }

    /// Whether the resulting object is invalid, or a test in a JSON patch failed.
    pub fn is_unprocessable(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 422)
    }

    /// The delay that the API server requests.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Sends writes to the API server.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    env: Env,
    fence: Fence,
    permits: Arc<Semaphore>,
    deadline: Duration,
    field_manager: String,
    metrics: WriteMetrics,
    bodies: ResponseBodies,
}

impl Writer {
    /// Creates a writer with at most `in_flight` requests at a time. A request is unconfirmed after `deadline`.
    pub fn new(
        client: Client,
        env: Env,
        fence: Fence,
        in_flight: usize,
        deadline: Duration,
        metrics: WriteMetrics,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(in_flight));
        let field_manager = "vmpool-controller".to_owned();
        let bodies = ResponseBodies::default();
        Self { client, env, fence, permits, deadline, field_manager, metrics, bodies }
    }

    /// The memory limit of response bodies, which reads share.
    pub(crate) fn bodies(&self) -> &ResponseBodies {
        &self.bodies
    }

    /// Creates an object below `path`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create<T: DeserializeOwned>(
        &self,
        kind: WriteKind,
        path: String,
        object: Value,
    ) -> Result<T, WriteError> {
        let params = PostParams { field_manager: Some(self.field_manager.clone()), ..PostParams::default() };
        let body = serde_json::to_vec(&object).map_err(|error| WriteError::Invalid(error.into()))?;
        // Many writes wait at the same time. They keep the body as text, because the tree can need fifty times as much
        // memory.
        drop(object);
        self.send(kind, Path::new(path).create(&params, body)).await
    }

    /// Patches an object, or its `subresource`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch<T: DeserializeOwned, P: Serialize + std::fmt::Debug>(
        &self,
        kind: WriteKind,
        path: String,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<P>,
    ) -> Result<T, WriteError> {
        let params =
            PatchParams { field_manager: Some(self.field_manager.clone()), ..PatchParams::default() };
        let path = Path::new(path);
        let request = match subresource {
            Some(subresource) => path.patch_subresource(subresource, name, &params, &patch),
            None => path.patch(name, &params, &patch),
        };
        drop(patch);
        self.send(kind, request).await
    }

    /// Deletes the object with this name *and* UID with background propagation; if `version` is given, only at this
    /// version. Returns the new version of the object, if finalizers keep it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        kind: WriteKind,
        path: String,
        object: &ObjectId,
        version: Option<u64>,
    ) -> Result<Option<u64>, WriteError> {
        self.delete_with(kind, path, object, version, DeleteParams::background()).await
    }

    /// As [`Writer::delete`], but the object exists until the objects that it owns are deleted.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete_dependents_first(
        &self,
        kind: WriteKind,
        path: String,
        object: &ObjectId,
        version: Option<u64>,
    ) -> Result<Option<u64>, WriteError> {
        self.delete_with(kind, path, object, version, DeleteParams::foreground()).await
    }

    async fn delete_with(
        &self,
        kind: WriteKind,
        path: String,
        object: &ObjectId,
        version: Option<u64>,
        params: DeleteParams,
    ) -> Result<Option<u64>, WriteError> {
        let preconditions = Preconditions {
            uid: Some(object.uid.as_str().to_owned()),
            resource_version: version.map(|version| version.to_string()),
        };
        let params = params.preconditions(preconditions);
        let request = Path::new(path).delete(&object.name, &params);
        let left: Left = self.send(kind, request).await?;
        Ok(left.metadata.resource_version.parse().ok())
    }

    async fn send<T: DeserializeOwned>(
        &self,
        kind: WriteKind,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let result = self.exchange(request).await;
        self.metrics.ended(kind, outcome(&result));
        result
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let request = request.map_err(|error| WriteError::Invalid(error.into()))?;
        let _permit = self.permits.acquire().await.map_err(|error| WriteError::Invalid(error.into()))?;
        // Checked last, because waiting for a permit takes time.
        if !self.fence.admits(self.deadline) {
            return Err(WriteError::Fenced);
        }
        let exchange = async {
            let response =
                self.client.send(request.map(Into::into)).await.map_err(|error| unconfirmed(&error))?;
            let (parts, body) = response.into_parts();
            let mut body = std::pin::pin!(body);
            let mut whole = self.bodies.begin();
            while let Some(frame) = body.frame().await {
                if let Some(data) = frame.map_err(|error| unconfirmed(&error))?.data_ref() {
                    whole.push(data).await;
                }
            }
            answer(&parts, whole.bytes())
        };
        match self.env.timeout(self.deadline, exchange).await {
            Ok(result) => result,
            Err(elapsed) => Err(WriteError::Unconfirmed(elapsed.to_string())),
        }
    }
}

fn outcome<T>(result: &Result<T, WriteError>) -> WriteOutcome {
    match result {
        Ok(_) => WriteOutcome::Done,
        Err(WriteError::Refused { .. }) => WriteOutcome::Refused,
        Err(WriteError::Unconfirmed(_)) => WriteOutcome::Unconfirmed,
        Err(WriteError::Fenced) => WriteOutcome::Fenced,
        Err(WriteError::Invalid(_)) => WriteOutcome::Invalid,
    }
}

/// The response to a deletion: the object if it still exists, or a status, which has no version.
#[derive(serde::Deserialize)]
struct Left {
    #[serde(default)]
    metadata: LeftMeta,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeftMeta {
    resource_version: String,
}

fn unconfirmed(error: &(dyn std::error::Error + 'static)) -> WriteError {
    WriteError::Unconfirmed(vmpool_runtime::telemetry::with_causes(error))
}

fn answer<T: DeserializeOwned>(parts: &http::response::Parts, body: &[u8]) -> Result<T, WriteError> {
    if parts.status.is_success() {
        return decode::from_slice(body).map_err(|error| unconfirmed(&error));
    }
    let status = rejection::status(parts, body);
    // The API server may have stored the object before the error.
    if parts.status.is_server_error() && parts.status != StatusCode::NOT_IMPLEMENTED {
        return Err(WriteError::Unconfirmed(format!("{}: {}", parts.status, status.message)));
    }
    let retry_after = rejection::retry_after(&status);
    Err(WriteError::Refused { status: Box::new(status), retry_after })
}

#[cfg(test)]
mod tests;
