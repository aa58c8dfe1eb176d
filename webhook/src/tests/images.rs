//! The webhooks for images, wrappers and grants.

use rstest::rstest;
use vmpool_diskimage::admission::{FindingSeverity, ImageRule};
use vmpool_diskimage::source::SourceUrl;

use super::*;
use crate::images::{GRANT_PATH, IMAGE_PATH, PROTECTION_PATH, REFERENCES_PATH, WRAPPER_PATH};

const IMAGES: &str = "/apis/vmpool.dev/v1alpha1/namespaces/images";

impl World {
    /// A webhook that reviews images.
    fn of_images(callers: Callers, allowed: &[&str]) -> Self {
        let clock = ManualClock::new();
        let (server, metrics) = (Server::default(), WebhookMetrics::new());
        let allowed = allowed.iter().map(|url| SourceUrl::parse(url).unwrap()).collect();
        let state = ReviewState::new(Vec::new(), server.client(), metrics.clone(), test_env(&clock, 0));
        let router = webhook_router(&state.accepting(callers).with_images(allowed));
        let world = Self { server, metrics, clock, router, certificate: Some(API_SERVER) };
        world.store(
            "/api/v1/namespaces/team-a",
            json!({ "metadata": { "name": "team-a", "labels": { "team": "a" } } }),
        );
        world
    }

    pub(super) fn certified() -> Self {
        Self::of_images(Callers::Certified([API_SERVER.to_owned()].into()), &[])
    }

    pub(super) fn store(&self, path: &str, object: Value) {
        self.server.0.lock().objects.insert(path.to_owned(), (StatusCode::OK, object));
    }

    fn grant(&self, spec: &Value) {
        let grant = json!({ "metadata": { "name": "g", "namespace": "images" }, "spec": spec });
        self.store(&format!("{IMAGES}/vmdiskimagegrants"), json!({ "items": [grant] }));
    }

    fn image(&self, deleting: bool) {
        let mut image = image("https://images.example.com/debian.qcow2");
        if deleting {
            image["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        self.store(&format!("{IMAGES}/vmdiskimages/debian"), image);
    }

    pub(super) async fn creates(&self, path: &str, object: &Value) -> Value {
        self.review(path, &review("CREATE", "", &Value::Null, object)).await
    }
}

fn image(url: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "metadata": { "name": "debian" },
        "spec": { "sourceType": "http", "url": url, "diskSize": "10Gi" },
    })
}

/// A wrapper of an image in the namespace `images`.
fn wrapper() -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine", "metadata": { "name": "web" },
        "spec": {
            "vmDiskImageRef": { "name": "debian", "namespace": "images" },
            "virtualMachineTemplate": { "spec": { "template": {} } },
        },
    })
}

