//! Resources that a command lists or watches, in one namespace or in all.

use anyhow::Result;
use kube::api::{Api, DynamicObject, ListParams, WatchParams};
use kube::core::ApiResource;
use serde_json::Value;
use vmpool_platforms::ApiObject;

use crate::cluster::{UserClusterClient, api_resource, object_to_json};
use crate::explain::{RequestAttempt, explain_request_error, is_unserved};

/// Objects of one resource that a user may be allowed to read.
#[derive(Clone, Debug)]
pub(crate) struct ResourceSelection {
    /// The resource.
    pub(crate) resource: ApiResource,
    /// Their namespace; `None` for all, and for objects without one.
    pub(crate) namespace: Option<String>,
    /// The selector of their labels.
    pub(crate) labels: Option<String>,
    /// The selector of their fields.
    pub(crate) fields: Option<String>,
}

/// The objects of a selection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListedObjects {
    pub(crate) objects: Vec<Value>,
    /// The version of the list, at which a watch of later changes begins.
    pub(crate) version: String,
}

impl ResourceSelection {
    /// All objects of this resource in a namespace, or in all.
    pub(crate) fn all(resource: ApiResource, namespace: Option<&str>) -> Self {
        Self { resource, namespace: namespace.map(str::to_owned), labels: None, fields: None }
    }

    /// All objects of a type of a platform.
    pub(crate) fn of_type<K: ApiObject>(namespace: Option<&str>) -> Self {
        Self::all(api_resource::<K>(), namespace)
    }

    /// Requests about them.
    pub(crate) fn api(&self, cluster: &UserClusterClient) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &self.resource),
            None => Api::all_with(cluster.client.clone(), &self.resource),
        }
    }

    /// The attempt of a request, for its error.
    pub(crate) fn attempt(&self, verb: &'static str) -> RequestAttempt {
        let ApiResource { group, plural, .. } = &self.resource;
        RequestAttempt {
            verb,
            resource: format!("{plural}.{group}").trim_end_matches('.').to_owned(),
            name: String::new(),
            namespace: self.namespace.clone().unwrap_or_default(),
        }
    }

    /// The parameters of a list.
    fn list_params(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    /// The parameters of a watch.
    pub(crate) fn watch_params(&self) -> WatchParams {
        WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..WatchParams::default()
        }
    }

    /// Lists them, each with its kind; `None` if the cluster does not serve the resource.
    ///
    /// # Errors
    /// The request failed.
    pub(crate) async fn list(&self, cluster: &UserClusterClient) -> Result<Option<ListedObjects>> {
        match self.api(cluster).list(&self.list_params()).await {
            Ok(listed) => {
                let objects = listed.items.iter().map(|object| self.object(object)).collect::<Result<_>>()?;
                let version = listed.metadata.resource_version.unwrap_or_default();
                Ok(Some(ListedObjects { objects, version }))
            }
            Err(error) if is_unserved(&error) => Ok(None),
            Err(error) => Err(explain_request_error(&self.attempt("list"), &error)),
        }
    }

    /// The object as JSON. Lists omit the kind of their items.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub(crate) fn object(&self, object: &DynamicObject) -> Result<Value> {
        let mut value = object_to_json(object)?;
        if value["kind"].is_null() {
            value["apiVersion"] = self.resource.api_version.clone().into();
            value["kind"] = self.resource.kind.clone().into();
        }
        Ok(value)
    }
}

/// Names a resource of Kubernetes. The core group is empty.
pub(crate) fn named_resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_resource_with_its_group() {
        let pods = ResourceSelection::all(named_resource("", "v1", "Pod", "pods"), Some("a"));
        assert_eq!(pods.attempt("list").to_string(), "list pods in namespace a");
        let deployments =
            ResourceSelection::all(named_resource("apps", "v1", "Deployment", "deployments"), None);
        assert_eq!(deployments.attempt("list").to_string(), "list deployments.apps");
        assert_eq!(deployments.resource.api_version, "apps/v1");
    }

    #[test]
    fn an_object_of_a_list_gets_its_kind() {
        let pods = ResourceSelection::all(named_resource("", "v1", "Pod", "pods"), Some("a"));
        let item: DynamicObject = serde_json::from_value(json!({ "metadata": { "name": "p" } })).unwrap();
        let object = pods.object(&item).unwrap();
        assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("Pod"), &json!("v1")));
    }
}
