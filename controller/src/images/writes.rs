//! Writes to an image and its objects. Each has the UID as a precondition, or a name that only an object of
//! the image may have.

use kube::Resource;
use kube::api::Patch;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmpool_api::diskimage::VmDiskImage;
use vmpool_diskimage::failure::without_queries;
use vmpool_diskimage::model::ObjectKey;
use vmpool_diskimage::objects;
use vmpool_engine::ObjectId;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::ApiObject;

use super::context::ImageContext;
use super::table::ObjectOrigin;
use crate::metrics::WriteKind;

/// The text of a failed write, for status, events and logs. The API server can repeat the URL of an image.
pub(super) fn error_text(error: &WriteError) -> String {
    without_queries(&error.to_string())
}

/// What became of the owner reference to an image.
pub(super) enum Disowned<K> {
    /// The object has none.
    NotOwned,
    /// It was removed from the object, which is now like this.
    Patched(K),
    /// The object is gone, or its owners have changed.
    Changed,
}

impl ImageContext {
    /// Creates an object in the namespace of the image.
    pub(super) async fn create<K: ApiObject>(
        &self,
        image: &ObjectKey,
        object: Value,
    ) -> Result<K, WriteError> {
        self.leader
            .writer
            .create(WriteKind::CreateImageObject, collection_path::<K>(&image.namespace), object)
            .await
    }

    /// Applies a JSON patch, which tests the UID, to the object with this name.
    pub(super) async fn patch<K: ApiObject>(
        &self,
        key: &ObjectKey,
        operations: Value,
    ) -> Result<K, WriteError> {
        let operations =
            serde_json::from_value(operations).map_err(|error| WriteError::Invalid(error.into()))?;
        let path = collection_path::<K>(&key.namespace);
        let patch = Patch::Json::<()>(operations);
        self.leader.writer.patch(WriteKind::PatchImageObject, path, &key.name, None, patch).await
    }

    /// Removes the owner reference to an image from an object. The label says from then on that the object
    /// belongs to the image.
    pub(super) async fn disown<K: ApiObject>(
        &self,
        key: &ObjectKey,
        object: &K,
        image_uid: &str,
    ) -> Result<Disowned<K>, WriteError> {
        let Some(operations) = objects::owner_removal_patch(object.meta(), image_uid) else {
            return Ok(Disowned::NotOwned);
        };
        match self.patch::<K>(key, operations).await {
            Ok(stored) => Ok(Disowned::Patched(stored)),
            Err(error) if error.is_gone() || error.is_unprocessable() => Ok(Disowned::Changed),
            Err(error) => Err(error),
        }
    }

    /// Merges a patch into the object with this name and UID.
    pub(super) async fn merge<K: ApiObject>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        mut patch: Value,
    ) -> Result<K, WriteError> {
        patch["metadata"]["uid"] = json!(uid);
        let path = collection_path::<K>(namespace);
        self.leader.writer.patch(WriteKind::PatchImageObject, path, name, None, Patch::Merge(patch)).await
    }

    /// Deletes the object with this name and UID. An object that is gone is a success.
    pub(super) async fn delete<K: Resource<DynamicType = ()> + ApiObject>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), WriteError> {
        let object = ObjectId::new(name, uid);
        let path = collection_path::<K>(namespace);
        match self.leader.writer.delete(WriteKind::DeleteImageObject, path, &object, None).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_gone() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Patches an image at the version that was read, or its status, and stores the result.
    pub(super) async fn patch_image(
        &self,
        object: &VmDiskImage,
        mut patch: Value,
        subresource: Option<&str>,
    ) -> Result<(), WriteError> {
        let metadata = &object.metadata;
        patch["metadata"]["uid"] = json!(metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
        let path = collection_path::<VmDiskImage>(metadata.namespace.as_deref().unwrap_or_default());
        let name = metadata.name.as_deref().unwrap_or_default();
        let kind = if subresource.is_some() { WriteKind::PatchImageStatus } else { WriteKind::PatchImage };
        let stored = self.leader.writer.patch(kind, path, name, subresource, Patch::Merge(patch)).await?;
        self.update(|store, _| store.set_image(stored, ObjectOrigin::Written));
        Ok(())
    }
}

/// An object as JSON.
pub(super) fn to_json_value<T: serde::Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Reads an object from JSON.
pub(super) fn from_json_value<T: DeserializeOwned>(object: Value) -> Option<T> {
    serde_json::from_value(object).ok()
}
