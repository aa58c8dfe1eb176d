use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::a_number(ProvisioningLimit::Machines(3), 10, 3)]
#[case::a_number_above_the_count(ProvisioningLimit::Machines(30), 10, 30)]
#[case::a_percentage_is_rounded_up(ProvisioningLimit::Percent(25), 10, 3)]
#[case::a_whole_percentage(ProvisioningLimit::Percent(20), 10, 2)]
#[case::at_least_one(ProvisioningLimit::Percent(1), 0, 1)]
#[case::no_overflow(ProvisioningLimit::Percent(100), usize::MAX, usize::MAX.div_ceil(100))]
fn a_limit_allows(#[case] limit: ProvisioningLimit, #[case] desired: usize, #[case] expected: usize) {
    assert_eq!(limit.of(desired), expected);
}

fn read_limit(field: &Value, annotation: Option<&str>) -> (Option<ProvisioningLimit>, Vec<String>) {
    let annotations = annotation.map(|text| BTreeMap::from([(MAX_PROVISIONING.to_owned(), text.to_owned())]));
    let mut invalid = Vec::new();
    (read_max_provisioning(field, annotations.as_ref(), &mut invalid), invalid)
}

#[rstest]
#[case::without_a_limit(Value::Null, None, None)]
#[case::by_the_field(json!(3), None, Some(ProvisioningLimit::Machines(3)))]
#[case::a_percentage(json!("10%"), None, Some(ProvisioningLimit::Percent(10)))]
#[case::by_the_annotation(Value::Null, Some("7"), Some(ProvisioningLimit::Machines(7)))]
#[case::the_field_overrides_the_annotation(json!(3), Some("no"), Some(ProvisioningLimit::Machines(3)))]
fn the_limit_is_read(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: Option<ProvisioningLimit>,
) {
    assert_eq!(read_limit(&field, annotation), (expected, Vec::new()));
}

#[rstest]
#[case::zero(json!(0), None, "maxProvisioning: 0 is less than one machine")]
#[case::a_number_as_a_text(json!("3"), None, "maxProvisioning: \"3\" is neither")]
#[case::another_type(json!({}), None, "maxProvisioning: {} is neither")]
#[case::a_word(Value::Null, Some("few"), "annotation vmpool.dev/max-provisioning: \"few\" is neither")]
#[case::too_much(Value::Null, Some("101%"), "annotation vmpool.dev/max-provisioning: \"101%\" is more than")]
fn an_unreadable_value_is_reported_and_counts_as_one_machine(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: &str,
) {
    let (limit, invalid) = read_limit(&field, annotation);
    assert_eq!(limit, Some(ProvisioningLimit::Machines(1)));
    assert!(invalid.len() == 1 && invalid[0].starts_with(expected), "{invalid:?}");
}
