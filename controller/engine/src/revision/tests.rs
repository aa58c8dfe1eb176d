use super::*;
use serde_json::json;

#[test]
fn the_id_of_a_template_never_changes() {
    // A fixed value on purpose: changing the hash would make every pool of every user look outdated.
    let id = RevisionId::of(&json!({"spec": {"cpu": {"cores": 1}}, "metadata": {"labels": {"a": "b"}}}));
    assert_eq!(id.as_str(), "a2b9efb21fdcca10");
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
