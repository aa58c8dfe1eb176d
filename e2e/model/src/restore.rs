//! Stores objects as another server has stored them, for tests of upgrades.

use serde_json::Value;

use crate::api_error::ApiError;
use crate::resource::Resource;
use crate::server::ApiServerModel;
use crate::store::ApiObjectKey;

impl ApiServerModel {
    /// Stores these objects with their UIDs, generations and statuses, without admission, as a restored
    /// backup of etcd does.
    ///
    /// # Errors
    /// The server does not have the kind of an object.
    pub fn restore_objects(&self, objects: &[Value]) -> Result<(), ApiError> {
        for object in objects {
            let resource = self.find_kind(object)?;
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().into();
            let key = ApiObjectKey {
                resource: resource.full_name().into(),
                namespace: text("namespace"),
                name: text("name"),
            };
            let state = &mut *self.state.lock();
            state.store.reserve_uid(object["metadata"]["uid"].as_str().unwrap_or_default());
            state.store.put(key, object.clone());
        }
        Ok(())
    }

    /// The resource of an object, by its API version and kind.
    fn find_kind(&self, object: &Value) -> Result<&Resource, ApiError> {
        let is_wanted = |resource: &&Resource| {
            object["kind"] == *resource.kind && object["apiVersion"] == *resource.api_version()
        };
        let known = self.resources.values().find(is_wanted);
        known.ok_or_else(|| ApiError::not_found(object["kind"].as_str().unwrap_or_default()))
    }
}
