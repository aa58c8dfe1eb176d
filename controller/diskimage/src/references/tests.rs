use rstest::rstest;

use super::*;
use crate::grants::{GrantedNamespaces, Grantee};
use crate::model::NamedSourceKind;
use crate::model::ReferrerKind::{DataVolume, Machine, Pool};
use crate::testing;

fn image() -> DiskImage {
    testing::image_without_status()
}

fn key() -> ObjectKey {
    image().key
}

fn referrer(kind: ReferrerKind, namespace: &str, name: &str) -> Referrer {
    Referrer {
        created: None,
        kind,
        key: ObjectKey::new(namespace, name),
        uid: format!("uid-{namespace}-{name}"),
        images: BTreeSet::from([key()]),
        data_sources: BTreeSet::new(),
        mark: None,
        owner: None,
        finished: false,
        service_account: (kind != DataVolume).then(|| "default".to_owned()),
    }
}

fn wrapper(name: &str, uid: &str) -> Referrer {
    let mark = Some(ImageMark { image: key(), uid: uid.to_owned() });
    Referrer { mark, ..referrer(ReferrerKind::Wrapper, "images", name) }
}

fn owned(kind: ReferrerKind, name: &str, owner: &Referrer) -> Referrer {
    Referrer { owner: Some(owner.as_owner()), ..referrer(kind, "images", name) }
}

fn counts(referrers: Vec<Referrer>) -> (usize, usize, usize) {
    let found = ReferrerIndex::new(referrers).count(&image(), &[], &BTreeMap::new()).references;
    assert_eq!(found.list.len(), found.counts.machines + found.counts.pools + found.counts.clones);
    (found.counts.machines, found.counts.pools, found.counts.clones)
}

#[rstest]
#[case::none(vec![], (0, 0, 0))]
#[case::a_bound_wrapper(vec![wrapper("a", "uid-image")], (1, 0, 0))]
#[case::a_wrapper_without_a_mark(vec![referrer(ReferrerKind::Wrapper, "images", "a")], (0, 0, 0))]
#[case::a_wrapper_of_a_former_image(vec![wrapper("a", "uid-former")], (0, 0, 0))]
#[case::a_machine(vec![referrer(Machine, "images", "a")], (1, 0, 0))]
#[case::a_machine_of_another_image(
    vec![Referrer { images: BTreeSet::from([ObjectKey::new("images", "other")]), ..referrer(Machine, "images", "a") }],
    (0, 0, 0)
)]
#[case::a_wrapper_and_its_machine(
    vec![wrapper("a", "uid-image"), owned(Machine, "b", &wrapper("a", "uid-image"))],
    (1, 0, 0)
)]
#[case::a_machine_whose_wrapper_is_gone(vec![owned(Machine, "b", &wrapper("a", "uid-image"))], (1, 0, 0))]
#[case::a_machine_whose_wrapper_has_no_mark(
    vec![
        referrer(ReferrerKind::Wrapper, "images", "a"),
        owned(Machine, "b", &referrer(ReferrerKind::Wrapper, "images", "a")),
    ],
    (1, 0, 0)
)]
#[case::a_pool(vec![referrer(Pool, "images", "a")], (0, 1, 0))]
#[case::an_unfinished_clone(vec![referrer(DataVolume, "images", "a")], (0, 0, 1))]
#[case::a_finished_clone(vec![Referrer { finished: true, ..referrer(DataVolume, "images", "a") }], (0, 0, 0))]
#[case::a_clone_of_a_counted_machine(
    vec![referrer(Machine, "images", "a"), owned(DataVolume, "b", &referrer(Machine, "images", "a"))],
    (1, 0, 0)
)]
#[case::a_clone_of_a_machine_of_a_counted_wrapper(
    vec![
        wrapper("a", "uid-image"),
        owned(Machine, "b", &wrapper("a", "uid-image")),
        owned(DataVolume, "c", &referrer(Machine, "images", "b")),
    ],
    (1, 0, 0)
)]
#[case::a_clone_whose_machine_names_another_image(
    vec![
        Referrer { images: BTreeSet::new(), ..referrer(Machine, "images", "a") },
        owned(DataVolume, "b", &referrer(Machine, "images", "a")),
    ],
    (0, 0, 1)
)]
#[case::all(
    vec![
        wrapper("a", "uid-image"),
        referrer(Machine, "images", "b"),
        referrer(Pool, "images", "c"),
        referrer(DataVolume, "images", "d"),
    ],
    (2, 1, 1)
)]
fn each_object_counts_once_and_in_its_count(
    #[case] referrers: Vec<Referrer>,
    #[case] expected: (usize, usize, usize),
) {
    assert_eq!(counts(referrers.clone()), expected);
    // The order of events does not matter, nor does a repetition.
    let reversed = referrers.iter().rev().cloned().collect();
    assert_eq!(counts(reversed), expected);
    assert_eq!(counts(referrers.iter().chain(&referrers).cloned().collect()), expected);
}

