//! Operations about disk images and wrappers.

use serde_json::{Value, json};
use vmpool_model::{Call, PatchKind, Verb};

use crate::manifest_kubevirt::{self as kubevirt, LABEL};
use crate::requests::{
    choose_from, choose_object, delete_selected_object, delete_with, patch_pool_spec, stored_pool,
};
use crate::world::{NAMESPACE, OTHER_NAMESPACE, SimulatedWorld};

const IMAGES: &str = "vmdiskimages.vmpool.dev";
const WRAPPERS: &str = "wrappedvirtualmachines.vmpool.dev";
pub(crate) const VOLUMES: &str = "datavolumes.cdi.kubevirt.io";
const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The objects with the data of an image, and the fields of its status that name them.
const DATA: [(&str, &str); 4] = [
    ("datasources.cdi.kubevirt.io", "dataSource"),
    (SNAPSHOTS, "snapshot"),
    (VOLUMES, "dataVolume"),
    ("persistentvolumeclaims", "claim"),
];

/// One step. Numbers select an object among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageOperation {
    /// Creates an image with this name and this time to live.
    Create(&'static str, Option<&'static str>),
    /// Deletes an image. The number also selects the propagation policy.
    Delete(usize),
    /// Releases an image in spite of its references.
    Release(usize),
    /// A user removes the finalizer of an image that is being deleted.
    RemoveFinalizer(usize),
    /// Sets or removes the time to live of an image.
    SetTimeToLive(usize, Option<&'static str>),
    /// A user deletes an object with the data of an image. The first number selects the kind.
    LoseData(usize, usize),
    /// A user removes the labels of an object with the data of an image. The first number selects the kind.
    LoseLabels(usize, usize),
    /// A user deletes the DataVolume of an image, and its claim stays.
    KeepClaim(usize),
    /// CDI reports the import of an image as failed.
    FailImport(usize),
    /// CDI reports the clone for the machine of a wrapper as failed.
    FailClone(usize),
    /// A user deletes the DataVolume, or with `true` the claim, of the machine of a wrapper.
    LoseDisk(bool, usize),
    /// The cluster does not serve snapshots, or does again. Only before it has any.
    ServeSnapshots(bool),
    /// A quota forbids new snapshots, or not any more.
    SnapshotQuota(bool),
    /// Creates a wrapper with this name for this image; with `true`, it creates a missing image.
    CreateWrapper(&'static str, &'static str, bool),
    /// Deletes a wrapper.
    DeleteWrapper(usize),
    /// Creates a machine with this name whose disk is a clone of this image.
    CreateMachine(&'static str, &'static str),
    /// Creates or deletes the grant for the other namespace.
    Grant(bool),
    /// Creates a wrapper with this name for this image, in the other namespace.
    CreateGuestWrapper(&'static str, &'static str),
    /// Creates a machine with this name whose disk is a clone of this image, in the other namespace.
    CreateGuestMachine(&'static str, &'static str),
    /// Deletes a wrapper, or with `true` a machine, of the other namespace.
    DeleteGuest(bool, usize),
    /// Makes the disks of the pool clones of this image, or empty disks.
    UseInPool(Option<&'static str>),
}

/// The source of a DataVolume that clones an image.
fn of_image(image: &str) -> Value {
    json!({ "kind": "DataSource", "name": image, "namespace": NAMESPACE })
}

/// A wrapper of an image.
fn wrapper(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": name },
        "spec": {
            "vmDiskImageRef": { "name": image, "namespace": NAMESPACE },
            "virtualMachineTemplate": { "spec": {
                "runStrategy": "Always",
                "template": { "spec": { "domain": { "devices": {} } } },
            } },
        },
    })
}

/// The spec of a machine whose disk is a clone of the image.
fn machine(name: &str, image: &str) -> Value {
    let disk = format!("{name}-root");
    json!({
        "runStrategy": "Always",
        "dataVolumeTemplates": [{
            "metadata": { "name": disk },
            "spec": { "storage": {}, "sourceRef": of_image(image) },
        }],
        "template": {
            "metadata": { "labels": { (LABEL): "own" } },
            "spec": {
                "domain": { "devices": { "disks": [kubevirt::disk_device("root")] } },
                "volumes": [{ "name": "root", "dataVolume": { "name": disk } }],
            },
        },
    })
}

/// The spec of an image that the simulator imports without a server. An empty disk would need no place in the
/// queue.
fn imported() -> Value {
    let url = "docker://registry.example.com/disk:1";
    json!({ "sourceType": "registry", "url": url, "diskSize": "64Mi" })
}

