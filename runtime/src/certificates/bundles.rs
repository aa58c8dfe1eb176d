//! The `caBundle` of those who call us.

use std::collections::BTreeMap;

use axum::http::Uri;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::args::BundleOf;
use super::secret::{RequestError, bounded};
use crate::env::Env;

/// An object as it was read: the version, and every place of ours in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is no such object.
    Missing,
    /// It calls somebody else.
    Foreign,
    /// It calls us.
    Ours { uid: String, version: String, places: Vec<Place> },
}

/// A bundle within an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// A JSON pointer.
    path: String,
    bundle: Vec<u8>,
    /// What a patch tests first, so that it cannot hit another webhook.
    test: Option<(String, Value)>,
}

impl Seen {
    /// Whether nobody calls us with another bundle than `bundle`.
    pub(super) fn trusts(&self, bundle: &[u8]) -> bool {
        match self {
            Self::Missing | Self::Foreign => true,
            Self::Ours { places, .. } => places.iter().all(|place| place.bundle == bundle),
        }
    }

    /// The version that was read; nothing if there is none of ours.
    pub(super) fn version(&self) -> &str {
        match self {
            Self::Missing | Self::Foreign => "",
            Self::Ours { version, .. } => version,
        }
    }
}

/// The objects that are looked after.
pub(super) struct Bundles {
    client: Client,
    env: Env,
    pub(super) objects: Vec<BundleOf>,
    /// The names under which we are called.
    names: Vec<String>,
}

impl Bundles {
    pub(super) fn new(client: Client, env: Env, objects: Vec<BundleOf>, names: Vec<String>) -> Self {
        Self { client, env, objects, names }
    }

    pub(super) async fn read(&self, object: &BundleOf) -> Result<Seen, RequestError> {
        match object {
            BundleOf::Webhooks(name) => {
                let found: Option<ValidatingWebhookConfiguration> = self.get(name).await?;
                Ok(found.map_or(Seen::Missing, |found| self.webhooks(found)))
            }
            BundleOf::ApiService(name) => {
                let found: Option<APIService> = self.get(name).await?;
                Ok(found.map_or(Seen::Missing, |found| self.api_service(found)))
            }
        }
    }

    /// Puts `bundle` into every place that has another one, in the very version that was read.
    ///
    /// Returns whether that was so: nothing happens to a version that somebody changed since.
    pub(super) async fn patch(
        &self,
        object: &BundleOf,
        seen: &Seen,
        bundle: &[u8],
    ) -> Result<bool, RequestError> {
        let Seen::Ours { uid, version, places } = seen else { return Ok(true) };
        let patch = changes(uid, version, places, bundle);
        let parameters =
            PatchParams { field_manager: Some("vmpool-certificates".to_owned()), ..PatchParams::default() };
        let patch = serde_json::from_value(patch).map_err(|error| RequestError::Answer(error.to_string()))?;
        let patch = Patch::Json::<()>(patch);
        let answer = match object {
            BundleOf::Webhooks(name) => {
                let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
                bounded(&self.env, api.patch(name, &parameters, &patch)).await.map(drop)
            }
            BundleOf::ApiService(name) => {
                let api: Api<APIService> = Api::all(self.client.clone());
                bounded(&self.env, api.patch(name, &parameters, &patch)).await.map(drop)
            }
        };
        match answer {
            Ok(()) => Ok(true),
            // 409: the version changed while the patch was applied; 422 with these words: before that.
            Err(RequestError::Kube(kube::Error::Api(status)))
                if matches!(status.code, 404 | 409)
                    || (status.code == 422 && status.message.contains("test failed"))
                    || (status.code == 422 && status.message.contains("testing value")) =>
            {
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
        bounded(&self.env, api.get_opt(name)).await
    }

    fn webhooks(&self, found: ValidatingWebhookConfiguration) -> Seen {
        let webhooks = found.webhooks.unwrap_or_default();
        let places = webhooks.into_iter().enumerate().filter_map(|(index, webhook)| {
            let config = webhook.client_config;
            let service = config.service.as_ref().map(|service| (&*service.name, &*service.namespace));
            self.are_called(service, config.url.as_deref()).then(|| Place {
                path: format!("/webhooks/{index}/clientConfig/caBundle"),
                bundle: bytes(config.ca_bundle),
                test: Some((format!("/webhooks/{index}/name"), json!(webhook.name))),
            })
        });
        seen(found.metadata, places.collect())
    }

    fn api_service(&self, found: APIService) -> Seen {
        let Some(spec) = found.spec else { return Seen::Foreign };
        let service = spec.service.as_ref();
        let service = service.and_then(|service| service.name.as_deref().zip(service.namespace.as_deref()));
        let place = self.are_called(service, None).then(|| Place {
            path: "/spec/caBundle".to_owned(),
            bundle: bytes(spec.ca_bundle),
            test: None,
        });
        seen(found.metadata, place.into_iter().collect())
    }

    /// Whether a service or a URL is one of our names.
    fn are_called(&self, service: Option<(&str, &str)>, url: Option<&str>) -> bool {
        let called = |host: &str| self.names.iter().any(|name| name.eq_ignore_ascii_case(host));
        service.is_some_and(|(name, namespace)| called(&format!("{name}.{namespace}.svc")))
            || url.and_then(host).is_some_and(|host| called(&host))
    }
}

fn seen(metadata: ObjectMeta, places: Vec<Place>) -> Seen {
    if places.is_empty() {
        return Seen::Foreign;
    }
    let uid = metadata.uid.unwrap_or_default();
    Seen::Ours { uid, version: metadata.resource_version.unwrap_or_default(), places }
}

fn bytes(bundle: Option<ByteString>) -> Vec<u8> {
    bundle.map(|ByteString(bytes)| bytes).unwrap_or_default()
}

fn host(url: &str) -> Option<String> {
    let host = url.parse::<Uri>().ok()?.host()?.to_owned();
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

fn changes(uid: &str, version: &str, places: &[Place], bundle: &[u8]) -> Value {
    let value = json!(ByteString(bundle.to_vec()));
    let mut tests = BTreeMap::from([
        ("/metadata/uid".to_owned(), json!(uid)),
        ("/metadata/resourceVersion".to_owned(), json!(version)),
    ]);
    let wrong = || places.iter().filter(|place| place.bundle != bundle);
    tests.extend(wrong().filter_map(|place| place.test.clone()));
    let tests = tests.into_iter().map(|(path, value)| json!({ "op": "test", "path": path, "value": value }));
    let adds = wrong().map(|place| json!({ "op": "add", "path": place.path, "value": value }));
    Value::Array(tests.chain(adds).collect())
}
