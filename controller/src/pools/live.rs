//! Live reads: requests to the API server that no cache answers.

use std::time::Duration;

use futures::AsyncBufReadExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_decision::{Needs, Step};
use vmpool_kit::list;
use vmpool_kit::list::PAGE;
use vmpool_kit::object::collection_path;
use vmpool_kit::response_body::ResponseBody;
use vmpool_kit::write::WriteError;
use vmpool_kit::{decode, rejection};
use vmpool_platforms::{ApiObject, FetchedObjects, Platform, ReferencedObject, slim_metadata};

use crate::access::only_permitted;
use crate::pools::context::PoolContext;

/// The name of a list in errors of reads.
const ALL: &str = "(all)";

/// The error of a live read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The API server rejected the read, or its response cannot be read.
    #[error("reading {kind} {name}")]
    Failed {
        /// The kind of the object.
        kind: String,
        /// The name of the object, or `(all)` for a list.
        name: String,
        /// The reason.
        source: Box<kube::Error>,
    },
    /// The response did not arrive before the deadline.
    #[error("reading {kind} {name}: {source}")]
    TooLate {
        /// The kind of the object.
        kind: String,
        /// The name of the object, or `(all)` for a list.
        name: String,
        /// The deadline.
        source: vmpool_runtime::env::TimeoutElapsed,
    },
    /// The read was not sent.
    #[error("not sent: the backoff after a failed read has not ended")]
    InBackoff,
}

impl ReadError {
    /// Whether the cluster does not serve the resource.
    pub(crate) fn is_not_found(&self) -> bool {
        let Self::Failed { source, .. } = self else { return false };
        matches!(&**source, kube::Error::Api(status) if status.is_not_found())
    }

    /// The delay that the API server requests.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed { source, .. } => match &**source {
                kube::Error::Api(status) => rejection::retry_after(status),
                _ => None,
            },
            Self::TooLate { .. } | Self::InBackoff => None,
        }
    }
}

/// An object with only the metadata that vmpool reads.
#[derive(Debug, Deserialize)]
pub(crate) struct MetadataOnly {
    #[serde(deserialize_with = "slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

impl<P: Platform> PoolContext<P> {
    /// Whether a write failed because the object is not any more as it was read. A JSON patch is rejected in
    /// the same way if one of its tests fails and if its result is invalid. An invalid result must not be
    /// repeated immediately for ever.
    pub(crate) async fn is_outdated<K: ApiObject>(&self, error: &WriteError, read: &K) -> bool {
        if !error.is_unprocessable() {
            return error.is_conflict();
        }
        let meta = read.meta();
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        match self.get_live::<K>(namespace.unwrap_or_default(), name.unwrap_or_default()).await {
            Ok(Some(now)) => now.meta().resource_version != meta.resource_version,
            Ok(None) | Err(_) => true,
        }
    }

    /// Reads an object live: without a resourceVersion, so that the API server reads from the etcd quorum.
    pub(crate) async fn get_live<K: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<K>, ReadError> {
        let object = async {
            let body = self.fetch::<K>(namespace, name).await?;
            body.map(|body| decode::decode_json(body.bytes())).transpose().map_err(kube::Error::SerdeError)
        };
        self.in_time(&K::kind(&()), name, object).await
    }

    /// Reads an object live as text, with all its fields.
    pub(crate) async fn get_text<K: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ResponseBody>, ReadError> {
        self.in_time(&K::kind(&()), name, self.fetch::<K>(namespace, name)).await
    }

    /// Evaluates a decision about a template, and reads live the objects that it needs.
    pub(crate) async fn decide<T>(
        &self,
        decision: impl Fn(&FetchedObjects) -> Step<T, ReferencedObject>,
    ) -> Result<T, ReadError> {
        let mut found = FetchedObjects::default();
        loop {
            let Needs(needs) = match decision(&found) {
                Ok(result) => return Ok(result),
                Err(needs) => needs,
            };
            for reference in needs {
                let object = self.get_referenced(&reference).await?;
                found.insert(reference, object);
            }
        }
    }