impl ImageOperation {
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::Create(name, ttl) => {
                let mut spec = imported();
                if let Some(ttl) = ttl {
                    spec["ttlAfterUnreferenced"] = json!(ttl);
                }
                let image = json!({
                    "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage",
                    "metadata": { "name": name }, "spec": spec,
                });
                world.create("vmdiskimages", image).await;
            }
            Self::Delete(which) => {
                let policy = ["Background", "Foreground", "Orphan"][*which % 3];
                delete_with(world, IMAGES, *which, json!({ "propagationPolicy": policy })).await;
            }
            Self::Release(which) => {
                let released = json!({ "vmpool.dev/force-release": "true" });
                patch(world, *which, json!({ "metadata": { "annotations": released } })).await;
            }
            Self::RemoveFinalizer(which) => remove_finalizer(world, *which).await,
            Self::SetTimeToLive(which, ttl) => {
                patch(world, *which, json!({ "spec": { "ttlAfterUnreferenced": ttl } })).await;
            }
            Self::LoseData(kind, which) => {
                lose_data(world, DATA[kind % DATA.len()].0, *which, Value::Null).await;
            }
            Self::LoseLabels(kind, which) => lose_labels(world, DATA[kind % DATA.len()], *which).await,
            Self::KeepClaim(which) => {
                let options = json!({ "propagationPolicy": "Orphan" });
                lose_data(world, VOLUMES, *which, options).await;
            }
            Self::FailImport(which) => {
                if let Some((name, _)) = choose_object(world, IMAGES, *which) {
                    fail(world, &name).await;
                }
            }
            Self::FailClone(which) => {
                if let Some((name, _)) = choose_object(world, WRAPPERS, *which) {
                    fail(world, &format!("{name}-root")).await;
                }
            }
            Self::LoseDisk(is_claim, which) => lose_disk(world, *is_claim, *which).await,
            Self::ServeSnapshots(are_served) => serve_snapshots(world, *are_served),
            Self::SnapshotQuota(forbids) => world.injector.lock().snapshot_quota = *forbids,
            Self::CreateWrapper(name, image, creates) => {
                let mut wrapper = wrapper(name, image);
                if *creates {
                    wrapper["spec"]["vmDiskImageTemplate"] = imported();
                }
                world.create("wrappedvirtualmachines", wrapper).await;
            }
            Self::DeleteWrapper(which) => delete_selected_object(world, WRAPPERS, *which).await,
            Self::CreateMachine(name, image) => {
                let own = own_machine(name, image);
                world.create("virtualmachines", own).await;
            }
            Self::Grant(true) => {
                let grant = json!({
                    "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImageGrant",
                    "metadata": { "name": OTHER_NAMESPACE }, "spec": { "from": [{ "namespace": OTHER_NAMESPACE }] },
                });
                world.create("vmdiskimagegrants", grant).await;
            }
            Self::Grant(false) => {
                let call = world.call(Verb::Delete, "vmdiskimagegrants", OTHER_NAMESPACE, "", Value::Null);
                _ = world.do_as_user(&call).await;
            }
            Self::CreateGuestWrapper(name, image) => {
                let mut wrapper = wrapper(name, image);
                // Each guest has an account of its own, so that the permission to clone loses one and keeps
                // others.
                wrapper["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["serviceAccountName"] =
                    json!(name);
                let call = world.call(Verb::Create, "wrappedvirtualmachines", "", "", wrapper);
                _ = world.do_as_user(&in_other_namespace(call)).await;
            }
            Self::CreateGuestMachine(name, image) => {
                let mut machine = own_machine(name, image);
                machine["spec"]["template"]["spec"]["serviceAccountName"] = json!(name);
                let call = world.call(Verb::Create, "virtualmachines", "", "", machine);
                _ = world.do_as_user(&in_other_namespace(call)).await;
            }
            Self::DeleteGuest(machine, which) => {
                let (resource, plural) = if *machine {
                    ("virtualmachines.kubevirt.io", "virtualmachines")
                } else {
                    (WRAPPERS, "wrappedvirtualmachines")
                };
                let is_guest = |namespace: Option<&str>| namespace == Some(OTHER_NAMESPACE);
                let Some((name, uid)) = choose_from(world, resource, *which, is_guest) else { return };
                world.user_actions.deleted.insert(uid);
                let call = world.call(Verb::Delete, plural, &name, "", Value::Null);
                _ = world.do_as_user(&in_other_namespace(call)).await;
            }
            Self::UseInPool(image) => use_in_pool(world, *image).await,
        }
    }
}

/// Adds or removes the definition of snapshots. One that has objects stays.
fn serve_snapshots(world: &SimulatedWorld, are_served: bool) {
    if are_served {
        let definition = json!({ "metadata": { "name": SNAPSHOTS } });
        _ = world.server.create_now(DEFINITIONS, definition);
    } else if world.server.all(SNAPSHOTS).is_empty() {
        _ = world.server.delete_now(DEFINITIONS, "", SNAPSHOTS, Value::Null);
    }
}

/// A machine of a user, whose disk is a clone of the image.
fn own_machine(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": name }, "spec": machine(name, image),
    })
}

