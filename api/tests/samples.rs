//! Checks the sample manifests of the end-to-end tests: the types read and write the accepted ones without
//! loss.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that cannot go on fails its test")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use vmpool_api::v1alpha2::{
    API_VERSION, ClusterVirtualImage, VirtualDisk, VirtualImage, VirtualMachine,
    VirtualMachineBlockDeviceAttachment, VirtualMachineClass, VirtualMachineOperation, VirtualMachinePool,
};

fn samples(directory: &str) -> Vec<(PathBuf, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Subfolders contain manifests of other kinds.
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(!paths.is_empty(), "no samples in {}", directory.display());
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

fn documents(text: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

/// The object after deserialization into its type and serialization.
fn through_type(object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let typed: T = serde_json::from_value(object.clone()).unwrap();
        serde_json::to_value(typed).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "ClusterVirtualImage" => through::<ClusterVirtualImage>(object),
        "VirtualDisk" => through::<VirtualDisk>(object),
        "VirtualImage" => through::<VirtualImage>(object),
        "VirtualMachine" => through::<VirtualMachine>(object),
        "VirtualMachineBlockDeviceAttachment" => through::<VirtualMachineBlockDeviceAttachment>(object),
        "VirtualMachineClass" => through::<VirtualMachineClass>(object),
        "VirtualMachineOperation" => through::<VirtualMachineOperation>(object),
        "VirtualMachinePool" => through::<VirtualMachinePool>(object),
        other => panic!("no type for kind {other}"),
    }
}

/// Quantities may be numbers in a manifest, but the types write them as strings.
fn with_sizes_as_text(mut object: Value) -> Value {
    match &mut object {
        Value::Object(fields) => {
            for (name, value) in fields {
                *value = match (name.as_str(), &value) {
                    ("size", Value::Number(number)) => Value::String(number.to_string()),
                    _ => with_sizes_as_text(value.take()),
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = with_sizes_as_text(item.take())),
        _ => {}
    }
    object
}

#[test]
fn accepted_manifests_survive_deserialization_without_loss() {
    let mut kinds = BTreeSet::new();
    for (path, text) in samples("tests/samples/accepted").into_iter().chain(samples("../docs/examples")) {
        for object in documents(&text) {
            assert_eq!(object["apiVersion"], API_VERSION, "{}", path.display());
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
            assert_eq!(through_type(&object), with_sizes_as_text(object.clone()), "{}", path.display());
        }
    }
    assert_eq!(kinds.len(), vmpool_api::crds::ALL_CRDS.len(), "every kind has an accepted sample: {kinds:?}");
}

#[test]
fn every_rejected_manifest_documents_the_expected_message() {
    for (path, text) in samples("tests/samples/rejected") {
        let expected = text.lines().next().unwrap().strip_prefix("# rejected: ");
        assert!(expected.is_some_and(|words| words.len() > 8), "{}", path.display());
        let objects = documents(&text);
        let last = objects.last().unwrap();
        for object in &objects {
            assert_eq!(object["apiVersion"], API_VERSION, "{}", path.display());
            assert_eq!(object["metadata"]["name"], last["metadata"]["name"], "{}", path.display());
        }
    }
}

#[test]
fn names_in_a_directory_are_unique() {
    for directory in ["tests/samples/accepted", "tests/samples/rejected"] {
        let mut seen = BTreeSet::new();
        for (path, text) in samples(directory) {
            let of_file: BTreeSet<(String, String)> = documents(&text)
                .iter()
                .map(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()))
                .collect();
            for name in of_file {
                assert!(seen.insert(name.clone()), "{name:?} of {} exists already", path.display());
            }
        }
    }
}
