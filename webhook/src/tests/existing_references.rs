//! Machines of wrappers and pools that refer to an image which is being deleted.

use rstest::rstest;

use super::*;
use crate::images::REFERENCES_PATH;

const NAMESPACE: &str = "/apis/vmpool.dev/v1alpha1/namespaces/team-a";
const POOL: &str = "/apis/pool.kubevirt.io/v1beta1/namespaces/team-a/virtualmachinepools/farm";
const REVISION: &str = "/apis/apps/v1/namespaces/team-a/controllerrevisions/farm-1";

/// The DataVolume templates of a machine whose disk is a clone of this image.
fn clones_of(image: &str) -> Value {
    json!([{ "spec": { "sourceRef": { "kind": "DataSource", "name": image, "namespace": "team-a" } } }])
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true })
}

fn wrapper_owner() -> Value {
    owner("vmpool.dev/v1alpha1", "VirtualMachine", "web", "wrapper-1")
}

fn pool_owner() -> Value {
    owner("pool.kubevirt.io/v1beta1", "VirtualMachinePool", "farm", "pool-1")
}

/// A machine with this owner.
fn machine(owner: &Value) -> Value {
    json!({
        "kind": "VirtualMachine",
        "metadata": { "name": "web", "ownerReferences": [owner],
            "labels": { "kubevirt.io/vm-pool-revision-name": "farm-1" } },
        "spec": { "dataVolumeTemplates": clones_of("debian") },
    })
}

/// A wrapper with this mark.
fn wrapper(mark: &Value) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": "web", "namespace": "team-a", "uid": "wrapper-1" },
        "spec": { "vmDiskImageRef": { "name": "debian" }, "virtualMachineTemplate": { "spec": {} } },
        "status": { "vmDiskImage": mark },
    })
}

fn mark(uid: &str, bound: bool) -> Value {
    json!({ "namespace": "team-a", "name": "debian", "uid": uid, "bound": bound })
}

/// A webhook, and an image that is being deleted.
fn with_terminating_image() -> World {
    let world = World::certified();
    let image = json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage",
        "metadata": { "name": "debian", "uid": "image-1", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "sourceType": "blank", "diskSize": "1Gi" },
    });
    world.store(&format!("{NAMESPACE}/vmdiskimages/debian"), image);
    world
}

async fn verdict(world: &World, machine: &Value) -> Value {
    let response = world.creates(REFERENCES_PATH, machine).await;
    let message = response["status"]["message"].as_str().unwrap_or_default();
    assert_eq!(response["allowed"] == false, message.contains("(rule V5)"), "{response}");
    response["allowed"].clone()
}

#[tokio::test]
async fn a_machine_of_a_bound_wrapper_is_no_new_reference() {
    let world = with_terminating_image();
    world.store(&format!("{NAMESPACE}/wrappedvirtualmachines/web"), wrapper(&mark("image-1", true)));
    assert_eq!(verdict(&world, &machine(&wrapper_owner())).await, true);
    let paths =
        ["vmdiskimages/debian", "wrappedvirtualmachines/web"].map(|path| format!("{NAMESPACE}/{path}"));
    assert_eq!(world.server.requests(), paths, "two reads");
}

#[rstest]
#[case::that_does_not_exist(wrapper_owner(), None)]
#[case::of_another_uid(
    owner("vmpool.dev/v1alpha1", "VirtualMachine", "web", "forged"),
    Some(mark("image-1", true))
)]
#[case::without_a_uid(owner("vmpool.dev/v1alpha1", "VirtualMachine", "web", ""), Some(mark("image-1", true)))]
#[case::that_is_not_bound(wrapper_owner(), Some(mark("image-1", false)))]
#[case::that_is_bound_to_a_former_image(wrapper_owner(), Some(mark("image-0", true)))]
#[case::without_a_mark(wrapper_owner(), Some(Value::Null))]
#[case::of_another_group(
    owner("example.com/v1alpha1", "VirtualMachine", "web", "wrapper-1"),
    Some(mark("image-1", true))
)]
#[tokio::test]
async fn a_copied_owner_reference_does_not_permit_a_new_reference_for_a_wrapper(
    #[case] owner: Value,
    #[case] mark: Option<Value>,
) {
    let world = with_terminating_image();
    if let Some(mark) = mark {
        world.store(&format!("{NAMESPACE}/wrappedvirtualmachines/web"), wrapper(&mark));
    }
    assert_eq!(verdict(&world, &machine(&owner)).await, false);
}

