//! Operations about standby machines.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{PatchKind, Verb};

use crate::manifest::{POOL, STANDBY};
use crate::world::{NAMESPACE, SimulatedWorld};

/// One step. Numbers select a machine among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum StandbyOperation {
    /// A user changes the number of standby machines, and whether they run before they are stopped.
    SetReplicas(usize, bool),
    /// A user starts a stopped standby machine.
    Start(usize),
}

impl StandbyOperation {
    /// Performs the operation.
    pub async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::SetReplicas(replicas, warms_up) => {
                let setting = standby_setting(*replicas, *warms_up);
                let patch = json!({ "metadata": { "annotations": { STANDBY: setting } } });
                let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", patch);
                _ = world.do_as_user(&call).await;
            }
            Self::Start(which) => start_standby(world, *which).await,
        }
    }
}

/// The setting of a pool with this number of standby machines.
pub(crate) fn standby_setting(replicas: usize, warms_up: bool) -> String {
    let setting = if warms_up {
        json!({ "replicas": replicas, "warmUpDelay": "5s" })
    } else {
        json!({ "replicas": replicas, "warmUp": "None" })
    };
    setting.to_string()
}

async fn start_standby(world: &mut SimulatedWorld, which: usize) {
    let mut machines = world.server.all(world.resources().machines);
    let is_stopped = |machine: &Value| {
        machine["metadata"]["namespace"] == NAMESPACE && machine["metadata"]["labels"][STANDBY] == "stopped"
    };
    machines.retain(|machine| is_stopped(machine));
    let Some(machine) = which.checked_rem(machines.len()).map(|which| &machines[which]) else { return };
    let name = machine["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spec = match world.platform() {
        TestedPlatform::Dvp => json!({ "runPolicy": "AlwaysOn" }),
        TestedPlatform::KubeVirt => json!({ "runStrategy": "Always" }),
    };
    let patch = json!({ "spec": spec });
    let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
    _ = world.do_as_user(&call).await;
}
