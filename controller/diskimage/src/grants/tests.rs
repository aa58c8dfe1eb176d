use rstest::rstest;

use super::*;
use crate::testing::at;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn image() -> Key {
    Key::new("images", "debian")
}

fn grant(namespaces: Namespaces) -> Grant {
    let from = vec![Grantee { namespaces, kinds: Vec::new() }];
    Grant {
        namespace: "images".to_owned(),
        from,
        to: Vec::new(),
        create: None,
        deleted: None,
        protected: true,
    }
}

fn named(namespace: &str) -> Grant {
    grant(Namespaces::Name(namespace.to_owned()))
}

fn permits(grants: &[Grant], kind: ReferrerKind) -> bool {
    let labels = labels(&[("tenant", "a")]);
    may_refer(grants, &image(), Origin { namespace: "team-a", labels: Some(&labels) }, kind)
}

#[test]
fn in_its_own_namespace_every_object_may_refer() {
    let origin = Origin { namespace: "images", labels: None };
    assert!(may_refer(&[], &image(), origin, ReferrerKind::Pool));
}

#[rstest]
#[case::no_grant(vec![], false)]
#[case::by_name(vec![named("team-a")], true)]
#[case::another_name(vec![named("team-b")], false)]
#[case::one_of_several(vec![named("team-b"), named("team-a")], true)]
#[case::neither_name_nor_selector(vec![grant(Namespaces::None)], false)]
#[case::every_namespace(vec![grant(Namespaces::Selected(vec![]))], true)]
#[case::in_values(vec![grant(Namespaces::Selected(vec![Requirement::In("tenant".into(), vec!["a".into()])]))], true)]
#[case::in_other_values(vec![grant(Namespaces::Selected(vec![Requirement::In("tenant".into(), vec!["b".into()])]))], false)]
#[case::not_in(vec![grant(Namespaces::Selected(vec![Requirement::NotIn("tenant".into(), vec!["a".into()])]))], false)]
#[case::not_in_absent(vec![grant(Namespaces::Selected(vec![Requirement::NotIn("zone".into(), vec!["a".into()])]))], true)]
#[case::exists(vec![grant(Namespaces::Selected(vec![Requirement::Exists("tenant".into())]))], true)]
#[case::does_not_exist(vec![grant(Namespaces::Selected(vec![Requirement::DoesNotExist("tenant".into())]))], false)]
#[case::both_must_hold(
    vec![grant(Namespaces::Selected(vec![Requirement::Exists("tenant".into()), Requirement::Exists("zone".into())]))],
    false
)]
#[case::unreadable(vec![grant(Namespaces::Selected(vec![Requirement::Unreadable]))], false)]
#[case::in_another_namespace(vec![Grant { namespace: "team-a".into(), ..named("team-a") }], false)]
#[case::for_another_image(vec![Grant { to: vec!["fedora".into()], ..named("team-a") }], false)]
#[case::for_this_image(vec![Grant { to: vec!["fedora".into(), "debian".into()], ..named("team-a") }], true)]
fn a_reference_from_another_namespace_needs_a_grant(#[case] grants: Vec<Grant>, #[case] expected: bool) {
    assert_eq!(permits(&grants, ReferrerKind::Machine), expected);
}

#[rstest]
#[case::wrapper(GrantKind::VirtualMachine, ReferrerKind::Wrapper, true)]
#[case::machine(GrantKind::VirtualMachine, ReferrerKind::Machine, true)]
#[case::pool(GrantKind::VirtualMachine, ReferrerKind::Pool, false)]
#[case::clone(GrantKind::VirtualMachine, ReferrerKind::DataVolume, true)]
#[case::machine_with_a_grant_for_pools(GrantKind::VirtualMachinePool, ReferrerKind::Machine, false)]
#[case::pool_with_a_grant_for_pools(GrantKind::VirtualMachinePool, ReferrerKind::Pool, true)]
fn a_grant_is_for_its_kinds(#[case] granted: GrantKind, #[case] kind: ReferrerKind, #[case] expected: bool) {
    let mut grant = named("team-a");
    grant.from[0].kinds = vec![granted];
    assert_eq!(permits(&[grant], kind), expected);
}

