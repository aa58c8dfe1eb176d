use super::*;
use rstest::rstest;

#[rstest]
#[case::binary("1Gi", Some(1 << 30))]
#[case::decimal("5M", Some(5_000_000))]
#[case::plain("1024", Some(1024))]
#[case::fraction("1.5Ki", Some(1536))]
#[case::exponent("1e3", Some(1000))]
#[case::zero("0", None)]
#[case::negative("-1Gi", None)]
#[case::nonsense("big", None)]
fn sizes_are_parsed(#[case] text: &str, #[case] expected: Option<u128>) {
    assert_eq!(parse_bytes(text), expected);
}

#[rstest]
#[case::a_twentieth_of_a_core(1, Some("5%"), 50)]
#[case::whole_cores(4, None, 4000)]
#[case::auto_is_whole(2, Some("Auto"), 2000)]
fn requests_follow_the_guaranteed_fraction(
    #[case] cores: i64,
    #[case] fraction: Option<&str>,
    #[case] millis: i64,
) {
    assert_eq!(cpu_request_millis(cores, fraction), millis);
}
