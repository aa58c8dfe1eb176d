use rstest::rstest;

use super::labels;

#[rstest]
#[case::created_by(labels::CREATED_BY, true)]
#[case::node_name("kubevirt.io/nodeName", true)]
#[case::the_revision_is_set_by_the_pool_controller(labels::REVISION, false)]
#[case::the_pool_by_convention("kubevirt.io/vmpool", false)]
#[case::upper_case_counts("kubevirt.io/nodename", false)]
fn knows_the_reserved_labels(#[case] key: &str, #[case] reserved: bool) {
    assert_eq!(labels::is_reserved(key), reserved);
}
