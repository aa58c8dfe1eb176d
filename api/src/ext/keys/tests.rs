use rstest::rstest;

use super::{PREFIX, annotations, is_reserved, labels};

#[test]
fn every_key_is_reserved_and_valid_in_kubernetes() {
    let keys = [
        labels::POOL_UID,
        labels::POOL,
        labels::TEMPLATE_HASH,
        labels::DISK_TEMPLATE,
        annotations::PATCHED_TEMPLATE_HASH,
        annotations::FREE_SINCE,
        annotations::DISKS,
        annotations::CLAIMED_BY,
        annotations::COLLECTING_SINCE,
        annotations::ROLLOUT_PAUSED,
        annotations::ROLLOUT_MAX_UNAVAILABLE,
        annotations::ROLLOUT_REVISION,
        annotations::REVISION_HISTORY_LIMIT,
        annotations::SCALE_DOWN_TARGETS,
        annotations::NAMES,
        annotations::MACHINES_OF,
    ];
    for key in keys {
        assert!(is_reserved(key), "{key}");
        let name = key.strip_prefix(PREFIX).unwrap();
        assert!(name.len() <= 63 && name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{key}");
    }
}

#[rstest]
#[case::a_label_of_the_user("role")]
#[case::a_domain_that_only_looks_alike("vmpool.virtualization.deckhouse.io.example/pool")]
fn other_keys_are_not_reserved(#[case] key: &str) {
    assert!(!is_reserved(key));
}
