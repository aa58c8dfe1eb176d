use rstest::rstest;
use serde_json::json;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::revisions::StoredRevision;

use super::*;

/// The objects that the watch shows, with their controller owners. Those in a former version have an owner
/// that begins with `old-`. A UID other than `uid` follows `@`.
struct Shown(BTreeMap<&'static str, &'static str>);

fn facts(name: &str, owner: &str, is_only_pin: bool) -> RevisionFacts {
    let (owner, is_current_version) = match owner.strip_prefix("old-") {
        Some(owner) => (owner, false),
        None => (owner, true),
    };
    let id = ObjectId::new(name, "uid");
    RevisionFacts {
        id,
        owner: Some(ObjectId::new(owner, owner)),
        is_pin: true,
        is_only_pin,
        is_current_version,
    }
}

impl ledger::LedgerCache<RevisionFacts> for Shown {
    fn get(&self, name: &str) -> Option<VersionedFacts<RevisionFacts>> {
        let owner = self.0.get(name)?;
        let (owner, uid) = owner.split_once('@').unwrap_or((owner, "uid"));
        let facts = RevisionFacts { id: ObjectId::new(name, uid), ..facts(name, owner, true) };
        Some(VersionedFacts { facts: Arc::new(facts), version: 1 })
    }
    fn saw_deleted(&self, _: &Uid) -> bool {
        false
    }
    fn relisted_since(&self, _: Duration) -> bool {
        false
    }
}

fn shown(owners: &[(&'static str, &'static str)]) -> Shown {
    Shown(owners.iter().copied().collect())
}

fn used(copy: &str) -> UsedCopy {
    UsedCopy {
        field: "instancetype",
        name: "small".into(),
        kind: "".into(),
        copy: copy.into(),
        volume: "".into(),
        volume_policy: "".into(),
    }
}

/// Revision `r` with the copy `copy`.
fn stored() -> RevisionChange {
    let content = Fingerprint::of(&json!({}));
    let stored = StoredRevision { id: "r".into(), number: 1, content, parts: None, lacks_copies: false };
    let references = MachineReferences { text: "both".into(), copies: vec!["named".into()] };
    RevisionChange::Stored(Box::new(RevisionEntry {
        stored,
        object: ObjectId::new("r", "uid-r"),
        copies: vec!["copy".into()],
        references: Some(references),
        used_copies: [used("copy")].into(),
        copied: Vec::new(),
    }))
}

fn revisions() -> PoolRevisions {
    let mut revisions = PoolRevisions::default();
    revisions.record(stored(), Duration::ZERO);
    revisions
}

#[test]
fn a_copy_is_lost_if_the_watch_has_shown_it_as_an_object_of_the_pool_and_does_not_any_more() {
    for after in [shown(&[]), shown(&[("copy", "a-machine")]), shown(&[("copy", "old-pool")])] {
        let (pool, mut revisions) = (ObjectId::new("pool", "pool"), revisions());
        revisions.observe_copies(&pool, &shown(&[]));
        assert!(!revisions.lost_copies(&"r".into()), "the watch may not show it yet");
        revisions.observe_copies(&pool, &shown(&[("copy", "pool")]));
        assert!(!revisions.lost_copies(&"r".into()));
        revisions.observe_copies(&pool, &after);
        assert!(revisions.lost_copies(&"r".into()));
        assert!(!revisions.lost_copies(&"other".into()));

        // When it is stored again, the watch may show the loss for some time.
        revisions.record(stored(), Duration::ZERO);
        revisions.observe_copies(&pool, &after);
        assert!(!revisions.lost_copies(&"r".into()));
    }
}

#[test]
fn a_copy_is_lost_if_the_watch_shows_the_revision_that_was_stored_after_it() {
    let (pool, mut revisions) = (ObjectId::new("pool", "pool"), revisions());
    revisions.observe_copies(&pool, &shown(&[("r", "pool@another")]));
    assert!(!revisions.lost_copies(&"r".into()), "the watch does not show the revision yet");
    // The copy was deleted before the response to the create of the revision arrived.
    revisions.observe_copies(&pool, &shown(&[("r", "pool@uid-r")]));
    assert!(revisions.lost_copies(&"r".into()));
    // When it is restored, the watch has shown the revision before.
    revisions.record(RevisionChange::CopiesRestored("r".into()), Duration::ZERO);
    revisions.observe_copies(&pool, &shown(&[("r", "pool@uid-r")]));
    assert!(!revisions.lost_copies(&"r".into()));
}

#[test]
fn a_copy_is_lost_if_the_list_of_a_new_leader_does_not_contain_it() {
    let mut revisions = revisions();
    revisions.copies_listed(BTreeMap::from([("copy".into(), "uid".into())]));
    assert!(!revisions.lost_copies(&"r".into()));
    revisions.copies_listed(BTreeMap::new());
    assert!(revisions.lost_copies(&"r".into()));
}

