//! Operations that only pools of KubeVirt have.

use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};
use vmpool_simulator::kubevirt::objects::COPY;

use crate::manifest::POOL;
use crate::manifest_kubevirt::{
    CLAIM, DEFAULT_INSTANCETYPE, PREFERENCE, instancetype_name, instancetype_object, instancetype_spec,
    preference_object,
};
use crate::requests::{choose_object, patch_machine, patch_pool_spec, stored_pool};
use crate::world::SimulatedWorld;

const PREFERENCES: &str = "virtualmachinepreferences";
const TYPES: &str = "virtualmachineinstancetypes";
const CLAIMS: &str = "persistentvolumeclaims";

/// One step. Numbers select an object among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum KubeVirtOperation {
    /// Sets `paused`.
    SetPaused(bool),
    /// Sets `maxUnavailable`.
    SetMaxUnavailable(i64),
    /// Changes a label of the machines, which restarts none.
    SetTier(i64),
    /// Sets or removes `autohealing`.
    SetHealing(bool),
    /// The next starts of a machine fail, and its guest ends.
    FailStarts(usize, u64),
    /// A user stops the guest: KubeVirt starts it again.
    DeleteInstance(usize),
    /// A user sets the run strategy of a machine.
    SetRunStrategy(usize, &'static str),
    /// A user gives a machine back to the pool.
    ReturnOwner(usize),
    /// The template names a preference, or none.
    SetPreference(bool),
    /// A user edits the preference. The pool takes it over with its next template.
    EditPreference(i64),
    /// The template changes, so that the pool takes instance type and preference as they are now.
    Refresh(i64),
    /// A user deletes the preference. It stays while a pool needs it that has no copy yet.
    DeletePreference,
    /// A user creates the preference again, with this content.
    CreatePreference(i64),
    /// A user edits an instance type: its number of vCPUs, and its memory.
    EditInstancetype(usize, i64),
    /// A user deletes an instance type. It stays while a pool needs it that has no copy yet.
    DeleteInstancetype(usize),
    /// A user creates an instance type again, with this number of vCPUs.
    CreateInstancetype(usize, i64),
    /// A user lets the claim name this instance type, or none. The pool takes it over with its next template.
    NameInClaim(Option<usize>),
    /// The template sets its memory beside the instance type, or no longer. Only in schedules with instance
    /// types.
    SetConflict(bool),
    /// A user deletes a copy of an instance type or a preference.
    DeleteCopy(usize),
}

