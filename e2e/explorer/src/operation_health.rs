//! Operations about healing, and nodes that are lost.

use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb};

use crate::manifest::POOL;
use crate::requests::patch_machine;
use crate::world::{NAMESPACE, SimulatedWorld};

const HEALING: &str = "vmpool.dev/healing";
/// Times that are short beside a schedule.
const SHORT: &str =
    r#"{"notReadyFor":"5s","startTimeout":"15s","maxUnhealthy":"60%","replaceStuckAfter":"5s"}"#;
/// The annotation with which the platform simulator loses the node of a machine.
const NODE_LOSS: &str = "simulator.vmpool.dev/node-loss";

/// One step. Numbers select a machine among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum HealthOperation {
    /// A user turns healing of the pool on or off.
    SetHealing(bool),
    /// The node of a machine is lost: its guest is not ready, and its deletion does not end.
    LoseNode(usize),
    /// All lost nodes return.
    ReturnNodes,
}

impl HealthOperation {
    pub(crate) async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::SetHealing(on) => {
                let setting = if *on { json!(SHORT) } else { Value::Null };
                let patch = annotation_patch(HEALING, &setting);
                let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", patch);
                _ = world.do_as_user(&call).await;
            }
            Self::LoseNode(which) => {
                patch_machine(world, *which, annotation_patch(NODE_LOSS, &json!("true"))).await;
            }
            Self::ReturnNodes => return_nodes(world).await,
        }
    }
}

/// The machines whose nodes are lost.
pub(crate) fn machines_of_lost_nodes(world: &SimulatedWorld) -> Vec<String> {
    let mut machines = world.server.all(world.resources().machines);
    machines.retain(|machine| {
        let metadata = &machine["metadata"];
        metadata["namespace"] == NAMESPACE && metadata["annotations"][NODE_LOSS].is_string()
    });
    machines.iter().filter_map(|machine| machine["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// All lost nodes return.
pub(crate) async fn return_nodes(world: &mut SimulatedWorld) {
    for name in machines_of_lost_nodes(world) {
        let patch = annotation_patch(NODE_LOSS, &Value::Null);
        let call = world.call(Verb::Patch(PatchKind::Merge), "virtualmachines", &name, "", patch);
        _ = world.do_as_user(&call).await;
    }
}

fn annotation_patch(key: &str, value: &Value) -> Value {
    json!({ "metadata": { "annotations": { (key): value } } })
}
