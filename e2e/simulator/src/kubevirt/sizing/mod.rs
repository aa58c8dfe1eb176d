//! Instance types and preferences: what a machine starts.
//!
//! The simulator does not copy them, but uses the copies that a machine names, as KubeVirt's controller does. It follows
//! KubeVirt's documentation, and shares no code with the controller, so that each checks the other.
//!
//! ```text
//!  flags of added devices ─> input device ─> disks for volumes ─> default interface ─> instance type ─> preference ─> defaults
//! ```

mod fields;
mod instancetype;
mod preference;
#[cfg(test)]
mod tests;

use super::{
    model::World,
    objects::{Kind, MachineView, Matcher},
};
use crate::objects::{Key, Pairs};
use fields::{at, each, fill, is_unset, items, push, put, quantity};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the input device, and of the interface and its network, that an instance gets.
const INPUT: &str = "default-0";
const NETWORK: &str = "default";

/// What a machine starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    pub(super) spec: Value,
    pub(super) annotations: Pairs,
}

/// Why a machine cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It names no copy of its instance type or its preference, or one that does not exist.
    NoCopy,
    /// It sets what its instance type sets.
    Conflict(String),
}

impl World {
    /// What a machine starts.
    pub(super) fn template(&self, key: &Key, machine: &MachineView) -> Result<Template, Blocked> {
        let spec = &machine.spec;
        let template =
            Template { spec: spec.instance_spec.clone(), annotations: spec.template_annotations.clone() };
        if spec.instancetype.is_none() && spec.preference.is_none() {
            return Ok(template);
        }
        let instancetype = self.copy(key, spec.instancetype.as_ref(), &machine.status.instancetype_ref)?;
        let preference = self.copy(key, spec.preference.as_ref(), &machine.status.preference_ref)?;
        sized(template, instancetype.as_deref(), preference.as_deref())
    }

    /// The copy that a machine uses.
    fn copy(
        &self,
        key: &Key,
        matcher: Option<&Matcher>,
        reference: &Value,
    ) -> Result<Option<Arc<Value>>, Blocked> {
        let Some(matcher) = matcher else { return Ok(None) };
        let name = matcher.revision(reference).ok_or(Blocked::NoCopy)?;
        let copy = self.revisions.view(&key.sibling(name)).map(|view| view.object.clone());
        copy.filter(|object| matcher.names(object)).map(Some).ok_or(Blocked::NoCopy)
    }

    /// Marks the machines that use a ControllerRevision.
    pub(super) fn mark_users_of(&mut self, revision: &Key) {
        let name = Some(&*revision.name);
        let uses = |machine: &MachineView| {
            let (spec, status) = (&machine.spec, &machine.status);
            let of = |matcher: &Option<Matcher>, reference| {
                matcher.as_ref().is_some_and(|matcher| matcher.revision(reference) == name)
            };
            of(&spec.instancetype, &status.instancetype_ref) || of(&spec.preference, &status.preference_ref)
        };
        let users =
            self.machines.views().filter(|(key, view)| key.namespace == revision.namespace && uses(view));
        let users: Vec<Key> = users.map(|(key, _)| key.clone()).collect();
        for key in &users {
            self.mark(Kind::Machine, key);
        }
    }
}

