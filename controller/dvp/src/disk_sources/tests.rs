use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn template(source: &Value, reclaim: &str) -> Value {
    json!({ "name": "root", "reclaim": { "onScaleDown": reclaim }, "spec": { "dataSource": source } })
}

fn named(template: &Value) -> Vec<String> {
    let pool = json!({
        "metadata": { "name": "web", "namespace": "team" },
        "spec": { "virtualDiskTemplates": [template] },
    });
    let pool: DvpPoolObject = serde_json::from_value(pool).unwrap();
    let named = Dvp::named(&pool);
    named.iter().map(|named| format!("{} {}", named.template, named.source)).collect()
}

fn reference(kind: &str) -> Value {
    json!({ "type": "ObjectRef", "objectRef": { "kind": kind, "name": "alpine" } })
}

#[rstest]
#[case::an_image(template(&reference("VirtualImage"), "Delete"), &["root VirtualImage/team/alpine"])]
#[case::of_the_cluster(template(&reference("ClusterVirtualImage"), "Delete"), &["root ClusterVirtualImage/alpine"])]
#[case::a_snapshot(template(&reference("VirtualDiskSnapshot"), "Delete"), &["root VirtualDiskSnapshot/team/alpine"])]
#[case::another_kind(template(&reference("Secret"), "Delete"), &[])]
#[case::retained(template(&reference("VirtualImage"), "Retain"), &[])]
#[case::a_download(template(&json!({ "type": "HTTP", "http": { "url": "https://example.com" } }), "Delete"), &[])]
#[case::blank(template(&Value::Null, "Delete"), &[])]
fn ephemeral_disk_templates_name_sources(#[case] template: Value, #[case] expected: &[&str]) {
    assert_eq!(named(&template), expected);
}

#[rstest]
#[case::ready(json!({ "status": { "phase": "Ready" } }), true)]
#[case::in_progress(json!({ "status": { "phase": "Provisioning" } }), false)]
#[case::without_status(json!({}), false)]
#[case::deleted(json!({ "status": { "phase": "Ready" }, "deletionTimestamp": "2026-01-01T00:00:00Z" }), false)]
fn an_image_has_content_while_it_is_ready(#[case] object: Value, #[case] expected: bool) {
    let image = json!({
        "metadata": { "name": "alpine", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": object["deletionTimestamp"] },
        "status": object["status"],
    });
    let image: ClusterImageObject = serde_json::from_value(image).unwrap();
    let content =
        DiskSourceState::Content { id: "u1".into(), created: "2026-01-01T00:00:00Z".parse().unwrap() };
    assert_eq!(image.state(), if expected { content } else { DiskSourceState::Unready });
}
