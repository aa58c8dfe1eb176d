//! What somebody else does, at once and without asking the referee. Resources are named with their groups.

use futures::FutureExt;
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::call::{Call, Verb};
use crate::resource::Resource;
use crate::server::Server;
use crate::write::remove;

/// Who sends these requests.
const SOMEBODY: &str = "somebody";

impl Server {
    /// Creates an object, and then writes its status, if it comes with one. It need not say of what kind it is, and
    /// may be a copy of another.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn create_now(&self, resource: &str, mut object: Value) -> Result<Value, Refusal> {
        let known = self.known(resource)?;
        object["apiVersion"] = json!(known.api_version());
        object["kind"] = json!(known.kind);
        remove(&mut object["metadata"], "resourceVersion");
        let status = object["status"].clone();
        let mut created = self.do_now(known, Verb::Create, "", object)?;
        if known.status && !status.is_null() {
            created["status"] = status;
            created = self.do_now(known, Verb::Update, "status", created)?;
        }
        Ok(created)
    }

    /// Changes an object: what is not its status, and then its status, if `change` does.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn edit_now(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, Refusal> {
        let known = self.known(resource)?;
        let old = self.get(resource, namespace, name).ok_or_else(|| Refusal::not_found(name))?;
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

    /// Deletes an object, with these options or with none.
    ///
    /// # Errors
    /// What the server refuses.
    pub fn delete_now(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        options: Value,
    ) -> Result<Value, Refusal> {
        let known = self.known(resource)?;
        self.send_now(known, Verb::Delete, "", (namespace, name), options)
    }

    /// Sends an object where it says that it belongs.
    fn do_now(
        &self,
        resource: &Resource,
        verb: Verb,
        subresource: &str,
        object: Value,
    ) -> Result<Value, Refusal> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        if resource.namespaced && namespace.is_empty() {
            return Err(Refusal::bad_request("the object does not say in which namespace it is"));
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
    ) -> Result<Value, Refusal> {
        let call = Call {
            who: SOMEBODY.to_owned(),
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
        let answer = self.handle(&call).now_or_never();
        let answer = answer.unwrap_or_else(|| Err(Refusal::new(504, "Timeout", "admission takes its time")));
        answer.map(|(_, object)| object)
    }

    fn known(&self, resource: &str) -> Result<&Resource, Refusal> {
        self.resources.get(resource).ok_or_else(|| Refusal::not_found(resource))
    }
}