impl KubeVirtOperation {
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::SetPaused(paused) => patch_pool_spec(world, json!({ "paused": paused })).await,
            Self::SetMaxUnavailable(count) => {
                patch_pool_spec(world, json!({ "maxUnavailable": count })).await;
            }
            Self::SetTier(tier) => {
                let labels = json!({ "tier": tier.to_string() });
                patch_pool_template(world, json!({ "metadata": { "labels": labels } })).await;
            }
            Self::SetHealing(on) => {
                let healing = if *on { json!({ "startUpFailureThreshold": 1 }) } else { Value::Null };
                patch_pool_spec(world, json!({ "autohealing": healing })).await;
            }
            Self::FailStarts(which, times) => {
                let annotations = json!({ "simulator.vmpool.dev/fail-start": times.to_string() });
                patch_machine(world, *which, json!({ "metadata": { "annotations": annotations } })).await;
                delete_instance(world, *which).await;
            }
            Self::DeleteInstance(which) => delete_instance(world, *which).await,
            Self::SetRunStrategy(which, strategy) => {
                world.some_may_not_run = true;
                patch_machine(world, *which, json!({ "spec": { "runStrategy": strategy } })).await;
            }
            Self::SetPreference(names) => {
                let matcher = if *names {
                    json!({ "name": PREFERENCE, "kind": "VirtualMachinePreference" })
                } else {
                    Value::Null
                };
                patch_pool_template(world, json!({ "spec": { "preference": matcher } })).await;
            }
            Self::EditPreference(number) => {
                let annotations = json!({ "edit": number.to_string() });
                let patch = json!({ "spec": { "annotations": annotations } });
                request(world, Verb::Patch(PatchKind::Merge), (PREFERENCES, PREFERENCE), patch).await;
            }
            Self::DeletePreference => {
                request(world, Verb::Delete, (PREFERENCES, PREFERENCE), Value::Null).await;
            }
            Self::CreatePreference(number) => {
                let mut object = preference_object();
                object["spec"]["annotations"] = json!({ "edit": number.to_string() });
                request(world, Verb::Create, (PREFERENCES, ""), object).await;
            }
            Self::Refresh(number) => {
                let annotations = json!({ "vmpool.dev/refresh-instancetype": number.to_string() });
                patch_pool_template(world, json!({ "metadata": { "annotations": annotations } })).await;
            }
            Self::EditInstancetype(which, vcpus) => {
                let (name, patch) = (instancetype_name(*which), json!({ "spec": instancetype_spec(*vcpus) }));
                request(world, Verb::Patch(PatchKind::Merge), (TYPES, name), patch).await;
            }
            Self::DeleteInstancetype(which) => {
                request(world, Verb::Delete, (TYPES, instancetype_name(*which)), Value::Null).await;
            }
            Self::CreateInstancetype(which, vcpus) => {
                let object = instancetype_object(*which, *vcpus);
                request(world, Verb::Create, (TYPES, ""), object).await;
            }
            Self::NameInClaim(which) => {
                let labels = json!({ (DEFAULT_INSTANCETYPE): which.map(instancetype_name) });
                let patch = json!({ "metadata": { "labels": labels } });
                request(world, Verb::Patch(PatchKind::Merge), (CLAIMS, CLAIM), patch).await;
            }
            Self::SetConflict(conflicts) => {
                let memory = if *conflicts { json!({ "guest": "512Mi" }) } else { Value::Null };
                let instance = json!({ "spec": { "domain": { "memory": memory } } });
                patch_pool_template(world, json!({ "spec": { "template": instance } })).await;
            }
            Self::DeleteCopy(which) => delete_copy(world, *which).await,
            Self::ReturnOwner(which) => return_owner(world, *which).await,
        }
    }
}

/// A user changes the machine template of the pool.
async fn patch_pool_template(world: &mut SimulatedWorld, template: Value) {
    patch_pool_spec(world, json!({ "virtualMachineTemplate": template })).await;
}

async fn delete_copy(world: &mut SimulatedWorld, which: usize) {
    let all = world.server.all("controllerrevisions.apps");
    let is_copy = |revision: &&Value| !revision["metadata"]["labels"][COPY].is_null();
    let copies: Vec<&Value> = all.iter().map(|revision| &**revision).filter(is_copy).collect();
    let Some(index) = which.checked_rem(copies.len()) else { return };
    let name = copies[index]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    // A machine of an older revision starts no more without its copy.
    world.some_may_not_run = true;
    let call = world.call(Verb::Delete, "controllerrevisions", &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}

/// A user makes the pool the owner of a machine again.
async fn return_owner(world: &mut SimulatedWorld, which: usize) {
    let Some(pool) = stored_pool(world) else { return };
    let owner = json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": POOL,
        "uid": pool["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    let Some((name, uid)) = choose_object(world, world.resources().machines, which) else {
        return;
    };
    world.user_actions.returned.insert(uid);
    let patch = json!({ "metadata": { "ownerReferences": [owner] } });
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
    _ = world.do_as_user(&call).await;
}

/// A request of a user for an instance type, a preference or the claim.
async fn request(world: &mut SimulatedWorld, verb: Verb, (resource, name): (&str, &str), body: Value) {
    let call = world.call(verb, resource, name, "", body);
    _ = world.do_as_user(&call).await;
}

async fn delete_instance(world: &mut SimulatedWorld, which: usize) {
    let Some((name, _)) = choose_object(world, "virtualmachineinstances.kubevirt.io", which) else { return };
    let call = world.call(Verb::Delete, "virtualmachineinstances", &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}
