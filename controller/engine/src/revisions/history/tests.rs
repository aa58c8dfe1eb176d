use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn content(of: u64) -> Fingerprint {
    Fingerprint::of(&json!({ "spec": { "cores": of } }))
}

fn id(of: u64) -> RevisionId {
    RevisionId::of(&json!({ "spec": { "cores": of } }))
}

/// A stored revision whose identity is that of its content.
fn stored(of: u64, number: i64) -> StoredRevision {
    StoredRevision { id: id(of), number, content: content(of), parts: None, lacks_copies: false }
}

/// A stored revision whose identity was computed by an earlier version of the controller.
fn named(name: &str, of: u64, number: i64) -> StoredRevision {
    StoredRevision { id: name.into(), number, content: content(of), parts: None, lacks_copies: false }
}

#[rstest]
#[case::nothing_is_stored(vec![], None, id(7), false)]
#[case::it_is_stored(vec![stored(7, 1)], None, id(7), true)]
#[case::another_one_is_stored(vec![stored(6, 1)], None, id(7), false)]
#[case::an_earlier_version_of_ours_called_it_otherwise(vec![named("old", 7, 1)], None, "old".into(), true)]
#[case::of_twins_the_shown_one_stays(vec![named("a", 7, 1), named("b", 7, 2)], Some("a"), "a".into(), true)]
#[case::of_twins_the_later_one_counts(vec![named("a", 7, 1), named("b", 7, 2)], Some("c"), "b".into(), true)]
#[case::what_is_shown_is_another_content(vec![stored(6, 1), stored(7, 2)], Some("c"), id(7), true)]
fn resolves(
    #[case] revisions: Vec<StoredRevision>,
    #[case] shown: Option<&str>,
    #[case] expected: RevisionId,
    #[case] stored: bool,
) {
    let shown = shown.map(RevisionId::from);
    let resolved = RevisionHistory::new(revisions).resolve(&content(7), shown.as_ref());
    assert_eq!(resolved, ResolvedRevision { id: expected, stored });
}

#[rstest]
#[case::nothing_is_stored(vec![], "p-4", false)]
#[case::it_is_stored(vec![named("p-4", 7, 4)], "p-4", true)]
#[case::another_content_has_the_first_name(vec![named("p-4", 6, 4)], "p-a-4", false)]
#[case::the_first_one_lacks_copies(vec![StoredRevision { lacks_copies: true, ..named("p-4", 7, 4) }], "p-a-4", false)]
#[case::the_second_one_has_them(
    vec![StoredRevision { lacks_copies: true, ..named("p-4", 7, 4) }, named("p-a-4", 7, 4)], "p-a-4", true
)]
#[case::the_first_name_is_free_again(vec![named("p-a-4", 7, 4)], "p-a-4", true)]
#[case::it_is_stored_for_another_generation(vec![named("p-3", 7, 3)], "p-4", false)]
fn a_platform_names(#[case] revisions: Vec<StoredRevision>, #[case] expected: &str, #[case] stored: bool) {
    let names = (0..).map(|number| match number {
        0 => RevisionId::from("p-4"),
        1 => "p-a-4".into(),
        _ => format!("p-{number}-4").as_str().into(),
    });
    let resolved = RevisionHistory::new(revisions).resolve_named(&content(7), 4, names);
    assert_eq!(resolved, ResolvedRevision { id: expected.into(), stored });
}

#[test]
fn an_id_that_another_content_has_is_not_given_twice() {
    let history = RevisionHistory::new([StoredRevision {
        id: id(7),
        number: 1,
        content: content(1),
        parts: None,
        lacks_copies: false,
    }]);
    let other = history.resolve(&content(7), None);
    assert_eq!(other, ResolvedRevision { id: content(7).id(2), stored: false });
    assert_ne!(other.id, id(7));
    assert!(other.id.as_str().len() == 16 && other.id.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
    // The second duplicate is not used either.
    let mut history = history;
    history.add(StoredRevision {
        id: other.id,
        number: 2,
        content: content(2),
        parts: None,
        lacks_copies: false,
    });
    assert_eq!(history.resolve(&content(7), None).id, content(7).id(3));
}

#[test]
fn numbers_increase_and_order_the_history() {
    let mut history = RevisionHistory::new([]);
    assert_eq!(history.next_number(), 1);
    for revision in [stored(3, 30), stored(1, 10), stored(2, 20)] {
        history.add(revision);
    }
    assert_eq!((history.ids(), history.next_number()), (vec![id(1), id(2), id(3)], 31));
    history.remove(&id(3));
    assert_eq!((history.ids(), history.next_number()), (vec![id(1), id(2)], 21));
    assert!(history.contains(&id(1)) && !history.contains(&id(3)));
    // A revision that is read twice occurs once, at its later position.
    history.add(stored(1, 40));
    history.add(stored(1, 5));
    assert_eq!((history.ids(), history.next_number()), (vec![id(2), id(1)], 41));
    assert_eq!(RevisionHistory::new([stored(1, i64::MAX)]).next_number(), i64::MAX);
}

#[rstest]
#[case::the_one_that_the_pool_shows(Some(id(6)), Some(id(6)))]
#[case::the_latest_if_the_pool_shows_one_that_is_not_stored(Some("gone".into()), Some(id(7)))]
#[case::the_latest_if_the_pool_shows_none(None, Some(id(7)))]
fn the_revision_that_was_in_force_last_is(
    #[case] shown: Option<RevisionId>,
    #[case] expected: Option<RevisionId>,
) {
    let history = RevisionHistory::new([stored(7, 2), stored(6, 1)]);
    assert_eq!(history.last_in_force(shown.as_ref()), expected.as_ref());
    assert_eq!(RevisionHistory::default().last_in_force(shown.as_ref()), None);
}

#[test]
fn of_revisions_with_one_template_the_last_supersedes_the_others() {
    let revision = |name: &str, number: i64, template: u64, lacks_copies: bool| StoredRevision {
        id: name.into(),
        number,
        content: content(template),
        parts: None,
        lacks_copies,
    };
    let history = RevisionHistory::new([
        revision("a", 1, 1, false),
        revision("b", 2, 2, false),
        revision("c", 3, 1, false),
        // It lacks the copies that the earlier one has.
        revision("d", 4, 2, true),
    ]);
    assert_eq!(history.superseded(), [RevisionId::from("a")]);
}

proptest! {
    #[test]
    fn a_stored_template_keeps_its_id_when_others_are_stored_or_deleted(
        steps in prop::collection::vec((0u64..6, any::<bool>()), 1..40),
    ) {
        let mut history = RevisionHistory::new([]);
        let mut ids = std::collections::BTreeMap::new();
        for (of, delete) in steps {
            let resolved = history.resolve(&content(of), None);
            prop_assert_eq!(resolved.stored, ids.contains_key(&of));
            if let Some(id) = ids.get(&of) {
                prop_assert_eq!(&resolved.id, id);
            }
            if delete {
                history.remove(&resolved.id);
                ids.remove(&of);
            } else {
                history.add(StoredRevision { id: resolved.id.clone(), number: history.next_number(), content: content(of), parts: None, lacks_copies: false });
                ids.insert(of, resolved.id);
            }
            let distinct: std::collections::BTreeSet<_> = history.ids().into_iter().collect();
            prop_assert_eq!(distinct.len(), history.ids().len());
        }
    }
}
