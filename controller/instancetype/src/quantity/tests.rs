use std::cmp::Ordering;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::Amount;

fn amount(text: &str) -> Amount {
    Amount::parse(text).unwrap()
}

#[rstest]
#[case::text(json!("2048Mi"), Some("2048Mi"))]
#[case::a_whole_number(json!(1024), Some("1024"))]
#[case::a_negative_amount(json!("-1Gi"), Some("-1Gi"))]
#[case::a_fraction_as_number(json!(0.5), None)]
#[case::a_word(json!("plenty"), None)]
#[case::empty(json!(""), None)]
#[case::too_large(json!("16Ei"), None)]
#[case::far_too_small(json!("-1e40"), None)]
#[case::a_boolean(json!(true), None)]
fn reads_amounts_and_keeps_their_text(#[case] value: serde_json::Value, #[case] text: Option<&str>) {
    assert_eq!(Amount::from_json(&value).as_ref().map(Amount::as_str), text);
}

#[rstest]
#[case::the_same_amount("2048Mi", "2Gi", Ordering::Equal)]
#[case::less("1Gi", "1025Mi", Ordering::Less)]
#[case::negative("-1Gi", "0", Ordering::Less)]
fn compares_regardless_of_spelling(#[case] left: &str, #[case] right: &str, #[case] order: Ordering) {
    assert_eq!(amount(left).compare(&amount(right)), order);
}

#[rstest]
#[case::example_of_the_specification("1Gi", 15, "912680550")]
#[case::half("2Gi", 50, "1073741824")]
#[case::the_spelling_is_canonical("2G", 50, "1G")]
#[case::rounded_down("3", 50, "1")]
#[case::nothing_remains("1Gi", 100, "0")]
#[case::a_negative_amount_is_zero("-1Gi", 10, "0")]
#[case::no_overflow("15Ei", 1, "17120884343411677593")]
fn overcommit_is_computed_in_integers(#[case] text: &str, #[case] percent: u8, #[case] lowered: &str) {
    assert_eq!(amount(text).lowered_by(percent).as_str(), lowered);
}

#[rstest]
#[case::half("32Gi", 50, "16Gi")]
#[case::a_third("512Mi", 33, "359703488")]
#[case::a_third_of_much("64Gi", 33, "44962936Ki")]
#[case::a_third_of_an_uneven_amount("3000Mi", 33, "2107637632")]
#[case::an_exact_share("3000Mi", 15, "2550Mi")]
#[case::the_next_single_precision_number("512Mi", 15, "456340288")]
#[case::decimal("1G", 50, "500M")]
#[case::nothing_remains("64Gi", 100, "0")]
fn kubevirt_computes_overcommit_in_single_precision(
    #[case] text: &str,
    #[case] percent: u8,
    #[case] lowered: &str,
) {
    assert_eq!(amount(text).lowered_in_single_precision(percent).as_str(), lowered);
}

#[rstest]
#[case::cpus("2", 2)]
#[case::a_part("1500m", 2)]
#[case::negative("-1", 0)]
#[case::beyond_32_bits("1Ti", u32::MAX)]
fn whole_units_are_rounded_up(#[case] text: &str, #[case] whole: u32) {
    assert_eq!(amount(text).whole(), whole);
}

#[test]
fn zero_is_not_positive() {
    assert!(!Amount::zero().is_positive());
    assert!(!amount("-1").is_positive());
    assert!(amount("1").is_positive());
}

/// The value that KubeVirt writes for the example is within the documented tolerance.
#[test]
fn overcommit_is_close_to_single_precision() {
    let ours = amount("1Gi").lowered_by(15).bytes.unwrap();
    assert!(912_680_576_u64.abs_diff(ours) <= ours >> 23);
}

proptest! {
    #[test]
    fn overcommit_is_the_exact_share_rounded_down(bytes: u64, percent in 0_u8..=100) {
        let lowered = amount(&bytes.to_string()).lowered_by(percent);
        let share = u128::from(bytes) * u128::from(100 - percent);
        let read_back = u128::from(amount(lowered.as_str()).bytes.unwrap());
        prop_assert!(read_back * 100 <= share && share < (read_back + 1) * 100);
    }
}
