//! The cluster: requests with the rights of the user.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::Value;
use vmpool_diskimage::backup::ObjectKind;
use vmpool_platforms::ApiObject;
use vmpool_runtime::Env;

use crate::client_config::read_client_config;
use crate::connection::ConnectionArguments;
use crate::dry_run::WriteMode;
use crate::explain::{RequestAttempt, explain_request_error, is_unserved};

/// The field manager of all writes.
pub(crate) const FIELD_MANAGER: &str = "kubectl-vmpool";

/// A cluster and a namespace.
#[derive(Clone)]
pub(crate) struct UserClusterClient {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) env: Env,
    /// How long to wait for one response; `None` without a limit.
    pub(crate) request_timeout: Option<Duration>,
}

/// The namespaces whose objects a command lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListScope {
    /// The namespace of the command.
    Namespace,
    /// All namespaces.
    Cluster,
}

impl UserClusterClient {
    /// Connects with the kubeconfig of the user. It sends no request.
    ///
    /// # Errors
    /// The kubeconfig cannot be read, or has no such context, or groups are impersonated without a user.
    pub(crate) async fn connect(connection: &ConnectionArguments, env: Env) -> Result<Self> {
        let request_timeout = Some(connection.request_timeout).filter(|timeout| !timeout.is_zero());
        let mut config = read_client_config(connection, request_timeout).await?;
        let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        // A repeated write could find its own result, and report it as a conflict.
        config.default_retry = false;
        let client = Client::try_from(config).context("creating a client from the kubeconfig")?;
        Ok(Self { client, namespace, env, request_timeout })
    }

    /// The objects of a type in the namespace.
    pub(crate) fn api<K: ApiObject>(&self) -> Api<DynamicObject> {
        self.api_of(&api_resource::<K>())
    }

