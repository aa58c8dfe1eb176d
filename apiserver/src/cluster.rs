//! Requests to kube-apiserver. Each has a deadline. Only reads are retried here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Status};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::request::Request as Path;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use vmpool_api::autoscaler::API_VERSION;
use vmpool_engine::ObjectId;
use vmpool_platforms::ReferencedObject;
use vmpool_platforms::removal::{StoredApi, StoredResource, instance_addresses};
use vmpool_runtime::{Env, telemetry};

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The API server refused the request. The request had no effect.
    #[error("{}", .0.message)]
    Refused(CallRefusal),
    /// The response was lost or does not show the effect: a write may be applied, or may be applied later.
    #[error("the request is unconfirmed: {0}")]
    Unconfirmed(String),
}

/// The refusal of a request, as kube-apiserver reported it.
#[derive(Clone, Debug)]
pub(crate) struct CallRefusal {
    /// The HTTP status.
    pub(crate) code: u16,
    /// The reason, for programs.
    pub(crate) reason: String,
    /// The message, for users.
    pub(crate) message: String,
}

impl CallError {
    /// A response that is not what was requested.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn unreadable(error: serde_json::Error) -> Self {
        unconfirmed_call_error(&error)
    }

    fn has(&self, code: StatusCode) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == code.as_u16())
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.has(StatusCode::NOT_FOUND)
    }

    /// Whether a precondition failed.
    pub(crate) fn is_conflict(&self) -> bool {
        self.has(StatusCode::CONFLICT)
    }

    /// Whether a retry of the same request may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unconfirmed(_)) || self.has(StatusCode::TOO_MANY_REQUESTS)
    }
}

/// The fields of a stored pool that a removal needs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolFields {
    pub(crate) metadata: MetadataFields,
    #[serde(default)]
    pub(crate) spec: PoolSpecFields,
}

/// The part of the spec of a pool that a removal changes.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PoolSpecFields {
    pub(crate) replicas: Option<i64>,
}

/// The fields of a stored machine that a removal needs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MachineFields {
    pub(crate) metadata: MetadataFields,
}

/// The fields of metadata that a removal needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetadataFields {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The owners. Each can be any object of the namespace.
    pub(crate) owner_references: Vec<OwnerReference>,
}

/// The maximum number of attempts of a read.
const READ_ATTEMPTS: u32 = 3;
/// The maximum pause between two attempts of a read.
const READ_PAUSE: Duration = Duration::from_millis(200);
/// The number of machines in one page of a list.
const PAGE: u32 = 500;
/// The maximum number of requests in flight. A removal of a thousand machines then does not delay all others.
const IN_FLIGHT: usize = 64;
/// The field manager in `managedFields`.
const FIELD_MANAGER: &str = "vmpool-apiserver";
/// Requests a response with metadata only, if the server supports it.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// How long a write of a machine may take in kube-apiserver: at most 34 s, with slow admission webhooks.
const SLOW_WRITE: Duration = Duration::from_secs(40);

/// How long a write of a machine waits for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritePatience {
    /// The deadline of each request.
    Ordinary,
    /// As long as the write may take in kube-apiserver: an attempt with the ordinary deadline had no
    /// response.
    Slow,
}

impl WritePatience {
    /// The patience of the attempt after an unconfirmed one, or of the first one.
    pub(crate) fn after(unconfirmed: bool) -> Self {
        if unconfirmed { Self::Slow } else { Self::Ordinary }
    }
}

/// A client of kube-apiserver. Clones share its limit of requests in flight.
#[derive(Clone)]
pub(crate) struct ClusterClient {
    client: Client,
    env: Env,
    /// The deadline of each request.
    timeout: Duration,
    permits: Arc<Semaphore>,
}

impl ClusterClient {
    pub(crate) fn new(client: Client, env: Env, timeout: Duration) -> Self {
        Self { client, env, timeout, permits: Arc::new(Semaphore::new(IN_FLIGHT)) }
    }

    /// Reads the stored pool with this name.
    pub(crate) async fn pool<T: DeserializeOwned>(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
    ) -> Result<T, CallError> {
        self.read(&collection_path(&stored.pools, namespace), name, false).await
    }

    /// Reads the stored machine with this name.
    pub(crate) async fn machine(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
    ) -> Result<MachineFields, CallError> {
        self.read(&collection_path(&stored.machines, namespace), name, true).await
    }

    /// Reads the stored machine with this name, with spec and status.
    pub(crate) async fn whole_machine<T: DeserializeOwned>(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
    ) -> Result<T, CallError> {
        self.read(&collection_path(&stored.machines, namespace), name, false).await
    }

