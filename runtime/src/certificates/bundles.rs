//! The `caBundle` fields of the objects through which the API server calls this program.

use std::collections::BTreeMap;

use axum::http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::BundleOf;
use super::secret::{RequestError, send_with_deadline};
use crate::env::Env;

/// An object as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BundleObjectState {
    /// The object does not exist.
    Missing,
    /// The object calls other programs only.
    CallsOtherPrograms,
    /// The object calls this program.
    CallsThisProgram { uid: String, version: String, fields: Vec<BundleField> },
}

/// A `caBundle` field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BundleField {
    /// The JSON pointer to the field.
    path: String,
    bundle: Vec<u8>,
    /// A path and value that a patch tests first, so that it cannot change another webhook.
    test: Option<(String, Value)>,
}

impl BundleObjectState {
    /// Whether all fields for this program contain `bundle`.
    pub(super) fn trusts(&self, bundle: &[u8]) -> bool {
        match self {
            Self::Missing | Self::CallsOtherPrograms => true,
            Self::CallsThisProgram { fields, .. } => fields.iter().all(|field| field.bundle == bundle),
        }
    }

    /// The resource version; empty if the object does not call this program.
    pub(super) fn version(&self) -> &str {
        match self {
            Self::Missing | Self::CallsOtherPrograms => "",
            Self::CallsThisProgram { version, .. } => version,
        }
    }
}

/// The objects whose bundles are maintained.
pub(super) struct Bundles {
    client: Client,
    env: Env,
    pub(super) objects: Vec<BundleOf>,
    /// The DNS names of this program.
    names: Vec<String>,
}

impl Bundles {
    pub(super) fn new(client: Client, env: Env, objects: Vec<BundleOf>, names: Vec<String>) -> Self {
        Self { client, env, objects, names }
    }

    pub(super) async fn read(&self, object: &BundleOf) -> Result<BundleObjectState, RequestError> {
        match object {
            BundleOf::Webhooks(name) => self.read_webhooks::<ValidatingWebhookConfiguration>(name).await,
            BundleOf::MutatingWebhooks(name) => {
                self.read_webhooks::<MutatingWebhookConfiguration>(name).await
            }
            BundleOf::ApiService(name) => {
                let found: Option<APIService> = self.get(name).await?;
                Ok(found.map_or(BundleObjectState::Missing, |found| self.api_service(found)))
            }
        }
    }

    /// Writes `bundle` into all fields with another bundle, at the version that was read.
    ///
    /// Returns false if the object has changed since the read. The patch then has no effect.
    pub(super) async fn patch(
        &self,
        object: &BundleOf,
        observed: &BundleObjectState,
        bundle: &[u8],
    ) -> Result<bool, RequestError> {
        let BundleObjectState::CallsThisProgram { uid, version, fields } = observed else { return Ok(true) };
        let patch = json_patch(uid, version, fields, bundle);
        let parameters =
            PatchParams { field_manager: Some("vmpool-certificates".to_owned()), ..PatchParams::default() };
        let patch = serde_json::from_value(patch).map_err(|error| RequestError::Decode(error.to_string()))?;
        let patch = Patch::Json::<()>(patch);
        let result = match object {
            BundleOf::Webhooks(name) => {
                self.send::<ValidatingWebhookConfiguration>(name, &parameters, &patch).await
            }
            BundleOf::MutatingWebhooks(name) => {
                self.send::<MutatingWebhookConfiguration>(name, &parameters, &patch).await
            }
            BundleOf::ApiService(name) => self.send::<APIService>(name, &parameters, &patch).await,
        };
        match result {
            Ok(()) => Ok(true),
            // The object changed while the API server applied the patch.
            Err(RequestError::Kube(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Ok(false)
            }
            // A test in the patch failed because the object changed before that, or the result is invalid.
            Err(RequestError::Kube(kube::Error::Api(status))) if status.code == 422 => {
                if self.read(object).await?.version() == version.as_str() {
                    return Err(RequestError::Kube(kube::Error::Api(status)));
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn get<K>(&self, name: &str) -> Result<Option<K>, RequestError>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        send_with_deadline(&self.env, api.get_opt(name)).await
    }

    async fn read_webhooks<K>(&self, name: &str) -> Result<BundleObjectState, RequestError>
    where
        K: Webhooks + kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let found: Option<K> = self.get(name).await?;
        Ok(found.map_or(BundleObjectState::Missing, |found| self.webhooks(found)))
    }

    async fn send<K>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<()>,
    ) -> Result<(), RequestError>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client.clone());
        send_with_deadline(&self.env, api.patch(name, parameters, patch)).await.map(drop)
    }

