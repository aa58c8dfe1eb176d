//! Checks of settled KubeVirt pools that need instances.

use serde_json::Value;
use vmpool_invariants::object::Object;

use crate::world::{NAMESPACE, World};

const CORES: &str = "/template/spec/domain/cpu/cores";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";

/// Machines and instances that lack the template of the pool. Instances of machines that a user stopped or whose run
/// strategy a user changed may lack it.
pub(crate) fn outdated_machines(world: &World, pool: &Object, members: &[&Object]) -> Vec<String> {
    if !pool.is_kubevirt() || pool.at("/spec/paused") == true {
        return Vec::new();
    }
    let desired = pool.at(&format!("/spec/virtualMachineTemplate/spec{CORES}"));
    let tier = pool.at("/spec/virtualMachineTemplate/metadata/labels/tier");
    let mut found = Vec::new();
    for member in members {
        let name = member.name();
        if member.at(&format!("/spec{CORES}")) != desired || member.at("/metadata/labels/tier") != tier {
            found.push(format!("I8: machine {name} has not the template of the pool"));
        }
        let instance = world.server.get(INSTANCES, NAMESPACE, name);
        let cores = instance.as_deref().and_then(|instance| instance.pointer("/spec/domain/cpu/cores"));
        let always = member.at("/spec/runStrategy") == "Always";
        if always && cores.is_some_and(|cores: &Value| cores != desired) {
            found.push(format!("I8: the instance of machine {name} has not the template of the pool"));
        }
        if !name.starts_with(&format!("{}-", pool.name())) {
            found.push(format!("machine {name} has no ordinal of the pool"));
        }
    }
    found
}
