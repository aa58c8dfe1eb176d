use rstest::rstest;
use vmpool_platforms::Dvp;

use super::*;

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";

fn pool() -> Value {
    let templates = json!([
        { "name": "root", "spec": {} },
        { "name": "home", "spec": {}, "reclaim": { "onScaleDown": "Retain" } },
    ]);
    let devices =
        json!([{ "kind": "VirtualDisk", "name": "root" }, { "kind": "VirtualDisk", "name": "home" }]);
    json!({
        "metadata": { "name": "web", "namespace": "team", "uid": "new" },
        "spec": {
            "replicas": 1, "scaleDownPolicy": "NewestFirst", "virtualDiskTemplates": templates,
            "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } },
        },
    })
}

/// A restored machine with its two disks.
fn machine() -> Value {
    let disks = json!({ "root": "web-a-root", "home": "web-home-1" }).to_string();
    let devices = json!([{ "kind": "VirtualDisk", "name": "web-a-root" }, { "kind": "VirtualDisk", "name": "web-home-1" }]);
    json!({
        "metadata": {
            "name": "web-a", "namespace": "team", "uid": "machine",
            "labels": { format!("{PREFIX}/pool-uid"): "former", "role": "former" },
            "annotations": { format!("{PREFIX}/disks"): disks },
        },
        "spec": { "blockDeviceRefs": devices },
    })
}

fn disk(name: &str, template: &str) -> Value {
    let labels =
        json!({ format!("{PREFIX}/pool-uid"): "former", format!("{PREFIX}/disk-template"): template });
    json!({ "metadata": { "name": name, "namespace": "team", "uid": "disk", "labels": labels }, "spec": {} })
}

#[test]
fn the_pool_becomes_the_controller_and_other_owners_stay() {
    let facts = decode_pool::<Dvp>(&pool()).unwrap().1;
    let mut object = machine();
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other" });
    let former =
        json!({ "apiVersion": "v1", "kind": "A", "name": "web", "uid": "former", "controller": true });
    object["metadata"]["ownerReferences"] = json!([other, former]);
    let patch = ownership_patch::<Dvp>(&object, &facts, &"former".into());
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]), (2, &other));
    assert_eq!((&owners[1]["uid"], &owners[1]["controller"]), (&json!("new"), &json!(true)));
    // Every label with the former UID follows, whatever its key is.
    let labels = json!({ format!("{PREFIX}/pool-uid"): "new", "role": "new" });
    assert_eq!(patch["metadata"]["labels"], labels);
}

#[rstest]
#[case::an_ephemeral_disk_of_its_machine("web-a-root", "root", true, Some("machine"))]
#[case::an_ephemeral_disk_without_its_machine("web-a-root", "root", false, None)]
#[case::a_retained_disk_in_use("web-home-1", "home", true, Some("new"))]
#[case::a_retained_disk_that_is_free("web-home-2", "home", false, Some("new"))]
#[case::a_disk_whose_template_was_removed("web-a-old", "old", true, None)]
fn a_disk_gets_the_owner_that_its_template_says(
    #[case] name: &str,
    #[case] template: &str,
    #[case] is_machine_restored: bool,
    #[case] owner: Option<&str>,
) {
    let object = decode_pool::<Dvp>(&pool()).unwrap().0;
    let machines = if is_machine_restored { vec![machine()] } else { Vec::new() };
    let patch = disk_ownership_patch::<Dvp>(&disk(name, template), &object, &machines).unwrap();
    let found = patch.as_ref().map(|patch| &patch["metadata"]["ownerReferences"][0]["uid"]);
    assert_eq!(found, owner.map(|uid| json!(uid)).as_ref());
}

#[rstest]
#[case::without_owners(json!([]), true)]
#[case::with_its_former_owner(json!([{ "apiVersion": "a", "kind": "A", "name": "web", "uid": "former", "controller": true }]), true)]
#[case::with_an_owner_that_is_no_controller(json!([{ "apiVersion": "a", "kind": "A", "name": "web", "uid": "u" }]), true)]
#[case::of_another_controller(json!([{ "apiVersion": "a", "kind": "A", "name": "web", "uid": "u", "controller": true }]), false)]
fn only_what_nothing_controls_is_adopted(#[case] owners: Value, #[case] is_adopted: bool) {
    let facts = decode_pool::<Dvp>(&pool()).unwrap().1;
    let mut object = machine();
    object["metadata"]["ownerReferences"] = owners;
    let found = filter_ownerless::<Dvp>(vec![object], &facts, &"former".into(), PoolPart::Machine);
    assert_eq!(found.len(), usize::from(is_adopted));
    assert_eq!(
        filter_ownerless::<Dvp>(found, &facts, &"another".into(), PoolPart::Machine),
        Vec::<Value>::new()
    );
}
