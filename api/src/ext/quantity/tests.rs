use std::cmp::Ordering;

use proptest::prelude::*;
use rstest::rstest;

use super::{Quantity, QuantityError};

#[rstest]
#[case::plain("1024", 1024)]
#[case::mebibytes("512Mi", 536_870_912)]
#[case::megabytes("512M", 512_000_000)]
#[case::a_fraction("1.5Gi", 1_610_612_736)]
#[case::no_digit_before_the_point(".5Ki", 512)]
#[case::no_digit_after_the_point("1.Ki", 1024)]
#[case::a_plus("+1k", 1000)]
#[case::an_exponent("1e3", 1000)]
#[case::a_negative_exponent("2500E-2", 25)]
#[case::exa_is_not_an_exponent("1E", 1_000_000_000_000_000_000)]
#[case::exbibytes("1Ei", 1_152_921_504_606_846_976)]
#[case::a_fraction_of_a_byte_is_rounded_up("1.5", 2)]
#[case::less_than_a_byte("1n", 1)]
#[case::less_than_a_nano("1e-40", 1)]
#[case::zero("0Gi", 0)]
#[case::leading_zeroes_are_ignored("000000000000000000000000000000000000001", 1)]
fn reads_whole_units(#[case] text: &str, #[case] bytes: u64) {
    assert_eq!(Quantity::from(text).bytes(), Ok(bytes));
}

#[rstest]
#[case::empty("")]
#[case::a_word("plenty")]
#[case::a_unit_that_does_not_exist("1GB")]
#[case::a_small_kilo_is_decimal_only("1ki")]
#[case::a_space("1 Gi")]
#[case::two_points("1.2.3")]
#[case::a_point_alone(".")]
#[case::an_exponent_without_digits("1e")]
#[case::a_fraction_as_exponent("1e1.5")]
#[case::two_signs("--1")]
fn what_is_not_a_quantity(#[case] text: &str) {
    let error = Quantity::from(text).bytes().unwrap_err();
    assert_eq!(error, QuantityError::NotAQuantity { text: text.to_owned() });
    assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
}

#[rstest]
#[case::negative("-1Gi", QuantityError::Negative { text: "-1Gi".to_owned() })]
#[case::beyond_64_bits("16Ei", QuantityError::TooLarge { text: "16Ei".to_owned() })]
#[case::far_beyond("1e30", QuantityError::TooLarge { text: "1e30".to_owned() })]
#[case::too_many_digits("9".repeat(50).leak(), QuantityError::TooLarge { text: "9".repeat(50) })]
fn what_does_not_fit(#[case] text: &str, #[case] error: QuantityError) {
    assert_eq!(Quantity::from(text).bytes(), Err(error));
}

#[rstest]
#[case::the_same_amount("1Gi", "1024Mi", Ordering::Equal)]
#[case::binary_is_more_than_decimal("1Gi", "1G", Ordering::Greater)]
#[case::negative_is_less("-1", "0", Ordering::Less)]
#[case::as_fine_as_nanos("1n", "2n", Ordering::Less)]
fn compares_amounts(#[case] left: &str, #[case] right: &str, #[case] order: Ordering) {
    assert_eq!(Quantity::from(left).compare(&Quantity::from(right)), Ok(order));
}

#[rstest]
#[case::text(r#""10Gi""#, "10Gi")]
#[case::a_number("10", "10")]
#[case::a_number_beyond_32_bits("10737418240", "10737418240")]
#[case::a_negative_number("-1", "-1")]
#[case::a_fraction("0.5", "0.5")]
#[case::an_invalid_quantity_is_preserved(r#""plenty""#, "plenty")]
fn is_read_from_text_and_numbers(#[case] json: &str, #[case] text: &str) {
    let quantity: Quantity = serde_json::from_str(json).unwrap();
    assert_eq!(quantity.as_str(), text);
    assert_eq!(serde_json::to_value(&quantity).unwrap(), serde_json::json!(text));
}

#[test]
fn is_written_with_the_largest_suffix() {
    assert_eq!(Quantity::from_bytes(536_870_912).as_str(), "512Mi");
    assert_eq!(Quantity::from_bytes(1000).as_str(), "1000");
    assert_eq!(Quantity::from_bytes(0).as_str(), "0");
}

proptest! {
    #[test]
    fn bytes_read_back(bytes: u64) {
        prop_assert_eq!(Quantity::from_bytes(bytes).bytes(), Ok(bytes));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+]?[0-9.]{0,45}([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,11})?") {
        let quantity = Quantity::new(text);
        let _ = quantity.bytes();
    }
}
