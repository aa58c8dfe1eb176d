use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use vmpool_platforms::removal::{APIS, STANDALONE_APIS};

/// The group of vmpool for DVP.
const OWN: GroupVersion = GroupVersion { group: "subresources.vmpool.dev", version: "v1alpha1" };

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let ("$ref", Value::String(target)) = (&**key, value) {
                    found.insert(target);
                }
                references(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_has_a_schema_and_every_schema_is_referenced() {
    for served in STANDALONE_APIS.group_versions() {
        let document = openapi_v3_document(STANDALONE_APIS, served);
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for target in &found {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target} does not exist");
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert_eq!(schemas.len(), found.len());
    }
}

#[test]
fn the_schema_contains_the_fields_of_a_request() {
    let document = openapi_v3_document(APIS, OWN);
    let schema = &document["components"]["schemas"]["dev.vmpool.subresources.v1alpha1.VirtualMachinePoolScaleDownWith"];
    let fields: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        ["apiVersion", "dryRun", "force", "kind", "metadata", "preconditions", "targetUIDs", "targets"]
    );
    // A request with all fields is valid.
    let body = br#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","dryRun":["All"],"force":true,"kind":"VirtualMachinePoolScaleDownWith",
        "metadata":{},"preconditions":{"uid":"u"},"targetUIDs":["u"],"targets":["a"]}"#;
    crate::body::read_removal_request(body, "", APIS, &APIS.removal[1], "n", "p").unwrap();
}

#[test]
fn the_complete_documents() {
    insta::assert_json_snapshot!("v3", openapi_v3_document(APIS, OWN));
    insta::assert_json_snapshot!("v2", openapi_v2_document(STANDALONE_APIS));
    let reference = GroupVersion { group: "subresources.kubevirt.io", version: "v1" };
    insta::assert_json_snapshot!("reference", openapi_v3_document(STANDALONE_APIS, reference));
}

#[test]
fn with_the_gate_off_the_document_has_no_paths() {
    let document = openapi_v3_document(Apis::NONE, OWN);
    assert_eq!(document["paths"], json!({}));
    assert_eq!(document["components"]["schemas"], json!({}));
    assert_eq!(openapi_v2_document(Apis::NONE)["paths"], json!({}));
}

/// Generators of clients require distinct identifiers and declared parameters.
#[test]
fn operations_have_distinct_identifiers_and_declare_the_parameters_of_their_path() {
    let mut documents: Vec<Value> = STANDALONE_APIS
        .group_versions()
        .into_iter()
        .map(|served| openapi_v3_document(STANDALONE_APIS, served))
        .collect();
    documents.push(openapi_v2_document(STANDALONE_APIS));
    for document in documents {
        let mut identifiers = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let declared: BTreeSet<&str> = item["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let in_path: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            assert_eq!(declared, in_path, "{path}");
            for method in ["get", "put", "post"] {
                let Some(id) = item.pointer(&format!("/{method}/operationId")) else { continue };
                assert!(identifiers.insert(id.to_string()), "{id} of {path} is used twice");
            }
        }
        assert!(!identifiers.is_empty());
    }
}
