use rstest::rstest;

use super::*;

fn entry(manager: &str, operation: &str, time: &str) -> Value {
    json!({ "manager": manager, "operation": operation, "time": time, "fieldsType": "FieldsV1" })
}

fn stored(entries: &[Value], former: Option<&Value>) -> Value {
    let annotations = former.map(|former| json!({ LAST_APPLIED: former.to_string() }));
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Pool",
        "metadata": {
            "name": "web",
            "namespace": "team-a",
            "uid": "u",
            "resourceVersion": "7",
            "annotations": annotations,
            "managedFields": entries,
        },
        "spec": { "replicas": 3, "template": { "labels": { "tier": "web", "team": "a", "scraped": "yes" }, "disks": [1, 2] } },
        "status": { "readyReplicas": 3 },
    })
}

fn manifest(template: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Pool", "metadata": { "name": "web" }, "spec": { "template": template } })
}

#[rstest]
#[case::never_applied(&[entry("kubectl-create", "Update", "2026-01-01T00:00:00Z")], false, ApplyMethod::ClientSide)]
#[case::by_kubectl(&[entry(CLIENT_SIDE_MANAGER, "Update", "2026-01-01T00:00:00Z")], true, ApplyMethod::ClientSide)]
#[case::by_a_delivery_tool(
    &[entry("argocd-controller", "Apply", "2026-01-02T00:00:00Z"), entry("other", "Apply", "2026-01-01T00:00:00Z")],
    false,
    ApplyMethod::ServerSide { manager: "argocd-controller".into() }
)]
#[case::first_by_kubectl_and_then_by_the_server(
    &[entry(CLIENT_SIDE_MANAGER, "Update", "2026-01-01T00:00:00Z"), entry("kubectl", "Apply", "2026-01-02T00:00:00Z")],
    true,
    ApplyMethod::ServerSide { manager: "kubectl".into() }
)]
#[case::first_by_the_server_and_then_by_kubectl(
    &[entry(CLIENT_SIDE_MANAGER, "Update", "2026-01-03T00:00:00Z"), entry("kubectl", "Apply", "2026-01-02T00:00:00Z")],
    true,
    ApplyMethod::ClientSide
)]
#[case::the_status_is_no_manifest(
    &[json!({ "manager": "m", "operation": "Apply", "time": "2026-01-03T00:00:00Z", "subresource": "status" })],
    false,
    ApplyMethod::ClientSide
)]
fn the_method_is_the_one_by_which_the_pool_was_applied_last(
    #[case] entries: &[Value],
    #[case] by_client: bool,
    #[case] method: ApplyMethod,
) {
    let former = by_client.then(|| json!({}));
    assert_eq!(ApplyMethod::of_pool(&stored(entries, former.as_ref()), false, None), method);
}

#[test]
fn flags_override_the_method() {
    let stored = stored(&[entry(CLIENT_SIDE_MANAGER, "Update", "2026-01-01T00:00:00Z")], Some(&json!({})));
    let manager = |name: &str| ApplyMethod::ServerSide { manager: name.into() };
    assert_eq!(ApplyMethod::of_pool(&stored, true, None), manager("kubectl"));
    assert_eq!(ApplyMethod::of_pool(&stored, true, Some("flux")), manager("flux"));
}

#[test]
fn a_field_that_the_manifest_no_longer_has_is_removed_and_those_of_others_stay() {
    let former = manifest(&json!({ "labels": { "tier": "web", "team": "a" }, "disks": [1, 2] }));
    let wanted = manifest(&json!({ "labels": { "tier": "db" }, "disks": [1] }));
    let patch = client_side_patch(&wanted, &stored(&[], Some(&former))).unwrap();
    let template = json!({ "labels": { "tier": "db", "team": null }, "disks": [1] });
    assert_eq!(patch["spec"], json!({ "template": template }));
    assert_eq!(patch["metadata"]["uid"], "u");
    assert_eq!(patch["metadata"]["annotations"][LAST_APPLIED], wanted.to_string());
}

#[test]
fn a_pool_that_was_not_applied_loses_no_field() {
    let wanted = manifest(&json!({ "labels": { "tier": "web" } }));
    let patch = client_side_patch(&wanted, &stored(&[], None)).unwrap();
    assert_eq!(patch["spec"], Value::Null);
}

#[test]
fn an_unreadable_annotation_is_an_error() {
    let mut stored = stored(&[], Some(&json!({})));
    stored["metadata"]["annotations"][LAST_APPLIED] = "{".into();
    let error = client_side_patch(&manifest(&json!({})), &stored).unwrap_err().to_string();
    assert!(error.contains(LAST_APPLIED), "{error}");
}

#[test]
fn a_manifest_loses_the_fields_that_only_the_server_sets() {
    let text = "{apiVersion: example.com/v1, kind: Pool, status: {a: 1}, \
                metadata: {name: web, resourceVersion: '3', labels: {a: b}, managedFields: []}}";
    let read = read_manifest(text, &stored(&[], None)).unwrap();
    assert_eq!(
        read,
        json!({ "apiVersion": "example.com/v1", "kind": "Pool", "metadata": { "name": "web", "labels": { "a": "b" } } })
    );
}

#[rstest]
#[case::another_name("{apiVersion: example.com/v1, kind: Pool, metadata: {name: db}}", "name")]
#[case::another_namespace(
    "{apiVersion: example.com/v1, kind: Pool, metadata: {name: web, namespace: b}}",
    "namespace"
)]
#[case::another_kind("{apiVersion: example.com/v1, kind: Job, metadata: {name: web}}", "kind")]
#[case::no_yaml("{", "YAML")]
fn a_manifest_of_another_object_is_refused(#[case] text: &str, #[case] word: &str) {
    let error = read_manifest(text, &stored(&[], None)).unwrap_err().to_string();
    assert!(error.contains(word), "{error}");
}
