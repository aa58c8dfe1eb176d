//! The metadata of documents.

use serde_json::{Map, Value, json};
use vmpool_engine::ObjectId;

/// The metadata of an object, as its document contains it. A field of the wrong type counts as missing.
#[derive(Clone, Copy, Debug)]
pub struct DocumentMetadata<'a>(&'a Value);

impl<'a> DocumentMetadata<'a> {
    /// The metadata of a document.
    pub fn of(document: &'a Value) -> Self {
        Self(&document["metadata"])
    }

    /// The metadata in this field of a document.
    pub fn in_field(field: &'a Value) -> Self {
        Self(field)
    }

    /// The name.
    pub fn name(self) -> Option<&'a str> {
        self.0["name"].as_str()
    }

    /// The namespace.
    pub fn namespace(self) -> Option<&'a str> {
        self.0["namespace"].as_str()
    }

    /// The UID.
    pub fn uid(self) -> Option<&'a str> {
        self.0["uid"].as_str()
    }

    /// Name and UID, which are empty if they are missing.
    pub fn object_id(self) -> ObjectId {
        ObjectId::new(self.name().unwrap_or_default(), self.uid().unwrap_or_default())
    }

    /// Whether the API server has accepted the deletion of the object.
    pub fn is_deleted(self) -> bool {
        !self.0["deletionTimestamp"].is_null()
    }

    /// The value of an annotation.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0["annotations"][key].as_str()
    }

    /// The value of a label.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.0["labels"][key].as_str()
    }

    /// All labels.
    pub fn labels(self) -> Option<&'a Map<String, Value>> {
        self.0["labels"].as_object()
    }

    /// The owners.
    pub fn owner_references(self) -> &'a [Value] {
        self.0["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The finalizers.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        self.0["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// The operations of a JSON patch that fail if the object is another one, or has changed.
    pub fn version_tests(self) -> [Value; 2] {
        ["uid", "resourceVersion"].map(
            |field| json!({ "op": "test", "path": format!("/metadata/{field}"), "value": self.0[field] }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_wrong_type_counts_as_missing() {
        let odd = json!({ "metadata": {
            "name": 1, "uid": [], "labels": [], "annotations": "a", "ownerReferences": {}, "finalizers": [7, "f"],
        } });
        for document in [&odd, &json!({}), &json!(null)] {
            let metadata = DocumentMetadata::of(document);
            assert_eq!((metadata.name(), metadata.namespace(), metadata.label("a")), (None, None, None));
            assert_eq!((metadata.annotation("a"), metadata.labels()), (None, None));
            assert!(metadata.owner_references().is_empty() && !metadata.is_deleted());
            assert_eq!(metadata.object_id(), ObjectId::new("", ""));
        }
        assert_eq!(DocumentMetadata::of(&odd).finalizers().collect::<Vec<_>>(), ["f"]);
    }

    #[test]
    fn a_patch_is_for_the_version_that_was_read() {
        let object = json!({ "metadata": { "uid": "u", "resourceVersion": "7" } });
        let expected = [
            json!({ "op": "test", "path": "/metadata/uid", "value": "u" }),
            json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }),
        ];
        assert_eq!(DocumentMetadata::of(&object).version_tests(), expected);
        let metadata = DocumentMetadata::in_field(&object["metadata"]);
        assert_eq!(metadata.version_tests(), expected);
    }
}