    fn api_of(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, resource)
    }

    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// The request failed, also because the cluster does not serve the type.
    pub(crate) async fn get<K: ApiObject>(&self, name: &str) -> Result<Option<Value>> {
        match self.api::<K>().get(name).await {
            Ok(object) => Ok(Some(object_to_json(&object)?)),
            Err(kube::Error::Api(status))
                if status.code == 404 && !is_unserved(&kube::Error::Api(status.clone())) =>
            {
                Ok(None)
            }
            Err(error) => Err(explain_request_error(&self.attempt::<K>("get", name), &error)),
        }
    }

    /// Lists the objects of a type in the namespace, in the order of their names.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn list<K: ApiObject>(&self, selector: Option<&str>) -> Result<Vec<Value>> {
        let params =
            selector.map_or_else(ListParams::default, |selector| ListParams::default().labels(selector));
        let listed = self.api::<K>().list(&params).await;
        let listed = listed.map_err(|error| explain_request_error(&self.attempt::<K>("list", ""), &error))?;
        listed.items.iter().map(object_to_json).collect()
    }

    /// Lists the objects of a type in all namespaces.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn list_everywhere<K: ApiObject>(&self) -> Result<Vec<Value>> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &api_resource::<K>());
        let attempt = RequestAttempt { namespace: String::new(), ..self.attempt::<K>("list", "") };
        let listed = api
            .list(&ListParams::default())
            .await
            .map_err(|error| explain_request_error(&attempt, &error))?;
        listed.items.iter().map(object_to_json).collect()
    }

    /// Lists the objects of a type in a scope; `None` if the cluster does not serve the type.
    ///
    /// # Errors
    /// The request failed for another reason.
    pub(crate) async fn list_if_served<K: ApiObject>(&self, scope: ListScope) -> Result<Option<Vec<Value>>> {
        let mut attempt = self.attempt::<K>("list", "");
        let api = match scope {
            ListScope::Namespace => self.api::<K>(),
            ListScope::Cluster => {
                attempt.namespace.clear();
                Api::all_with(self.client.clone(), &api_resource::<K>())
            }
        };
        match api.list(&ListParams::default()).await {
            Ok(listed) => listed.items.iter().map(object_to_json).collect::<Result<Vec<_>>>().map(Some),
            Err(error) if is_unserved(&error) => Ok(None),
            Err(error) => Err(explain_request_error(&attempt, &error)),
        }
    }

    /// Creates an object, and returns the result.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn create<K: ApiObject>(&self, object: &Value, mode: WriteMode) -> Result<Value> {
        let attempt = self.attempt::<K>("create", name_of(object));
        let object: DynamicObject = serde_json::from_value(object.clone()).context("reading the manifest")?;
        let params = PostParams { dry_run: mode.is_dry_run(), field_manager: Some(FIELD_MANAGER.to_owned()) };
        let created = self.api::<K>().create(&params, &object).await;
        object_to_json(&created.map_err(|error| explain_request_error(&attempt, &error))?)
    }

    /// Patches an object, and returns the result.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn patch<K: ApiObject>(
        &self,
        name: &str,
        patch: &Patch<impl Serialize + std::fmt::Debug>,
        mode: WriteMode,
    ) -> Result<Value> {
        self.patch_with(&self.api::<K>(), self.attempt::<K>("patch", name), patch, mode).await
    }

    /// Merges a patch into an object at the version that was read.
    ///
    /// # Errors
    /// The request failed, also because the object has changed.
    pub(crate) async fn merge_at_version<K: ApiObject>(
        &self,
        object: &Value,
        mut patch: Value,
        mode: WriteMode,
    ) -> Result<()> {
        patch["metadata"]["uid"] = object["metadata"]["uid"].clone();
        patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        self.patch::<K>(name_of(object), &Patch::Merge(patch), mode).await.map(drop)
    }

    async fn patch_with(
        &self,
        api: &Api<DynamicObject>,
        attempt: RequestAttempt,
        patch: &Patch<impl Serialize + std::fmt::Debug>,
        mode: WriteMode,
    ) -> Result<Value> {
        let params = patch_params(mode);
        let patched = api.patch(&attempt.name, &params, patch).await;
        object_to_json(&patched.map_err(|error| explain_request_error(&attempt, &error))?)
    }

    /// Reads an object of a kind that is no type of a platform; `None` if it does not exist, or if the
    /// cluster does not serve the kind.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn get_of_kind(&self, kind: ObjectKind, name: &str) -> Result<Option<Value>> {
        match self.api_of_kind(kind).get(name).await {
            Ok(object) => Ok(Some(object_to_json(&object)?)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(explain_request_error(&self.attempt_of_kind("get", kind, name), &error)),
        }
    }

    /// Lists the objects of such a kind in the namespace.
    ///
    /// # Errors
    /// The request failed, also because the cluster does not serve the kind.
    pub(crate) async fn list_of_kind(&self, kind: ObjectKind) -> Result<Vec<Value>> {
        let listed = self.api_of_kind(kind).list(&ListParams::default()).await;
        let attempt = || self.attempt_of_kind("list", kind, "");
        let listed = listed.map_err(|error| explain_request_error(&attempt(), &error))?;
        let with_kind = |object: &DynamicObject| {
            let mut object = object_to_json(object)?;
            object["apiVersion"] = kind.api_version.into();
            object["kind"] = kind.kind.into();
            Ok(object)
        };
        listed.items.iter().map(with_kind).collect()
    }

    /// Patches an object of such a kind.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn patch_of_kind(
        &self,
        kind: ObjectKind,
        name: &str,
        patch: &Patch<impl Serialize + std::fmt::Debug>,
        mode: WriteMode,
    ) -> Result<()> {
        let (api, attempt) = (self.api_of_kind(kind), self.attempt_of_kind("patch", kind, name));
        self.patch_with(&api, attempt, patch, mode).await.map(drop)
    }

    fn api_of_kind(&self, kind: ObjectKind) -> Api<DynamicObject> {
        let (group, version) = kind.group_version();
        self.api_of(&ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: kind.api_version.to_owned(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        })
    }

    fn attempt_of_kind(&self, verb: &'static str, kind: ObjectKind, name: &str) -> RequestAttempt {
        let (group, _) = kind.group_version();
        let resource = format!("{}.{group}", kind.plural).trim_end_matches('.').to_owned();
        RequestAttempt { verb, resource, name: name.to_owned(), namespace: self.namespace.clone() }
    }

    /// The attempt of a request, for its error.
    pub(crate) fn attempt<K: ApiObject>(&self, verb: &'static str, name: &str) -> RequestAttempt {
        RequestAttempt {
            verb,
            resource: full_name::<K>(),
            name: name.to_owned(),
            namespace: self.namespace.clone(),
        }
    }
}

/// The parameters of a patch of this program.
pub(crate) fn patch_params(mode: WriteMode) -> PatchParams {
    PatchParams {
        dry_run: mode.is_dry_run(),
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// The name of an object.
pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Plural name and group of a type.
pub(crate) fn full_name<K: ApiObject>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}

/// The resource of a type.
pub(crate) fn api_resource<K: ApiObject>() -> ApiResource {
    ApiResource {
        group: K::group(&()).into_owned(),
        version: K::version(&()).into_owned(),
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        plural: K::plural(&()).into_owned(),
    }
}

/// An object that the API server returned, as JSON.
///
/// # Errors
/// It cannot be written as JSON.
pub(crate) fn object_to_json(object: &DynamicObject) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| anyhow!("the response cannot be read: {error}"))
}
