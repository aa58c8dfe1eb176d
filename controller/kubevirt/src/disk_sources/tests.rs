use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn named(spec: &Value, strategy: &Value) -> Vec<String> {
    let templates = json!([{ "metadata": { "name": "root" }, "spec": spec }]);
    let pool = json!({
        "metadata": { "name": "web", "namespace": "team" },
        "spec": {
            "scaleInStrategy": strategy,
            "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": templates, "template": {} } },
        },
    });
    let pool: KubeVirtPoolObject = serde_json::from_value(pool).unwrap();
    let named = KubeVirt::named(&pool);
    named.iter().map(|named| format!("{} {}", named.template, named.source)).collect()
}

fn data_source() -> Value {
    json!({ "sourceRef": { "kind": "DataSource", "name": "debian", "namespace": "images" } })
}

#[rstest]
#[case::a_data_source(data_source(), &["root DataSource/images/debian"])]
#[case::of_the_own_namespace(json!({ "sourceRef": { "name": "debian" } }), &["root DataSource/team/debian"])]
#[case::a_claim(json!({ "source": { "pvc": { "name": "debian" } } }), &["root PersistentVolumeClaim/team/debian"])]
#[case::a_snapshot(
    json!({ "source": { "snapshot": { "name": "debian", "namespace": "" } } }), &["root VolumeSnapshot/team/debian"])]
#[case::another_kind(json!({ "sourceRef": { "kind": "Image", "name": "debian" } }), &[])]
#[case::a_download(json!({ "source": { "http": { "url": "https://example.com" } } }), &[])]
fn data_volume_templates_name_sources(#[case] spec: Value, #[case] expected: &[&str]) {
    assert_eq!(named(&spec, &Value::Null), expected);
}

#[rstest]
#[case::preserved(json!({ "proactive": { "statePreservation": "Offline" } }), 0)]
#[case::not_preserved(json!({ "proactive": { "statePreservation": "Disabled" } }), 1)]
fn preserved_storage_has_no_source_to_follow(#[case] strategy: Value, #[case] expected: usize) {
    assert_eq!(named(&data_source(), &strategy).len(), expected);
}

fn state<K: DiskSourceKind + DeserializeOwned>(object: Value) -> DiskSourceState {
    let mut object = object;
    object["metadata"]["name"] = json!("debian");
    object["metadata"]["namespace"] = json!("images");
    object["metadata"]["uid"] = json!("u1");
    serde_json::from_value::<K>(object).unwrap().state()
}

fn leads_to(kind: &'static str, namespace: &str, name: &str) -> DiskSourceState {
    DiskSourceState::LeadsTo(DiskSourceRef { kind, key: ObjectKey::new(namespace, name) })
}

fn content() -> DiskSourceState {
    DiskSourceState::Content { id: "u1".into(), created: Timestamp::UNIX_EPOCH }
}

#[rstest]
#[case::a_claim(json!({ "spec": { "source": { "pvc": { "name": "v1" } } } }), leads_to(CLAIM, "images", "v1"))]
#[case::an_alias(
    json!({ "spec": { "source": { "dataSource": { "name": "a" }, "pvc": { "name": "v1" } } } }),
    leads_to(DATA_SOURCE, "images", "a")
)]
#[case::what_cdi_has_resolved(
    json!({ "spec": { "source": { "dataSource": { "name": "a" } } },
        "status": { "source": { "snapshot": { "name": "v2", "namespace": "other" } } } }),
    leads_to(SNAPSHOT, "other", "v2")
)]
#[case::not_ready(
    json!({ "spec": { "source": { "pvc": { "name": "v1" } } },
        "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }),
    DiskSourceState::Unready
)]
#[case::without_a_source(json!({ "spec": {} }), DiskSourceState::Unready)]
fn a_data_source_leads_to_what_is_cloned(#[case] object: Value, #[case] expected: DiskSourceState) {
    assert_eq!(state::<DataSourceObject>(object), expected);
}

#[rstest]
#[case::bound(json!({ "status": { "phase": "Bound" } }), content())]
#[case::pending(json!({ "status": { "phase": "Pending" } }), DiskSourceState::Unready)]
#[case::imported(
    json!({ "metadata": { "annotations": { IMPORTER_PHASE: "Succeeded" } }, "status": { "phase": "Bound" } }),
    content()
)]
#[case::being_imported(
    json!({ "metadata": { "annotations": { IMPORTER_PHASE: "Running" } }, "status": { "phase": "Bound" } }),
    DiskSourceState::Unready
)]
#[case::deleted(
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "status": { "phase": "Bound" } }),
    DiskSourceState::Unready
)]
fn a_claim_has_content_when_it_is_complete(#[case] object: Value, #[case] expected: DiskSourceState) {
    assert_eq!(state::<SourceClaimObject>(object), expected);
}

#[rstest]
#[case::ready(json!({ "status": { "readyToUse": true } }), content())]
#[case::not_ready(json!({ "status": { "readyToUse": false } }), DiskSourceState::Unready)]
#[case::without_status(json!({}), DiskSourceState::Unready)]
fn a_snapshot_has_content_when_it_is_ready(#[case] object: Value, #[case] expected: DiskSourceState) {
    assert_eq!(state::<SourceSnapshotObject>(object), expected);
}
