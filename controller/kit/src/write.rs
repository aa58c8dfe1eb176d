//! The writer: every write of a controller passes through it.
//!
//! A write waits for a slot among the writes in flight. It starts only if the lease lasts for another
//! ordinary deadline, and it ends with the lease. The writer sends it once and never retries it: the caller
//! decides about an unconfirmed write.
//!
//! Usually a write has the ordinary deadline. If a write of its collection was slow in the last minutes, it
//! may take as long as a request can take in the API server: a slow admission webhook then delays objects,
//! and does not prevent them.

mod error;
mod limits;
mod observer;
mod shutdown;
mod slots;

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::request::Request as Path;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vmpool_api::ObjectId;
use vmpool_runtime::Env;
use vmpool_runtime::lease::Fence;

use crate::response_body::ResponseBodies;
use crate::{decode, rejection};
pub use error::WriteError;
pub use limits::WriteLimits;
use observer::SlowWrite;
pub use observer::{WriteCategory, WriteObserver, WriteOutcome};
use shutdown::WriteShutdown;
use slots::{WriteSlot, WriteSlots};

/// What usually delays a request that gets no answer.
const SLOW: &str = "an admission webhook or the API server is slow";

/// Sends writes to the API server. `W` is the kind of a write, which the observer counts.
pub struct Writer<W> {
    client: Client,
    env: Env,
    fence: Fence,
    slots: WriteSlots,
    limits: WriteLimits,
    shutdown: WriteShutdown,
    field_manager: &'static str,
    observer: Arc<dyn WriteObserver<W>>,
    bodies: ResponseBodies,
}

impl<W> Clone for Writer<W> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            env: self.env.clone(),
            fence: self.fence.clone(),
            slots: self.slots.clone(),
            limits: self.limits,
            shutdown: self.shutdown.clone(),
            field_manager: self.field_manager,
            observer: self.observer.clone(),
            bodies: self.bodies.clone(),
        }
    }
}

impl<W: WriteCategory> Writer<W> {
    /// Creates a writer whose writes have this field manager. After `stop`, writes end within one ordinary
    /// deadline.
    pub fn new(
        field_manager: &'static str,
        client: Client,
        env: Env,
        fence: Fence,
        limits: WriteLimits,
        stop: CancellationToken,
        observer: Arc<dyn WriteObserver<W>>,
    ) -> Self {
        let slots = WriteSlots::new(env.clone(), limits.in_flight);
        let shutdown = WriteShutdown::new(env.clone(), stop, limits.deadline);
        let bodies = ResponseBodies::default();
        Self { client, env, fence, slots, limits, shutdown, field_manager, observer, bodies }
    }

    /// How many writes of the collection at `path` can start without waiting for each other. There is a limit
    /// only while they are slow.
    pub fn available_slots(&self, path: &str) -> usize {
        self.slots.available_slots(path)
    }

    /// The memory limit of response bodies, which reads share.
    pub fn bodies(&self) -> &ResponseBodies {
        &self.bodies
    }

    /// The field manager of all writes.
    pub fn field_manager(&self) -> &str {
        self.field_manager
    }

