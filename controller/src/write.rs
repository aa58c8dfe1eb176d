//! The one way out: every write of the controller passes through here.
//!
//! A write starts only while the lease outlives its deadline, waits for a place among the writes in flight, is sent
//! once, and is never retried here: whoever asked for it decides what a lost answer means.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, header};
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

use crate::metrics::{WriteKind, WriteMetrics};
use crate::response_body::ResponseBodies;

/// Why a write did not bring back what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It was not sent: the lease does not outlive its deadline.
    #[error("not sent: the lease ends too soon")]
    Fenced,
    /// It could not be built. Nothing was sent.
    #[error("not sent: {0}")]
    Invalid(Box<dyn std::error::Error + Send + Sync>),
    /// The API server refused it. It had no effect.
    #[error("{}", .status.message)]
    Refused {
        /// The server's words.
        status: Box<Status>,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// No answer, or one that says nothing about the effect: it may have been done, or may still be.
    #[error("no certain answer: {0}")]
    Unconfirmed(String),
}

impl WriteError {
    /// Whether an object of this name exists already. `Conflict`, which a quota may answer, is not that.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.reason == "AlreadyExists")
    }

    /// Whether the object, or the one with the demanded UID, is not there.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404)
    }

    /// Whether a precondition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 409 && status.reason == "Conflict")
    }

    /// Whether the object that the write would make is not a valid one, or a test in a JSON patch failed.
    pub fn is_unprocessable(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 422)
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Sends writes.
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
    /// A writer with at most `in_flight` requests at a time, each of which is given up after `deadline`.
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

    /// What the answers share; reads share it, too.
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
        // Many writes wait at a time. What they wait with is text: a tree of it may take fifty times as much memory.
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

    /// Deletes the object with this name *and* UID, in the background; at this version only, if there is one. Answers with the
    /// version that it has from then on, if something still holds it.
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
        let preconditions = Preconditions {
            uid: Some(object.uid.as_str().to_owned()),
            resource_version: version.map(|version| version.to_string()),
        };
        let params = DeleteParams::background().preconditions(preconditions);
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
        self.metrics.ended(kind, &result);
        result
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let request = request.map_err(|error| WriteError::Invalid(error.into()))?;
        let _permit = self.permits.acquire().await.map_err(|error| WriteError::Invalid(error.into()))?;
        // Asked for last: waiting for a place takes time.
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

/// What a deletion is answered with: the object as it is left, or a status, which has no version.
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
        return serde_json::from_slice(body).map_err(|error| unconfirmed(&error));
    }
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        ..Status::default()
    });
    // A server that broke down may have stored the object before.
    if parts.status.is_server_error() && parts.status != StatusCode::NOT_IMPLEMENTED {
        return Err(WriteError::Unconfirmed(format!("{}: {}", parts.status, status.message)));
    }
    let retry_after = parts
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let code = parts.status.as_u16();
    Err(WriteError::Refused { status: Box::new(Status { code, ..status }), retry_after })
}

#[cfg(test)]
mod tests;
