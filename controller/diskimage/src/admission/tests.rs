use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::Quantity;
use vmpool_api::diskimage::{VirtualMachine, VmDiskImage, VmDiskImageGrant};

use super::reads::FoundImage;
use super::wrapper::{WrapperReviewFacts, begin_wrapper_review};
use super::*;
use crate::read;

fn an_image(url: &str) -> VmDiskImage {
    serde_json::from_value(json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "metadata": {"name": "debian"},
        "spec": {"sourceType": "http", "url": url, "diskSize": "10Gi"},
    }))
    .unwrap()
}

fn a_wrapper(change: &Value) -> VirtualMachine {
    let mut wrapper = json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine", "metadata": {"name": "web"},
        "spec": {
            "vmDiskImageRef": {"name": "debian", "namespace": "images"},
            "virtualMachineTemplate": {"spec": {"template": {}}},
        },
    });
    for (name, value) in change.as_object().unwrap() {
        wrapper["spec"][name] = value.clone();
    }
    serde_json::from_value(wrapper).unwrap()
}

fn a_grant(spec: &Value) -> VmDiskImageGrant {
    serde_json::from_value(json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImageGrant",
        "metadata": {"name": "g", "namespace": "images"}, "spec": spec,
    }))
    .unwrap()
}

fn rules(findings: &[AdmissionFinding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.rule.id()).collect()
}

const TEMPLATE: &str = "https://mirror.example.com/pub/debian.qcow2";

fn template(change: &Value) -> Value {
    let mut template = json!({"sourceType": "http", "url": TEMPLATE, "diskSize": "10Gi"});
    for (name, value) in change.as_object().unwrap() {
        template[name] = value.clone();
    }
    json!({ "vmDiskImageTemplate": template })
}

#[rstest]
#[case::a_public_host("https://images.example.com/disk.qcow2", &[])]
#[case::a_user("https://me:secret@images.example.com/disk.qcow2", &["V1"])]
#[case::loopback("http://127.0.0.1/disk.qcow2", &["V1"])]
#[case::loopback_in_another_spelling("http://2130706433/disk.qcow2", &["V1"])]
#[case::metadata("http://169.254.169.254/latest/meta-data", &["V1"])]
#[case::mapped("http://[::ffff:127.0.0.1]/disk", &["V1"])]
#[case::dots("https://images.example.com/a/../b", &["V1"])]
#[case::another_scheme("ftp://images.example.com/disk", &["V1"])]
fn the_url_of_an_image(#[case] url: &str, #[case] broken: &[&str]) {
    assert_eq!(rules(&review_image(None, &an_image(url), &[])), broken);
}

#[test]
fn no_message_contains_the_url() {
    let secret = "https://images.example.com/disk?signature=hunter2";
    let allowed = [SourceUrl::parse("https://other.example.com/").unwrap()];
    let findings = review_image(None, &an_image(secret), &allowed);
    assert_eq!(rules(&findings), ["V1"]);
    assert!(!format!("{findings:?}").contains("hunter2"));
}

#[test]
fn an_unrelated_update_of_a_refused_image_is_allowed() {
    let old = an_image("http://127.0.0.1/disk.qcow2");
    let mut new = old.clone();
    new.spec.ttl_after_unreferenced = Some("24h".to_owned());
    assert!(review_image(Some(&old), &new, &[]).is_empty());
}

#[test]
fn an_image_that_is_being_deleted_is_not_checked() {
    let mut deleted = an_image("http://127.0.0.1/disk.qcow2");
    deleted.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert!(review_image(None, &deleted, &[]).is_empty());
}

#[test]
fn the_deletion_of_an_image_in_use_warns_with_the_counts() {
    let mut used = an_image(TEMPLATE);
    assert!(review_image_deletion(&used).is_none());
    used.status =
        Some(serde_json::from_value(json!({"referenceCount": 3, "poolReferenceCount": 1})).unwrap());
    let warning = review_image_deletion(&used).unwrap();
    assert_eq!(warning.reason, "3 machines, 1 pools and 0 unfinished clones use the image");
}

