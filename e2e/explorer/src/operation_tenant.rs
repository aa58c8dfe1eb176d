//! Operations of a tenant that may read the namespace of the pool and write only its own namespace. It has a
//! pool of the same name, and forges references to the other one.

use serde_json::{Map, Value, json};
use vmpool_invariants::other_namespaces::ForgedObject;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{Call, PatchKind, Verb};

use crate::edits;
use crate::manifest::POOL;
use crate::requests::{choose_in, choose_object};
use crate::world::{NAMESPACE, SimulatedWorld, TENANT};

/// A finalizer of the tenant: the garbage collector deletes the object, and the object stays.
const HOLD: &str = "tenant.example/hold";

/// What a forged object has of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// An owner reference with UID, name and kind in a group that does not exist, so that the garbage
    /// collector keeps the object.
    UnknownGroup,
    /// The same owner reference as the machines of the pool, and a finalizer of the tenant.
    SameOwner,
    /// An owner reference with the UID and another name.
    OtherName,
    /// Labels and annotations, and no owner.
    LabelsOnly,
}

impl Forgery {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::UnknownGroup, Self::SameOwner, Self::OtherName, Self::LabelsOnly];
}

/// One step. Numbers select an object among those that exist at that moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantOperation {
    /// Creates the pool of the tenant with this number of replicas.
    CreatePool(i64),
    /// Scales the pool of the tenant.
    Scale(i64),
    /// Creates this number of machines that look like one of the pool.
    ForgeMachines(usize, Forgery),
    /// Creates this number of disks, or DataVolumes and claims, that look like those of the pool.
    ForgeDisks(usize, Forgery),
    /// Copies a stored revision of the pool with another template.
    ForgeRevision(Forgery),
    /// Copies the instance of a machine of the pool, in a failed state.
    ForgeInstance(usize),
    /// Gives the labels and the owner of a machine of the pool to a machine of the tenant's pool.
    TakeOver(usize, Forgery),
    /// Changes the labels of a machine in the namespace of the tenant.
    Relabel(usize),
    /// Deletes a machine in the namespace of the tenant.
    DeleteMachine(usize),
    /// Deletes a disk in the namespace of the tenant.
    DeleteDisk(usize),
}

impl TenantOperation {
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        let machines = world.resources().machines;
        match *self {
            Self::CreatePool(replicas) => {
                let mut pool = edits::pool_for_world(world, replicas, "NewestFirst", &[]);
                pool["metadata"]["namespace"] = json!(TENANT);
                send_request(world, Verb::Create, "virtualmachinepools", "", pool).await;
            }
            Self::Scale(replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                send_request(world, Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, patch).await;
            }
            Self::ForgeMachines(count, forgery) => forge_objects(world, machines, count, forgery).await,
            Self::ForgeDisks(count, forgery) => {
                for resource in storage_resources(world.platform()) {
                    forge_objects(world, resource, count, forgery).await;
                }
            }
            Self::ForgeRevision(forgery) => {
                forge_objects(world, "controllerrevisions.apps", 1, forgery).await;
            }
            Self::ForgeInstance(which) => {
                let instances = "virtualmachineinstances.kubevirt.io";
                let Some(mut instance) = choose_object(world, instances, which)
                    .and_then(|(name, _)| world.server.get(instances, NAMESPACE, &name))
                    .map(|instance| (*instance).clone())
                else {
                    return;
                };
                instance["metadata"] = json!({
                    "name": instance["metadata"]["name"], "namespace": TENANT,
                    "labels": instance["metadata"]["labels"],
                    "ownerReferences": instance["metadata"]["ownerReferences"],
                    "finalizers": [HOLD],
                });
                instance["status"] = json!({ "phase": "Failed" });
                let name = metadata_text(&instance, "name");
                send_request(world, Verb::Create, "virtualmachineinstances", "", instance).await;
                remember_forged(world, "virtualmachineinstances", name);
            }
            Self::TakeOver(which, forgery) => {
                let Some(model) = sample_of(world, machines) else { return };
                let Some((name, uid)) = choose_in(world, machines, which, TENANT) else { return };
                world.user_actions.relabeled.insert(uid.clone());
                world.user_actions.deleted.insert(uid);
                let forged = forged_metadata(world, &model, forgery);
                let patch = json!({ "metadata": {
                    "labels": forged["labels"], "ownerReferences": forged["ownerReferences"],
                } });
                send_request(world, Verb::Patch(PatchKind::Merge), "virtualmachines", &name, patch).await;
            }
            Self::Relabel(which) => {
                let Some((name, _)) = choose_in(world, machines, which, TENANT) else { return };
                let patch = json!({ "metadata": { "labels": { "tenant.example/edit": "1" } } });
                send_request(world, Verb::Patch(PatchKind::Merge), "virtualmachines", &name, patch).await;
            }
            Self::DeleteMachine(which) => delete_object(world, machines, which).await,
            Self::DeleteDisk(which) => {
                for resource in storage_resources(world.platform()) {
                    delete_object(world, resource, which).await;
                }
            }
        }
    }
}

