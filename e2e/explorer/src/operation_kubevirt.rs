//! Operations that only pools of KubeVirt have.

use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::manifest::POOL;
use crate::requests::{choose, edit, patch_machine, stored_pool};
use crate::world::World;

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
}

impl KubeVirtOperation {
    pub(crate) async fn perform(&self, world: &mut World) {
        match self {
            Self::SetPaused(paused) => edit(world, json!({ "paused": paused })).await,
            Self::SetMaxUnavailable(count) => edit(world, json!({ "maxUnavailable": count })).await,
            Self::SetTier(tier) => {
                let labels = json!({ "tier": tier.to_string() });
                edit(world, json!({ "virtualMachineTemplate": { "metadata": { "labels": labels } } })).await;
            }
            Self::SetHealing(on) => {
                let healing = if *on { json!({ "startUpFailureThreshold": 1 }) } else { Value::Null };
                edit(world, json!({ "autohealing": healing })).await;
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
            Self::ReturnOwner(which) => {
                let Some(pool) = stored_pool(world) else { return };
                let owner = json!({
                    "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": POOL,
                    "uid": pool["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
                });
                let Some((name, uid)) = choose(world, world.resources().machines, *which) else { return };
                world.user_actions.returned.insert(uid);
                let patch = json!({ "metadata": { "ownerReferences": [owner] } });
                let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
                _ = world.do_as_user(&call).await;
            }
        }
    }
}

async fn delete_instance(world: &mut World, which: usize) {
    let Some((name, _)) = choose(world, "virtualmachineinstances.kubevirt.io", which) else { return };
    let call = world.call(Verb::Delete, "virtualmachineinstances", &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}
