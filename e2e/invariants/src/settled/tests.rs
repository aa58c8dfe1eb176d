use rstest::rstest;
use serde_json::json;

use super::*;

fn pool(shown: Option<&str>) -> JsonObject {
    let mut status =
        json!({ "replicas": 1, "readyReplicas": 0, "labelSelector": "", "currentRevision": "p-1" });
    if let Some(shown) = shown {
        status["instancetypeRef"] = json!({ "name": "small", "controllerRevisionRef": { "name": shown } });
    }
    JsonObject::new(json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "metadata": { "name": "p" }, "spec": {}, "status": status,
    }))
}

fn machine(revision: &str, copy: Option<&str>) -> JsonObject {
    JsonObject::new(json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "p-0", "labels": { "kubevirt.io/vm-pool-revision-name": revision } },
        "spec": { "instancetype": { "name": "small", "revisionName": copy } },
    }))
}

#[rstest]
#[case::the_copy_of_the_machines(pool(Some("copy")), machine("p-1", Some("copy")), 0)]
#[case::another_copy(pool(Some("other")), machine("p-1", Some("copy")), 1)]
#[case::none(pool(None), machine("p-1", Some("copy")), 1)]
#[case::one_that_machines_do_not_use(pool(Some("copy")), machine("p-1", None), 1)]
#[case::machines_of_an_earlier_revision(pool(Some("other")), machine("p-0", Some("copy")), 0)]
fn the_status_shows_the_copies_of_the_machines_of_its_revision(
    #[case] pool: JsonObject,
    #[case] machine: JsonObject,
    #[case] expected: usize,
) {
    assert_eq!(status_errors(&pool, &[&machine]).len(), expected);
}