    /// Reads an object live that a template refers to. If the cluster does not have its kind, or if the
    /// template may not use it, it does not exist.
    pub(crate) async fn get_referenced(
        &self,
        reference: &ReferencedObject,
    ) -> Result<Option<Value>, ReadError> {
        let object = async {
            let body = match self.fetch_at(reference.collection.clone(), &reference.name).await {
                // For a path without a kind, the API server returns a page instead of a status with a reason.
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                body => body?,
            };
            let object = body.map(|body| decode::decode_json(body.bytes())).transpose();
            only_permitted(&self.leader.client, reference, object.map_err(kube::Error::SerdeError)?).await
        };
        self.in_time(reference.kind, &reference.name, object).await
    }

    async fn fetch<K: ApiObject>(&self, namespace: &str, name: &str) -> kube::Result<Option<ResponseBody>> {
        self.fetch_at(collection_path::<K>(namespace), name).await
    }

    async fn fetch_at(&self, collection: String, name: &str) -> kube::Result<Option<ResponseBody>> {
        let request = Request::new(collection).get(name, &GetParams::default());
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.extensions_mut().insert("get");
        let answer = match rejection::send_read(&self.leader.client, request).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut answer, mut body) = (std::pin::pin!(answer), self.leader.writer.bodies().begin());
        loop {
            let chunk = answer.fill_buf().await.map_err(kube::Error::ReadEvents)?;
            if chunk.is_empty() {
                return Ok(Some(body));
            }
            body.push(chunk).await;
            let read = chunk.len();
            answer.consume_unpin(read);
        }
    }

    /// Lists all objects of type `K` in `namespace` live and page by page, and passes each to `visit`. All
    /// pages show the state at one time after the call.
    pub(crate) async fn list_live<K: ApiObject>(
        &self,
        namespace: &str,
        visit: impl FnMut(K),
    ) -> Result<(), ReadError> {
        self.list_live_where(namespace, ListParams::default(), visit).await
    }

    /// The same for the objects that `wanted` selects.
    pub(crate) async fn list_live_where<K: ApiObject>(
        &self,
        namespace: &str,
        wanted: ListParams,
        visit: impl FnMut(K),
    ) -> Result<(), ReadError> {
        self.pages::<K, K>(wanted, visit, |page| Request::new(collection_path::<K>(namespace)).list(page))
            .await
    }

    /// As [`PoolContext::list_live`], but only with the metadata.
    pub(crate) async fn list_live_metadata<K: ApiObject>(
        &self,
        namespace: &str,
        visit: impl FnMut(MetadataOnly),
    ) -> Result<(), ReadError> {
        self.list_live_metadata_where::<K>(namespace, ListParams::default(), visit).await
    }

    /// The same for the objects that `wanted` selects.
    pub(crate) async fn list_live_metadata_where<K: ApiObject>(
        &self,
        namespace: &str,
        wanted: ListParams,
        visit: impl FnMut(MetadataOnly),
    ) -> Result<(), ReadError> {
        let request = |page: &ListParams| Request::new(collection_path::<K>(namespace)).list_metadata(page);
        self.pages::<K, MetadataOnly>(wanted, visit, request).await
    }

    async fn pages<K: ApiObject, T: DeserializeOwned>(
        &self,
        wanted: ListParams,
        mut visit: impl FnMut(T),
        request: impl Fn(&ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<(), ReadError> {
        let mut wanted = wanted.limit(PAGE);
        loop {
            let page = list::read_list_page(&self.leader.client, request(&wanted), &mut visit);
            let page = self.in_time(&K::kind(&()), ALL, page).await?;
            if page.next.is_empty() {
                return Ok(());
            }
            wanted = wanted.continue_token(&page.next);
        }
    }

    /// The result of a read, or an error after the deadline.
    async fn in_time<T>(
        &self,
        kind: &str,
        name: &str,
        read: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ReadError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        match self.leader.env.timeout(self.settings.request_deadline, read).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(ReadError::Failed { kind, name, source: Box::new(source) }),
            Err(source) => Err(ReadError::TooLate { kind, name, source }),
        }
    }
}