/// A referrer that names a DataSource.
fn through(source: &str, referrer: Referrer) -> Referrer {
    let source = BTreeSet::from([ObjectKey::new("images", source)]);
    Referrer { images: source.clone(), data_sources: source, ..referrer }
}

fn snapshot(name: &str) -> BTreeSet<NamedSource> {
    BTreeSet::from([NamedSource { kind: NamedSourceKind::Snapshot, key: ObjectKey::new("images", name) }])
}

#[rstest]
#[case::a_machine(referrer(Machine, "images", "a"), (1, 0, 0))]
#[case::a_pool(referrer(Pool, "images", "a"), (0, 1, 0))]
#[case::an_unfinished_clone(referrer(DataVolume, "images", "a"), (0, 0, 1))]
fn a_reference_to_an_alias_counts_for_the_image_behind_it(
    #[case] referrer: Referrer,
    #[case] expected: (usize, usize, usize),
) {
    let latest = ObjectKey::new("images", "latest");
    let counted = |index: &ReferrerIndex| index.count(&image(), &[], &BTreeMap::new()).references.counts;
    let mut index = ReferrerIndex::new([through("latest", referrer.clone())]);
    assert!(counted(&index).is_zero());
    assert!(index.set_source(&latest, snapshot("debian")).contains(&key()), "the image gets a pass");
    let counts = counted(&index);
    assert_eq!((counts.machines, counts.pools, counts.clones), expected);
    // A claim of this name is another object.
    let claim = Referrer { data_sources: BTreeSet::new(), ..through("latest", referrer) };
    let mut other = ReferrerIndex::new([claim]);
    other.set_source(&latest, snapshot("debian"));
    assert!(counted(&other).is_zero());
    assert_eq!(index.remove("uid-images-a"), BTreeSet::from([latest.clone(), key()]));
    assert!(counted(&index).is_zero());
    let affected = index.set_source(&latest, snapshot("fedora"));
    assert_eq!(
        affected,
        BTreeSet::from([key(), ObjectKey::new("images", "fedora")]),
        "before and after the change"
    );
    index.set_source(&latest, BTreeSet::new());
    assert!(index.by_image.is_empty() && index.aliases == Aliases::default());
}

#[test]
fn a_reference_through_an_alias_of_another_namespace_counts_with_a_grant_for_the_referrer_only() {
    let alias = ObjectKey::new("team-a", "latest");
    let names = BTreeSet::from([alias.clone()]);
    let pool = referrer(Pool, "team-a", "a");
    let mut index = ReferrerIndex::new([Referrer { images: names.clone(), data_sources: names, ..pool }]);
    index.set_source(&alias, snapshot("debian"));
    let counted = index.count(&image(), &[], &BTreeMap::new());
    assert_eq!((counted.references.counts.pools, counted.denied.values().sum::<usize>()), (0, 1));
    let from = |namespace: &str| Grantee {
        namespaces: GrantedNamespaces::Name(namespace.to_owned()),
        kinds: Vec::new(),
    };
    let grant = Grant {
        namespace: "images".to_owned(),
        from: vec![from("team-a")],
        to: Vec::new(),
        create: None,
        deleted: None,
        protected: true,
    };
    let counted = index.count(&image(), &[grant], &BTreeMap::new());
    assert_eq!(counted.references.counts.pools, 1);
    let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
    assert_eq!(counted.accounts, BTreeSet::from([account]), "KubeVirt clones the snapshot for this account");
}

#[test]
fn a_stored_revision_through_an_alias_is_an_earlier_reference() {
    let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pool = referrer(Pool, "images", "web");
    let stored = Referrer { created: Some(at), ..through("latest", revision("web-1", &pool)) };
    let mut index = ReferrerIndex::new([stored]);
    assert!(!index.had_reference(&pool.uid, "images", &key(), at));
    index.set_source(&ObjectKey::new("images", "latest"), snapshot("debian"));
    assert!(index.had_reference(&pool.uid, "images", &key(), at));
}

/// A stored revision of a pool, with the name of the pool.
fn revision(name: &str, pool: &Referrer) -> Referrer {
    Referrer { uid: name.to_owned(), owner: Some(pool.as_owner()), ..pool.clone() }
}

