use super::*;
use serde_json::json;

#[test]
fn the_id_of_a_template_never_changes() {
    // The value is fixed: another hash would make all pools of all users outdated.
    let id = RevisionId::of(&json!({"spec": {"cpu": {"cores": 1}}, "metadata": {"labels": {"a": "b"}}}));
    assert_eq!(id.as_str(), "a2b9efb21fdcca10");
}

#[test]
fn the_object_of_a_revision_has_two_names_that_never_change() {
    let names =
        RevisionId::from("a2b9efb21fdcca10").object_names("web", "6B1E3F0A-5d8c-4f7e-9a21-3c4d5e6f7081");
    assert_eq!(names, ["web-a2b9efb21fdcca10", "web-a2b9efb21fdcca10-6b1e3f0a"]);
    let short = RevisionId::from("r").object_names("web", "1-2-3");
    assert_eq!(short, ["web-r", "web-r-123"]);
}

#[test]
fn absent_null_and_empty_are_the_same() {
    let plain = RevisionId::of(&json!({"spec": {"cores": 1}}));
    assert_eq!(plain, RevisionId::of(&json!({"spec": {"cores": 1, "x": null}, "metadata": {}})));
    assert_eq!(plain, RevisionId::of(&json!({"metadata": {"labels": {}}, "spec": {"cores": 1}})));
}

#[test]
fn order_of_lists_and_every_value_matter() {
    let ids: std::collections::BTreeSet<_> = [
        json!({"l": [1, 2]}),
        json!({"l": [2, 1]}),
        json!({"l": [1, 2, null]}),
        json!({"l": "12"}),
        json!({"l": []}),
        json!({}),
    ]
    .iter()
    .map(RevisionId::of)
    .collect();
    assert_eq!(ids.len(), 6);
}
