//! The settings of `spec.nameGeneration` that only the definition of vmpool has, in an annotation.

use serde_json::{Value, json};

/// The field of the spec of a pool.
pub(super) const FIELD: &str = "nameGeneration";
/// Whether the host name of the guest is the name of its machine.
pub(super) const HOSTNAME: &str = "setHostnameToVMName";
/// Whether Secrets and ConfigMaps of sysprep volumes get the ordinal.
pub(super) const SYSPREP: &str = "appendIndexToSysprepRefs";
/// Whether Secrets with the metadata of cloud-init get the ordinal.
pub(super) const META_DATA: &str = "appendIndexToMetaDataSecretRefs";
/// Whether ResourceClaims get the ordinal.
pub(super) const RESOURCE_CLAIMS: &str = "appendIndexToResourceClaimRefs";
/// Whether claims for the state of the machine get the ordinal.
pub(super) const MACHINE_STATE: &str = "appendIndexToVMStateRefs";

const OWN: [&str; 5] = [HOSTNAME, SYSPREP, META_DATA, RESOURCE_CLAIMS, MACHINE_STATE];

/// Adds the settings in the annotation of a pool to its spec, unless the spec has the field.
pub(super) fn add_annotated_names(spec: &mut Value, annotation: Option<&String>) {
    let Some(spec) = spec.as_object_mut().filter(|_| annotation.is_some()) else { return };
    let settings = spec.entry(FIELD).or_insert_with(|| json!({}));
    if settings.is_null() {
        *settings = json!({});
    }
    let Some(settings) = settings.as_object_mut() else { return };
    for name in annotation.into_iter().flat_map(|text| annotated_names(text)) {
        if OWN.contains(&name) {
            settings.entry(name).or_insert(Value::Bool(true));
        }
    }
}

/// The first word of the annotation that is no setting.
pub(super) fn find_unknown_name(annotation: &str) -> Option<&str> {
    annotated_names(annotation).find(|name| !OWN.contains(name))
}

fn annotated_names(annotation: &str) -> impl Iterator<Item = &str> {
    annotation.split(',').map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_annotation(json!({}), None, json!({}))]
    #[case::a_setting(json!({}), Some("setHostnameToVMName"), json!({ "nameGeneration": { "setHostnameToVMName": true } }))]
    #[case::null(json!({ "nameGeneration": null }), Some(""), json!({ "nameGeneration": {} }))]
    #[case::the_field_counts(
        json!({ "nameGeneration": { "setHostnameToVMName": false, "appendIndexToSecretRefs": true } }),
        Some("setHostnameToVMName, appendIndexToSysprepRefs"),
        json!({ "nameGeneration": {
            "setHostnameToVMName": false, "appendIndexToSecretRefs": true, "appendIndexToSysprepRefs": true,
        } })
    )]
    #[case::a_setting_of_kubevirt(json!({}), Some("appendIndexToSecretRefs"), json!({ "nameGeneration": {} }))]
    #[case::another_type(json!({ "nameGeneration": 1 }), Some("setHostnameToVMName"), json!({ "nameGeneration": 1 }))]
    fn the_annotation_adds(
        #[case] mut spec: Value,
        #[case] annotation: Option<&str>,
        #[case] expected: Value,
    ) {
        add_annotated_names(&mut spec, annotation.map(str::to_owned).as_ref());
        assert_eq!(spec, expected);
    }

    #[rstest]
    #[case("", None)]
    #[case("setHostnameToVMName,appendIndexToSysprepRefs, appendIndexToMetaDataSecretRefs", None)]
    #[case("appendIndexToResourceClaimRefs,appendIndexToVMStateRefs", None)]
    #[case("setHostnameToVMName,hostname", Some("hostname"))]
    fn an_unknown_word_is_found(#[case] annotation: &str, #[case] expected: Option<&str>) {
        assert_eq!(find_unknown_name(annotation), expected);
    }
}
