use rstest::rstest;

use super::NamedSourceKind::{Claim, DataSource, Snapshot};
use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("images", name)
}

fn target(kind: NamedSourceKind, name: &str) -> NamedSource {
    NamedSource { kind, key: key(name) }
}

/// DataSources by their names, each with what it points to.
fn aliases(all: &[(&str, NamedSourceKind, &str)]) -> Aliases {
    let mut aliases = Aliases::default();
    for (name, kind, to) in all {
        aliases.set(&key(name), BTreeSet::from([target(*kind, to)]));
    }
    aliases
}

#[rstest]
#[case::to_a_data_source(&[("latest", DataSource, "debian")], true)]
#[case::to_a_snapshot(&[("latest", Snapshot, "debian")], true)]
#[case::to_a_claim(&[("latest", Claim, "debian")], true)]
#[case::to_an_alias_of_a_snapshot(&[("latest", DataSource, "stable"), ("stable", Snapshot, "debian")], true)]
#[case::over_two_data_sources(&[("latest", DataSource, "stable"), ("stable", DataSource, "debian")], false)]
#[case::to_another_object(&[("latest", Snapshot, "fedora")], false)]
#[case::to_a_claim_with_the_name_of_an_alias(&[("latest", Claim, "stable"), ("stable", Snapshot, "debian")], false)]
#[case::in_a_circle(&[("latest", DataSource, "stable"), ("stable", DataSource, "latest")], false)]
fn an_alias_leads_as_far_as_cdi_follows_it(
    #[case] all: &[(&str, NamedSourceKind, &str)],
    #[case] expected: bool,
) {
    let aliases = aliases(all);
    assert_eq!(aliases.leads_to(&key("latest"), &key("debian")), expected);
    assert_eq!(aliases.leading_to(&key("debian")).contains(&key("latest")), expected);
}

#[test]
fn the_data_source_of_an_image_is_no_alias() {
    assert_eq!(aliases(&[("debian", Snapshot, "debian")]), Aliases::default());
}

#[test]
fn a_data_source_that_is_gone_leads_nowhere() {
    let mut aliases = aliases(&[("latest", DataSource, "stable"), ("stable", Snapshot, "debian")]);
    aliases.set(&key("stable"), BTreeSet::new());
    assert!(!aliases.leads_to(&key("latest"), &key("debian")));
    aliases.set(&key("latest"), BTreeSet::new());
    assert_eq!(aliases, Aliases::default());
}