#[tokio::test]
async fn only_the_controller_of_a_machine_counts_as_its_wrapper() {
    let world = with_terminating_image();
    world.store(&format!("{NAMESPACE}/wrappedvirtualmachines/web"), wrapper(&mark("image-1", true)));
    let mut owner = wrapper_owner();
    owner["controller"] = json!(false);
    assert_eq!(verdict(&world, &machine(&owner)).await, false);
}

#[rstest]
#[case::whose_template_names_the_image("pool-1", Some("debian"), None, true)]
#[case::whose_revision_names_the_image("pool-1", Some("other"), Some("debian"), true)]
#[case::that_is_gone_with_a_revision("pool-1", None, Some("debian"), true)]
#[case::that_names_another_image("pool-1", Some("other"), Some("other"), false)]
#[case::of_another_uid("forged", Some("debian"), Some("debian"), false)]
#[case::that_does_not_exist("pool-1", None, None, false)]
#[tokio::test]
async fn a_machine_is_created_for_a_pool(
    #[case] uid: &str,
    #[case] template: Option<&str>,
    #[case] revision: Option<&str>,
    #[case] allowed: bool,
) {
    let world = with_terminating_image();
    let spec = |image: &str| json!({ "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": clones_of(image) } } });
    if let Some(image) = template {
        world.store(POOL, json!({ "metadata": { "name": "farm", "uid": "pool-1" }, "spec": spec(image) }));
    }
    if let Some(image) = revision {
        let metadata = json!({ "name": "farm-1", "ownerReferences": [pool_owner()] });
        world.store(REVISION, json!({ "metadata": metadata, "data": spec(image) }));
    }
    let mut owner = pool_owner();
    owner["uid"] = json!(uid);
    assert_eq!(verdict(&world, &machine(&owner)).await, allowed);
}

#[tokio::test]
async fn a_wrapper_that_cannot_be_read_does_not_stop_its_machine() {
    let world = with_terminating_image();
    let path = format!("{NAMESPACE}/wrappedvirtualmachines/web");
    let failure = (StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": "etcd is slow" }));
    world.server.0.lock().objects.insert(path, failure);
    assert_eq!(verdict(&world, &machine(&wrapper_owner())).await, true);
}

const LATEST: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/team-a/datasources/latest";

/// Stores the DataSource `latest` with this source.
fn store_alias(world: &World, source: &Value) {
    let metadata = json!({ "name": "latest", "namespace": "team-a" });
    world.store(LATEST, json!({ "metadata": metadata, "spec": { "source": source } }));
}

#[rstest]
#[case::to_its_data_source(json!({ "dataSource": { "name": "debian", "namespace": "team-a" } }), false)]
#[case::to_its_snapshot(json!({ "snapshot": { "name": "debian", "namespace": "team-a" } }), false)]
#[case::to_its_claim(json!({ "pvc": { "name": "debian", "namespace": "team-a" } }), false)]
#[case::to_another_snapshot(json!({ "snapshot": { "name": "fedora", "namespace": "team-a" } }), true)]
#[case::to_another_namespace(json!({ "snapshot": { "name": "debian", "namespace": "team-b" } }), true)]
#[tokio::test]
async fn an_alias_of_an_image_that_is_being_deleted_is_refused(#[case] source: Value, #[case] allowed: bool) {
    let world = with_terminating_image();
    store_alias(&world, &source);
    let mut machine = machine(&owner("example.com/v1", "Team", "a", "a"));
    machine["spec"]["dataVolumeTemplates"] = clones_of("latest");
    assert_eq!(verdict(&world, &machine).await, allowed);
}

#[rstest]
#[case::that_names_the_alias("latest", true)]
#[case::that_names_another_image("other", false)]
#[tokio::test]
async fn a_machine_of_a_pool_through_an_alias_is_no_new_reference(
    #[case] named: &str,
    #[case] allowed: bool,
) {
    let world = with_terminating_image();
    store_alias(&world, &json!({ "snapshot": { "name": "debian", "namespace": "team-a" } }));
    let spec = json!({ "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": clones_of(named) } } });
    world.store(POOL, json!({ "metadata": { "name": "farm", "uid": "pool-1" }, "spec": spec }));
    let mut machine = machine(&pool_owner());
    machine["spec"]["dataVolumeTemplates"] = clones_of("latest");
    assert_eq!(verdict(&world, &machine).await, allowed);
}
