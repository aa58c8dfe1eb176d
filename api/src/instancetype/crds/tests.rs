use std::collections::BTreeSet;
use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use super::CRDS;
use crate::instancetype::{GROUP, VERSION};

fn crd(kind: &str) -> Value {
    let found = CRDS.iter().find(|crd| crd.kind == kind).unwrap();
    serde_yaml_ng::from_str(found.yaml).unwrap()
}

#[test]
fn every_crd_in_the_directory_is_embedded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/instancetype");
    let entries = std::fs::read_dir(directory).unwrap();
    let files: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let embedded: BTreeSet<String> = CRDS.iter().map(|crd| format!("{}.yaml", crd.name)).collect();
    assert_eq!(files, embedded);
}

#[rstest]
#[case::instancetype(
    "VirtualMachineInstancetype",
    "Namespaced",
    json!(["vminstancetype", "vminstancetypes", "vmf", "vmfs"]),
    json!(["all"])
)]
#[case::cluster_instancetype(
    "VirtualMachineClusterInstancetype",
    "Cluster",
    json!(["vmclusterinstancetype", "vmclusterinstancetypes", "vmcf", "vmcfs"]),
    Value::Null
)]
#[case::preference(
    "VirtualMachinePreference",
    "Namespaced",
    json!(["vmpref", "vmprefs", "vmp", "vmps"]),
    json!(["all"])
)]
#[case::cluster_preference("VirtualMachineClusterPreference", "Cluster", json!(["vmcp", "vmcps"]), Value::Null)]
fn each_kind_is_the_resource_that_clients_of_kubevirt_expect(
    #[case] kind: &str,
    #[case] scope: &str,
    #[case] short_names: Value,
    #[case] categories: Value,
) {
    let crd = crd(kind);
    assert_eq!((&crd["spec"]["group"], &crd["spec"]["scope"]), (&json!(GROUP), &json!(scope)));
    assert_eq!(crd["spec"]["names"]["plural"], format!("{}s", kind.to_lowercase()));
    assert_eq!(crd["spec"]["names"]["shortNames"], short_names);
    assert_eq!(crd["spec"]["names"]["categories"], categories);
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let [version] = &versions[..] else { panic!("{kind} has {} versions", versions.len()) };
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!(VERSION), &json!(true), &json!(true))
    );
    assert_eq!(version["subresources"], Value::Null);
    assert_eq!(version["schema"]["openAPIV3Schema"]["required"], json!(["spec"]));
}

#[rstest]
#[case("VirtualMachineInstancetype", "VirtualMachineClusterInstancetype")]
#[case("VirtualMachinePreference", "VirtualMachineClusterPreference")]
fn kinds_with_and_without_a_namespace_have_the_same_spec_and_columns(#[case] one: &str, #[case] other: &str) {
    let version = |kind| crd(kind)["spec"]["versions"][0].clone();
    let spec = |version: &Value| version["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    let (one, other) = (version(one), version(other));
    assert!(spec(&one).is_object());
    assert_eq!(spec(&one), spec(&other));
    let columns = |version: &Value| {
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        columns.iter().map(|column| (column["name"].clone(), column["jsonPath"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(columns(&one), columns(&other));
}