#[rstest]
#[case::a_directory("https://mirror.example.com/pub", &[])]
#[case::a_user("https://me@mirror.example.com/", &["V2"])]
#[case::a_backslash("https://mirror.example.com\\@evil.example.com/", &["V2"])]
fn the_prefixes_of_a_grant(#[case] prefix: &str, #[case] broken: &[&str]) {
    let new = a_grant(&json!({"from": [], "create": {"allowed": true, "urlPrefixes": [prefix]}}));
    assert_eq!(rules(&review_grant(None, &new)), broken);
    assert!(review_grant(Some(&new), &new).is_empty());
}

/// The broken rules of a new wrapper in `team-a`.
fn review(wrapper: &VirtualMachine, grants: &[Value], image: Option<FoundImage>) -> Vec<AdmissionFinding> {
    match begin_wrapper_review("team-a", None, wrapper, &[]) {
        Err(findings) => findings,
        Ok(None) => Vec::new(),
        Ok(Some(question)) => {
            let grants = grants.iter().map(|spec| read::read_grant(&a_grant(spec))).collect();
            question.finish(&WrapperReviewFacts { grants, image, ..WrapperReviewFacts::default() })
        }
    }
}

fn found() -> FoundImage {
    FoundImage { uid: "image-1".to_owned(), deleting: false, disk_size: Some(Quantity::new("10Gi")) }
}

fn permitted() -> Value {
    json!({"from": [{"namespace": "team-a"}]})
}

#[rstest]
#[case::which_exists(Some(found()))]
#[case::which_does_not_exist(None)]
#[case::which_is_being_deleted(Some(FoundImage { uid: "image-1".to_owned(), deleting: true, disk_size: None }))]
fn without_a_grant_the_answer_is_the_same_for_an_image(#[case] image: Option<FoundImage>) {
    let wrapper = a_wrapper(&template(&json!({})));
    let same = review(&wrapper, &[], None);
    assert_eq!(rules(&same), ["V3"]);
    assert_eq!(review(&wrapper, &[], image), same);
}

#[test]
fn an_image_of_the_own_namespace_needs_no_grant() {
    let wrapper = a_wrapper(&json!({"vmDiskImageRef": {"name": "debian"}}));
    assert!(review(&wrapper, &[], Some(found())).is_empty());
}

#[test]
fn a_terminating_image_is_refused_to_new_wrappers_only() {
    let wrapper = a_wrapper(&json!({}));
    let terminating = Some(FoundImage { uid: "image-1".to_owned(), deleting: true, disk_size: None });
    assert_eq!(rules(&review(&wrapper, &[permitted()], terminating)), ["V5"]);
    assert!(begin_wrapper_review("team-a", Some(&wrapper), &wrapper, &[]).unwrap().is_none());
}

#[rstest]
#[case::smaller("9Gi", &["V6"])]
#[case::equal_in_other_units("10240Mi", &[])]
#[case::larger("20Gi", &[])]
fn the_disk_of_a_wrapper(#[case] size: &str, #[case] broken: &[&str]) {
    let wrapper = a_wrapper(&json!({"resources": {"diskSize": size}}));
    assert_eq!(rules(&review(&wrapper, &[permitted()], Some(found()))), broken);
}

#[rstest]
#[case::everything(json!({}), json!({"urlPrefixes": ["https://mirror.example.com/pub"]}), &[])]
#[case::the_url(json!({}), json!({"urlPrefixes": ["https://mirror.example.com/private"]}), &["V4"])]
#[case::not_a_path_that_only_begins_so(json!({}), json!({"urlPrefixes": ["https://mirror.example.com/pu"]}), &["V4"])]
#[case::another_port(json!({}), json!({"urlPrefixes": ["https://mirror.example.com:8443/pub"]}), &["V4"])]
#[case::the_secret(json!({"secretRef": "s"}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::the_class(json!({"storageClass": "gold"}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::the_size(json!({}), json!({"urlPrefixes": ["https://mirror.example.com/"], "maxDiskSize": "1Gi"}), &["V4"])]
#[case::the_secret_with_headers(
    json!({"secretExtraHeaders": ["s"]}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::a_permitted_secret_with_headers(
    json!({"secretExtraHeaders": ["s"]}),
    json!({"urlPrefixes": ["https://mirror.example.com/"], "secretRefs": ["s"]}), &[])]
