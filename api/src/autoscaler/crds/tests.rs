use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::ALL_CRDS;
use crate::autoscaler::API_VERSION;

fn definition() -> CustomResourceDefinition {
    serde_yaml_ng::from_str(ALL_CRDS[0].yaml).unwrap()
}

#[test]
fn the_resource_has_its_names() {
    let crd = definition();
    let names = &crd.spec.names;
    assert_eq!(crd.metadata.name.as_deref(), Some(ALL_CRDS[0].name));
    assert_eq!((names.kind.as_str(), names.plural.as_str()), (ALL_CRDS[0].kind, "poolautoscalers"));
    assert_eq!(names.short_names, Some(vec!["vmpas".to_owned()]));
    assert_eq!(format!("{}/{}", crd.spec.group, crd.spec.versions[0].name), API_VERSION);
}

#[test]
fn kubectl_shows_the_columns() {
    let columns = definition().spec.versions[0].additional_printer_columns.clone().unwrap();
    let shown = columns.iter().filter(|column| column.priority.is_none());
    let shown: Vec<&str> = shown.map(|column| column.name.as_str()).collect();
    assert_eq!(shown, ["Pool", "Min", "Max", "Replicas", "Desired", "Busy", "Free", "Active", "Age"]);
}
