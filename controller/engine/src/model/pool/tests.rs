use rstest::rstest;
use serde_json::json;

use super::*;
use crate::revisions::{Fingerprint, LiveParts};

/// The parts of a template whose instance and storage have these versions.
fn parts(instance: u64, storage: u64) -> TemplateParts {
    let of = |version: u64| Fingerprint::of(&json!({ "version": version }));
    TemplateParts { instance: of(instance), live: LiveParts::default(), storage: of(storage) }
}

/// The same with a live part.
fn with_sockets(sockets: u64, instance: u64) -> TemplateParts {
    TemplateParts { live: LiveParts::of([("sockets", json!(sockets))].into_iter()), ..parts(instance, 1) }
}

#[rstest]
#[case::no_revision_on_the_instance(None, "new", &[("new", parts(1, 1))], InstanceTransition::Restart)]
#[case::equal_revisions(Some("old"), "old", &[("old", parts(1, 1))], InstanceTransition::None)]
#[case::the_revision_of_the_machine_is_not_stored(Some("old"), "new", &[("old", parts(1, 1))], InstanceTransition::Unknown)]
#[case::the_revision_of_the_instance_is_not_stored(Some("old"), "new", &[("new", parts(1, 1))], InstanceTransition::Restart)]
#[case::neither_is_stored(Some("old"), "new", &[], InstanceTransition::Unknown)]
#[case::equal_parts(Some("old"), "new", &[("old", parts(1, 1)), ("new", parts(1, 1))], InstanceTransition::Record)]
#[case::another_instance(Some("old"), "new", &[("old", parts(1, 1)), ("new", parts(2, 1))], InstanceTransition::Restart)]
#[case::other_live_parts(
    Some("old"), "new", &[("old", with_sockets(1, 1)), ("new", with_sockets(2, 1))],
    InstanceTransition::LiveUpdate)]
#[case::a_live_part_that_is_removed(
    Some("old"), "new", &[("old", with_sockets(1, 1)), ("new", parts(1, 1))], InstanceTransition::LiveUpdate)]
#[case::other_live_parts_and_another_instance(
    Some("old"), "new", &[("old", with_sockets(1, 1)), ("new", with_sockets(2, 2))],
    InstanceTransition::Restart)]
#[case::other_storage(Some("old"), "new", &[("old", parts(1, 1)), ("new", parts(1, 2))], InstanceTransition::Recreation)]
#[case::storage_takes_precedence(Some("old"), "new", &[("old", parts(1, 1)), ("new", parts(2, 2))], InstanceTransition::Recreation)]
fn the_parts_of_two_revisions_decide_what_an_instance_needs(
    #[case] from: Option<&str>,
    #[case] to: &str,
    #[case] stored: &[(&str, TemplateParts)],
    #[case] expected: InstanceTransition,
) {
    let revision = CurrentRevision::of_template(RevisionId::from(""), true);
    let mut pool = Pool { spec: PoolSpec::new(ObjectId::new("p", "u"), "n"), revision };
    pool.revision.template_parts =
        stored.iter().map(|(id, parts)| (RevisionId::from(*id), parts.clone())).collect();
    let from = from.map(RevisionId::from);
    assert_eq!(pool.transition(from.as_ref(), &to.into()), expected);
}