/// A machine whose disk clones an image.
fn machine(namespace: &str) -> Value {
    let reference = json!({ "kind": "DataSource", "name": "debian", "namespace": namespace });
    json!({ "kind": "VirtualMachine", "metadata": { "name": "web" },
        "spec": { "dataVolumeTemplates": [{ "spec": { "sourceRef": reference } }] } })
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

#[rstest]
#[case::a_public_host("https://images.example.com/debian.qcow2", true)]
#[case::loopback("http://127.1/debian.qcow2", false)]
#[case::the_metadata_service("http://169.254.169.254/latest", false)]
#[case::a_user("https://me:secret@images.example.com/debian.qcow2", false)]
#[tokio::test]
async fn an_image_may_have_the_url_of(#[case] url: &str, #[case] allowed: bool) {
    let response = World::certified().creates(IMAGE_PATH, &image(url)).await;
    assert_eq!(response["allowed"], allowed, "{response}");
    assert_eq!(message(&response).contains("(rule V1)"), !allowed, "{response}");
    assert!(!response.to_string().contains("secret@"), "{response}");
}

#[tokio::test]
async fn a_url_outside_of_the_allowed_prefixes_is_refused_without_its_query() {
    let world = World::of_images(Callers::Any, &["https://mirror.example.com/"]);
    let response =
        world.creates(IMAGE_PATH, &image("https://mirror.example.com/a?X-Signature=hunter2")).await;
    assert_eq!(response["allowed"], true, "{response}");
    let response = world.creates(IMAGE_PATH, &image("https://evil.example.com/a?X-Signature=hunter2")).await;
    assert_eq!(response["allowed"], false);
    assert!(!response.to_string().contains("hunter2"), "{response}");
}

#[rstest]
#[case::without_finalizers("CREATE", json!(null), json!(["vmpool.dev/vmdiskimage-protection"]))]
#[case::with_another_one("CREATE", json!(["a/b"]), json!(["a/b", "vmpool.dev/vmdiskimage-protection"]))]
#[case::with_its_own("CREATE", json!(["vmpool.dev/vmdiskimage-protection"]), json!(null))]
#[case::that_a_user_has_removed("UPDATE", json!(["a/b"]), json!(null))]
#[tokio::test]
async fn a_new_image_gets_its_finalizer(
    #[case] operation: &str,
    #[case] finalizers: Value,
    #[case] wanted: Value,
) {
    let mut object = image("https://images.example.com/debian.qcow2");
    if !finalizers.is_null() {
        object["metadata"]["finalizers"] = finalizers;
    }
    let old = if operation == "UPDATE" { object.clone() } else { Value::Null };
    // The webhook needs no client certificate for it, because it reads nothing.
    let world = World::of_images(Callers::Any, &[]);
    let response = world.review(PROTECTION_PATH, &review(operation, "", &old, &object)).await;
    assert_eq!(response["allowed"], true, "{response}");
    if wanted.is_null() {
        assert_eq!(response.get("patch"), None, "{response}");
    } else {
        let patch: json_patch::Patch = serde_json::from_value(patch(&response)).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        assert_eq!(object["metadata"]["finalizers"], wanted);
    }
}

#[tokio::test]
async fn an_image_that_is_refused_now_can_be_labeled_released_and_deleted() {
    let world = World::certified();
    let old = image("http://127.0.0.1/debian.qcow2");
    let mut labeled = old.clone();
    labeled["metadata"]["labels"] = json!({ "a": "b" });
    labeled["spec"]["ttlAfterUnreferenced"] = json!("24h");
    let response = world.review(IMAGE_PATH, &review("UPDATE", "", &old, &labeled)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let mut deleted = image("http://127.0.0.1/other.qcow2");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let response = world.review(IMAGE_PATH, &review("UPDATE", "", &old, &deleted)).await;
    assert_eq!(response["allowed"], true, "the finalizer can be removed: {response}");
    let response = world.review(IMAGE_PATH, &review("DELETE", "", &old, &Value::Null)).await;
    assert_eq!(response["allowed"], true, "{response}");
}

#[tokio::test]
async fn the_deletion_of_an_image_in_use_is_allowed_with_a_warning() {
    let mut used = image("https://images.example.com/debian.qcow2");
    used["status"] = json!({ "referenceCount": 2, "poolReferenceCount": 1 });
    let response = World::certified().review(IMAGE_PATH, &review("DELETE", "", &used, &Value::Null)).await;
    assert_eq!(response["allowed"], true);
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(warning.contains("2 machines, 1 pools"), "{warning}");
}

#[tokio::test]
async fn without_a_grant_the_answer_does_not_depend_on_the_image() {
    let world = World::certified();
    let absent = world.creates(WRAPPER_PATH, &wrapper()).await;
    assert_eq!(absent["allowed"], false);
    assert!(message(&absent).contains("(rule V3)"), "{absent}");
    let requests = world.server.requests();
    for deleting in [false, true] {
        world.image(deleting);
        assert_eq!(world.creates(WRAPPER_PATH, &wrapper()).await, absent);
        assert_eq!(world.server.requests(), requests, "the image is not even read");
    }
    assert!(!requests.iter().any(|path| path.contains("vmdiskimages/")), "{requests:?}");
}

#[rstest]
#[case::by_name(json!({ "namespace": "team-a" }), true)]
#[case::by_label(json!({ "namespaceSelector": { "matchLabels": { "team": "a" } } }), true)]
#[case::by_another_label(json!({ "namespaceSelector": { "matchLabels": { "team": "b" } } }), false)]
#[case::for_pools_only(json!({ "namespace": "team-a", "kinds": ["VirtualMachinePool"] }), false)]
#[tokio::test]
async fn a_grant_permits_a_reference(#[case] from: Value, #[case] allowed: bool) {
    let world = World::certified();
    world.image(false);
    world.grant(&json!({ "from": [from] }));
    assert_eq!(world.creates(WRAPPER_PATH, &wrapper()).await["allowed"], allowed);
}

#[tokio::test]
async fn a_terminating_image_is_refused_to_new_wrappers_only() {
    let world = World::certified();
    world.image(true);
    world.grant(&json!({ "from": [{ "namespace": "team-a" }] }));
    let response = world.creates(WRAPPER_PATH, &wrapper()).await;
    assert!(message(&response).contains("(rule V5)"), "{response}");
    let mut edited = wrapper();
    edited["spec"]["resources"] = json!({ "memory": "2Gi" });
    let response = world.review(WRAPPER_PATH, &review("UPDATE", "", &wrapper(), &edited)).await;
    assert_eq!(response["allowed"], true, "{response}");
}

#[tokio::test]
async fn a_wrapper_whose_disk_is_smaller_than_its_image_is_refused() {
    let world = World::certified();
    world.image(false);
    world.grant(&json!({ "from": [{ "namespace": "team-a" }] }));
    let small = with(wrapper(), "/spec/resources", json!({ "diskSize": "5Gi" }));
    let response = world.creates(WRAPPER_PATH, &small).await;
    assert!(message(&response).contains("(rule V6)"), "{response}");
}

#[tokio::test]
async fn a_wrapper_creates_only_what_one_grant_permits() {
    let world = World::certified();
    let template =
        json!({ "sourceType": "http", "url": "https://mirror.example.com/pub/a.qcow2", "diskSize": "1Gi" });
    let creating = with(wrapper(), "/spec/vmDiskImageTemplate", template);
    world.grant(&json!({ "from": [{ "namespace": "team-a" }] }));
    let response = world.creates(WRAPPER_PATH, &creating).await;
    assert!(message(&response).contains("(rule V4)"), "{response}");
    let create = json!({ "allowed": true, "urlPrefixes": ["https://mirror.example.com/pub/"] });
    world.grant(&json!({ "from": [{ "namespace": "team-a" }], "create": create }));
    assert_eq!(world.creates(WRAPPER_PATH, &creating).await["allowed"], true);
    let with_secret = with(creating, "/spec/vmDiskImageTemplate/secretRef", json!("credentials"));
    let response = world.creates(WRAPPER_PATH, &with_secret).await;
    assert!(message(&response).contains("(rule V4)"), "{response}");
}

#[tokio::test]
async fn no_grant_permits_a_wrapper_to_copy_a_claim_of_the_owner() {
    let world = World::certified();
    let create = json!({ "allowed": true, "urlPrefixes": ["https://mirror.example.com/"] });
    world.grant(&json!({ "from": [{ "namespace": "team-a" }], "create": create }));
    let template = json!({ "sourceType": "pvc", "sourceName": "private", "diskSize": "1Gi" });
    let response = world.creates(WRAPPER_PATH, &with(wrapper(), "/spec/vmDiskImageTemplate", template)).await;
    assert!(message(&response).contains("(rule V4)"), "{response}");
}

#[tokio::test]
async fn a_password_in_clear_text_warns_without_the_password() {
    let world = World::certified();
    world.image(false);
    world.grant(&json!({ "from": [{ "namespace": "team-a" }] }));
    let users = json!([{ "name": "demo", "plain_text_passwd": "hunter2" }]);
    let response = world.creates(WRAPPER_PATH, &with(wrapper(), "/spec/users", users)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(warning.contains("(rule V8)") && !response.to_string().contains("hunter2"), "{response}");
}

#[tokio::test]
async fn a_client_without_certificate_finds_out_nothing() {
    let world = World::of_images(Callers::Any, &[]);
    world.image(true);
    assert_eq!(world.creates(WRAPPER_PATH, &wrapper()).await["allowed"], true, "the controller refuses it");
    assert_eq!(world.creates(REFERENCES_PATH, &machine("team-a")).await["allowed"], true);
    assert_eq!(world.server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_grant_with_an_ambiguous_prefix_is_refused() {
    let grant = |prefix: &str| {
        json!({ "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImageGrant", "metadata": { "name": "g" },
            "spec": { "from": [{ "namespace": "a" }], "create": { "allowed": true, "urlPrefixes": [prefix] } } })
    };
    let world = World::certified();
    assert_eq!(world.creates(GRANT_PATH, &grant("https://mirror.example.com/")).await["allowed"], true);
    let response = world.creates(GRANT_PATH, &grant("https://mirror.example.com/a/../b")).await;
    assert!(message(&response).contains("(rule V2)"), "{response}");
}

#[tokio::test]
async fn a_new_reference_of_a_machine_to_a_terminating_image_is_refused() {
    let world = World::certified();
    let mut terminating = image("https://images.example.com/debian.qcow2");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for namespace in ["team-a", "images"] {
        let path = format!("/apis/vmpool.dev/v1alpha1/namespaces/{namespace}/vmdiskimages/debian");
        world.store(&path, terminating.clone());
    }
    let response = world.creates(REFERENCES_PATH, &machine("team-a")).await;
    assert!(message(&response).contains("(rule V5)"), "{response}");
    let response = world.creates(REFERENCES_PATH, &machine("images")).await;
    assert_eq!(response["allowed"], true, "without a grant nothing of another namespace is revealed");
    let mut edited = machine("team-a");
    edited["spec"]["runStrategy"] = json!("Always");
    let response = world.review(REFERENCES_PATH, &review("UPDATE", "", &machine("team-a"), &edited)).await;
    assert_eq!(response["allowed"], true, "a reference that exists is not new: {response}");
}

#[tokio::test]
async fn a_failed_read_is_an_error_and_no_permission() {
    let world = World::certified();
    world.server.0.lock().objects.insert(
        format!("{IMAGES}/vmdiskimagegrants"),
        (StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": "etcd is slow" })),
    );
    let response = world.creates(WRAPPER_PATH, &wrapper()).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
}

#[test]
fn the_documentation_lists_the_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/disk-images.md");
    let page = std::fs::read_to_string(path).unwrap();
    for rule in ImageRule::ALL {
        let effect = match rule.severity() {
            FindingSeverity::Invalid => "refused",
            FindingSeverity::Forbidden => "forbidden",
            FindingSeverity::Warning => "warning",
        };
        let row = format!("| {} | {} | {effect} |", rule.id(), rule.text());
        assert!(page.contains(&row), "no row {row}");
    }
}
