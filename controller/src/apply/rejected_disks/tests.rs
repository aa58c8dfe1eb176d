use rstest::rstest;

use super::{blames_a_disk, names};

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

#[rstest]
#[case::without_a_name(422, "a disk of the virtual machine is on node n1, which it cannot reach", true)]
#[case::a_volume(403, "Volumes of the machine are in different zones", true)]
#[case::a_quota(403, "exceeded quota: disks, requested: 1, used: 3, limited: 3", false)]
#[case::a_busy_server(429, "too many requests for disk objects", false)]
#[case::a_conflict(409, "the disk was changed", false)]
#[case::something_else(403, "the team has no budget", false)]
#[case::a_machine_that_is_called_like_a_disk(403, "virtualmachines \"disk-x7k2p\" is forbidden", false)]
fn a_refusal_blames_a_disk_without_naming_it(#[case] code: u16, #[case] message: &str, #[case] blames: bool) {
    assert_eq!(blames_a_disk(code, message), blames);
}
