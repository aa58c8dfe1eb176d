use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::{IntOrPercent, Share, ShareError};

#[rstest]
#[case::one(json!(1), Share::Machines(1))]
#[case::more_than_a_pool_can_have(json!(u64::MAX), Share::Machines(u32::MAX))]
#[case::more_than_fits(json!(5_000_000_000_i64), Share::Machines(u32::MAX))]
#[case::the_smallest_percentage(json!("1%"), Share::Percent(1))]
#[case::all(json!("100%"), Share::Percent(100))]
fn a_field_is_read(#[case] value: Value, #[case] share: Share) {
    assert_eq!(Share::from_json(&value), Ok(share));
}

#[rstest]
#[case::none(json!(0), "0 is less than one machine")]
#[case::negative(json!(-3), "-3 is less than one machine")]
#[case::zero_percent(json!("0%"), r#""0%" is less than one machine"#)]
#[case::more_than_all(json!("101%"), r#""101%" is more than all machines"#)]
#[case::far_more_than_all(json!("999%"), r#""999%" is more than all machines"#)]
#[case::half_a_machine(json!(0.5), "0.5 is neither a number of machines nor a percentage")]
#[case::a_number_in_quotes(json!("3"), r#""3" is neither"#)]
#[case::a_fraction(json!("2.5%"), r#""2.5%" is neither"#)]
#[case::a_sign(json!("+5%"), r#""+5%" is neither"#)]
#[case::leading_zeroes(json!("05%"), r#""05%" is neither"#)]
#[case::nothing_before_the_sign(json!("%"), r#""%" is neither"#)]
#[case::a_word(json!("half"), r#""half" is neither"#)]
#[case::a_bool(json!(true), "true is neither")]
#[case::null(Value::Null, "null is neither")]
#[case::something_long(json!("x".repeat(500)), r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... is neither"#)]
fn an_invalid_share_is_reported(#[case] value: Value, #[case] message: &str) {
    let error = Share::from_json(&value).unwrap_err().to_string();
    assert!(error.starts_with(message), "{error}");
}

#[rstest]
#[case::a_number("3", Ok(Share::Machines(3)))]
#[case::a_percentage("30%", Ok(Share::Percent(30)))]
#[case::beyond_32_bits("99999999999", Ok(Share::Machines(u32::MAX)))]
#[case::spaces(" 3", Err(ShareError::NotAShare { text: "\" 3\"".to_owned() }))]
#[case::nothing("", Err(ShareError::NotAShare { text: "\"\"".to_owned() }))]
#[case::zero("0", Err(ShareError::TooSmall { text: "\"0\"".to_owned() }))]
fn an_annotation_is_read(#[case] text: &str, #[case] share: Result<Share, ShareError>) {
    assert_eq!(text.parse(), share);
}

proptest! {
    #[test]
    fn what_is_written_reads_back(machines in 1..=u32::MAX, percent in 1..=100_u8) {
        for share in [Share::Machines(machines), Share::Percent(percent)] {
            prop_assert_eq!(share.to_string().parse(), Ok(share));
            let written = serde_json::to_value(IntOrPercent::from(share)).unwrap();
            let read: IntOrPercent = serde_json::from_value(written).unwrap();
            prop_assert_eq!(read.share(), Ok(share));
        }
    }

    #[test]
    fn parsing_never_panics(text in ".{0,60}") {
        let _ = text.parse::<Share>();
        let _ = Share::from_json(&Value::from(text));
    }
}