#[rstest]
#[case::after_a_list(true)]
#[case::after_it_was_stored(false)]
fn another_object_with_the_name_of_a_copy_is_compared(#[case] is_listed: bool) {
    let (pool, mut revisions) = (ObjectId::new("pool", "pool"), revisions());
    if is_listed {
        revisions.copies_listed(BTreeMap::from([("copy".into(), "uid".into())]));
    }
    revisions.observe_copies(&pool, &shown(&[("copy", "pool")]));
    assert!(!revisions.lost_copies(&"r".into()));
    // The watch need not have shown the deletion, and a second look proves nothing.
    for _ in 0..2 {
        revisions.observe_copies(&pool, &shown(&[("copy", "pool@other")]));
        assert!(revisions.lost_copies(&"r".into()));
    }
    revisions.record(RevisionChange::CopiesRestored("r".into()), Duration::ZERO);
    revisions.observe_copies(&pool, &shown(&[("copy", "pool@other")]));
    assert!(!revisions.lost_copies(&"r".into()));
}

#[test]
fn a_copy_is_unused_if_no_revision_and_no_machine_refers_to_it() {
    let copy = |name: &str, is_only_pin| Arc::new(facts(name, "pool", is_only_pin));
    let owned = [
        copy("copy", true),
        copy("named", true),
        copy("of-a-machine", true),
        copy("shared", false),
        copy("unused", true),
    ];
    let mut revisions = revisions();
    let unused = |revisions: &PoolRevisions| {
        revisions
            .unused_copies(&owned, |asked| {
                assert!(!asked.contains("shared"), "a machine that the pool released is an owner, too");
                BTreeSet::from(["of-a-machine".into()])
            })
            .iter()
            .map(|copy| copy.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(unused(&revisions), ["unused"]);
    assert_eq!(revisions.references(), [("r".into(), "both".into())].into());
    // When the revision is deleted, then its copies are unused, too.
    revisions.record(RevisionChange::Gone("r".into()), Duration::ZERO);
    assert_eq!(unused(&revisions), ["copy", "named", "unused"]);
    assert!(revisions.references().is_empty());
}

#[test]
fn machines_are_read_only_if_a_copy_seems_to_be_unused() {
    let owned = [Arc::new(facts("copy", "pool", true))];
    assert_eq!(revisions().unused_copies(&owned, |_| panic!("it is used")), []);
}

#[test]
fn a_generation_has_a_name_for_each_of_its_contents() {
    use vmpool_platforms::KubeVirt;

    let pool = json!({
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": { "name": "p", "namespace": "default", "uid": "uid-of-p", "generation": 4 },
        "spec": {},
    });
    let pool = CachedPool::<KubeVirt>::read(serde_json::from_value(pool).unwrap());
    let contents: Vec<Fingerprint> =
        (0..5).map(|number| Fingerprint::of(&json!({ "number": number }))).collect();
    let mut revisions = PoolRevisions::default();
    for content in &contents {
        let resolved = revisions.resolve::<KubeVirt>(&pool, content, None);
        assert!(!resolved.stored);
        let stored = StoredRevision {
            id: resolved.id.clone(),
            number: 1,
            content: *content,
            parts: None,
            lacks_copies: false,
        };
        let entry = RevisionEntry {
            object: ObjectId::new(resolved.id.as_str(), "uid"),
            stored,
            copies: Vec::new(),
            references: None,
            used_copies: [].into(),
            copied: Vec::new(),
        };
        revisions.record(RevisionChange::Stored(Box::new(entry)), Duration::ZERO);
        let again = revisions.resolve::<KubeVirt>(&pool, content, None);
        assert_eq!((again.id, again.stored), (resolved.id, true));
    }
    // An object of another pool has the name.
    let other = Fingerprint::of(&json!({ "number": 5 }));
    let first = revisions.resolve::<KubeVirt>(&pool, &other, None).id;
    revisions.record(RevisionChange::Taken(first.clone()), Duration::ZERO);
    assert_ne!(revisions.resolve::<KubeVirt>(&pool, &other, None).id, first);
}

#[test]
fn a_revision_with_all_copies_is_inherited_before_one_with_some() {
    let content = Fingerprint::of(&json!({}));
    let add = |revisions: &mut PoolRevisions, id: &str, number: i64, lacks_copies: bool, has_any: bool| {
        let RevisionChange::Stored(mut entry) = stored() else { unreachable!() };
        entry.stored = StoredRevision { id: id.into(), number, content, parts: None, lacks_copies };
        entry.references = entry.references.filter(|_| has_any);
        revisions.record(RevisionChange::Stored(entry), Duration::ZERO);
    };
    let mut revisions = PoolRevisions::default();
    add(&mut revisions, "none", 1, true, false);
    assert_eq!(revisions.inheritable(&content), None);
    add(&mut revisions, "all", 2, false, true);
    add(&mut revisions, "some", 3, true, true);
    assert_eq!(revisions.inheritable(&content), Some(&"all".into()));
    revisions.record(RevisionChange::Gone("all".into()), Duration::ZERO);
    assert_eq!(revisions.inheritable(&content), Some(&"some".into()));
    assert_eq!(revisions.inheritable(&Fingerprint::of(&json!({ "other": 1 }))), None);
}

#[test]
fn a_revision_uses_the_copies_of_an_earlier_one_with_the_same_template_until_it_is_stored() {
    let mut revisions = revisions();
    let mut current = CurrentRevision::of_template("r2".into(), false);
    assert_eq!(*revisions.used_copies(&current), [], "r has another template");
    current.same_template = vec!["r".into()];
    assert_eq!(*revisions.used_copies(&current), [used("copy")]);
    revisions.record(RevisionChange::Gone("r".into()), Duration::ZERO);
    assert_eq!(*revisions.used_copies(&current), []);
}
