use super::*;

fn stored(revision: &str, number: i64, current: bool) -> RevisionRow {
    RevisionRow {
        revision: revision.into(),
        number,
        created: None,
        current,
        machines: None,
        copies: Vec::new(),
        content: Value::Null,
    }
}

#[test]
fn a_rollback_without_a_name_goes_to_the_last_other_template() {
    let history = [stored("a", 1, false), stored("b", 2, false), stored("c", 3, true)];
    assert_eq!(previous_revision(&history).unwrap().revision, "b");
    let after_rollback = [stored("a", 1, false), stored("b", 4, true), stored("c", 3, false)];
    assert_eq!(previous_revision(&after_rollback).unwrap().revision, "c");
    assert!(previous_revision(&[stored("a", 1, true)]).is_none());
}

#[test]
fn a_revision_is_found_by_name_and_by_number() {
    let history = [stored("web-1", 1, false), stored("2", 7, true)];
    assert_eq!(find_revision(&history, "web-1", "web").unwrap().number, 1);
    assert_eq!(find_revision(&history, "2", "web").unwrap().number, 7);
    assert_eq!(find_revision(&history, "1", "web").unwrap().revision, "web-1");
    let error = find_revision(&history, "9", "web").unwrap_err().to_string();
    assert_eq!(error, "pool web has no stored revision 9; it has: web-1, 2");
}

#[test]
fn a_difference_has_the_unified_format() {
    let (from, to) = ("cpu: 1\nmemory: 1Gi\n", "cpu: 1\nmemory: 2Gi\n");
    let text = render_unified_diff(from, to, "pool web", "revision a");
    let plain = anstream::adapter::strip_str(&text).to_string();
    assert_eq!(plain, "--- pool web\n+++ revision a\n@@ -1,2 +1,2 @@\n cpu: 1\n-memory: 1Gi\n+memory: 2Gi\n");
}

#[test]
fn a_rollback_relies_on_the_template_and_the_pin_and_not_on_the_status() {
    let pool = json!({
        "metadata": { "uid": "u", "resourceVersion": "7", "annotations": { "pin": "a" } },
        "spec": { TEMPLATE: { "cpu": 1 }, "replicas": 2 },
        "status": { "readyReplicas": 1 },
    });
    let pins = ["/metadata/annotations/pin", "/spec/rollout/revision"];
    let operations = rollback_operations(&pool, &json!({ "cpu": 2 }), &pins);
    let tested: Vec<&str> = operations
        .iter()
        .filter(|operation| operation["op"] == "test")
        .filter_map(|operation| operation["path"].as_str())
        .collect();
    assert_eq!(tested, ["/metadata/uid", "/spec/virtualMachineTemplate", "/metadata/annotations/pin"]);
    let mut after = pool.clone();
    after["metadata"]["resourceVersion"] = json!("8");
    after["status"]["readyReplicas"] = json!(2);
    after["spec"]["replicas"] = json!(3);
    assert!(is_same_template(&pool, &after, &pins));
    after["spec"][TEMPLATE]["cpu"] = json!(3);
    assert!(!is_same_template(&pool, &after, &pins));
}
