//! Instance types and preferences: what a machine starts.
//!
//! The simulator does not copy them, but uses the copies that a machine names, as KubeVirt's controller does.
//! It follows KubeVirt's documentation, and shares no code with the controller, so that each checks the
//! other.
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
    model::KubeVirtModel,
    objects::{KubeVirtMachineView, KubeVirtObjectKind, SimulatedMatcher},
};
use crate::objects::{NamespacedKey, Pairs};
use fields::{
    append_item, change_each_item, field_at, is_unset, items_at, parse_quantity, set_field, set_missing_field,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the input device, and of the interface and its network, that an instance gets.
const INPUT: &str = "default-0";
const NETWORK: &str = "default";

/// What a machine starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizedTemplate {
    pub(super) spec: Value,
    pub(super) annotations: Pairs,
}

/// Why a machine cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartBlocker {
    /// It names no copy of its instance type or its preference, or one that does not exist.
    NoCopy,
    /// It sets what its instance type sets.
    Conflict(String),
}

impl KubeVirtModel {
    /// What a machine starts.
    pub(super) fn template(
        &self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
    ) -> Result<SizedTemplate, StartBlocker> {
        let spec = &machine.spec;
        let template = SizedTemplate {
            spec: spec.instance_spec.clone(),
            annotations: spec.template_annotations.clone(),
        };
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
        key: &NamespacedKey,
        matcher: Option<&SimulatedMatcher>,
        reference: &Value,
    ) -> Result<Option<Arc<Value>>, StartBlocker> {
        let Some(matcher) = matcher else { return Ok(None) };
        let name = matcher.revision(reference).ok_or(StartBlocker::NoCopy)?;
        let copy = self.revisions.view(&key.sibling(name)).map(|view| view.object.clone());
        copy.filter(|object| matcher.names(object)).map(Some).ok_or(StartBlocker::NoCopy)
    }

    /// Marks the machines that use a ControllerRevision.
    pub(super) fn mark_users_of(&mut self, revision: &NamespacedKey) {
        let name = Some(&*revision.name);
        let uses = |machine: &KubeVirtMachineView| {
            let (spec, status) = (&machine.spec, &machine.status);
            let of = |matcher: &Option<SimulatedMatcher>, reference| {
                matcher.as_ref().is_some_and(|matcher| matcher.revision(reference) == name)
            };
            of(&spec.instancetype, &status.instancetype_ref) || of(&spec.preference, &status.preference_ref)
        };
        let users =
            self.machines.views().filter(|(key, view)| key.namespace == revision.namespace && uses(view));
        let users: Vec<NamespacedKey> = users.map(|(key, _)| key.clone()).collect();
        for key in &users {
            self.mark(KubeVirtObjectKind::Machine, key);
        }
    }
}

/// Applies copies to a template.
fn sized(
    template: SizedTemplate,
    instancetype: Option<&Value>,
    preference: Option<&Value>,
) -> Result<SizedTemplate, StartBlocker> {
    let SizedTemplate { mut spec, mut annotations } = template;
    let preferred = preference.map_or(&Value::Null, |object| &object["spec"]);
    preference::fill_autoattach_flags(&mut spec, preferred);
    devices(&mut spec);
    if let Some(object) = instancetype {
        let size = &object["spec"];
        let mut conflicts: Vec<String> = instancetype::instance_type_conflicts(&spec, size)
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
            return Err(StartBlocker::Conflict(format!(
                "VM conflicts with instancetype spec in fields: [{fields}]"
            )));
        }
        instancetype::apply_instance_type(&mut spec, size, preferred);
    }
    preference::apply_preference(&mut spec, preferred);
    for (key, value) in annotations_of(preferred) {
        annotations.entry(key).or_insert(value);
    }
    fill_instance_defaults(&mut spec);
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
    Ok(SizedTemplate { spec, annotations })
}

fn annotations_of(spec: &Value) -> Pairs {
    serde_json::from_value(spec["annotations"].clone()).unwrap_or_default()
}

/// Adds devices that the template does not list.
fn devices(spec: &mut Value) {
    let flag = |spec: &Value, name: &str| field_at(spec, "domain.devices")[name].as_bool();
    if flag(spec, "autoattachInputDevice") == Some(true) && items_at(spec, "domain.devices.inputs").is_empty()
    {
        append_item(spec, "domain.devices.inputs", json!({ "name": INPUT }));
    }
    for volume in items_at(spec, "volumes").to_vec() {
        let shows = |path: &str| items_at(spec, path).iter().any(|device| device["name"] == volume["name"]);
        if !shows("domain.devices.disks") && !shows("domain.devices.filesystems") {
            append_item(spec, "domain.devices.disks", json!({ "name": volume["name"] }));
        }
    }
    let is_listed =
        !items_at(spec, "networks").is_empty() || !items_at(spec, "domain.devices.interfaces").is_empty();
    if !is_listed && flag(spec, "autoattachPodInterface") != Some(false) {
        set_field(spec, "domain.devices.interfaces", json!([{ "name": NETWORK, "bridge": {} }]));
        set_field(spec, "networks", json!([{ "name": NETWORK, "pod": {} }]));
    }
}

/// Fills what follows from the rest of an instance.
pub(super) fn fill_instance_defaults(spec: &mut Value) {
    let memory = [
        "domain.resources.requests.memory",
        "domain.resources.limits.memory",
        "domain.memory.hugepages.pageSize",
    ]
    .map(|path| field_at(spec, path).clone());
    if let Some(memory) = memory.iter().find(|amount| parse_quantity(amount).is_some()) {
        set_missing_field(spec, "domain.memory.guest", memory);
    }
    let limit = ["domain.resources.limits.cpu", "domain.resources.requests.cpu"]
        .into_iter()
        .find_map(|path| parse_quantity(field_at(spec, path)));
    let is_free =
        |spec: &Value, name: &str| field_at(spec, "domain.cpu")[name].as_u64().unwrap_or_default() == 0;
    let names = ["sockets", "cores", "threads"];
    let sockets = if names.iter().all(|name| is_free(spec, name)) { limit.unwrap_or(1) } else { 1 };
    for (name, number) in names.into_iter().zip([sockets, 1, 1]) {
        if is_free(spec, name) {
            set_field(spec, &format!("domain.cpu.{name}"), json!(u64::try_from(number).unwrap_or(u64::MAX)));
        }
    }
    change_each_item(spec, "volumes", |volume| {
        if !is_unset(&volume["containerDisk"]) {
            let moves = volume["containerDisk"]["image"].as_str().is_some_and(is_moving);
            let policy = if moves { "Always" } else { "IfNotPresent" };
            set_missing_field(volume, "containerDisk.imagePullPolicy", &json!(policy));
        }
    });
    change_each_item(spec, "domain.devices.inputs", |input| {
        set_missing_field(input, "bus", &json!("usb"));
        set_missing_field(input, "type", &json!("tablet"));
    });
}

/// Whether the content of an image can change: it has no digest, and no tag or `latest`.
fn is_moving(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}
