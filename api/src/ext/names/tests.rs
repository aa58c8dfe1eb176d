use rstest::rstest;

use super::{is_dns_label, is_dns_subdomain};

#[rstest]
#[case::a_word("web", true, true)]
#[case::one_character("0", true, true)]
#[case::hyphens_inside("web--7xk2d", true, true)]
#[case::dots_inside("web.example", false, true)]
#[case::the_longest_label(&"a".repeat(63), true, true)]
#[case::a_longer_label(&"a".repeat(64), false, true)]
#[case::the_longest_subdomain(&"a".repeat(253), false, true)]
#[case::a_longer_subdomain(&"a".repeat(254), false, false)]
#[case::empty("", false, false)]
#[case::a_hyphen_at_the_start("-web", false, false)]
#[case::a_hyphen_at_the_end("web-", false, false)]
#[case::a_hyphen_before_a_dot("web-.example", false, false)]
#[case::an_empty_part("web..example", false, false)]
#[case::a_dot_at_the_end("web.", false, false)]
#[case::a_capital("Web", false, false)]
#[case::an_underscore("we_b", false, false)]
#[case::a_letter_beyond_ascii("w\u{e9}b", false, false)]
#[case::a_path("../web", false, false)]
#[case::a_space("we b", false, false)]
fn names_have_the_form_of_a_label_or_a_subdomain(
    #[case] text: &str,
    #[case] label: bool,
    #[case] subdomain: bool,
) {
    assert_eq!((is_dns_label(text), is_dns_subdomain(text)), (label, subdomain));
}