/// The storage that the platform has.
fn storage_resources(platform: TestedPlatform) -> &'static [&'static str] {
    match platform {
        TestedPlatform::Dvp => &["virtualdisks.virtualization.deckhouse.io"],
        TestedPlatform::KubeVirt => &["datavolumes.cdi.kubevirt.io", "persistentvolumeclaims"],
    }
}

/// An object of the pool's namespace.
fn sample_of(world: &SimulatedWorld, resource: &str) -> Option<Value> {
    let (name, _) = choose_object(world, resource, 0)?;
    world.server.get(resource, NAMESPACE, &name).map(|object| (*object).clone())
}

/// Creates objects that look like one of the pool's namespace. Those of one call have the same name in every
/// run.
async fn forge_objects(world: &mut SimulatedWorld, resource: &str, count: usize, forgery: Forgery) {
    let Some(model) = sample_of(world, resource) else { return };
    let plural = resource.split('.').next().unwrap_or_default();
    for _ in 0..count {
        let mut object = model.clone();
        object["metadata"] = forged_metadata(world, &model, forgery);
        // The copies of instance types are not in the namespace of the tenant, and CDI does not clone for it.
        if let Some(spec) = object["spec"].as_object_mut() {
            const ELSEWHERE: [&str; 5] =
                ["instancetype", "preference", "dataVolumeTemplates", "source", "sourceRef"];
            spec.retain(|field, _| !ELSEWHERE.contains(&field.as_str()));
        }
        if object["data"].is_object() {
            object["data"] = json!({ "virtualMachineTemplate": { "spec": { "forged": true } } });
        }
        // A revision has the name of the original, which no other object of the tenant has.
        let number = world.forged.len();
        let name = metadata_text(&model, "name");
        let name = if plural == "controllerrevisions" { name } else { format!("{name}-forged-{number}") };
        // The tenant has a pool of the same name, whose revision has this name.
        if world.server.get(resource, TENANT, &name).is_some() {
            continue;
        }
        object["metadata"]["name"] = json!(name);
        send_request(world, Verb::Create, plural, "", object).await;
        remember_forged(world, plural, name);
    }
}

/// Records that this object was forged.
fn remember_forged(world: &mut SimulatedWorld, plural: &str, name: String) {
    let (namespace, plural) = (TENANT.to_owned(), plural.to_owned());
    let since = world.now();
    world.forged.insert(ForgedObject { namespace, plural, name }, since);
}

/// The metadata of a forged object, without a name.
fn forged_metadata(world: &SimulatedWorld, model: &Value, forgery: Forgery) -> Value {
    let pool = world.server.get(world.resources().pools, NAMESPACE, POOL);
    let pool = pool.map_or(Value::Null, |pool| (*pool).clone());
    let original = &model["metadata"];
    let api_version = match forgery {
        Forgery::UnknownGroup => json!("no.such.group/v1"),
        _ => pool["apiVersion"].clone(),
    };
    let name = if forgery == Forgery::OtherName { "another" } else { POOL };
    let owner = json!({
        "apiVersion": api_version, "kind": "VirtualMachinePool", "name": name, "uid": pool["metadata"]["uid"],
        "controller": true,
    });
    let mut metadata = Map::from_iter([
        ("namespace".to_owned(), json!(TENANT)),
        ("labels".to_owned(), original["labels"].clone()),
        ("annotations".to_owned(), original["annotations"].clone()),
    ]);
    // Without the pool, there is no UID to forge.
    if forgery != Forgery::LabelsOnly && owner["uid"].is_string() {
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    if matches!(forgery, Forgery::SameOwner | Forgery::OtherName) {
        metadata.insert("finalizers".to_owned(), json!([HOLD]));
    }
    Value::Object(metadata)
}

async fn delete_object(world: &mut SimulatedWorld, resource: &str, which: usize) {
    let Some((name, uid)) = choose_in(world, resource, which, TENANT) else { return };
    world.user_actions.deleted.insert(uid);
    world.deleted_disks.insert(name.clone());
    let plural = resource.split('.').next().unwrap_or_default();
    send_request(world, Verb::Delete, plural, &name, Value::Null).await;
}

/// Sends a request in the namespace of the tenant.
async fn send_request(world: &mut SimulatedWorld, verb: Verb, plural: &str, name: &str, body: Value) {
    let call = Call { namespace: TENANT.to_owned(), ..world.call(verb, plural, name, "", body) };
    _ = world.do_as_user(&call).await;
}

fn metadata_text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
