use rstest::rstest;

use super::*;

#[rstest]
#[case::address("dial tcp 10.66.10.4:6443: refused", "dial tcp redacted (10 bytes):6443: refused")]
#[case::network("10.0.0.0/24", "redacted (8 bytes)/24")]
#[case::end_of_a_sentence("no route to 10.0.0.1.", "no route to redacted (8 bytes).")]
#[case::after_letters("addr10.0.0.1", "addrredacted (8 bytes)")]
#[case::url("https://10.0.0.1/x", "https://redacted (8 bytes)/x")]
#[case::address_of_six("[fd00::1]:443", "[redacted (7 bytes)]:443")]
#[case::mapped("::ffff:10.0.0.1", "redacted (15 bytes)")]
#[case::network_of_six("fd00::/8", "redacted (6 bytes)/8")]
#[case::zone("fe80::1%eth0", "redacted (7 bytes)%eth0")]
#[case::colon_after_an_address("fd00::1: refused", "redacted (7 bytes): refused")]
#[case::web_token("got eyJhbGciOi.J9.abc", "got redacted (17 bytes)")]
#[case::bearer("Authorization: Bearer abc", "Authorization: redacted (6 bytes) redacted (3 bytes)")]
#[case::flag("--bootstrap-token=abc", "--bootstrap-token=redacted (3 bytes)")]
#[case::announced("password: hunter2", "password: redacted (7 bytes)")]
#[case::credentials("https://a:b@host/x", "redacted (18 bytes)")]
#[case::signed("https://host/x?sig=abc", "redacted (22 bytes)")]
fn secrets_are_replaced_by_their_size(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(scrub_text(text), expected);
}

#[rstest]
#[case::sentence("2 of 3 machines are ready; machine web-6dctz: Crashed")]
#[case::time("2026-11-24T18:00:00.123456Z")]
#[case::version("v1.36.3")]
#[case::version_of_four_letters("registry.example.com/vmpool:0.1.0")]
#[case::uid("3f0c1b8e-8a0c-4d43-9a0c-5c1fdb1f2b10")]
#[case::digest("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
#[case::path("crate::lease")]
#[case::path_with_hexadecimal_end("pool::ead")]
#[case::selector("app.kubernetes.io/part-of=vmpool")]
#[case::size("10Gi")]
#[case::number("1.5")]
#[case::key("vmpool.dev/protected-until")]
#[case::empty("")]
fn facts_stay(#[case] text: &str) {
    assert_eq!(scrub_text(text), text);
}

#[test]
fn a_run_that_is_longer_than_any_name_is_a_token() {
    let (name, token) = ("a".repeat(LONGEST_RUN), "a".repeat(LONGEST_RUN + 1));
    assert_eq!(scrub_text(&name), name);
    assert_eq!(scrub_text(&format!("key {token}")), "key redacted (65 bytes)");
}

#[rstest]
#[case::cloud_config("#cloud-config\nusers: []", true)]
#[case::script("\n  #!/bin/sh\nid", true)]
#[case::key("a\n-----BEGIN PRIVATE KEY-----", true)]
#[case::message("line one\nline two", false)]
fn user_data_is_recognized_by_its_beginning(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(contains_user_data(text), expected);
}

#[rstest]
#[case("caBundle", true)]
#[case("bearerToken", true)]
#[case("certificate-authority-data", true)]
#[case("secretName", false)]
#[case("name", false)]
fn names_of_secret_fields(#[case] name: &str, #[case] expected: bool) {
    assert_eq!(is_secret_name(name), expected);
}
