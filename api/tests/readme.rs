//! The compatibility table of the README agrees with the sources of its values.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use vmpool_api::{crds, diskimage, instancetype, kubevirt, subresources, v1alpha2};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The cells of the rows of the compatibility table.
fn table() -> Vec<Vec<String>> {
    let readme = read("README.md");
    let (_, section) = readme.split_once("## Compatibility").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn every_row_has_the_versions_of_this_crate_and_its_dependencies() {
    let manifest = read("Cargo.toml");
    let chart = read("../charts/vmpool/Chart.yaml");
    for row in table() {
        assert_eq!(row[0], env!("CARGO_PKG_VERSION"), "{row:?}");
        let (oldest, tested) = row[3].split_once(" or newer; tested with ").unwrap();
        assert!(chart.contains(&format!("kubeVersion: \">={oldest}.0-0\"")), "{row:?}");
        let feature = format!("k8s-openapi/v{}", tested.replace('.', "_"));
        assert!(manifest.contains(&feature), "{row:?}");
        assert!(manifest.contains(&format!("kube = {{ version = \"{}\"", row[5])), "{row:?}");
        assert!(manifest.contains(&format!("k8s-openapi = \"{}\"", row[6])), "{row:?}");
    }
}

#[test]
fn the_version_of_kubevirt_is_that_of_the_documentation() {
    let docs = read("../docs/kubevirt.md").replace('\n', " ");
    let versions = table().into_iter().filter_map(|row| {
        row[4].strip_prefix("compared with ").map(|version| format!("compared with that of {version}."))
    });
    let versions: Vec<String> = versions.collect();
    assert!(!versions.is_empty() && versions.iter().all(|version| docs.contains(version)), "{versions:?}");
}

#[test]
fn the_table_lists_every_version_of_the_crds_that_vmpool_reads() {
    let cells: String = table().into_iter().map(|row| row[2].clone() + "\n").collect();
    for version in [
        v1alpha2::API_VERSION,
        kubevirt::POOL_API_VERSION,
        kubevirt::POOL_OLD_VERSION,
        instancetype::API_VERSION,
        diskimage::API_VERSION,
        &subresources::DVP.api_version(),
        &subresources::KUBEVIRT.api_version(),
    ] {
        assert!(cells.contains(&format!("`{version}`")), "{version} is missing in {cells}");
    }
    for crd in [crds::POOL_CRD, kubevirt::crds::POOL_CRD].iter().chain(diskimage::crds::ALL_CRDS) {
        let definition: CustomResourceDefinition = serde_yaml_ng::from_str(crd.yaml).unwrap();
        for version in definition.spec.versions.iter().filter(|version| version.served) {
            assert!(cells.contains(&version.name), "{} {} is missing in {cells}", crd.name, version.name);
        }
    }
}