/// Applies copies to a template.
fn sized(
    template: Template,
    instancetype: Option<&Value>,
    preference: Option<&Value>,
) -> Result<Template, Blocked> {
    let Template { mut spec, mut annotations } = template;
    let preferred = preference.map_or(&Value::Null, |object| &object["spec"]);
    preference::autoattach(&mut spec, preferred);
    devices(&mut spec);
    if let Some(object) = instancetype {
        let size = &object["spec"];
        let mut conflicts: Vec<String> = instancetype::conflicts(&spec, size)
            .into_iter()
            .map(|path| format!("spec.template.spec.{path}"))
            .collect();
        for (key, value) in annotations_of(size) {
            if annotations.get(&key).is_some_and(|mine| *mine != value) {
                conflicts.push(format!("annotations.{key}"));
            }
            annotations.insert(key, value);
        }
        if !conflicts.is_empty() {
            let fields = conflicts.join(", ");
            return Err(Blocked::Conflict(format!(
                "VM conflicts with instancetype spec in fields: [{fields}]"
            )));
        }
        instancetype::apply(&mut spec, size, preferred);
    }
    preference::apply(&mut spec, preferred);
    for (key, value) in annotations_of(preferred) {
        annotations.entry(key).or_insert(value);
    }
    defaults(&mut spec);
    for (noun, object) in [("instancetype", instancetype), ("preference", preference)] {
        let Some(object) = object else { continue };
        let scope = if object["kind"].as_str().is_some_and(|kind| kind.contains("Cluster")) {
            "cluster-"
        } else {
            ""
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        annotations.insert(format!("kubevirt.io/{scope}{noun}-name"), name.to_owned());
    }
    Ok(Template { spec, annotations })
}

fn annotations_of(spec: &Value) -> Pairs {
    serde_json::from_value(spec["annotations"].clone()).unwrap_or_default()
}

/// Adds devices that the template does not list.
fn devices(spec: &mut Value) {
    let flag = |spec: &Value, name: &str| at(spec, "domain.devices")[name].as_bool();
    if flag(spec, "autoattachInputDevice") == Some(true) && items(spec, "domain.devices.inputs").is_empty() {
        push(spec, "domain.devices.inputs", json!({ "name": INPUT }));
    }
    for volume in items(spec, "volumes").to_vec() {
        let shows = |path: &str| items(spec, path).iter().any(|device| device["name"] == volume["name"]);
        if !shows("domain.devices.disks") && !shows("domain.devices.filesystems") {
            push(spec, "domain.devices.disks", json!({ "name": volume["name"] }));
        }
    }
    let is_listed =
        !items(spec, "networks").is_empty() || !items(spec, "domain.devices.interfaces").is_empty();
    if !is_listed && flag(spec, "autoattachPodInterface") != Some(false) {
        put(spec, "domain.devices.interfaces", json!([{ "name": NETWORK, "bridge": {} }]));
        put(spec, "networks", json!([{ "name": NETWORK, "pod": {} }]));
    }
}

/// Fills what follows from the rest of an instance.
pub(super) fn defaults(spec: &mut Value) {
    let memory = [
        "domain.resources.requests.memory",
        "domain.resources.limits.memory",
        "domain.memory.hugepages.pageSize",
    ]
    .map(|path| at(spec, path).clone());
    if let Some(memory) = memory.iter().find(|amount| quantity(amount).is_some()) {
        fill(spec, "domain.memory.guest", memory);
    }
    let limit = ["domain.resources.limits.cpu", "domain.resources.requests.cpu"]
        .into_iter()
        .find_map(|path| quantity(at(spec, path)));
    let is_free = |spec: &Value, name: &str| at(spec, "domain.cpu")[name].as_u64().unwrap_or_default() == 0;
    let names = ["sockets", "cores", "threads"];
    let sockets = if names.iter().all(|name| is_free(spec, name)) { limit.unwrap_or(1) } else { 1 };
    for (name, number) in names.into_iter().zip([sockets, 1, 1]) {
        if is_free(spec, name) {
            put(spec, &format!("domain.cpu.{name}"), json!(u64::try_from(number).unwrap_or(u64::MAX)));
        }
    }
    each(spec, "volumes", |volume| {
        if !is_unset(&volume["containerDisk"]) {
            let moves = volume["containerDisk"]["image"].as_str().is_some_and(is_moving);
            let policy = if moves { "Always" } else { "IfNotPresent" };
            fill(volume, "containerDisk.imagePullPolicy", &json!(policy));
        }
    });
    each(spec, "domain.devices.inputs", |input| {
        fill(input, "bus", &json!("usb"));
        fill(input, "type", &json!("tablet"));
    });
}

/// Whether the content of an image can change: it has no digest, and no tag or `latest`.
fn is_moving(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}
