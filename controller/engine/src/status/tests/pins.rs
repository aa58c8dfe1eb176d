//! Conditions about pinned copies.

use std::sync::Arc;

use rstest::rstest;

use super::{condition, shown};
use crate::condition::{ConditionReason, ConditionType};
use crate::model::{MachineReferences, PinReport};
use crate::testing::{PoolWorld, numbered_machine_name};

fn referring(world: PoolWorld, number: u64, text: &str) -> PoolWorld {
    let references = Arc::new(MachineReferences { text: text.into(), copies: Vec::new() });
    world.edit(&numbered_machine_name(number), |machine| machine.references = references)
}

/// Two machines of revision `r1`, whose machines refer to `pin`.
fn world() -> PoolWorld {
    let world = PoolWorld::desiring(2).with_machines(2);
    let world = world.pool(|pool| pool.revision.copies.references = [("r1".into(), "pin".into())].into());
    referring(referring(world, 0, "pin"), 1, "pin")
}

#[rstest]
#[case::none(world(), None)]
#[case::one(
    referring(world(), 1, "by hand"),
    Some(
        "True ReferencesChanged: 1 machine refers to another instance type or preference than the revision that was \
          written to them: "
    )
)]
#[case::its_revision_has_no_copies(referring(world(), 1, "x").pool(|pool| pool.revision.copies.references.clear()), None)]
#[case::it_leaves(referring(world(), 1, "x").edit(&numbered_machine_name(1), |machine| machine.terminating = true), None)]
#[case::another_revision(referring(world(), 1, "x").edit(&numbered_machine_name(1), |machine| machine.written = Some("r0".into())), None)]
fn machines_have_drifted_if_they_differ_from_what_was_written(
    #[case] world: PoolWorld,
    #[case] expected: Option<&str>,
) {
    let found = condition(&shown(&world), ConditionType::MembersDrifted);
    match expected {
        None => assert_eq!(found, None),
        Some(expected) => {
            let found = found.unwrap();
            assert!(found.starts_with(expected) && found.contains(&*numbered_machine_name(1)), "{found}");
        }
    }
}

#[test]
fn the_condition_names_ten_machines_at_most() {
    let world = PoolWorld::desiring(12).with_machines(12);
    let world = world.pool(|pool| pool.revision.copies.references = [("r1".into(), "pin".into())].into());
    let found = condition(&shown(&world), ConditionType::MembersDrifted).unwrap();
    assert!(found.contains("12 machines refer") && found.contains(" and 2 more;"), "{found}");
}

#[test]
fn a_pool_shows_that_its_copies_are_outdated_or_impossible() {
    let world = world();
    assert_eq!(condition(&shown(&world), ConditionType::InstancetypeOutdated), None);
    assert_eq!(condition(&shown(&world), ConditionType::PinningUnavailable), None);
    let world = world.pool(|pool| {
        pool.revision.copies.unavailable = true;
        pool.revision.copies.outdated =
            Some(PinReport { reason: ConditionReason::Deleted, message: "it is gone".into() });
    });
    assert_eq!(
        condition(&shown(&world), ConditionType::InstancetypeOutdated).unwrap(),
        "True Deleted: it is gone"
    );
    assert!(
        condition(&shown(&world), ConditionType::PinningUnavailable)
            .unwrap()
            .starts_with("True ClusterPolicyExpands: ")
    );
}
