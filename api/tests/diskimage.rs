//! The types of `vmpool_api::diskimage` read the accepted sample manifests and write them back without loss.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

use std::{collections::BTreeSet, path::Path};

use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use serde_json::Value;
use vmpool_api::diskimage::{API_VERSION, VirtualMachine, VmDiskImage, VmDiskImageGrant, crds::ALL_CRDS};

/// The documents of all manifests in a folder of samples.
fn documents(folder: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/diskimage").join(folder);
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
    let documents = |text: String| {
        let documents = serde_yaml_ng::Deserializer::from_str(&text).map(Value::deserialize);
        documents.map(Result::unwrap).collect::<Vec<_>>()
    };
    texts.flat_map(documents).collect()
}

/// The object after deserialization into its type and serialization.
fn through_type(object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let typed: T = serde_json::from_value(object.clone()).unwrap();
        serde_json::to_value(typed).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "VMDiskImage" => through::<VmDiskImage>(object),
        "VirtualMachine" => through::<VirtualMachine>(object),
        "VMDiskImageGrant" => through::<VmDiskImageGrant>(object),
        other => panic!("no type for kind {other}"),
    }
}

/// Quantities may be numbers in a manifest, but the types write them as text.
fn with_quantities_as_text(mut object: Value) -> Value {
    for pointer in ["/spec/diskSize", "/spec/resources/cpu"] {
        if let Some(value) = object.pointer_mut(pointer).filter(|value| value.is_number()) {
            *value = Value::String(value.to_string());
        }
    }
    object
}

#[test]
fn accepted_manifests_survive_deserialization_without_loss() {
    let mut kinds = BTreeSet::new();
    for object in documents("accepted") {
        assert_eq!(object["apiVersion"], API_VERSION);
        kinds.insert(object["kind"].to_string());
        assert_eq!(through_type(&object), with_quantities_as_text(object));
    }
    assert_eq!(kinds.len(), ALL_CRDS.len(), "every kind has an accepted sample: {kinds:?}");
}

#[test]
fn a_sample_shows_each_immutable_field_changed() {
    let rules = serde_yaml_ng::from_str::<Value>(ALL_CRDS[0].yaml).unwrap();
    let rules = &rules["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    let samples = documents("rejected");
    for rule in rules.as_array().unwrap() {
        let field = rule["fieldPath"].as_str().unwrap().trim_start_matches(".spec.");
        let of_sample = |pair: &[Value]| {
            let same = pair[0]["metadata"]["name"] == pair[1]["metadata"]["name"];
            same && pair[0]["spec"][field] != pair[1]["spec"][field]
        };
        assert!(samples.windows(2).any(of_sample), "no sample changes {field}");
    }
}