    fn webhooks(&self, found: impl Webhooks) -> BundleObjectState {
        let (metadata, webhooks) = found.into_parts();
        let fields = webhooks.into_iter().enumerate().filter_map(|(index, (name, config))| {
            let service = config.service.as_ref();
            let service = service.map(|service| service_host(&service.name, &service.namespace));
            self.is_called(service.as_deref(), config.url.as_deref()).then(|| BundleField {
                path: format!("/webhooks/{index}/clientConfig/caBundle"),
                bundle: bundle_bytes(config.ca_bundle),
                test: Some((format!("/webhooks/{index}/name"), json!(name))),
            })
        });
        bundle_object_state(metadata, fields.collect())
    }

    fn api_service(&self, found: APIService) -> BundleObjectState {
        let Some(spec) = found.spec else { return BundleObjectState::CallsOtherPrograms };
        let service = spec.service.as_ref();
        let service = service.and_then(|service| service.name.as_deref().zip(service.namespace.as_deref()));
        let service = service.map(|(name, namespace)| service_host(name, namespace));
        let field = self.is_called(service.as_deref(), None).then(|| BundleField {
            path: "/spec/caBundle".to_owned(),
            bundle: bundle_bytes(spec.ca_bundle),
            test: None,
        });
        bundle_object_state(found.metadata, field.into_iter().collect())
    }

    /// Whether the host of a service or of a URL is one of the names of this program.
    fn is_called(&self, service_host: Option<&str>, url: Option<&str>) -> bool {
        let called = |host: &str| self.names.iter().any(|name| name.eq_ignore_ascii_case(host));
        service_host.is_some_and(called) || url.and_then(url_host).is_some_and(|host| called(&host))
    }
}

/// The name at which kube-apiserver calls a Service.
fn service_host(name: &str, namespace: &str) -> String {
    format!("{name}.{namespace}.svc")
}

/// A configuration of webhooks.
trait Webhooks {
    /// The metadata, and each webhook's name and server.
    fn into_parts(self) -> (ObjectMeta, Vec<(String, WebhookClientConfig)>);
}

macro_rules! webhooks {
    ($($kind:ty),+) => {
        $(impl Webhooks for $kind {
            fn into_parts(self) -> (ObjectMeta, Vec<(String, WebhookClientConfig)>) {
                let webhooks = self.webhooks.into_iter().flatten();
                (self.metadata, webhooks.map(|webhook| (webhook.name, webhook.client_config)).collect())
            }
        })+
    };
}

webhooks!(ValidatingWebhookConfiguration, MutatingWebhookConfiguration);

fn bundle_object_state(metadata: ObjectMeta, fields: Vec<BundleField>) -> BundleObjectState {
    if fields.is_empty() {
        return BundleObjectState::CallsOtherPrograms;
    }
    let uid = metadata.uid.unwrap_or_default();
    BundleObjectState::CallsThisProgram {
        uid,
        version: metadata.resource_version.unwrap_or_default(),
        fields,
    }
}

fn bundle_bytes(bundle: Option<ByteString>) -> Vec<u8> {
    bundle.map(|ByteString(bytes)| bytes).unwrap_or_default()
}

fn url_host(url: &str) -> Option<String> {
    let host = url.parse::<Uri>().ok()?.host()?.to_owned();
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

fn json_patch(uid: &str, version: &str, fields: &[BundleField], bundle: &[u8]) -> Value {
    let value = json!(ByteString(bundle.to_vec()));
    let mut tests = BTreeMap::from([
        ("/metadata/uid".to_owned(), json!(uid)),
        ("/metadata/resourceVersion".to_owned(), json!(version)),
    ]);
    let outdated = || fields.iter().filter(|field| field.bundle != bundle);
    tests.extend(outdated().filter_map(|field| field.test.clone()));
    let tests = tests.into_iter().map(|(path, value)| json!({ "op": "test", "path": path, "value": value }));
    let adds = outdated().map(|field| json!({ "op": "add", "path": field.path, "value": value }));
    Value::Array(tests.chain(adds).collect())
}