fn creation() -> Grant {
    let create = Create {
        urls: vec![SourceUrl::parse("https://images.example.com/public/").unwrap()],
        secrets: vec!["download".to_owned()],
        storage_classes: vec!["fast".to_owned()],
        max_disk_size: Some(Some(Quantity::new("20Gi"))),
    };
    Grant { create: Some(create), ..named("team-a") }
}

fn create(
    grants: &[Grant],
    namespace: &str,
    url: &str,
    secret: &str,
    class: &str,
    size: &str,
) -> Result<(), Refused> {
    let labels = BTreeMap::new();
    let size = Quantity::new(size);
    let proposed = Proposed {
        source: SourceType::Http,
        url: Some(url),
        secret: Some(secret).filter(|secret| !secret.is_empty()),
        storage_class: Some(class).filter(|class| !class.is_empty()),
        disk_size: &size,
    };
    may_create(grants, &image(), Origin { namespace, labels: Some(&labels) }, &proposed, &[])
}

const GOOD: &str = "https://images.example.com/public/a.raw";

#[rstest]
#[case::with_all(GOOD, "download", "fast", "20Gi", true)]
#[case::without_names(GOOD, "", "", "20480Mi", true)]
#[case::another_path("https://images.example.com/private/a.raw", "", "", "1Gi", false)]
#[case::another_server("https://evil.example.com/public/a.raw", "download", "", "1Gi", false)]
#[case::another_secret(GOOD, "admin", "", "1Gi", false)]
#[case::another_class(GOOD, "", "slow", "1Gi", false)]
#[case::too_large(GOOD, "", "", "21Gi", false)]
#[case::unreadable_size(GOOD, "", "", "large", false)]
fn a_creation_must_meet_all_limits(
    #[case] url: &str,
    #[case] secret: &str,
    #[case] class: &str,
    #[case] size: &str,
    #[case] permitted: bool,
) {
    let expected = if permitted { Ok(()) } else { Err(Refused::NoGrant("images".to_owned())) };
    assert_eq!(create(&[creation()], "team-a", url, secret, class, size), expected);
}

#[test]
fn a_grant_to_refer_is_no_grant_to_create() {
    assert!(create(&[named("team-a")], "team-a", GOOD, "", "", "1Gi").is_err());
}

#[test]
fn the_limits_of_two_grants_do_not_mix() {
    let mut with_secret = creation();
    with_secret.create.as_mut().unwrap().urls = vec![SourceUrl::parse("https://other.example.com/").unwrap()];
    let mut without_secret = creation();
    without_secret.create.as_mut().unwrap().secrets.clear();
    let grants = [with_secret, without_secret];
    // Otherwise the Secret for the other server would be sent to this one.
    assert!(create(&grants, "team-a", GOOD, "download", "", "1Gi").is_err());
    assert!(create(&grants, "team-a", GOOD, "", "", "1Gi").is_ok());
}

#[test]
fn an_unreadable_limit_permits_no_size() {
    let mut grant = creation();
    grant.create.as_mut().unwrap().max_disk_size = Some(None);
    assert!(create(&[grant], "team-a", GOOD, "", "", "1Gi").is_err());
}

#[test]
fn in_its_own_namespace_only_the_url_is_checked() {
    assert!(create(&[], "images", GOOD, "admin", "slow", "1Ti").is_ok());
    let refused = create(&[], "images", "http://127.0.0.1/a", "", "", "1Gi");
    assert_eq!(refused, Err(Refused::Url(UrlError::LocalAddress)));
}

