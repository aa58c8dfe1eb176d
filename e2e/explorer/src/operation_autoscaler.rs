//! Operations about the autoscaler of the pool.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{PatchKind, Verb};

use crate::manifest::{POOL, group_version};
use crate::world::SimulatedWorld;

/// The resource of autoscalers, with its group and without.
pub(crate) const AUTOSCALERS: &str = "poolautoscalers.vmpool.dev";
const PLURAL: &str = "poolautoscalers";

/// The names of autoscalers. A second one of the same pool writes nothing.
const NAMES: [&str; 2] = ["first", "second"];

/// How many machines an autoscaler keeps free, and within which limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoscalerParameters {
    /// `spec.free`, a number of machines or a percentage of the busy ones.
    pub free: FreeParameter,
    /// `spec.minReplicas`.
    pub min: u32,
    /// `spec.maxReplicas`.
    pub max: u32,
    /// `spec.scaleDown.delay` in seconds.
    pub delay: u32,
}

/// `spec.free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeParameter {
    /// A number of machines.
    Machines(u32),
    /// A percentage of the busy machines.
    Percent(u32),
}

/// One step. Numbers select one of the names.
#[derive(Clone, Debug, PartialEq)]
pub enum AutoscalerOperation {
    /// A user creates an autoscaler of the pool.
    Create(usize, AutoscalerParameters),
    /// A user changes the parameters of an autoscaler.
    Change(usize, AutoscalerParameters),
    /// A user pauses an autoscaler, or lets it continue.
    Pause(usize, bool),
    /// A user deletes an autoscaler.
    Delete(usize),
}

impl AutoscalerOperation {
    /// Performs the operation.
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::Create(which, parameters) => {
                world.user_actions.autoscaled.insert(POOL.to_owned());
                let mut spec = spec_of(*parameters);
                spec["poolRef"] = pool_reference(world.platform());
                let object = json!({
                    "apiVersion": "vmpool.dev/v1alpha1", "kind": "PoolAutoscaler",
                    "metadata": { "name": selected_name(*which) }, "spec": spec,
                });
                world.create(PLURAL, object).await;
            }
            Self::Change(which, parameters) => {
                patch_autoscaler_spec(world, *which, spec_of(*parameters)).await;
            }
            Self::Pause(which, paused) => {
                patch_autoscaler_spec(world, *which, json!({ "paused": paused })).await;
            }
            Self::Delete(which) => {
                let call = world.call(Verb::Delete, PLURAL, selected_name(*which), "", Value::Null);
                _ = world.do_as_user(&call).await;
            }
        }
    }
}

fn selected_name(which: usize) -> &'static str {
    NAMES[which % NAMES.len()]
}

fn pool_reference(platform: TestedPlatform) -> Value {
    let (group, version) = group_version(platform, "virtualmachinepools");
    json!({ "apiVersion": format!("{group}/{version}"), "kind": "VirtualMachinePool", "name": POOL })
}

fn spec_of(parameters: AutoscalerParameters) -> Value {
    let AutoscalerParameters { free, min, max, delay } = parameters;
    let free = match free {
        FreeParameter::Machines(machines) => json!(machines),
        FreeParameter::Percent(percent) => json!(format!("{percent}%")),
    };
    json!({
        "minReplicas": min, "maxReplicas": max, "free": free,
        "scaleDown": { "delay": format!("{delay}s") },
    })
}

async fn patch_autoscaler_spec(world: &mut SimulatedWorld, which: usize, spec: Value) {
    let patch = json!({ "spec": spec });
    let call = world.call(Verb::Patch(PatchKind::Merge), PLURAL, selected_name(which), "", patch);
    _ = world.do_as_user(&call).await;
}
