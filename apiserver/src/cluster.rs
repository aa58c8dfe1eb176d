//! Calls to the API server: each with a deadline, none of them repeated here but reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::core::request::Request as Path;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tokio::sync::Semaphore;
use vmpool_engine::ObjectId;
use vmpool_runtime::{Env, telemetry};

use crate::api::{MACHINES, POOLS, STORED_GROUP, STORED_VERSION};

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server refused it. It had no effect.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// The API server could not ask an admission webhook. It had no effect.
    #[error("{0}")]
    Unasked(String),
    /// No answer, or one that says nothing about the effect: a write may have been done, or may still be.
    #[error("no certain answer: {0}")]
    Lost(String),
}

impl CallError {
    fn has(&self, wanted: StatusCode) -> bool {
        matches!(self, Self::Refused(status) if status.code == wanted.as_u16())
    }

    /// Whether the object is not there.
    pub(crate) fn is_gone(&self) -> bool {
        self.has(StatusCode::NOT_FOUND)
    }

    /// Whether a precondition failed.
    pub(crate) fn is_conflict(&self) -> bool {
        self.has(StatusCode::CONFLICT)
    }

    /// Whether the same call may well succeed in a moment.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Unasked(_)) || self.has(StatusCode::TOO_MANY_REQUESTS)
    }
}

/// What is known of a stored pool: what a removal needs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pool {
    pub(crate) metadata: Meta,
    #[serde(default)]
    pub(crate) spec: PoolSpec,
}

/// The part of a pool's spec that a removal changes.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolSpec {
    pub(crate) replicas: Option<i64>,
}

/// What is known of a stored machine.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Machine {
    pub(crate) metadata: Meta,
}

/// What is read of metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
    owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
    controller: bool,
}

impl Meta {
    /// UID of the controller owner.
    pub(crate) fn controller(&self) -> Option<&str> {
        self.owner_references.iter().find(|owner| owner.controller).map(|owner| &*owner.uid)
    }
}

/// What the API server says of an admission webhook that it cannot ask. It asks before it stores anything.
const UNASKED: &str = "failed calling webhook";

/// How often a read is tried.
const READS: u32 = 3;
/// The longest pause between two tries of a read.
const READ_PAUSE: Duration = Duration::from_millis(200);
/// Calls that may be under way at a time, so that a removal of a thousand machines leaves room for others.
const IN_FLIGHT: usize = 64;
/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "vmpool-apiserver";
/// Answers with metadata only, where the server can.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// The way to the API server. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    env: Env,
    /// How long a call may take.
    timeout: Duration,
    permits: Arc<Semaphore>,
}

impl Cluster {
    pub(crate) fn new(client: Client, env: Env, timeout: Duration) -> Self {
        Self { client, env, timeout, permits: Arc::new(Semaphore::new(IN_FLIGHT)) }
    }

    /// The pool of this name, as it is stored now.
    pub(crate) async fn pool<T: DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<T, CallError> {
        self.read(&path(namespace, POOLS), name, false).await
    }

    /// The machine of this name, as it is stored now.
    pub(crate) async fn machine(&self, namespace: &str, name: &str) -> Result<Machine, CallError> {
        self.read(&path(namespace, MACHINES), name, true).await
    }

    /// Merges `patch` into a pool.
    pub(crate) async fn patch_pool(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Pool, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.send(Path::new(path(namespace, POOLS)).patch(name, &params, &Patch::Merge(patch))).await
    }

    /// Deletes the machine with this name *and* UID, in the background.
    pub(crate) async fn delete_machine(&self, namespace: &str, machine: &ObjectId) -> Result<(), CallError> {
        let uid = Some(machine.uid.as_str().to_owned());
        let params = DeleteParams::background().preconditions(Preconditions { uid, resource_version: None });
        let request = Path::new(path(namespace, MACHINES)).delete(&machine.name, &params);
        self.send::<IgnoredAny>(request).await.map(|_| ())
    }

    /// What the API server's authorizers say.
    pub(crate) async fn review(
        &self,
        review: &SubjectAccessReview,
    ) -> Result<SubjectAccessReviewStatus, CallError> {
        #[derive(Deserialize)]
        struct Reviewed {
            status: SubjectAccessReviewStatus,
        }
        let body = serde_json::to_vec(review).map_err(|error| lost(&error))?;
        let path = Path::new("/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let answer: Reviewed = self.send(path.create(&PostParams::default(), body)).await?;
        Ok(answer.status)
    }

    /// The data of the ConfigMap that describes the front proxy.
    pub(crate) async fn authentication(&self) -> Result<BTreeMap<String, String>, CallError> {
        #[derive(Deserialize)]
        struct ConfigMap {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        let path = "/api/v1/namespaces/kube-system/configmaps";
        let map: ConfigMap = self.read(path, "extension-apiserver-authentication", false).await?;
        Ok(map.data)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        metadata_only: bool,
    ) -> Result<T, CallError> {
        let mut tries = 1;
        loop {
            // Without a resource version: the answer is as of now.
            let mut request = Path::new(path).get(name, &kube::api::GetParams::default());
            if let (true, Ok(request)) = (metadata_only, &mut request) {
                request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(METADATA_ONLY));
            }
            match self.send(request).await {
                Err(error) if error.is_transient() && tries < READS => {
                    tries += 1;
                    self.env.sleep(self.env.jitter(READ_PAUSE)).await;
                }
                result => return result,
            }
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        let request = request.map_err(|error| lost(&error))?;
        let _permit = self.permits.acquire().await.map_err(|error| lost(&error))?;
        let exchange = async {
            let response = self.client.send(request.map(Into::into)).await.map_err(|error| lost(&error))?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map_err(|error| lost(&error))?.to_bytes();
            answer(parts.status, &bytes)
        };
        match self.env.timeout(self.timeout, exchange).await {
            Ok(result) => result,
            Err(elapsed) => Err(CallError::Lost(elapsed.to_string())),
        }
    }
}

fn path(namespace: &str, resource: &str) -> String {
    format!("/apis/{STORED_GROUP}/{STORED_VERSION}/namespaces/{namespace}/{resource}")
}

fn lost(error: &(dyn std::error::Error + 'static)) -> CallError {
    CallError::Lost(telemetry::with_causes(error))
}

fn answer<T: DeserializeOwned>(code: StatusCode, body: &[u8]) -> Result<T, CallError> {
    if code.is_success() {
        return serde_json::from_slice(body).map_err(|error| lost(&error));
    }
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        ..Status::default()
    });
    if code == StatusCode::INTERNAL_SERVER_ERROR && status.message.contains(UNASKED) {
        return Err(CallError::Unasked(status.message));
    }
    // A server that broke down may have stored the object before.
    if code.is_server_error() && code != StatusCode::NOT_IMPLEMENTED {
        return Err(CallError::Lost(format!("{code}: {}", status.message)));
    }
    Err(CallError::Refused(Box::new(Status { code: code.as_u16(), ..status })))
}
