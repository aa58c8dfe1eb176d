use rstest::rstest;
use serde_json::json;

use super::*;

/// A patch of a machine at version 7.
fn patch(resource: &str, kind: PatchKind, labels: &Value) -> Call {
    Call {
        sender: "controller-1".to_owned(),
        verb: Verb::Patch(kind),
        group: "kubevirt.io".to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: "team".to_owned(),
        name: "web-0".to_owned(),
        subresource: String::new(),
        query: Vec::new(),
        body: json!({ "metadata": { "uid": "u", "resourceVersion": "7", "labels": labels } }),
    }
}

#[rstest]
#[case::an_activation("virtualmachines", PatchKind::Merge, json!({ STANDBY: null }), true)]
#[case::the_end_of_a_warm_up("virtualmachines", PatchKind::Merge, json!({ STANDBY: "stopped" }), false)]
#[case::an_update("virtualmachines", PatchKind::Merge, json!({ "app": null }), false)]
#[case::a_patch_of_another_kind("virtualmachines", PatchKind::Json, json!({ STANDBY: null }), false)]
#[case::another_resource("virtualdisks", PatchKind::Merge, json!({ STANDBY: null }), false)]
fn an_activation_is_recognized_by_the_label_that_it_removes(
    #[case] resource: &str,
    #[case] kind: PatchKind,
    #[case] labels: Value,
    #[case] expected: bool,
) {
    let found = activated_version(&patch(resource, kind, &labels));
    assert_eq!(found, expected.then(|| ("u".to_owned(), 7)));
}
