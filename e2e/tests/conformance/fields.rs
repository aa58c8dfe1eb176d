//! Builds objects and patches from changes.

use serde_json::{Value, json};

use crate::kind::{ConformanceKind, ObjectTarget, set};
use crate::operation::{ConformanceChange, ServerField};
use crate::view::{ServerView, UNUSED_UID};

/// The UID and resource version in a write.
pub(crate) type Preconditions = (Option<String>, Option<String>);

impl ServerView {
    pub(crate) fn new_object(
        &self,
        kind: ConformanceKind,
        name: Option<&'static str>,
        shape: u64,
        with: &[ConformanceChange],
        id: usize,
    ) -> Value {
        let mut object = kind.object(shape, &self.namespace);
        object["metadata"] = match name {
            Some(name) => json!({ "name": name, "namespace": self.namespace }),
            // No other name has this prefix, so the position in lists does not depend on the generated
            // suffix.
            None => json!({ "generateName": format!("g{id}-") }),
        };
        for change in with {
            for (path, value) in self.fields(kind, change) {
                if !value.is_null() {
                    set(&mut object, &path, value);
                }
            }
        }
        object
    }

    /// The fields of a change as JSON pointers and values; null removes a field.
    pub(crate) fn fields(&self, kind: ConformanceKind, change: &ConformanceChange) -> Vec<(String, Value)> {
        let (of_content, of_status) = (
            |shape| {
                let (path, value) = kind.content(shape);
                (path.to_owned(), value)
            },
            |shape| ("/status".to_owned(), kind.status(shape)),
        );
        let none_if_empty = |value: Value, empty: bool| if empty { Value::Null } else { value };
        match change {
            ConformanceChange::Nothing => Vec::new(),
            ConformanceChange::Labels(labels) => {
                let all: serde_json::Map<String, Value> =
                    labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
                vec![("/metadata/labels".to_owned(), none_if_empty(json!(all), all.is_empty()))]
            }
            ConformanceChange::Annotation(note) => {
                let value = note.map_or(Value::Null, |note| json!({ "note": note.to_string() }));
                vec![("/metadata/annotations".to_owned(), value)]
            }
            ConformanceChange::Finalizers(all) => {
                vec![("/metadata/finalizers".to_owned(), none_if_empty(json!(all), all.is_empty()))]
            }
            ConformanceChange::Owners(owners) => {
                let reference = |(at, (owner, blocks)): (usize, &(Option<ObjectTarget>, bool))| {
                    let uid = self.uid(*owner);
                    match owner {
                        Some(owner) => owner.kind.reference(&self.name(owner.name), uid, *blocks, at == 0),
                        None => ConformanceKind::Pool.reference("missing", uid, *blocks, at == 0),
                    }
                };
                let all: Vec<Value> = owners.iter().enumerate().map(reference).collect();
                vec![("/metadata/ownerReferences".to_owned(), none_if_empty(json!(all), all.is_empty()))]
            }
            ConformanceChange::TwoControllers => {
                let other = "00000000-0000-4000-8000-00000000beef";
                let all = [UNUSED_UID, other]
                    .map(|uid| ConformanceKind::Pool.reference("missing", uid, true, true));
                vec![("/metadata/ownerReferences".to_owned(), json!(all))]
            }
            ConformanceChange::UnknownOwner => {
                let all = [
                    json!({ "apiVersion": "test.dev/v1", "kind": "Gadget", "name": "x", "uid": UNUSED_UID }),
                ];
                vec![("/metadata/ownerReferences".to_owned(), json!(all))]
            }
            ConformanceChange::Status(shape) if kind.has_status() => vec![of_status(*shape)],
            ConformanceChange::Content(shape) | ConformanceChange::Status(shape) => vec![of_content(*shape)],
            ConformanceChange::Both(shape) if kind.has_status() => {
                vec![of_content(*shape), of_status(*shape)]
            }
            ConformanceChange::Both(shape) => {
                vec![of_content(*shape), ("/metadata/labels".to_owned(), json!({ "app": "db" }))]
            }
            ConformanceChange::ServerSet(field) => vec![Self::server_set(*field)],
        }
    }

    fn server_set(field: ServerField) -> (String, Value) {
        let (field, value) = match field {
            ServerField::Generation => ("generation", json!(17)),
            ServerField::Created => ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
            ServerField::Deleted => ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
            ServerField::Name => ("name", json!("another")),
            ServerField::Namespace => ("namespace", json!("another")),
            ServerField::SelfLink => ("selfLink", json!("/x")),
            ServerField::Version => ("resourceVersion", json!("7")),
            ServerField::Uid => ("uid", json!(UNUSED_UID)),
        };
        (format!("/metadata/{field}"), value)
    }

    pub(crate) fn merge_patch(
        &self,
        kind: ConformanceKind,
        change: &ConformanceChange,
        (uid, version): Preconditions,
    ) -> Value {
        let mut patch = json!({});
        for (path, value) in self.fields(kind, change) {
            set(&mut patch, &path, value);
        }
        for (field, precondition) in [("uid", uid), ("resourceVersion", version)] {
            if let Some(precondition) = precondition {
                patch["metadata"][field] = json!(precondition);
            }
        }
        patch
    }

    pub(crate) fn json_patch(
        &self,
        kind: ConformanceKind,
        change: &ConformanceChange,
        (uid, version): Preconditions,
    ) -> Value {
        let tests = [("uid", uid), ("resourceVersion", version)].into_iter().filter_map(|(field, precondition)| {
            precondition.map(|precondition| json!({ "op": "test", "path": format!("/metadata/{field}"), "value": precondition }))
        });
        let changes = self.fields(kind, change).into_iter().map(|(path, value)| match value {
            Value::Null => json!({ "op": "remove", "path": path }),
            value => json!({ "op": "add", "path": path, "value": value }),
        });
        tests.chain(changes).collect()
    }
}
