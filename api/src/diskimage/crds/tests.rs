use std::{collections::BTreeSet, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rstest::rstest;

use super::ALL_CRDS;
use crate::diskimage::{API_VERSION, WRAPPERS};

fn definition(kind: &str) -> CustomResourceDefinition {
    let crd = ALL_CRDS.iter().find(|crd| crd.kind == kind).unwrap();
    serde_yaml_ng::from_str(crd.yaml).unwrap()
}

#[test]
fn every_crd_in_the_directory_is_embedded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/diskimage");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    let embedded: BTreeSet<String> = ALL_CRDS.iter().map(|crd| format!("{}.yaml", crd.name)).collect();
    assert_eq!(embedded, files);
}

#[rstest]
#[case("VMDiskImage", "vmdiskimages", "vmdi")]
#[case("VirtualMachine", WRAPPERS, "wvm")]
#[case("VMDiskImageGrant", "vmdiskimagegrants", "vmdig")]
fn the_resources_have_their_names(#[case] kind: &str, #[case] plural: &str, #[case] short: &str) {
    let crd = definition(kind);
    let names = &crd.spec.names;
    assert_eq!(crd.metadata.name, Some(format!("{plural}.vmpool.dev")));
    assert_eq!((names.kind.as_str(), names.plural.as_str()), (kind, plural));
    assert_eq!(names.short_names, Some(vec![short.to_owned()]));
    assert_eq!(format!("{}/{}", crd.spec.group, crd.spec.versions[0].name), API_VERSION);
}

/// `kubectl get vm` and `kubectl get virtualmachines` belong to the platform of the cluster.
#[test]
fn no_name_of_the_wrapper_is_a_name_of_the_platforms_machines() {
    let names = definition("VirtualMachine").spec.names;
    let mut all = vec![names.plural, names.singular.unwrap()];
    all.extend(names.short_names.unwrap_or_default());
    all.extend(names.categories.unwrap_or_default());
    for taken in ["vm", "vms", "virtualmachine", "virtualmachines", "all"] {
        assert!(!all.iter().any(|name| name == taken), "{taken}");
    }
}

#[rstest]
#[case(
    "VMDiskImage",
    &["Phase", "Refs", "Size", "Age"],
    &["Pools", "Source", "Progress", "Expires"]
)]
#[case("VirtualMachine", &["Phase", "Image", "Ready", "Age"], &["Mode"])]
#[case("VMDiskImageGrant", &["Create", "Age"], &[])]
fn kubectl_shows_the_columns(#[case] kind: &str, #[case] always: &[&str], #[case] wide: &[&str]) {
    let crd = definition(kind);
    let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
    let (first, further): (Vec<_>, Vec<_>) =
        columns.into_iter().partition(|column| column.priority.is_none());
    assert_eq!(first.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), always);
    assert_eq!(further.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), wide);
}
