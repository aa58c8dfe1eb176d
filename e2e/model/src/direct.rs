//! Direct writes of another client, without delay and without the fault injector. Resource names include the
//! group.

use futures::FutureExt;
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::call::{Call, Verb};
use crate::resource::Resource;
use crate::server::ApiServerModel;
use crate::write::remove_field;

/// The sender of these requests.
const DIRECT_CLIENT: &str = "another-client";

/// The resource of CustomResourceDefinitions.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl ApiServerModel {
    /// Creates the CustomResourceDefinitions of all custom resources. They have only metadata.
    ///
    /// # Errors
    /// The refusal of the server, if it does not have CustomResourceDefinitions.
    pub fn install_definitions(&self) -> Result<(), ApiError> {
        for resource in self.resources.values().filter(|resource| resource.is_custom()) {
            let versions = json!([{ "name": resource.version, "served": true }]);
            let metadata = json!({ "name": resource.full_name() });
            self.create_now(DEFINITIONS, json!({ "metadata": metadata, "spec": { "versions": versions } }))?;
        }
        Ok(())
    }

    /// Creates an object, then writes its status if `object` has one. API version and kind are filled in, so
    /// `object` may be a copy of another object.
    ///
    /// # Errors
    /// The refusal of the server.
    pub fn create_now(&self, resource: &str, mut object: Value) -> Result<Value, ApiError> {
        let known = self.known(resource)?;
        object["apiVersion"] = json!(known.api_version());
        object["kind"] = json!(known.kind);
        remove_field(&mut object["metadata"], "resourceVersion");
        let status = object["status"].clone();
        let mut created = self.do_now(known, Verb::Create, "", object)?;
        if known.status && !status.is_null() {
            created["status"] = status;
            created = self.do_now(known, Verb::Update, "status", created)?;
        }
        Ok(created)
    }

    /// Changes an object, then its status if `change` modifies it.
    ///
    /// # Errors
    /// The refusal of the server.
    pub fn edit_now(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let known = self.known(resource)?;
        let old = self.get(resource, namespace, name).ok_or_else(|| ApiError::not_found(name))?;
        let mut new = (*old).clone();
        change(&mut new);
        let status = new["status"].clone();
        if known.status {
            new["status"] = old["status"].clone();
        }
        new = self.do_now(known, Verb::Update, "", new)?;
        if new["status"] != status {
            new["status"] = status;
            new = self.do_now(known, Verb::Update, "status", new)?;
        }
        Ok(new)
    }

    /// Deletes an object with these options.
    ///
    /// # Errors
    /// The refusal of the server.
    pub fn delete_now(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<Value, ApiError> {
        let known = self.known(resource)?;
        self.send_now(known, Verb::Delete, "", (namespace, name), options)
    }

    /// Sends a request for the namespace and name in the object.
    fn do_now(
        &self,
        resource: &Resource,
        verb: Verb,
        subresource: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        if resource.namespaced && namespace.is_empty() {
            return Err(ApiError::bad_request("the object has no namespace"));
        }
        self.send_now(resource, verb, subresource, (&namespace, &name), object)
    }

    fn send_now(
        &self,
        resource: &Resource,
        verb: Verb,
        subresource: &str,
        (namespace, name): (&str, &str),
        body: Value,
    ) -> Result<Value, ApiError> {
        let call = Call {
            sender: DIRECT_CLIENT.to_owned(),
            verb,
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: Vec::new(),
            body,
        };
        let response = self.handle(&call).now_or_never();
        let response = response
            .unwrap_or_else(|| Err(ApiError::new(504, "Timeout", "admission did not respond at once")));
        response.map(|(_, object)| object)
    }

    fn known(&self, resource: &str) -> Result<&Resource, ApiError> {
        self.resources.get(resource).ok_or_else(|| ApiError::not_found(resource))
    }
}
