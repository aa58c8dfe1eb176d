use rstest::rstest;

use super::names;

#[rstest]
#[case::alone("web-data-x7k2pq", true)]
#[case::quoted(r#"disk "web-data-x7k2pq" is on another node"#, true)]
#[case::at_the_end("cannot attach web-data-x7k2pq", true)]
#[case::before_a_full_stop("cannot attach web-data-x7k2pq.", true)]
#[case::of_another_disk("cannot attach web-data-x7k2pq-2", false)]
#[case::of_a_longer_name("cannot attach my-web-data-x7k2pq", false)]
#[case::twice_and_once_alone("web-data-x7k2pqr, web-data-x7k2pq", true)]
#[case::not_at_all("exceeded quota", false)]
fn a_refusal_names_a_disk_by_its_whole_name(#[case] message: &str, #[case] named: bool) {
    assert_eq!(names(message, "web-data-x7k2pq"), named);
}
