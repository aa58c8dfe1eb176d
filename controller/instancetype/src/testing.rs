//! Helpers for tests.

pub(crate) mod kubevirt;
pub(crate) mod worlds;

use serde_json::{Value, json};

use crate::model::{
    InstanceTypeAndPreference, InstanceTypeObject, Instancetype, InstancetypeSpec, Preference, PreferenceSpec,
};

/// A document with the fields of another one on top. Objects are merged; everything else is replaced.
pub(crate) fn merge_documents(mut document: Value, more: Value) -> Value {
    match (&mut document, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                let old = fields.remove(&key).unwrap_or(Value::Null);
                fields.insert(key, merge_documents(old, value));
            }
            document
        }
        (_, more) => more,
    }
}

/// The spec of an instance type with 2 vCPUs and 2Gi, and these fields on top.
pub(crate) fn instancetype_json(more: Value) -> Value {
    merge_documents(json!({"cpu": {"guest": 2}, "memory": {"guest": "2Gi"}}), more)
}

/// [`instancetype_json`] as a typed view.
pub(crate) fn typed_instancetype_spec(more: Value) -> InstancetypeSpec {
    InstancetypeSpec::read(&instancetype_json(more)).unwrap()
}

/// The spec of a preference.
pub(crate) fn typed_preference_spec(spec: Value) -> PreferenceSpec {
    PreferenceSpec::read(&spec).unwrap()
}

/// An object of one of the four kinds.
pub(crate) fn instancetype_document(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "generation": 3, "resourceVersion": "17"},
        "spec": spec,
    });
    if !kind.contains("Cluster") {
        object["metadata"]["namespace"] = json!("team-a");
    }
    object
}

/// An object, as kind, name and spec.
pub(crate) type Sketch<'a> = (&'a str, &'a str, Value);

/// An instance type, whose spec has the fields of [`instancetype_json`] too, and a preference.
pub(crate) fn types_from_sketches(
    instancetype: Option<Sketch<'_>>,
    preference: Option<Sketch<'_>>,
) -> InstanceTypeAndPreference {
    let read =
        |(kind, name, spec)| InstanceTypeObject::read(instancetype_document(kind, name, spec)).unwrap();
    InstanceTypeAndPreference {
        instancetype: instancetype.map(|(kind, name, more)| {
            Instancetype::new(read((kind, name, instancetype_json(more)))).unwrap()
        }),
        preference: preference.map(|sketch| Preference::new(read(sketch)).unwrap()),
    }
}
