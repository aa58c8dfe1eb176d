//! Checks of settled KubeVirt pools that need instances.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_model::{HandledRequest, Verb};

use crate::instance::is_tested;
use crate::manifest_kubevirt::{CLAIM, DEFAULT_INSTANCETYPE};
use crate::world::{NAMESPACE, SimulatedWorld};

const CORES: &str = "/template/spec/domain/cpu/cores";
const PREFERENCES: &str = "virtualmachinepreferences.instancetype.kubevirt.io";
const INSTANCETYPES: &str = "virtualmachineinstancetypes.instancetype.kubevirt.io";
const REVISIONS: &str = "controllerrevisions.apps";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";

/// Machines and instances that lack the template of the pool. Instances of machines that a user stopped or
/// whose run strategy a user changed may lack it.
pub(crate) fn outdated_machines(
    world: &SimulatedWorld,
    pool: &JsonObject,
    machines: &[&JsonObject],
) -> Vec<String> {
    if !pool.is_kubevirt() || pool.at("/spec/paused") == true {
        return Vec::new();
    }
    let desired = pool.at(&format!("/spec/virtualMachineTemplate/spec{CORES}"));
    let instancetype = pool.at("/spec/virtualMachineTemplate/spec/instancetype");
    let tier = pool.at("/spec/virtualMachineTemplate/metadata/labels/tier");
    let mut found = Vec::new();
    for machine in machines {
        let name = machine.name();
        let named = machine.at("/spec/instancetype/name");
        // The name from the claim is in the revision, and the claim may name another one by now.
        let is_typed = if instancetype["inferFromVolume"].is_null() {
            *named == instancetype["name"]
        } else {
            !named.is_null()
        };
        if machine.at(&format!("/spec{CORES}")) != desired
            || machine.at("/metadata/labels/tier") != tier
            || !is_typed
        {
            found.push(format!("I8: machine {name} has not the template of the pool"));
        }
        let instance = world.server.get(INSTANCES, NAMESPACE, name);
        let cores = instance.as_deref().and_then(|instance| instance.pointer("/spec/domain/cpu/cores"));
        let always = machine.at("/spec/runStrategy") == "Always";
        let is_current = |cores: &Value| if desired.is_null() { *cores == 1 } else { cores == desired };
        if always && cores.is_some_and(|cores| !is_current(cores)) {
            found.push(format!("I8: the instance of machine {name} has not the template of the pool"));
        }
        if let Some((vcpus, running)) =
            instance.as_deref().and_then(|instance| sizes(world, machine, instance))
            && always
            && vcpus != running
        {
            found.push(format!(
                "I8: the instance of machine {name} has {running} vCPUs, and its copy {vcpus}"
            ));
        }
        if !name.starts_with(&format!("{}-", pool.name())) {
            found.push(format!("machine {name} has no ordinal of the pool"));
        }
    }
    found
}

/// The copies of instance types and preferences: all machines that a controller made from one revision use
/// the same ones, and no machine is created before its copies.
pub(crate) fn copy_violations(world: &SimulatedWorld, served: &[HandledRequest]) -> Vec<String> {
    let (mut found, mut made) = (Vec::new(), BTreeSet::new());
    for HandledRequest { call, code, .. } in served {
        if call.verb != Verb::Create || *code >= 300 || !is_tested(&call.sender) {
            continue;
        }
        let name = call.body["metadata"]["name"].as_str().unwrap_or_default();
        match &*call.resource {
            "controllerrevisions" => drop(made.insert(name)),
            "virtualmachines" => {
                for copy in used(&call.body).filter(|copy| !made.contains(copy)) {
                    found.push(format!("I13: machine {name} was created before its copy {copy}"));
                }
            }
            _ => {}
        }
    }
    let mut copies: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for change in world.history().changes().iter().filter(|change| change.kind == TestedKind::Machine) {
        let machine = &change.object;
        let (pool, revision) = (machine.text("/metadata/ownerReferences/0/uid"), machine.text(REVISION));
        if pool.is_empty() || revision.is_empty() {
            continue;
        }
        let used: Vec<String> = used(machine.value()).map(str::to_owned).collect();
        let first = copies.entry((pool.to_owned(), revision.to_owned())).or_insert_with(|| used.clone());
        if *first != used {
            found.push(format!(
                "I13: machines of revision {revision} use {first:?}, and {} uses {used:?}",
                machine.name()
            ));
        }
    }
    found
}

