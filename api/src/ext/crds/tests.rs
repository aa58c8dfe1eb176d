use std::{collections::BTreeSet, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{ALL_CRDS, POOL_CRD};
use crate::kubevirt;
use crate::v1alpha2::{API_VERSION, GROUP, VERSION};

#[test]
fn every_crd_in_the_directory_is_embedded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let files: BTreeSet<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    let embedded: BTreeSet<String> = ALL_CRDS.iter().map(|crd| crd.name.to_owned()).collect();
    assert_eq!(embedded, files);
}

#[test]
fn the_yaml_matches_the_name_and_kind_of_the_constant() {
    for crd in ALL_CRDS {
        let object: CustomResourceDefinition = serde_yaml_ng::from_str(crd.yaml).unwrap();
        assert_eq!(object.metadata.name.as_deref(), Some(crd.name));
        assert_eq!(object.spec.names.kind, crd.kind);
        assert_eq!(object.spec.group, GROUP);
        assert_eq!(object.spec.versions[0].name, VERSION);
        let labels = object.metadata.labels.unwrap();
        assert_eq!(labels["heritage"], "deckhouse");
        assert_eq!(labels["module"], "virtualization");
    }
    assert_eq!(API_VERSION, format!("{GROUP}/{VERSION}"));
}

#[test]
fn the_pool_can_be_scaled_and_found() {
    let object: CustomResourceDefinition = serde_yaml_ng::from_str(POOL_CRD.yaml).unwrap();
    let names = &object.spec.names;
    assert_eq!(names.short_names.as_deref(), Some(&["vmpool".to_owned(), "vmpools".to_owned()][..]));
    assert_eq!(names.categories.as_deref(), Some(&["virtualization".to_owned()][..]));
    let version = &object.spec.versions[0];
    let subresources = version.subresources.as_ref().unwrap();
    assert!(subresources.status.is_some());
    let scale = subresources.scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas_path, ".spec.replicas");
    assert_eq!(scale.status_replicas_path, ".status.replicas");
    assert_eq!(scale.label_selector_path.as_deref(), Some(".status.selector"));
    // Without this default the API server responds with 500 to a request for the scale of a pool without
    // `replicas`.
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).unwrap();
    let spec = &schema.properties.as_ref().unwrap()["spec"];
    let replicas = &spec.properties.as_ref().unwrap()["replicas"];
    assert_eq!(replicas.default.as_ref().map(|default| &default.0), Some(&serde_json::json!(0)));
    // With it, a pool without a status is in progress for clients that wait.
    let status = &schema.properties.as_ref().unwrap()["status"];
    let expected = serde_json::json!({ "observedGeneration": -1 });
    assert_eq!(status.default.as_ref().map(|default| &default.0), Some(&expected));
    let columns: Vec<&str> =
        version.additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
    let expected =
        "Status Desired Replicas Ready Up-to-date Restart Standby Draining Image-outdated Policy Revision Age"
            .split_whitespace();
    assert!(columns.iter().copied().eq(expected), "{columns:?}");
}

/// Where a schema lets a text, a list or a map become as long as its author likes.
fn unbounded(schema: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    let has = |key: &str| schema.get(key).is_some();
    let bounded = match schema["type"].as_str() {
        Some("string") => has("enum") || has("maxLength"),
        Some("array") => has("maxItems"),
        Some("object") => !has("additionalProperties") || has("maxProperties"),
        _ => schema["x-kubernetes-int-or-string"] != true || has("maxLength"),
    };
    if !bounded {
        found.push(path.to_owned());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        unbounded(field, &format!("{path}.{name}"), found);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(inner) {
            unbounded(schema, &format!("{path}[]"), found);
        }
    }
}

#[test]
fn every_text_list_and_map_that_a_user_writes_has_a_limit() {
    let mut found = Vec::new();
    let kinds =
        ["VirtualMachinePool", "VirtualMachine", "VirtualDisk", "VirtualMachineBlockDeviceAttachment"];
    let written = ALL_CRDS.iter().filter(|crd| kinds.contains(&crd.kind));
    for crd in written.chain([&kubevirt::crds::POOL_CRD]) {
        let object: serde_json::Value = serde_yaml_ng::from_str(crd.yaml).unwrap();
        let schema = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        unbounded(schema, crd.name, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
