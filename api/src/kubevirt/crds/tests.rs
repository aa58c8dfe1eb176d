use std::{collections::BTreeSet, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{PLATFORM_CRDS, POOL_CRD};
use crate::crds::Crd;
use crate::kubevirt::{
    API_VERSION, DATA_VOLUME_API_VERSION, POOL_API_VERSION, POOL_OLD_VERSION, POOL_VERSION,
    SNAPSHOT_API_VERSION,
};

fn embedded(crds: &[Crd]) -> BTreeSet<String> {
    crds.iter().map(|crd| crd.name.to_owned()).collect()
}

fn files(directory: &str) -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds").join(directory);
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned)).collect()
}

fn value(crd: &Crd) -> Value {
    serde_yaml_ng::from_str(crd.yaml).unwrap()
}

#[test]
fn every_crd_in_the_directories_is_embedded() {
    assert_eq!(embedded(&[POOL_CRD]), files("kubevirt"));
    assert_eq!(embedded(PLATFORM_CRDS), files("kubevirt/platform"));
}

#[test]
fn the_yaml_matches_the_name_and_kind_of_the_constant() {
    for crd in [POOL_CRD].iter().chain(PLATFORM_CRDS) {
        let object: CustomResourceDefinition = serde_yaml_ng::from_str(crd.yaml).unwrap();
        assert_eq!(object.metadata.name.as_deref(), Some(crd.name));
        assert_eq!(object.spec.names.kind, crd.kind);
        let api_version = format!("{}/{}", object.spec.group, object.spec.versions[0].name);
        let expected = match crd.kind {
            "VirtualMachinePool" => POOL_API_VERSION,
            "DataVolume" | "DataSource" => DATA_VOLUME_API_VERSION,
            "VolumeSnapshot" | "VolumeSnapshotContent" => SNAPSHOT_API_VERSION,
            _ => API_VERSION,
        };
        assert_eq!(api_version, expected, "{}", crd.kind);
    }
}

#[test]
fn the_pool_is_the_resource_that_clients_of_kubevirt_expect() {
    let crd = value(&POOL_CRD);
    assert_eq!(crd["metadata"]["labels"], json!({"kubevirt.io": ""}));
    let expected = json!({
        "kind": "VirtualMachinePool",
        "listKind": "VirtualMachinePoolList",
        "plural": "virtualmachinepools",
        "singular": "virtualmachinepool",
        "shortNames": ["vmpool", "vmpools"],
        "categories": ["all"],
    });
    assert_eq!(crd["spec"]["names"], expected);
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
}

#[test]
fn both_versions_of_the_pool_are_served_alike() {
    let crd = value(&POOL_CRD);
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let use_of =
        |version: &Value| (version["name"].clone(), version["served"] == true, version["storage"] == true);
    let uses: Vec<_> = versions.iter().map(use_of).collect();
    assert_eq!(uses, [(json!(POOL_VERSION), true, true), (json!(POOL_OLD_VERSION), true, false)]);
    for key in ["schema", "subresources", "additionalPrinterColumns"] {
        assert!(!versions[0][key].is_null(), "{key}");
        assert_eq!(versions[0][key], versions[1][key], "{key}");
    }
}

#[test]
fn the_pool_can_be_scaled_and_listed() {
    let version = &value(&POOL_CRD)["spec"]["versions"][0];
    let expected = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        },
    });
    assert_eq!(version["subresources"], expected);
    // Without this default the API server responds with 500 to a request for the scale of a pool without
    // `replicas`.
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["properties"]["replicas"]["default"], 1);
    // With it, a pool without a status is in progress for clients that wait.
    let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_eq!(status["default"], json!({ "observedGeneration": -1 }));
    let columns: Vec<(&str, &str, bool)> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let text = |key: &str| column[key].as_str().unwrap();
            (text("name"), text("jsonPath"), column.get("priority").is_none())
        })
        .collect();
    let by_default: Vec<_> =
        columns.iter().filter(|column| column.2).map(|column| (column.0, column.1)).collect();
    assert_eq!(
        by_default,
        [
            ("Desired", ".spec.replicas"),
            ("Current", ".status.replicas"),
            ("Ready", ".status.readyReplicas"),
            ("Age", ".metadata.creationTimestamp"),
            ("Status", ".status.conditions[?(@.type==\"Ready\")].reason"),
        ]
    );
    assert!(
        columns[..4].iter().all(|column| column.2),
        "a script that reads the wide output finds them first"
    );
}

/// Objects of a schema whose fields the API server would prune.
fn pruned(schema: &Value, path: &str, found: &mut Vec<String>) {
    if schema["type"] == "object" && schema.get("additionalProperties").is_none() {
        let keeps = schema["x-kubernetes-preserve-unknown-fields"] == true;
        if !keeps {
            found.push(path.to_owned());
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        pruned(field, &format!("{path}.{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        pruned(items, &format!("{path}[]"), found);
    }
}

#[test]
fn no_field_of_a_machine_template_is_pruned() {
    let schema = &value(&POOL_CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let template = &schema["properties"]["spec"]["properties"]["virtualMachineTemplate"];
    let mut found = Vec::new();
    for part in ["metadata", "spec"] {
        pruned(&template["properties"][part], part, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn only_a_few_fields_of_a_default_value_or_a_rule_are_in_the_machine_template() {
    let schema = &value(&POOL_CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let template =
        &schema["properties"]["spec"]["properties"]["virtualMachineTemplate"]["properties"]["spec"];
    let text = template.to_string();
    // A default would change the template of stored pools, and so every revision.
    assert!(!text.contains("\"default\""), "{text}");
    // KubeVirt validates its own fields; its schema has these three rules.
    assert_eq!(text.matches("\"rule\"").count(), 3, "{text}");
}
