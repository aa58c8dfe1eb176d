use rstest::rstest;

use super::ResolvedCrd;

fn crd(versions: &str) -> anyhow::Result<ResolvedCrd> {
    let yaml = format!(
        "metadata: {{name: things.example}}
spec: {{group: example, scope: Namespaced, names: {{kind: Thing, plural: things}}, versions: [{versions}]}}"
    );
    ResolvedCrd::new("folder/inner/things.yaml".to_owned(), serde_yaml_ng::from_str(&yaml).unwrap())
}

/// A version from which types follow.
const STORED: &str = "{name: v1, storage: true, schema: {openAPIV3Schema: {type: object}}}";

#[test]
fn the_storage_version_counts_wherever_it_stands() {
    let crd =
        crd(&format!("{{name: v1beta1, schema: {{openAPIV3Schema: {{type: object}}}}}}, {STORED}")).unwrap();
    assert_eq!(crd.version()["name"], "v1");
    assert_eq!(crd.folder(), "folder/inner");
}

#[rstest]
#[case::words("VirtualMachinePool", "virtual_machine_pool")]
#[case::an_abbreviation("VMDiskImage", "vm_disk_image")]
#[case::an_abbreviation_at_the_end("DiskOfVM", "disk_of_vm")]
fn the_module_has_the_words_of_the_kind(#[case] kind: &str, #[case] module: &str) {
    let yaml = format!(
        "metadata: {{name: things.example}}
spec: {{group: example, scope: Namespaced, names: {{kind: {kind}, plural: things}}, versions: [{STORED}]}}"
    );
    let crd = ResolvedCrd::new("things.yaml".to_owned(), serde_yaml_ng::from_str(&yaml).unwrap()).unwrap();
    assert_eq!(crd.module(), module);
}

#[rstest]
#[case::no_version("", "needs exactly one storage version")]
#[case::none_is_stored("{name: v1, storage: false}", "needs exactly one storage version")]
#[case::two_are_stored(&format!("{STORED}, {STORED}"), "needs exactly one storage version")]
#[case::different_schemas(
    &format!("{STORED}, {{name: v2, schema: {{openAPIV3Schema: {{type: string}}}}}}"),
    "the versions have different schemas"
)]
#[case::no_schema("{name: v1, storage: true}", "the storage version has no schema")]
fn versions_from_which_no_type_follows_are_refused(#[case] versions: &str, #[case] text: &str) {
    let error = crd(versions).err().unwrap().to_string();
    assert!(error.contains(text), "{error}");
}