/// Users can copy UIDs of other namespaces into owner references.
#[test]
fn owners_of_other_namespaces_hide_no_reference() {
    let foreign = |object: &Referrer| Referrer {
        key: ObjectKey::new("evil", &*object.key.name),
        uid: format!("forged-{}", object.uid),
        ..object.clone()
    };
    let wrapper = wrapper("web", "uid-image");
    let machine = owned(Machine, "web", &wrapper);
    // The owner has the UID of the wrapper, and the namespace of the machine.
    let namesake = ReferrerOwner { key: ObjectKey::new("evil", "web"), uid: wrapper.uid.clone() };
    let forged = Referrer { owner: Some(namesake), ..foreign(&machine) };
    let index = ReferrerIndex::new([wrapper.clone(), machine, forged.clone()]);
    assert!(!index.has_counted_wrapper(&forged, &image()));
    assert_eq!(index.count(&image(), &[], &BTreeMap::new()).references.counts.machines, 1);

    let pool = referrer(Pool, "images", "web");
    let namesake = ReferrerOwner { key: ObjectKey::new("evil", "web"), uid: pool.uid.clone() };
    let forged = Referrer { uid: "0".to_owned(), owner: Some(namesake), ..foreign(&pool) };
    let found = ReferrerIndex::new([forged, pool]).count(&image(), &[], &BTreeMap::new()).references;
    assert_eq!(found.list.iter().map(|found| &*found.key.namespace).collect::<Vec<_>>(), ["images"]);
}

#[test]
fn a_pool_and_its_stored_revisions_count_once() {
    let pool = referrer(Pool, "images", "web");
    let changed = Referrer { images: BTreeSet::from([ObjectKey::new("images", "other")]), ..pool.clone() };
    // While a rollout is held, new machines come from the last stored revision.
    let referrers = vec![changed, revision("web-1", &pool)];
    assert_eq!(counts(referrers.clone()), (0, 1, 0));
    let found = ReferrerIndex::new(referrers).count(&image(), &[], &BTreeMap::new()).references;
    assert_eq!((found.list[0].key.name.as_str(), found.list[0].uid.as_str()), ("web", "uid-images-web"));
    let referrers = vec![pool.clone(), revision("web-1", &pool), revision("web-2", &pool)];
    assert_eq!(counts(referrers), (0, 1, 0));
}

#[test]
fn a_reference_from_another_namespace_counts_with_a_grant_only() {
    let index = ReferrerIndex::new([referrer(Machine, "team-a", "a")]);
    let grant = Grant {
        namespace: "images".to_owned(),
        from: vec![Grantee { namespaces: GrantedNamespaces::Name("team-a".to_owned()), kinds: Vec::new() }],
        to: Vec::new(),
        create: None,
        deleted: None,
        protected: true,
    };
    let counted = index.count(&image(), &[], &BTreeMap::new());
    assert_eq!((counted.references.counts.machines, counted.denied.values().sum::<usize>()), (0, 1));
    assert_eq!(counted.accounts, BTreeSet::new(), "nor may it clone the image");
    let counted = index.count(&image(), &[grant], &BTreeMap::new());
    assert_eq!((counted.references.counts.machines, counted.denied.values().sum::<usize>()), (1, 0));
    let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
    assert_eq!(counted.accounts, BTreeSet::from([account]));
}

#[test]
fn the_list_is_sorted_by_namespace_and_name() {
    let referrers =
        [("images", "b"), ("images", "a")].map(|(namespace, name)| referrer(Machine, namespace, name));
    let counted = ReferrerIndex::new(referrers).count(&image(), &[], &BTreeMap::new());
    assert_eq!(counted.accounts, BTreeSet::new(), "in its own namespace an account needs no permission");
    let references = counted.references;
    let names: Vec<&str> = references.list.iter().map(|reference| reference.key.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_change_affects_the_images_before_and_after_it() {
    let other = ObjectKey::new("images", "other");
    let mut index = ReferrerIndex::default();
    assert_eq!(index.update(referrer(Machine, "images", "a")), BTreeSet::from([key()]));
    let moved = Referrer { images: BTreeSet::from([other.clone()]), ..referrer(Machine, "images", "a") };
    assert_eq!(index.update(moved), BTreeSet::from([key(), other.clone()]));
    assert_eq!(index.remove("uid-images-a"), BTreeSet::from([other]));
    assert_eq!(index.remove("uid-images-a"), BTreeSet::new());
    assert!(index.by_image.is_empty() && index.by_owner.is_empty() && index.referrers.is_empty());
}

#[test]
fn a_change_of_a_machine_affects_the_image_that_its_clone_names() {
    let machine = Referrer { images: BTreeSet::new(), ..referrer(Machine, "images", "a") };
    let mut index = ReferrerIndex::new([owned(DataVolume, "b", &machine)]);
    assert_eq!(index.update(machine), BTreeSet::from([key()]));
    assert_eq!(index.remove("uid-images-a"), BTreeSet::from([key()]));
}

#[test]
fn owner_references_that_form_a_circle_hide_no_machine() {
    let named =
        |name: &str| ReferrerOwner { key: ObjectKey::new("images", name), uid: format!("uid-images-{name}") };
    let one = Referrer { owner: Some(named("b")), ..referrer(Machine, "images", "a") };
    let two = Referrer { owner: Some(named("a")), ..referrer(Machine, "images", "b") };
    let itself = Referrer { owner: Some(named("c")), ..referrer(DataVolume, "images", "c") };
    assert_eq!(counts(vec![one, two, itself]), (2, 0, 1));
}
