use std::{collections::BTreeSet, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{ALL_CRDS, POOL_CRD};
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
    // Without this default the API server responds with 500 to a request for the scale of a pool without `replicas`.
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()).unwrap();
    let spec = &schema.properties.as_ref().unwrap()["spec"];
    let replicas = &spec.properties.as_ref().unwrap()["replicas"];
    assert_eq!(replicas.default.as_ref().map(|default| &default.0), Some(&serde_json::json!(0)));
    let columns: Vec<&str> =
        version.additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
    assert_eq!(
        columns,
        ["Desired", "Replicas", "Ready", "Up-to-date", "Restart", "Policy", "Revision", "Age"]
    );
}
