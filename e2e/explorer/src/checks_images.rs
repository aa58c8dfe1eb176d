//! The checks of disk images and wrappers in a settled world. After every change, `SimulatedWorld` checks
//! that no referenced image is deleted.

use std::sync::Arc;

use serde_json::Value;
use vmpool_invariants::object::JsonObject;

use crate::world::{NAMESPACE, SimulatedWorld};

const IMAGES: &str = "vmdiskimages.vmpool.dev";
const GRANTS: &str = "vmdiskimagegrants.vmpool.dev";
const WRAPPERS: &str = "wrappedvirtualmachines.vmpool.dev";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const VOLUMES: &str = "datavolumes.cdi.kubevirt.io";
const SOURCES: &str = "datasources.cdi.kubevirt.io";
const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";

/// Whether machines can clone an image, and may begin to.
fn is_ready(image: &Value) -> bool {
    image["status"]["phase"] == "Ready" && image["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the pool names an image that it must not use now.
pub(crate) fn waits_for_image(world: &SimulatedWorld, pool: &JsonObject) -> bool {
    let templates = pool.at("/spec/virtualMachineTemplate/spec/dataVolumeTemplates").as_array();
    let named = templates.into_iter().flatten().filter_map(|one| one["spec"]["sourceRef"]["name"].as_str());
    let mut images = named.map(|name| world.server.get(IMAGES, NAMESPACE, name));
    images.any(|image| image.is_none_or(|image| !is_ready(&image) && !holds(world, pool, &image)))
}

/// Whether the deletion of an image waits for a stored revision of the pool, so that the pool keeps working.
fn holds(world: &SimulatedWorld, pool: &JsonObject, image: &Value) -> bool {
    let uid = image["metadata"]["uid"].as_str().unwrap_or_default();
    let revisions = format!("controllerrevisions.apps {}-", pool.name());
    image["status"]["phase"] == "Ready"
        && !world.image_references.is_released(uid)
        && world.image_references.holders(uid).iter().any(|holder| holder.starts_with(&revisions))
}

/// All violations in a settled world.
pub(crate) fn settled_violations(world: &SimulatedWorld) -> Vec<String> {
    let images = world.server.all(IMAGES);
    let mut found: Vec<String> = images.iter().filter_map(|image| of_image(world, image)).collect();
    found.extend(without_evidence(world));
    found.extend(world.server.all(WRAPPERS).iter().filter_map(|wrapper| of_wrapper(world, wrapper)));
    found.extend(world.server.all(BINDINGS).iter().flat_map(|binding| of_binding(world, binding)));
    for resource in [BINDINGS, ROLES] {
        let exists = |uid: &Value| images.iter().any(|image| image["metadata"]["uid"] == *uid);
        let left = world.server.all(resource);
        let left = left.iter().filter(|object| !image_uid(object).is_null() && !exists(image_uid(object)));
        found.extend(left.map(|object| {
            format!("I9: {} permits to clone an image that is gone", object["metadata"]["name"])
        }));
    }
    let grants = world.server.all(GRANTS);
    let deleted = grants.iter().filter(|grant| !grant["metadata"]["deletionTimestamp"].is_null());
    found.extend(
        deleted.map(|grant| format!("I9: grant {} is still being deleted", grant["metadata"]["name"])),
    );
    found
}

/// The accounts that may clone although no grant permits it any more, or no object needs it.
fn of_binding(world: &SimulatedWorld, binding: &Value) -> Vec<String> {
    let owner = binding["metadata"]["namespace"].as_str().unwrap_or_default();
    let uid = image_uid(binding).as_str().unwrap_or_default();
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let accounts =
        subjects.filter_map(|subject| Some((subject["namespace"].as_str()?, subject["name"].as_str()?)));
    // A permission can be one of many accounts, so a grant of the namespace, or another account of it, is not
    // sufficient.
    let ungranted = accounts
        .filter(|(guests, account)| !world.image_references.may_clone(uid, guests, account))
        .map(|(guests, account)| {
            format!("I11: account {guests}/{account} may clone an image of {owner}, and no object with a grant needs that")
        });
    let images = world.server.all(IMAGES);
    let image = images.iter().find(|image| image["metadata"]["uid"] == *image_uid(binding));
    ungranted.chain(image.and_then(|image| clones_foreign_data(world, image))).collect()
}

/// The UID of an image in the label of an object.
fn image_uid(object: &Value) -> &Value {
    &object["metadata"]["labels"]["vmpool.dev/vmdiskimage-uid"]
}

/// Whether the permission to clone an image, which is one for a name, is one for data that is not of the
/// image.
fn clones_foreign_data(world: &SimulatedWorld, image: &Value) -> Option<String> {
    let (name, uid) = (image["metadata"]["name"].as_str()?, &image["metadata"]["uid"]);
    let sources = [("persistentvolumeclaims", "claim"), (SNAPSHOTS, "snapshot")];
    let found = sources.map(|(resource, field)| Some((world.server.get(resource, NAMESPACE, name)?, field)));
    if found.iter().all(Option::is_none) {
        return Some(format!("I11: another namespace may clone the name {name}, and the image has no data"));
    }
    // A user can have removed the label of an object that the status names.
    let is_foreign = |(object, field): &(Arc<Value>, &str)| {
        image_uid(object) != uid && image["status"][*field]["uid"] != object["metadata"]["uid"]
    };
    let (_, kind) = found.into_iter().flatten().find(is_foreign)?;
    Some(format!("I11: another namespace may clone the {kind} {name}, which is not of the image"))
}

fn of_image(world: &SimulatedWorld, image: &Value) -> Option<String> {
    let text = |pointer: &str| image.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (name, uid, phase) = (text("/metadata/name"), text("/metadata/uid"), text("/status/phase"));
    let holders = world.image_references.holders(uid);
    if image["metadata"]["deletionTimestamp"].is_null() {
        let count = |field: &str| image["status"][field].as_u64().unwrap_or_default();
        let counted = ["referenceCount", "poolReferenceCount", "cloneReferenceCount"].map(count);
        let counts = counted.iter().sum::<u64>() > 0;
        if counts == holders.is_empty() {
            return Some(format!(
                "I8: image {name} counts {counted:?} references, and there are {holders:?}"
            ));
        }
        return match phase {
            "Ready" | "Failed" => None,
            "Queued" if waits_for_user(world, image, name) => None,
            _ => Some(format!("I8: image {name} is still {phase} after settling")),
        };
    }
    // The annotation of a user ends the wait.
    let must_go = holders.is_empty() || world.image_references.is_released(uid);
    // References that were stored after the deletion timestamp may hold it, too.
    let blocked = image["status"]["conditions"].to_string().contains("\"InUse\"");
    (must_go && !blocked).then(|| format!("I8: image {name} is still being deleted, and nothing holds it"))
}

/// Whether the image waits until a user deletes a claim. A user has deleted the DataVolume and kept the
/// claim. Before the image was ready, nothing says whether the data in the claim is complete. After the
/// image, the claim is that of a former one. The controller deletes no claims. A user who has removed the
/// finalizer of a former image has kept all its data, and who has also removed the labels of an object has
/// kept it without a trace of the image.
fn waits_for_user(world: &SimulatedWorld, image: &Value, name: &str) -> bool {
    let images = world.server.all(IMAGES);
    let is_left = |resource: &str| {
        let found = world.server.get(resource, NAMESPACE, name);
        found.is_some_and(|object| match image_uid(&object) {
            Value::Null => created(&object) < created(image),
            uid => images.iter().all(|image| image["metadata"]["uid"] != *uid),
        })
    };
    let is_conflict = image["status"]["conditions"].to_string().contains("\"NameConflict\"");
    if is_conflict && [VOLUMES, SOURCES, SNAPSHOTS].into_iter().any(is_left) {
        return true;
    }
    let message = image["status"]["message"].as_str().unwrap_or_default();
    let claim = world.server.get("persistentvolumeclaims", NAMESPACE, name);
    let is_kept = claim.is_some_and(|claim| claim["metadata"]["ownerReferences"].is_null());
    let texts = [
        "PersistentVolumeClaim, which you must delete",
        "do not belong to the image: PersistentVolumeClaim.",
    ];
    is_kept && texts.iter().any(|text| message.contains(text))
}

fn created(object: &Value) -> Option<&str> {
    object["metadata"]["creationTimestamp"].as_str()
}

/// Ready images whose data cannot be cloned.
pub(crate) fn without_evidence(world: &SimulatedWorld) -> Vec<String> {
    let images = world.server.all(IMAGES);
    let ready = images.iter().filter(|image| is_ready(image));
    let lacking = ready.filter_map(|image| {
        let text = |field: &str| image["metadata"][field].as_str().unwrap_or_default();
        let lack = missing_evidence(world, text("name"), text("uid"))?;
        Some(format!("I8: image {} is ready, and its {lack}", text("name")))
    });
    lacking.collect()
}

/// What a ready image lacks: machines clone what its DataSource points to.
fn missing_evidence(world: &SimulatedWorld, name: &str, uid: &str) -> Option<String> {
    let get = |resource: &str, name: &str| {
        let found = world.server.get(resource, NAMESPACE, name);
        found.filter(|object| object["metadata"]["deletionTimestamp"].is_null())
    };
    let Some(source) = get(SOURCES, name) else {
        return Some("DataSource is missing".to_owned());
    };
    if source["metadata"]["labels"]["vmpool.dev/vmdiskimage-uid"] != uid {
        return Some("DataSource lacks the label".to_owned());
    }
    let target = &source["spec"]["source"];
    let named = |kind: &str| target[kind]["name"].as_str().filter(|_| target[kind]["namespace"] == NAMESPACE);
    let is_there = match (named("snapshot"), named("pvc")) {
        (Some(snapshot), None) => {
            get(SNAPSHOTS, snapshot).is_some_and(|snapshot| snapshot["status"]["readyToUse"] == true)
        }
        (None, Some(claim)) => {
            get("persistentvolumeclaims", claim).is_some_and(|claim| claim["status"]["phase"] == "Bound")
        }
        _ => false,
    };
    (!is_there).then(|| format!("DataSource points to nothing that can be cloned: {target}"))
}

fn of_wrapper(world: &SimulatedWorld, wrapper: &Value) -> Option<String> {
    let name = wrapper["metadata"]["name"].as_str().unwrap_or_default();
    let image = wrapper["spec"]["vmDiskImageRef"]["name"].as_str().unwrap_or_default();
    let stored = world.server.get(IMAGES, NAMESPACE, image);
    if !wrapper["metadata"]["deletionTimestamp"].is_null() {
        return Some(format!("I9: wrapper {name} is still being deleted"));
    }
    let namespace = wrapper["metadata"]["namespace"].as_str().unwrap_or_default();
    if !world.image_references.is_granted(NAMESPACE, namespace) {
        let says_so = wrapper["status"]["conditions"].to_string().contains("\"RefNotPermitted\"");
        return (!says_so).then(|| format!("I11: wrapper {name} does not say that it may not use its image"));
    }
    let Some(image) = stored else {
        let creates = wrapper["spec"]["vmDiskImageTemplate"].is_object();
        return creates.then(|| format!("I8: the image of wrapper {name} is missing"));
    };
    if !is_ready(&image) {
        return None;
    }
    let mark = &wrapper["status"]["vmDiskImage"];
    if mark["uid"] != image["metadata"]["uid"] || mark["bound"] != true {
        return Some(format!("I8: wrapper {name} is not bound to its ready image: {mark}"));
    }
    let Some(machine) = world.server.get(MACHINES, namespace, name) else {
        return Some(format!("I8: wrapper {name} of a ready image has no machine"));
    };
    // A user may have given the machine to the pool, or taken its owner away.
    let is_foreign = machine["metadata"]["ownerReferences"][0]["uid"] != wrapper["metadata"]["uid"];
    let says_so = wrapper["status"]["conditions"].to_string().contains("\"NameConflict\"");
    (is_foreign != says_so).then(|| format!("I8: wrapper {name} does not say whose its machine is"))
}
