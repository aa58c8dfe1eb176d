//! Admission policies and clients that take machines and disks away from the pool that created them.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{Call, PatchKind, Verb};

use crate::instance::is_tested;
use crate::manifest_kubevirt::LABEL;
use crate::world::{NAMESPACE, SimulatedWorld};

/// What an admission policy does to the objects that the controllers create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionPolicyEffect {
    /// There is no policy.
    #[default]
    None,
    /// It removes the owner references of machines.
    StripsOwners,
    /// It replaces the label by which a pool selects its machines.
    ReplacesLabels,
    /// It removes the owner references and labels of disks.
    StripsDisks,
}

/// Replaces the policy.
pub(crate) fn set_policy(world: &mut SimulatedWorld, policy: AdmissionPolicyEffect) {
    world.user_actions.policies += 1;
    let mutate = move |call: &Call, object: &mut Value| {
        if is_tested(&call.sender) {
            apply(policy, &call.resource, &mut object["metadata"]);
        }
    };
    world.server.set_mutation((policy != AdmissionPolicyEffect::None).then_some(mutate));
}

fn apply(policy: AdmissionPolicyEffect, resource: &str, metadata: &mut Value) {
    match (policy, resource) {
        (AdmissionPolicyEffect::StripsOwners, "virtualmachines") => remove_field(metadata, "ownerReferences"),
        (AdmissionPolicyEffect::StripsDisks, "virtualdisks") => {
            remove_field(metadata, "ownerReferences");
            remove_field(metadata, "labels");
        }
        (AdmissionPolicyEffect::ReplacesLabels, "virtualmachines") => {
            metadata["labels"][LABEL] = json!("taken");
        }
        _ => {}
    }
}

fn remove_field(metadata: &mut Value, field: &str) {
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove(field);
    }
}

/// Removes all machines from the pool: by their label where the pool selects by it, or else by their owner.
pub(crate) async fn detach_all_machines(world: &mut SimulatedWorld) {
    let patch = match world.platform() {
        TestedPlatform::Dvp => json!({ "metadata": { "ownerReferences": null } }),
        TestedPlatform::KubeVirt => json!({ "metadata": { "labels": { LABEL: "taken" } } }),
    };
    let mut machines = world.server.all(world.resources().machines);
    machines.retain(|machine| machine["metadata"]["namespace"] == NAMESPACE);
    world.user_actions.taken += machines.len();
    for machine in machines {
        let name = machine["metadata"]["name"].as_str().unwrap_or_default();
        let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", name, "", patch.clone());
        _ = world.do_as_user(&call).await;
    }
}
