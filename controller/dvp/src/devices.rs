//! The device list of a machine: devices for disk templates, and devices that other clients added.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::annotations;
use vmpool_engine::model::DiskDraft;
use vmpool_platform::merge::Schema;

/// The field of the spec.
pub(super) const FIELD: &str = "blockDeviceRefs";

/// The disks for the disk templates before and after a write.
pub(super) struct DiskAssignment<'a> {
    /// The disk map of the machine.
    before: BTreeMap<String, String>,
    /// The disk templates of the new revision with their disks, in its order.
    wanted: Vec<(&'a str, String)>,
    /// Disks of templates that the revision does not have and that the machine keeps.
    remaining: Vec<(&'a str, &'a str)>,
    /// Templates whose disk a user detached, with that disk. It stays detached and stays in the disk map.
    detached: Vec<(&'a str, String)>,
    /// Templates without a disk in the machine yet. A device with the name of such a template is its
    /// placeholder.
    unfilled: Vec<&'a str>,
}

impl<'a> DiskAssignment<'a> {
    /// Templates that `disks` does not contain keep their disks. A device that a user removed stays removed.
    pub(super) fn new(live: &Value, to: &'a Value, disks: &'a [DiskDraft]) -> Self {
        let before: BTreeMap<String, String> = live["metadata"]["annotations"][annotations::DISKS]
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let templates: Vec<&str> = attached_disk_templates(to).collect();
        let present = machine_devices(live);
        let is_filled = |disk: &str| present.iter().any(|device| is_disk(device, disk));
        let is_drafted = |template: &str| disks.iter().any(|disk| *disk.template == *template);
        let detached = templates.iter().filter(|template| !is_drafted(template)).filter_map(|template| {
            let disk = before.get(*template).filter(|disk| !is_filled(disk))?;
            Some((*template, disk.clone()))
        });
        let detached: Vec<_> = detached.collect();
        let is_detached = |template: &str| detached.iter().any(|(detached, _)| *detached == template);
        let wanted = templates.iter().filter(|template| !is_detached(template)).filter_map(|template| {
            let drafted = disks.iter().find(|disk| *disk.template == **template);
            let disk =
                drafted.map(|disk| disk.name.to_string()).or_else(|| before.get(*template).cloned())?;
            Some((*template, disk))
        });
        let wanted: Vec<_> = wanted.collect();
        let unfilled = wanted
            .iter()
            .filter(|(template, disk)| !before.contains_key(*template) && !is_filled(disk))
            .map(|(template, _)| *template)
            .collect();
        let kept = disks.iter().filter(|disk| !templates.contains(&&*disk.template));
        let kept = kept.map(|disk| (&*disk.template, &*disk.name)).collect();
        Self { before, wanted, remaining: kept, detached, unfilled }
    }

    /// The new disk map of the machine.
    pub(super) fn map(&self) -> BTreeMap<&str, &str> {
        let wanted = self.wanted.iter().map(|(template, disk)| (*template, &**disk));
        let detached = self.detached.iter().map(|(template, disk)| (*template, &**disk));
        wanted.chain(detached).chain(self.remaining.iter().copied()).collect()
    }

    fn of(&self, template: &str) -> Option<&str> {
        self.wanted.iter().find(|(known, _)| *known == template).map(|(_, disk)| &**disk)
    }

    fn keeps(&self, device: &Value) -> bool {
        self.remaining.iter().any(|(_, disk)| is_disk(device, disk))
    }

    /// Whether the device fills a template: the disk map of the machine contains it, or it is a placeholder
    /// with the name of the template.
    fn is_former(&self, device: &Value, template: &str) -> bool {
        match self.before.get(template) {
            Some(disk) => is_disk(device, disk),
            None => self.unfilled.contains(&template) && is_disk(device, template),
        }
    }

    /// Whether the disk was attached because of a template.
    fn is_from_template(&self, device: &Value) -> bool {
        self.before.values().any(|disk| is_disk(device, disk))
            || self.wanted.iter().any(|(template, _)| self.is_former(device, template))
    }
}

/// The devices of a machine.
pub(super) fn machine_devices(machine: &Value) -> Vec<Value> {
    machine["spec"][FIELD].as_array().cloned().unwrap_or_default()
}

/// The devices of a new machine.
pub(super) fn drafted_devices(template: &Value, disks: &[DiskDraft]) -> Vec<Value> {
    let filling = DiskAssignment::new(&Value::Null, template, disks);
    resolve_template_devices(&[], &[], template, &filling)
}

/// The new device list of a machine: the devices of template `to` in its order, between them the disks that
/// it keeps from earlier templates in their positions, and at the end the devices that do not come from
/// templates.
pub(super) fn merge_devices(
    live: &Value,
    from: Option<&Value>,
    to: &Value,
    filling: &DiskAssignment<'_>,
) -> Vec<Value> {
    let present = machine_devices(live);
    let given = from.map(machine_devices).unwrap_or_default();
    let mut list = resolve_template_devices(&present, &given, to, filling);
    for (place, device) in present.iter().enumerate().filter(|(_, device)| filling.keeps(device)) {
        make_room(&mut list, device);
        list.insert(place.min(list.len()), device.clone());
    }
    let is_ours = |device: &Value| {
        filling.is_from_template(device)
            || (!is_any_disk(device) && given.iter().any(|given| is_same(given, device)))
    };
    for device in &present {
        if !is_ours(device) && !list.iter().any(|listed| is_same(listed, device)) {
            list.push(device.clone());
        }
    }
    // A machine without devices could not start, and its schema forbids it. If it is unknown which devices
    // came from templates, the order alone is no reason to change a machine with the right devices.
    if list.is_empty() || filling.before.is_empty() && is_permutation(&list, &present) {
        present
    } else {
        list
    }
}

/// The current devices, with a disk instead of every placeholder.
pub(super) fn fill_placeholders(live: &Value, filling: &DiskAssignment<'_>) -> Vec<Value> {
    let mut list = machine_devices(live);
    for device in &mut list {
        let template = filling.unfilled.iter().find(|template| is_disk(device, template));
        if let Some(disk) = template.and_then(|template| filling.of(template)) {
            device["name"] = disk.into();
        }
    }
    list
}

/// The devices of the template, with disks instead of template names. A device that the machine already has
/// is merged.
fn resolve_template_devices(
    present: &[Value],
    given: &[Value],
    to: &Value,
    filling: &DiskAssignment<'_>,
) -> Vec<Value> {
    let mut list = Vec::new();
    for wanted in &machine_devices(to) {
        let mut wanted = wanted.clone();
        let mut was = given.iter().find(|given| is_same(given, &wanted)).cloned();
        let mut device = None;
        if is_any_disk(&wanted) {
            let template = wanted["name"].as_str().unwrap_or_default();
            // The name of a template must never be written, because a foreign disk can have that name.
            let Some(disk) = filling.of(template) else { continue };
            device = present.iter().find(|device| filling.is_former(device, template));
            let disk = Value::from(disk);
            if let Some(was) = &mut was {
                was["name"] = disk.clone();
            }
            wanted["name"] = disk;
        }
        let device = present.iter().find(|device| is_same(device, &wanted)).or(device);
        let mut device = device.cloned().unwrap_or_else(empty_object);
        let change = Schema::default().patch(&device, was.as_ref(), &wanted);
        json_patch::merge(&mut device, &change.unwrap_or_else(empty_object));
        list.push(device);
    }
    list
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

fn is_permutation(one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len() && one.iter().all(|device| other.contains(device))
}

/// A disk that stays keeps its boot order. The devices of the template follow it.
fn make_room(list: &mut [Value], kept: &Value) {
    let Some(place) = kept["bootOrder"].as_u64() else { return };
    if !list.iter().any(|device| device["bootOrder"].as_u64() == Some(place)) {
        return;
    }
    for device in list {
        if let Some(order) = device["bootOrder"].as_u64().filter(|order| *order >= place) {
            device["bootOrder"] = (order + 1).into();
        }
    }
}

/// The disk templates that a machine template has devices for, in their order.
pub(super) fn attached_disk_templates(template: &Value) -> impl Iterator<Item = &str> {
    let devices = template["spec"][FIELD].as_array().into_iter().flatten();
    devices.filter(|device| is_any_disk(device)).filter_map(|device| device["name"].as_str())
}

fn is_any_disk(device: &Value) -> bool {
    device["kind"] == "VirtualDisk"
}

fn is_disk(device: &Value, name: &str) -> bool {
    is_any_disk(device) && device["name"] == *name
}

fn is_same(one: &Value, other: &Value) -> bool {
    one["kind"] == other["kind"] && one["name"] == other["name"]
}