#[rstest]
#[case::not_in(Requirement::NotIn("team".to_owned(), vec!["b".to_owned()]))]
#[case::does_not_exist(Requirement::DoesNotExist("blocked".to_owned()))]
fn a_namespace_whose_labels_are_not_known_is_not_selected(#[case] requirement: Requirement) {
    let from = Grantee { namespaces: Namespaces::Selected(vec![requirement]), kinds: Vec::new() };
    let grant = Grant {
        namespace: "images".to_owned(),
        from: vec![from],
        to: Vec::new(),
        create: None,
        deleted: None,
        protected: true,
    };
    let permits = |labels| {
        let origin = Origin { namespace: "team-a", labels };
        may_refer(std::slice::from_ref(&grant), &image(), origin, ReferrerKind::Wrapper)
    };
    assert!(!permits(None));
    assert!(permits(Some(&BTreeMap::new())), "a namespace without labels");
}

#[rstest]
#[case::not_deleted(None, true, None, true)]
#[case::of_a_terminating_namespace(None, true, Some(at(10)), true)]
#[case::without_a_finalizer(None, false, None, true)]
#[case::deleted_by_a_user(Some(at(10)), true, None, false)]
#[case::deleted_with_its_namespace(Some(at(11)), true, Some(at(10)), true)]
#[case::in_the_same_second(Some(at(10)), true, Some(at(10)), true)]
#[case::deleted_by_a_user_before_its_namespace(Some(at(9)), true, Some(at(10)), false)]
#[case::released(Some(at(11)), false, Some(at(10)), false)]
fn a_deleted_grant_is_in_effect_only_if_its_namespace_was_deleted(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] terminating: Option<Timestamp>,
    #[case] expected: bool,
) {
    assert_eq!(Grant { deleted, protected, ..named("team-a") }.is_in_effect(terminating), expected);
}

#[rstest]
#[case::new(None, false, Surroundings::default(), Step::Protect)]
#[case::protected(None, true, Surroundings::default(), Step::None)]
#[case::with_images(None, true, Surroundings { has_images: true, ..Surroundings::default() }, Step::None)]
#[case::deleted_by_a_user(Some(at(10)), true, Surroundings { has_images: true, ..Surroundings::default() }, Step::Release)]
#[case::deleted_without_a_finalizer(Some(at(10)), false, Surroundings::default(), Step::None)]
#[case::held(
    Some(at(10)), true, Surroundings { terminating: Some(at(10)), has_images: true, ..Surroundings::default() },
    Step::Hold
)]
#[case::without_images(
    Some(at(10)), true, Surroundings { terminating: Some(at(10)), ..Surroundings::default() }, Step::Release
)]
#[case::revoked_before_the_namespace_was_deleted(
    Some(at(9)), true, Surroundings { terminating: Some(at(10)), has_images: true, ..Surroundings::default() },
    Step::Release
)]
fn the_finalizer_keeps_a_grant_while_its_terminating_namespace_has_images(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] surroundings: Surroundings,
    #[case] expected: Step,
) {
    let grant = Grant { deleted, protected, ..named("team-a") };
    assert_eq!(step(&grant, Surroundings { serves_others: true, ..surroundings }), expected);
}

#[rstest]
#[case::new(None, false, Step::None)]
#[case::deleted(Some(at(10)), true, Step::Release)]
fn a_controller_of_one_namespace_holds_no_grant(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] expected: Step,
) {
    let grant = Grant { deleted, protected, ..named("team-a") };
    let surroundings = Surroundings { serves_others: false, terminating: None, has_images: true };
    assert_eq!(step(&grant, surroundings), expected);
}

#[test]
fn a_finalizer_alone_does_not_change_what_a_grant_permits() {
    let grant = named("team-a");
    assert!(grant.permits_as(&Grant { protected: false, ..grant.clone() }));
    assert!(!grant.permits_as(&named("team-b")));
    assert!(!grant.permits_as(&Grant { deleted: Some(at(1)), ..grant.clone() }));
    let deleted = Grant { deleted: Some(at(1)), ..grant };
    assert!(!deleted.permits_as(&Grant { protected: false, ..deleted.clone() }));
}
