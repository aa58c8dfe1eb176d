use rstest::rstest;

use super::super::read::NameGenerationSettings;
use super::*;

/// A template with two disks, of which the second is shared.
fn content() -> Value {
    json!({ "spec": {
        "dataVolumeTemplates": [{ "metadata": { "name": "root" }, "spec": {} }],
        "template": { "spec": { "volumes": [
            { "name": "root", "dataVolume": { "name": "root" } },
            { "name": "tools", "persistentVolumeClaim": { "claimName": "tools" } },
        ] } },
    } })
}

fn template(content: &Value) -> RevisionTemplate<'_> {
    RevisionTemplate { content, names: NameGenerationSettings::default(), pins: &Value::Null }
}

/// The moves of a machine with these DataVolume templates and this volume `root`.
fn moves(templates: &[&str], root: &Value) -> Option<String> {
    let templates: Vec<Value> =
        templates.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
    let mut volume = root.clone();
    volume["name"] = json!("root");
    let shared = json!({ "name": "tools", "persistentVolumeClaim": { "claimName": "tools" } });
    let machine = json!({
        "metadata": { "name": "desk-1" },
        "spec": { "dataVolumeTemplates": templates, "template": { "spec": { "volumes": [volume, shared] } } },
    });
    let machine: KubeVirtMachineObject = serde_json::from_value(machine).unwrap();
    find_moves(template(&content()), 1, &machine)
}

#[rstest]
#[case::to_a_claim(&[], json!({ "persistentVolumeClaim": { "claimName": "fast-1" } }), Some("root-1=PersistentVolumeClaim/fast-1"))]
#[case::to_a_data_volume(&[], json!({ "dataVolume": { "name": "fast-1" } }), Some("root-1=DataVolume/fast-1"))]
#[case::with_another_template(&["fast-1"], json!({ "dataVolume": { "name": "fast-1" } }), Some("root-1=DataVolume/fast-1"))]
#[case::nothing(&["root-1"], json!({ "dataVolume": { "name": "root-1" } }), None)]
#[case::to_the_claim_of_the_data_volume(&[], json!({ "persistentVolumeClaim": { "claimName": "root-1" } }), None)]
#[case::without_the_removal_of_the_template(
    &["root-1"], json!({ "persistentVolumeClaim": { "claimName": "fast-1" } }), None)]
#[case::to_no_storage(&[], json!({ "emptyDisk": { "capacity": "1Gi" } }), None)]
fn a_volume_with_other_storage_was_moved(
    #[case] templates: &[&str],
    #[case] root: Value,
    #[case] expected: Option<&str>,
) {
    assert_eq!(moves(templates, &root).as_deref(), expected);
}

#[test]
fn the_next_machine_uses_the_moved_storage_and_its_moves_are_the_same() {
    for source in [
        json!({ "persistentVolumeClaim": { "claimName": "fast-1" } }),
        json!({ "dataVolume": { "name": "fast-1" } }),
    ] {
        let text = moves(&[], &source).unwrap();
        let mut spec = numbered_machine_spec(template(&content()), 1);
        apply_moves(&mut spec, &text);
        assert_eq!(spec["dataVolumeTemplates"], json!([]));
        let mut root = spec["template"]["spec"]["volumes"][0].clone();
        assert_eq!(root.as_object_mut().unwrap().remove("name"), Some(json!("root")));
        assert_eq!(root, source);
        assert_eq!(spec["template"]["spec"]["volumes"][1]["name"], "tools");
        assert_eq!(moves(&[], &root), Some(text));
    }
}

#[test]
fn a_move_away_from_storage_that_the_template_does_not_have_changes_nothing() {
    let mut spec = numbered_machine_spec(template(&content()), 1);
    let before = spec.clone();
    for text in ["data-1=DataVolume/fast-1", "root-2=DataVolume/fast-2", "root-1=Disk/a", "root-1", "", "=,/"]
    {
        apply_moves(&mut spec, text);
    }
    assert_eq!(spec, before);
}

#[test]
fn the_moves_of_a_pool_are_read_from_its_annotations() {
    let patch = record_moves(1, Some("root-1=DataVolume/fast-1"));
    let metadata: ObjectMeta = serde_json::from_value(patch["metadata"].clone()).unwrap();
    assert_eq!(recorded_moves(&metadata), BTreeMap::from([(1, "root-1=DataVolume/fast-1".into())]));
    assert_eq!(record_moves(1, None)["metadata"]["annotations"]["vmpool.dev/moved-storage-1"], Value::Null);
    let expected = StorageMove { from: "root-1".to_owned(), to: "fast-1".to_owned() };
    assert_eq!(read_moves("root-1=DataVolume/fast-1,other"), [expected]);
}
