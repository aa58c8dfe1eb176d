use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use vmpool_platforms::removal::APIS;

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
    for served in APIS {
        let document = v3(served, true);
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
    let document = v3(&APIS[1], true);
    let schema = &document["components"]["schemas"]["dev.vmpool.subresources.v1alpha1.VirtualMachinePoolScaleDownWith"];
    let fields: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        ["apiVersion", "dryRun", "force", "kind", "metadata", "preconditions", "targetUIDs", "targets"]
    );
    // A request with all fields is valid.
    let body = br#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","dryRun":["All"],"force":true,"kind":"VirtualMachinePoolScaleDownWith",
        "metadata":{},"preconditions":{"uid":"u"},"targetUIDs":["u"],"targets":["a"]}"#;
    crate::body::read(body, "", (APIS, &APIS[1]), ("n", "p")).unwrap();
}

#[test]
fn the_complete_documents() {
    insta::assert_json_snapshot!("v3", v3(&APIS[1], true));
    insta::assert_json_snapshot!("v2", v2());
}

#[test]
fn with_the_gate_off_the_document_has_no_paths() {
    let document = v3(&APIS[1], false);
    assert_eq!(document["paths"], json!({}));
    assert_eq!(document["components"]["schemas"], json!({}));
}
