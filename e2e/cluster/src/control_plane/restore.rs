//! Stores objects in etcd directly, as an earlier API server has stored them.

use k8s_openapi::ByteString;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use super::running::ControlPlane;
use crate::error::{Error, Result};
use crate::http_probe;

/// The etcd endpoint for writes.
const PUT: &str = "/v3/kv/put";

/// Where kube-apiserver stores all objects.
const PREFIX: &str = "/registry";

/// The groups whose kinds are no custom resources. Their keys have no group.
const BUILT_IN: &[&str] = &["", "apps", "coordination.k8s.io", "rbac.authorization.k8s.io"];

impl ControlPlane {
    /// Stores objects with their UIDs, generations and statuses, without admission. The API server serves
    /// their kinds, and their namespaces exist.
    ///
    /// # Errors
    /// [`Error::Untyped`] if an object has no kind, [`Error::Api`] if the API server does not serve it,
    /// [`Error::Unexpected`] if etcd refuses the write.
    pub async fn restore_objects(&self, objects: &[Value]) -> Result<()> {
        for object in objects {
            let key = self.find_etcd_key(object).await?;
            self.put_in_etcd(&key, object).await?;
        }
        Ok(())
    }

    /// The key at which the API server expects an object.
    async fn find_etcd_key(&self, object: &Value) -> Result<String> {
        let untyped = || Error::Untyped { origin: object.to_string().chars().take(200).collect() };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).ok_or_else(untyped);
        let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (resource, capabilities) =
            pinned_kind(&self.admin(), &GroupVersionKind::gvk(group, version, kind))
                .await
                .map_err(Error::api(format!("looking for the kind {kind} of {api_version}")))?;
        let mut key = vec![PREFIX];
        if !BUILT_IN.contains(&group) {
            key.push(group);
        }
        key.push(&resource.plural);
        if capabilities.scope == Scope::Namespaced {
            key.push(text("/metadata/namespace")?);
        }
        key.push(text("/metadata/name")?);
        Ok(key.join("/"))
    }

    async fn put_in_etcd(&self, key: &str, object: &Value) -> Result<()> {
        let encoded = |text: String| json!(ByteString(text.into_bytes()));
        let request = json!({ "key": encoded(key.to_owned()), "value": encoded(object.to_string()) });
        let last = match http_probe::post_to_port(self.ports.etcd, PUT, &request.to_string()).await {
            Ok((200, _body)) => return Ok(()),
            Ok((code, body)) => format!("{code} {body}"),
            Err(reason) => reason,
        };
        Err(Error::Unexpected { what: format!("etcd stores {key}"), last })
    }
}
