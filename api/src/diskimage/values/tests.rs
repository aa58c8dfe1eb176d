use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::diskimage::crds::ALL_CRDS;

/// The `enum` of a field in the schema of a kind, by the names on its path.
fn schema_values(kind: &str, path: &str) -> Vec<String> {
    let crd = ALL_CRDS.iter().find(|crd| crd.kind == kind).unwrap();
    let crd: Value = serde_yaml_ng::from_str(crd.yaml).unwrap();
    let pointer = path.split('.').fold(String::new(), |pointer, name| format!("{pointer}/properties/{name}"));
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let values = schema.pointer(&pointer).unwrap()["enum"].as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn names<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::source_type("VMDiskImage", "spec.sourceType", names(SourceType::ALL))]
#[case::source_type_of_a_template(
    "VirtualMachine",
    "spec.vmDiskImageTemplate.sourceType",
    names(SourceType::ALL)
)]
#[case::pull_method("VMDiskImage", "spec.pullMethod", names(PullMethod::ALL))]
#[case::image("VMDiskImage", "status.phase", names(ImagePhase::ALL))]
#[case::mode("VirtualMachine", "spec.mode", names(Mode::ALL))]
#[case::wrapper("VirtualMachine", "status.phase", names(WrapperPhase::ALL))]
fn the_enums_have_the_values_of_the_schema(
    #[case] kind: &str,
    #[case] field: &str,
    #[case] values: Vec<String>,
) {
    assert_eq!(values, schema_values(kind, field));
}

#[rstest]
#[case("s3", Ok(SourceType::S3))]
#[case("blank", Ok(SourceType::Blank))]
#[case(
    "S3",
    Err("\"S3\" is not a source type; known are s3, http, registry, blank, gcs, pvc, snapshot, upload")
)]
fn a_source_type_is_read_by_its_text(#[case] text: &str, #[case] expected: Result<SourceType, &str>) {
    let read = text.parse::<SourceType>().map_err(|error| error.to_string());
    assert_eq!(read, expected.map_err(str::to_owned));
}