    /// Creates an object below `path`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create<T: DeserializeOwned>(
        &self,
        kind: W,
        path: String,
        object: Value,
    ) -> Result<T, WriteError> {
        self.post(kind, path, object, false).await
    }

    /// Sends the create of an object as a dry run, which has no effect. The response shows the object that
    /// the API server would store.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn rehearse_create<T: DeserializeOwned>(
        &self,
        kind: W,
        path: String,
        object: Value,
    ) -> Result<T, WriteError> {
        self.post(kind, path, object, true).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        kind: W,
        path: String,
        object: Value,
        dry_run: bool,
    ) -> Result<T, WriteError> {
        let params = PostParams { field_manager: Some(self.field_manager.to_owned()), dry_run };
        let body = serde_json::to_vec(&object).map_err(|error| WriteError::Invalid(error.into()))?;
        // Many writes wait at the same time. They keep the body as text, because the tree can need fifty
        // times as much memory.
        drop(object);
        let request = Path::new(&*path).create(&params, body);
        self.send(kind, &path, request).await
    }

    /// Patches an object, or its `subresource`.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch<T: DeserializeOwned, P: Serialize + std::fmt::Debug>(
        &self,
        kind: W,
        path: String,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<P>,
    ) -> Result<T, WriteError> {
        let params =
            PatchParams { field_manager: Some(self.field_manager.to_owned()), ..PatchParams::default() };
        // Webhooks distinguish subresources.
        let (request, lane) = match subresource {
            Some(subresource) => (
                Path::new(&*path).patch_subresource(subresource, name, &params, &patch),
                format!("{path}/{subresource}"),
            ),
            None => (Path::new(&*path).patch(name, &params, &patch), path),
        };
        drop(patch);
        self.send(kind, &lane, request).await
    }

    /// Deletes the object with this name *and* UID with background propagation; if `version` is given, only
    /// at this version. Returns the new version of the object, if finalizers keep it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        kind: W,
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
        kind: W,
        path: String,
        object: &ObjectId,
        version: Option<u64>,
    ) -> Result<Option<u64>, WriteError> {
        self.delete_with(kind, path, object, version, DeleteParams::foreground()).await
    }

    async fn delete_with(
        &self,
        kind: W,
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
        let request = Path::new(&*path).delete(&object.name, &params);
        let left: Left = self.send(kind, &path, request).await?;
        Ok(left.metadata.resource_version.parse().ok())
    }

    async fn send<T: DeserializeOwned>(
        &self,
        kind: W,
        lane: &str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let result = self.in_slot(kind, lane, request).await;
        self.observer.ended(kind, write_outcome(&result));
        result
    }

    /// Sends a request in a slot of its collection.
    async fn in_slot<T: DeserializeOwned>(
        &self,
        kind: W,
        lane: &str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, WriteError> {
        let request = request.map_err(|error| WriteError::Invalid(error.into()))?;
        let slot = self.slots.acquire(lane).await;
        // Checked last, because waiting for a slot takes time. An event changes nothing that another leader
        // decides about.
        let needs_lease = kind != W::EVENT;
        if (needs_lease && !self.fence.admits(self.limits.deadline)) || self.shutdown.has_ended() {
            return Err(WriteError::Fenced);
        }
        let bounds = select(Box::pin(self.fence.wait_until_ended()), Box::pin(self.shutdown.end()));
        match select(pin!(self.within_deadline(slot, request)), bounds).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                Err(WriteError::Unconfirmed("no answer before the controller stopped leading".to_owned()))
            }
        }
    }

    /// Sends a request, and waits for the response until the deadline of the slot.
    async fn within_deadline<T: DeserializeOwned>(
        &self,
        mut slot: WriteSlot,
        request: Request<Vec<u8>>,
    ) -> Result<T, WriteError> {
        let deadline = if slot.is_slow() { self.limits.slow_deadline } else { self.limits.deadline };
        let soon = self.limits.slow_after();
        let mut exchange = pin!(self.exchange(request));
        if let Ok(result) = self.env.timeout(soon, exchange.as_mut()).await {
            return result;
        }
        slot.record_slow();
        let _slow = SlowWrite::begin(self.observer.clone());
        match self.env.timeout(deadline.saturating_sub(soon), exchange).await {
            Ok(result) => result,
            Err(_) => Err(WriteError::Unconfirmed(format!("no answer within {deadline:?}: {SLOW}"))),
        }
    }

    async fn exchange<T: DeserializeOwned>(&self, request: Request<Vec<u8>>) -> Result<T, WriteError> {
        let response =
            self.client.send(request.map(Into::into)).await.map_err(|error| unconfirmed_error(&error))?;
        let (parts, body) = response.into_parts();
        let mut body = pin!(body);
        let mut whole = self.bodies.begin();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame.map_err(|error| unconfirmed_error(&error))?.data_ref() {
                whole.push(data).await;
            }
        }
        read_write_response(&parts, whole.bytes())
    }
}

fn write_outcome<T>(result: &Result<T, WriteError>) -> WriteOutcome {
    match result {
        Ok(_) => WriteOutcome::Done,
        Err(WriteError::Refused { .. }) => WriteOutcome::Refused,
        Err(WriteError::Unconfirmed(_)) => WriteOutcome::Unconfirmed,
        Err(WriteError::Fenced) => WriteOutcome::Fenced,
        Err(WriteError::Invalid(_) | WriteError::Mismatch(_)) => WriteOutcome::Invalid,
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

fn unconfirmed_error(error: &(dyn std::error::Error + 'static)) -> WriteError {
    WriteError::Unconfirmed(vmpool_runtime::telemetry::with_causes(error))
}

fn read_write_response<T: DeserializeOwned>(
    parts: &http::response::Parts,
    body: &[u8],
) -> Result<T, WriteError> {
    if parts.status.is_success() {
        return decode::decode_json(body).map_err(|error| unconfirmed_error(&error));
    }
    let status = rejection::rejection_status(parts, body);
    // The API server may have stored the object before the error.
    if parts.status.is_server_error() && parts.status != StatusCode::NOT_IMPLEMENTED {
        let mut message = format!("{}: {}", parts.status, status.message);
        if parts.status == StatusCode::GATEWAY_TIMEOUT {
            message = format!("{message}: {SLOW}");
        }
        return Err(WriteError::Unconfirmed(message));
    }
    let retry_after = rejection::retry_after(&status);
    Err(WriteError::Refused { status: Box::new(status), retry_after })
}

#[cfg(test)]
mod tests;