    /// Lists a page of the stored machines of a namespace. `next` is where the page begins.
    pub(crate) async fn machines(
        &self,
        stored: &StoredApi,
        namespace: &str,
        selector: Option<&str>,
        next: Option<&str>,
    ) -> Result<Box<RawValue>, CallError> {
        let path = Path::new(collection_path(&stored.machines, namespace));
        self.send_with_retries(|| path.list(&list_page_params(selector, next))).await
    }

    /// Lists the metadata of a page of the instances of machines in a namespace. `next` is where the page
    /// begins.
    pub(crate) async fn instances(
        &self,
        instances: &StoredResource,
        namespace: &str,
        selector: &str,
        next: Option<&str>,
    ) -> Result<Box<RawValue>, CallError> {
        let path = Path::new(collection_path(instances, namespace));
        self.send_with_retries(|| path.list_metadata(&list_page_params(Some(selector), next))).await
    }

    /// Whether an object of a resource exists in any namespace. A resource that the API server does not serve
    /// has none.
    pub(crate) async fn has_any(&self, resource: &StoredResource) -> Result<bool, CallError> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<IgnoredAny>,
        }
        let StoredResource { group, version, plural } = resource;
        let request =
            Path::new(format!("/apis/{group}/{version}/{plural}")).list(&ListParams::default().limit(1));
        match self.send::<List>(request).await {
            Ok(list) => Ok(!list.items.is_empty()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists a resource in all namespaces. A resource that the API server does not serve has no objects.
    pub(crate) async fn list_all<T: DeserializeOwned + Default>(
        &self,
        resource: &StoredResource,
    ) -> Result<T, CallError> {
        let StoredResource { group, version, plural } = resource;
        let path = Path::new(format!("/apis/{group}/{version}/{plural}"));
        match self.send_with_retries(|| path.list(&ListParams::default())).await {
            Err(error) if error.is_not_found() => Ok(T::default()),
            result => result,
        }
    }

    /// Lists the autoscalers of a namespace. A cluster without their kind has none.
    pub(crate) async fn autoscalers(&self, namespace: &str) -> Result<Value, CallError> {
        let path = Path::new(format!("/apis/{API_VERSION}/namespaces/{namespace}/poolautoscalers"));
        match self.send_with_retries(|| path.list(&ListParams::default())).await {
            Err(error) if error.is_not_found() => Ok(Value::Null),
            result => result,
        }
    }

    /// Why the platform's own controller may serve the pools, by its installations; `None` if it does not.
    pub(crate) async fn find_blocker(
        &self,
        stored: &StoredApi,
        installations: &StoredResource,
    ) -> Result<Option<String>, CallError> {
        let listed: Option<Box<RawValue>> = self.list_all(installations).await?;
        let blocker = listed.map(|list| stored.read_blocker(&list)).transpose();
        blocker.map(Option::flatten).map_err(CallError::unreadable)
    }

    /// Reads an object that another one refers to; `None` if it does not exist.
    pub(crate) async fn referenced(&self, reference: &ReferencedObject) -> Result<Option<Value>, CallError> {
        match self.read(&reference.collection, &reference.name, false).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The IP addresses of the instance of a machine; none on a platform whose machines have no instances.
    pub(crate) async fn instance_addresses(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<String>, CallError> {
        let Some(instances) = &stored.instances else { return Ok(Vec::new()) };
        let body: Box<RawValue> = self.read(&collection_path(instances, namespace), name, false).await?;
        instance_addresses(&body).map_err(|error| unconfirmed_call_error(&error))
    }

    /// Applies a merge patch to a machine.
    pub(crate) async fn patch_machine(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
        patch: &Value,
        patience: WritePatience,
    ) -> Result<Box<RawValue>, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let path = Path::new(collection_path(&stored.machines, namespace));
        self.send_within(self.deadline(patience), path.patch(name, &params, &Patch::Merge(patch))).await
    }

    /// Creates an event in a namespace.
    pub(crate) async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), CallError> {
        let body = serde_json::to_vec(event).map_err(|error| unconfirmed_call_error(&error))?;
        let path = Path::new(format!("/api/v1/namespaces/{namespace}/events"));
        self.send::<IgnoredAny>(path.create(&PostParams::default(), body)).await.map(|_| ())
    }

    /// Applies a merge patch to a pool.
    pub(crate) async fn patch_pool(
        &self,
        stored: &StoredApi,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<PoolFields, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.send(Path::new(collection_path(&stored.pools, namespace)).patch(
            name,
            &params,
            &Patch::Merge(patch),
        ))
        .await
    }

    /// Deletes the machine with this name and UID, and with this version if there is one.
    pub(crate) async fn delete_machine(
        &self,
        stored: &StoredApi,
        namespace: &str,
        machine: &ObjectId,
        version: Option<&str>,
        propagation: PropagationPolicy,
        patience: WritePatience,
    ) -> Result<(), CallError> {
        let uid = Some(machine.uid.as_str().to_owned());
        let resource_version = version.map(str::to_owned);
        let params = DeleteParams { propagation_policy: Some(propagation), ..DeleteParams::default() }
            .preconditions(Preconditions { uid, resource_version });
        let request = Path::new(collection_path(&stored.machines, namespace)).delete(&machine.name, &params);
        self.send_within::<IgnoredAny>(self.deadline(patience), request).await.map(|_| ())
    }

    /// Creates a SubjectAccessReview and returns the decision of the API server's authorizers.
    pub(crate) async fn review(
        &self,
        review: &SubjectAccessReview,
    ) -> Result<SubjectAccessReviewStatus, CallError> {
        #[derive(Deserialize)]
        struct Reviewed {
            status: SubjectAccessReviewStatus,
        }
        let body = serde_json::to_vec(review).map_err(|error| unconfirmed_call_error(&error))?;
        let path = Path::new("/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let reviewed: Reviewed = self.send(path.create(&PostParams::default(), body)).await?;
        Ok(reviewed.status)
    }

    /// Reads the data of the ConfigMap with the configuration of the front proxy.
    pub(crate) async fn front_proxy_config(&self) -> Result<BTreeMap<String, String>, CallError> {
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
        self.send_with_retries(|| {
            // A read without a resource version returns the most recent state.
            let mut request = Path::new(path).get(name, &kube::api::GetParams::default());
            if let (true, Ok(request)) = (metadata_only, &mut request) {
                request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(METADATA_ONLY));
            }
            request
        })
        .await
    }

    /// Sends a read, and repeats it after a failure that may pass.
    async fn send_with_retries<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        let mut attempts = 1;
        loop {
            match self.send(request()).await {
                Err(error) if error.is_transient() && attempts < READ_ATTEMPTS => {
                    attempts += 1;
                    self.env.sleep(self.env.jitter(READ_PAUSE)).await;
                }
                result => return result,
            }
        }
    }

    fn deadline(&self, patience: WritePatience) -> Duration {
        match patience {
            WritePatience::Ordinary => self.timeout,
            WritePatience::Slow => SLOW_WRITE,
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        self.send_within(self.timeout, request).await
    }

    async fn send_within<T: DeserializeOwned>(
        &self,
        deadline: Duration,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, CallError> {
        let request = request.map_err(|error| unconfirmed_call_error(&error))?;
        let _permit = self.permits.acquire().await.map_err(|error| unconfirmed_call_error(&error))?;
        let exchange = async {
            let response = self
                .client
                .send(request.map(Into::into))
                .await
                .map_err(|error| unconfirmed_call_error(&error))?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map_err(|error| unconfirmed_call_error(&error))?.to_bytes();
            decode_response(parts.status, &bytes)
        };
        match self.env.timeout(deadline, exchange).await {
            Ok(result) => result,
            Err(_) => Err(CallError::Unconfirmed(format!(
                "no answer within {deadline:?}: an admission webhook or the API server is slow"
            ))),
        }
    }
}

/// The parameters of a page of a list.
fn list_page_params(selector: Option<&str>, next: Option<&str>) -> ListParams {
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = selector.map(str::to_owned);
    params.continue_token = next.map(str::to_owned);
    params
}

fn collection_path(resource: &StoredResource, namespace: &str) -> String {
    let StoredResource { group, version, plural } = resource;
    format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
}

fn unconfirmed_call_error(error: &(dyn std::error::Error + 'static)) -> CallError {
    CallError::Unconfirmed(telemetry::with_causes(error))
}

fn decode_response<T: DeserializeOwned>(code: StatusCode, body: &[u8]) -> Result<T, CallError> {
    if code.is_success() {
        return serde_json::from_slice(body).map_err(|error| unconfirmed_call_error(&error));
    }
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: Some(String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned()),
        ..Status::default()
    });
    let (reason, message) = (status.reason.unwrap_or_default(), status.message.unwrap_or_default());
    // A server may report an internal error after it has stored the object.
    if code.is_server_error() && code != StatusCode::NOT_IMPLEMENTED {
        return Err(CallError::Unconfirmed(format!("{code}: {message}")));
    }
    Err(CallError::Refused(CallRefusal { code: code.as_u16(), reason, message }))
}
