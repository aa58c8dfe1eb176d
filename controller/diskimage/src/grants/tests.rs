use rstest::rstest;

use super::*;
use crate::testing::test_time;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn image() -> ObjectKey {
    ObjectKey::new("images", "debian")
}

fn grant(namespaces: GrantedNamespaces) -> Grant {
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
    grant(GrantedNamespaces::Name(namespace.to_owned()))
}

fn permits(grants: &[Grant], kind: ReferrerKind) -> bool {
    let labels = labels(&[("tenant", "a")]);
    may_refer(grants, &image(), ReferrerNamespace { namespace: "team-a", labels: Some(&labels) }, kind)
}

#[test]
fn in_its_own_namespace_every_object_may_refer() {
    let origin = ReferrerNamespace { namespace: "images", labels: None };
    assert!(may_refer(&[], &image(), origin, ReferrerKind::Pool));
}

#[rstest]
#[case::no_grant(vec![], false)]
#[case::by_name(vec![named("team-a")], true)]
#[case::another_name(vec![named("team-b")], false)]
#[case::one_of_several(vec![named("team-b"), named("team-a")], true)]
#[case::neither_name_nor_selector(vec![grant(GrantedNamespaces::None)], false)]
#[case::every_namespace(vec![grant(GrantedNamespaces::Selected(vec![]))], true)]
#[case::in_values(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::In("tenant".into(), vec!["a".into()])]))], true)]
#[case::in_other_values(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::In("tenant".into(), vec!["b".into()])]))], false)]
#[case::not_in(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::NotIn("tenant".into(), vec!["a".into()])]))], false)]
#[case::not_in_absent(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::NotIn("zone".into(), vec!["a".into()])]))], true)]
#[case::exists(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::Exists("tenant".into())]))], true)]
#[case::does_not_exist(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::DoesNotExist("tenant".into())]))], false)]
#[case::both_must_hold(
    vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::Exists("tenant".into()), NamespaceRequirement::Exists("zone".into())]))],
    false
)]
#[case::unreadable(vec![grant(GrantedNamespaces::Selected(vec![NamespaceRequirement::Unreadable]))], false)]
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
    let create = ImageCreationGrant {
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
) -> Result<(), ImageCreationRefusal> {
    let labels = BTreeMap::new();
    let size = Quantity::new(size);
    let proposed = ProposedImage {
        source: SourceType::Http,
        url: Some(url),
        secrets: Some(secret).filter(|secret| !secret.is_empty()).into_iter().collect(),
        storage_class: Some(class).filter(|class| !class.is_empty()),
        disk_size: &size,
        ungrantable: None,
    };
    may_create(grants, &image(), ReferrerNamespace { namespace, labels: Some(&labels) }, &proposed, &[])
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
    let expected = if permitted { Ok(()) } else { Err(ImageCreationRefusal::NoGrant("images".to_owned())) };
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
    assert_eq!(refused, Err(ImageCreationRefusal::Url(UrlError::LocalAddress)));
}

#[rstest]
#[case::not_in(NamespaceRequirement::NotIn("team".to_owned(), vec!["b".to_owned()]))]
#[case::does_not_exist(NamespaceRequirement::DoesNotExist("blocked".to_owned()))]
fn a_namespace_whose_labels_are_not_known_is_not_selected(#[case] requirement: NamespaceRequirement) {
    let from = Grantee { namespaces: GrantedNamespaces::Selected(vec![requirement]), kinds: Vec::new() };
    let grant = Grant {
        namespace: "images".to_owned(),
        from: vec![from],
        to: Vec::new(),
        create: None,
        deleted: None,
        protected: true,
    };
    let permits = |labels| {
        let origin = ReferrerNamespace { namespace: "team-a", labels };
        may_refer(std::slice::from_ref(&grant), &image(), origin, ReferrerKind::Wrapper)
    };
    assert!(!permits(None));
    assert!(permits(Some(&BTreeMap::new())), "a namespace without labels");
}

#[rstest]
#[case::not_deleted(None, true, None, true)]
#[case::of_a_terminating_namespace(None, true, Some(test_time(10)), true)]
#[case::without_a_finalizer(None, false, None, true)]
#[case::deleted_by_a_user(Some(test_time(10)), true, None, false)]
#[case::deleted_with_its_namespace(Some(test_time(11)), true, Some(test_time(10)), true)]
#[case::in_the_same_second(Some(test_time(10)), true, Some(test_time(10)), true)]
#[case::deleted_by_a_user_before_its_namespace(Some(test_time(9)), true, Some(test_time(10)), false)]
#[case::released(Some(test_time(11)), false, Some(test_time(10)), false)]
fn a_deleted_grant_is_in_effect_only_if_its_namespace_was_deleted(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] terminating: Option<Timestamp>,
    #[case] expected: bool,
) {
    assert_eq!(Grant { deleted, protected, ..named("team-a") }.is_in_effect(terminating), expected);
}

#[rstest]
#[case::new(None, false, GrantContext::default(), GrantAction::Protect)]
#[case::protected(None, true, GrantContext::default(), GrantAction::None)]
#[case::with_images(None, true, GrantContext { has_images: true, ..GrantContext::default() }, GrantAction::None)]
#[case::deleted_by_a_user(Some(test_time(10)), true, GrantContext { has_images: true, ..GrantContext::default() }, GrantAction::Release)]
#[case::deleted_without_a_finalizer(Some(test_time(10)), false, GrantContext::default(), GrantAction::None)]
#[case::held(
    Some(test_time(10)), true, GrantContext { terminating: Some(test_time(10)), has_images: true, ..GrantContext::default() },
    GrantAction::Hold
)]
#[case::without_images(
    Some(test_time(10)), true, GrantContext { terminating: Some(test_time(10)), ..GrantContext::default() }, GrantAction::Release
)]
#[case::revoked_before_the_namespace_was_deleted(
    Some(test_time(9)), true, GrantContext { terminating: Some(test_time(10)), has_images: true, ..GrantContext::default() },
    GrantAction::Release
)]
fn the_finalizer_keeps_a_grant_while_its_terminating_namespace_has_images(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] surroundings: GrantContext,
    #[case] expected: GrantAction,
) {
    let grant = Grant { deleted, protected, ..named("team-a") };
    assert_eq!(plan_grant(&grant, GrantContext { serves_others: true, ..surroundings }), expected);
}

#[rstest]
#[case::new(None, false, GrantAction::None)]
#[case::deleted(Some(test_time(10)), true, GrantAction::Release)]
fn a_controller_of_one_namespace_holds_no_grant(
    #[case] deleted: Option<Timestamp>,
    #[case] protected: bool,
    #[case] expected: GrantAction,
) {
    let grant = Grant { deleted, protected, ..named("team-a") };
    let surroundings = GrantContext { serves_others: false, terminating: None, has_images: true };
    assert_eq!(plan_grant(&grant, surroundings), expected);
}

#[test]
fn a_finalizer_alone_does_not_change_what_a_grant_permits() {
    let grant = named("team-a");
    assert!(grant.permits_as(&Grant { protected: false, ..grant.clone() }));
    assert!(!grant.permits_as(&named("team-b")));
    assert!(!grant.permits_as(&Grant { deleted: Some(test_time(1)), ..grant.clone() }));
    let deleted = Grant { deleted: Some(test_time(1)), ..grant };
    assert!(!deleted.permits_as(&Grant { protected: false, ..deleted.clone() }));
}