/// The vCPUs in the copy of the instance type that a machine names, and those of its instance.
fn sizes(world: &SimulatedWorld, machine: &JsonObject, instance: &Value) -> Option<(u64, u64)> {
    let copy = machine.at("/spec/instancetype/revisionName").as_str()?;
    let copy = world.server.get(REVISIONS, NAMESPACE, copy)?;
    let sockets = instance.pointer("/spec/domain/cpu/sockets")?.as_u64()?;
    Some((copy["data"]["spec"]["cpu"]["guest"].as_u64()?, sockets))
}

/// The field of the template and the kind of the object for which a pool waits, if it waits for one.
fn awaited(pool: &JsonObject) -> Option<(&'static str, &'static str)> {
    match pool.condition("TemplateResolved")?["reason"].as_str()? {
        "InstancetypeNotFound" | "InferenceFailed" => Some(("instancetype", INSTANCETYPES)),
        "PreferenceNotFound" => Some(("preference", PREFERENCES)),
        _ => None,
    }
}

/// Whether the template of the pool names an instance type or a preference that does not exist, or sets its
/// memory beside the instance type.
pub(crate) fn waits_for_type(world: &SimulatedWorld, pool: &JsonObject) -> bool {
    if let Some((field, resource)) = awaited(pool) {
        let matcher = pool.at(&format!("/spec/virtualMachineTemplate/spec/{field}"));
        let claim = world.server.get("persistentvolumeclaims", NAMESPACE, CLAIM);
        let labels = claim.as_deref().map_or(&Value::Null, |claim| &claim["metadata"]["labels"]);
        let name = if matcher["inferFromVolume"].is_null() {
            &matcher["name"]
        } else {
            &labels[DEFAULT_INSTANCETYPE]
        };
        return name.as_str().is_none_or(|name| world.server.get(resource, NAMESPACE, name).is_none());
    }
    let unresolved = pool.condition("TemplateResolved");
    unresolved.is_some_and(|condition| condition["reason"] == "InstancetypeConflict")
        && !pool.at("/spec/virtualMachineTemplate/spec/template/spec/domain/memory").is_null()
}

/// A pool that waits for its instance type or its preference, although a stored revision with its template
/// has a copy.
pub(crate) fn unused_copies(world: &SimulatedWorld, pool: &JsonObject) -> Vec<String> {
    let Some((field, _)) = awaited(pool) else { return Vec::new() };
    let revisions = world.server.all(REVISIONS);
    let has_copy = revisions.iter().filter(|revision| {
        revision["metadata"]["namespace"] == *pool.namespace()
            && revision["metadata"]["ownerReferences"][0]["uid"] == *pool.uid()
            && revision["data"]["virtualMachineTemplate"] == *pool.at("/spec/virtualMachineTemplate")
            && revision["data"]["vmpoolPins"][field].is_object()
    });
    has_copy
        .map(|revision| {
            let name = revision["metadata"]["name"].as_str().unwrap_or_default();
            format!("I13: the pool waits for its {field}, and revision {name} has a copy of it")
        })
        .collect()
}

/// The label of a machine with its revision.
const REVISION: &str = "/metadata/labels/kubevirt.io~1vm-pool-revision-name";

/// The copies that a machine names.
fn used(machine: &Value) -> impl Iterator<Item = &str> {
    let of = |family: &str| machine["spec"][family]["revisionName"].as_str();
    ["instancetype", "preference"].into_iter().filter_map(of)
}
