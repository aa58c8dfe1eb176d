use rstest::rstest;
use serde_json::json;

use super::*;

fn read(entries: &[(&str, &str)]) -> Option<Arc<Protection>> {
    let annotations = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Protection::read(Some(&annotations))
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[test]
fn a_machine_without_these_annotations_has_no_protection() {
    assert_eq!(Protection::read(None), None);
    assert_eq!(read(&[("vmpool.dev/other", "x")]), None);
}

#[rstest]
#[case::utc("2026-11-24T02:00:00Z", Some("2026-11-24T02:00:00Z"))]
#[case::an_offset("2026-11-24T03:00:00+01:00", Some("2026-11-24T02:00:00Z"))]
#[case::more_digits_than_a_time_holds(
    "2026-11-24T02:00:00.1234567891Z",
    Some("2026-11-24T02:00:00.123456789Z")
)]
#[case::many_digits_and_an_offset("2026-11-24T03:00:00.00000000000+01:00", Some("2026-11-24T02:00:00Z"))]
#[case::after_the_largest_time("9999-12-31T23:59:59Z", Some("9999-12-30T22:00:00.999999999Z"))]
#[case::after_the_largest_time_with_digits(
    "9999-12-31T23:59:59.99999999999Z",
    Some("9999-12-30T22:00:00.999999999Z")
)]
#[case::a_day_that_does_not_exist("9999-12-32T00:00:00Z", None)]
#[case::no_zone_after_the_largest_time("9999-12-31T23:59:59", None)]
#[case::digits_without_a_zone("2026-11-24T02:00:00.1234567891", None)]
#[case::no_time("tomorrow", None)]
#[case::no_zone("2026-11-24T03:00:00", None)]
#[case::empty("", None)]
fn until_is_a_time_or_unreadable(#[case] text: &str, #[case] expected: Option<&str>) {
    let read = read(&[(UNTIL, text)]).expect("it is about protection");
    assert_eq!(
        read.until,
        Some(expected.map_or(ProtectionEnd::Unreadable, |text| ProtectionEnd::At(time(text))))
    );
}

#[test]
fn a_time_after_the_largest_one_is_shortened_to_the_maximum() {
    let read = read(&[(UNTIL, "9999-12-31T23:59:59Z")]).expect("it is about protection");
    let now = time("2026-11-24T02:00:00Z");
    assert!(read.protects(now));
    assert_eq!(read.shortened(now, Duration::from_hours(24)), Some(time("2026-11-25T02:00:00Z")));
}

#[test]
fn texts_for_users_are_clipped_and_protect_nothing_by_themselves() {
    let long = "\u{e4}".repeat(200);
    let read = read(&[(BY, &long), (REASON, "a build")]).expect("it is about protection");
    assert_eq!(read.by.as_ref().map(|by| by.len()), Some(256));
    assert!(!read.protects(time("2026-11-24T02:00:00Z")));
}

#[test]
fn a_claim_of_another_pool_or_an_unreadable_one_is_void() {
    let claim = Claim { id: "job-1".into(), user: "runner".into(), pool_uid: "one".into() };
    assert_eq!(claim.text(), r#"{"id":"job-1","user":"runner","poolUID":"one"}"#);
    let read_claim = |text: &str| read(&[(CLAIM, text), (UNTIL, "")]).expect("it is about protection");
    assert_eq!(read_claim(&claim.text()).claim_of("one"), Some(&claim));
    assert_eq!(read_claim(&claim.text()).claim_of("another"), None);
    assert_eq!(read_claim("{}").claim, None);
}

#[rstest]
#[case::absent(Value::Null, None, 24, 0)]
#[case::readable(Value::Null, Some("2h"), 2, 0)]
#[case::too_short(Value::Null, Some("59s"), 24, 1)]
#[case::too_long(Value::Null, Some("721h"), 24, 1)]
#[case::the_longest(Value::Null, Some("720h"), 720, 0)]
#[case::no_duration(Value::Null, Some("soon"), 24, 1)]
#[case::a_field(json!("3h"), None, 3, 0)]
#[case::a_field_overrides_the_annotation(json!("3h"), Some("2h"), 3, 0)]
#[case::an_unreadable_field_overrides_the_annotation(json!("soon"), Some("2h"), 24, 1)]
#[case::a_field_that_is_no_text(json!(3), None, 24, 1)]
fn an_unreadable_maximum_is_the_default(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] hours: u64,
    #[case] messages: usize,
) {
    let annotations = annotation.map(|text| BTreeMap::from([(MAX_PROTECTION.to_owned(), text.to_owned())]));
    let mut invalid = Vec::new();
    assert_eq!(read_max_protection(&field, annotations.as_ref(), &mut invalid), Duration::from_hours(hours));
    assert_eq!(invalid.len(), messages, "{invalid:?}");
}

#[test]
fn ids_of_claims_are_short_and_printable() {
    assert!(Claim::check_id("gitlab:12/job-7").is_ok());
    for wrong in ["", "a b", "a\n", "\u{e4}", &"a".repeat(129)] {
        assert!(Claim::check_id(wrong).is_err(), "{wrong:?}");
    }
}