#[case::any_server(
    json!({"insecureSkipVerify": true}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::verification(
    json!({"insecureSkipVerify": false}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &[])]
#[case::headers(
    json!({"extraHeaders": ["X-Mirror: eu"]}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::a_claim_of_the_owner(
    json!({"sourceType": "pvc", "url": null, "sourceName": "private"}),
    json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::a_snapshot_of_the_owner(
    json!({"sourceType": "snapshot", "url": null, "sourceName": "private"}),
    json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::an_upload(
    json!({"sourceType": "upload", "url": null}), json!({"urlPrefixes": ["https://mirror.example.com/"]}), &["V4"])]
#[case::the_credentials_of_a_node(
    json!({"sourceType": "registry", "url": "docker://mirror.example.com/pub/a", "pullMethod": "node"}),
    json!({"urlPrefixes": ["docker://mirror.example.com/pub"]}), &["V4"])]
#[case::a_registry(
    json!({"sourceType": "registry", "url": "docker://mirror.example.com/pub/a", "pullMethod": "pod"}),
    json!({"urlPrefixes": ["docker://mirror.example.com/pub"]}), &[])]
fn a_wrapper_creates_only_what_a_grant_permits(
    #[case] change: Value,
    #[case] create: Value,
    #[case] broken: &[&str],
) {
    let mut grant = permitted();
    grant["create"] = create;
    grant["create"]["allowed"] = json!(true);
    let wrapper = a_wrapper(&template(&change));
    assert_eq!(rules(&review(&wrapper, &[grant.clone()], None)), broken);
    assert!(review(&wrapper, &[grant], Some(found())).is_empty(), "an existing image is not created");
}

#[test]
fn two_grants_do_not_add_up_to_the_permission_to_create() {
    let mut first = permitted();
    first["create"] = json!({"allowed": true, "urlPrefixes": ["https://mirror.example.com/pub"]});
    let mut second = permitted();
    second["create"] =
        json!({"allowed": true, "urlPrefixes": ["https://evil.example.com/"], "secretRefs": ["s"]});
    let wrapper = a_wrapper(&template(&json!({"secretRef": "s"})));
    assert_eq!(rules(&review(&wrapper, &[first, second], None)), ["V4"]);
}

#[test]
fn a_wrapper_that_does_not_create_needs_no_permission_to_create() {
    let mut change = template(&json!({"secretRef": "s"}));
    change["mode"] = json!("FailIfNotExist");
    assert!(review(&a_wrapper(&change), &[permitted()], None).is_empty());
}

#[test]
fn a_changed_template_is_reviewed_again() {
    let old = a_wrapper(&template(&json!({})));
    let new = a_wrapper(&template(&json!({"url": "http://169.254.169.254/"})));
    let refused = begin_wrapper_review("team-a", Some(&old), &new, &[]).unwrap_err();
    assert_eq!(rules(&refused), ["V1"]);
    let other = a_wrapper(&template(&json!({"secretRef": "s"})));
    assert!(begin_wrapper_review("team-a", Some(&old), &other, &[]).unwrap().is_some());
}

#[test]
fn a_password_in_clear_text_warns_without_the_password() {
    let user = |field: &str| a_wrapper(&json!({"users": [{"name": "a"}, {"name": "b", field: "hunter2"}]}));
    let wrapper = user("plain_text_passwd");
    let warning = review_wrapper_passwords(None, &wrapper).unwrap();
    assert_eq!((warning.rule.id(), &*warning.field), ("V8", "spec.users[1].plain_text_passwd"));
    assert!(!format!("{warning:?}").contains("hunter2"));
    assert!(review_wrapper_passwords(Some(&wrapper), &wrapper).is_none(), "an unrelated update");
    assert!(review_wrapper_passwords(None, &user("hashed_passwd")).is_none());
}

#[test]
fn identifiers_are_unique() {
    let mut ids: Vec<_> = ImageRule::ALL.iter().map(|rule| rule.id()).collect();
    ids.dedup();
    assert_eq!(ids.len(), ImageRule::ALL.len());
}