/// The request in the other namespace.
fn in_other_namespace(call: Call) -> Call {
    Call { namespace: OTHER_NAMESPACE.to_owned(), ..call }
}

/// Patches an image.
async fn patch(world: &mut SimulatedWorld, which: usize, patch: Value) {
    let Some((name, _)) = choose_object(world, IMAGES, which) else { return };
    let call = world.call(Verb::Patch(PatchKind::Merge), "vmdiskimages", &name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// Removes the finalizers of an image that is being deleted, so that it is gone at once.
async fn remove_finalizer(world: &mut SimulatedWorld, which: usize) {
    let images = world.server.all(IMAGES);
    let mut deleted = images.iter().filter(|image| !image["metadata"]["deletionTimestamp"].is_null());
    let count = deleted.clone().count();
    let Some(image) = deleted.nth(which % count.max(1)) else { return };
    let name = image["metadata"]["name"].as_str().unwrap_or_default();
    let uid = image["metadata"]["uid"].as_str().unwrap_or_default();
    world.image_references.remove_by_user(uid);
    let patch = json!({ "metadata": { "uid": uid, "finalizers": null } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "vmdiskimages", name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// Name and UID of an object that has the name of an image.
fn choose_data(world: &SimulatedWorld, resource: &str, which: usize) -> Option<(String, String)> {
    let (name, _) = choose_object(world, IMAGES, which)?;
    let all = world.server.all(resource);
    let found = all.iter().find(|object| object["metadata"]["name"] == *name);
    let uid = found?["metadata"]["uid"].as_str()?.to_owned();
    Some((name, uid))
}

/// Deletes an object that has the name of an image.
async fn lose_data(world: &mut SimulatedWorld, resource: &str, which: usize, options: Value) {
    let Some((name, uid)) = choose_data(world, resource, which) else { return };
    world.some_may_not_run = true;
    world.user_actions.deleted.insert(uid);
    let plural = resource.split('.').next().unwrap_or_default();
    let call = world.call(Verb::Delete, plural, &name, "", options);
    _ = world.do_as_user(&call).await;
}

/// CDI reports the transfer of a DataVolume as failed. One that has succeeded does not fail.
async fn fail(world: &mut SimulatedWorld, name: &str) {
    let volume = world.server.get(VOLUMES, NAMESPACE, name);
    let Some(volume) = volume.filter(|volume| volume["status"]["phase"] != "Succeeded") else { return };
    world.some_may_not_run = true;
    let failed = json!({ "simulator.vmpool.dev/hold-phase": "Failed" });
    let patch = json!({ "metadata": { "uid": volume["metadata"]["uid"], "annotations": failed } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "datavolumes", name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// Deletes the DataVolume or the claim of the machine of a wrapper.
async fn lose_disk(world: &mut SimulatedWorld, is_claim: bool, which: usize) {
    let Some((name, _)) = choose_object(world, WRAPPERS, which) else { return };
    let (resource, plural) = if is_claim {
        ("persistentvolumeclaims", "persistentvolumeclaims")
    } else {
        (VOLUMES, "datavolumes")
    };
    let name = format!("{name}-root");
    let Some(disk) = world.server.get(resource, NAMESPACE, &name) else { return };
    world.some_may_not_run = true;
    world.user_actions.deleted.extend(disk["metadata"]["uid"].as_str().map(str::to_owned));
    world.deleted_disks.insert(name.clone());
    let call = world.call(Verb::Delete, plural, &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}

/// Removes the labels of an object. Before the status of the image has its UID, nothing else says whose it
/// is.
async fn lose_labels(world: &mut SimulatedWorld, (resource, field): (&str, &str), which: usize) {
    let Some((name, uid)) = choose_data(world, resource, which) else { return };
    let image = world.server.get(IMAGES, NAMESPACE, &name);
    if image.is_none_or(|image| image["status"][field]["uid"] != *uid) {
        return;
    }
    let plural = resource.split('.').next().unwrap_or_default();
    let patch = json!({ "metadata": { "uid": uid, "labels": null } });
    let call = world.call(Verb::Patch(PatchKind::Merge), plural, &name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// The disks of the pool get another source.
pub(crate) async fn use_in_pool(world: &mut SimulatedWorld, image: Option<&'static str>) {
    let Some(pool) = stored_pool(world) else { return };
    let pointer = "/spec/virtualMachineTemplate/spec/dataVolumeTemplates";
    let Some(Value::Array(mut templates)) = pool.pointer(pointer).cloned() else { return };
    world.some_may_not_run = true;
    for template in &mut templates {
        template["spec"] = match image {
            Some(image) => json!({ "storage": {}, "sourceRef": of_image(image) }),
            None => kubevirt::data_volume_template("root")["spec"].clone(),
        };
    }
    patch_pool_spec(
        world,
        json!({ "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": templates } } }),
    )
    .await;
}
