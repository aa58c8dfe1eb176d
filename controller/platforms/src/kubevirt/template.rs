//! The machine template: when two templates are equal, and what a difference requires of a running machine.
//!
//! KubeVirt compares templates as values of its Go types. There, absent, null and empty lists and maps are equal, as are
//! spellings of the same quantity, and absent and zero values of fields that are no pointers. Revisions of KubeVirt
//! contain such values in other spellings than the pool, so that a comparison of JSON would find differences in pools
//! that are unchanged.

use serde_json::{Map, Value, json};
use vmpool_api::Quantity;

use super::machine;

/// Fields that are maps. Their keys are free, so an empty text in them is a value. An empty map equals an absent one.
const MAPS: [&str; 6] = ["labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits"];
/// Fields that are structs and no pointers: an empty one equals an absent one. Any other empty object is significant,
/// for example `masquerade: {}`.
const STRUCTS: [&str; 6] = ["metadata", "spec", "template", "domain", "devices", "resources"];
/// Fields that are pointers to texts: an empty text differs from an absent one.
const OPTIONAL_TEXTS: [&str; 2] = ["storageClassName", "apiGroup"];
/// Fields that are no pointers, with false or zero as the absent value.
const PLAIN: [&str; 10] = [
    "dedicatedCpuPlacement",
    "isolateEmulatorThread",
    "hotpluggable",
    "readonly",
    "readOnly",
    "reservation",
    "cores",
    "sockets",
    "threads",
    "maxSockets",
];
/// Maps of quantities.
const QUANTITY_MAPS: [&str; 2] = ["requests", "limits"];
/// Fields with a quantity, with the field around them.
const QUANTITIES: [(&str, &str); 4] = [
    ("memory", "guest"),
    ("memory", "maxGuest"),
    ("emptyDisk", "capacity"),
    ("reservedOverhead", "addedOverhead"),
];

/// The parts of a template that KubeVirt applies to a running machine if its rollout strategy is LiveUpdate, as JSON
/// pointers below `spec.template.spec`.
const LIVE_UPDATABLE: [&str; 5] =
    ["/domain/cpu/sockets", "/domain/memory/guest", "/affinity", "/nodeSelector", "/tolerations"];

/// What a changed template requires of a running machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The templates are equal.
    None,
    /// Only parts differ that the running guest does not have: labels and annotations of the machine, or its run
    /// strategy, for example.
    Outside,
    /// Only parts of the VirtualMachineInstance differ that KubeVirt can apply without a restart.
    LiveUpdatable,
    /// The VirtualMachineInstance differs, even if only in a label.
    Instance,
    /// The DataVolume templates differ, so the machine needs other storage.
    Storage,
}

/// The canonical form of `virtualMachineTemplate`: what machines are created from, in one spelling. Two templates with
/// equal forms are the same template.
pub fn canonical(template: &Value) -> Value {
    let machine::Metadata { labels, annotations } = machine::metadata(template);
    let whole =
        json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": template["spec"] });
    reduced(&whole, "", "").unwrap_or(Value::Null)
}

/// Whether two values of the field at a path are equal. The path is a JSON pointer into a machine template.
pub(super) fn is_same(path: &str, one: &Value, other: &Value) -> bool {
    normal(path, one) == normal(path, other)
}

/// How two templates differ.
pub fn difference(from: &Value, to: &Value) -> Difference {
    let (from, to) = (canonical(from), canonical(to));
    if from == to {
        return Difference::None;
    }
    let differs = |path: &str| from.pointer(path) != to.pointer(path);
    if differs("/spec/dataVolumeTemplates") {
        return Difference::Storage;
    }
    if !differs("/spec/template") {
        return Difference::Outside;
    }
    let rest = |template: &Value| {
        let mut instance = template.pointer("/spec/template").cloned().unwrap_or_default();
        for path in LIVE_UPDATABLE {
            remove(&mut instance, &format!("/spec{path}"));
        }
        instance
    };
    if rest(&from) == rest(&to) { Difference::LiveUpdatable } else { Difference::Instance }
}

/// Whether a VirtualMachineInstance already has the live-updatable parts of a template. A part that the template leaves
/// out is not compared, because KubeVirt fills it in.
pub fn is_live_updated(template: &Value, instance: &Value) -> bool {
    LIVE_UPDATABLE.iter().all(|path| {
        let wanted = template.pointer(&format!("/spec/template/spec{path}"));
        let wanted = wanted.and_then(|wanted| normal(path, wanted));
        let current = instance.pointer(&format!("/spec{path}")).and_then(|current| normal(path, current));
        match (wanted, current) {
            (None, _) => true,
            (Some(wanted), Some(current)) => contains(&current, &wanted),
            (Some(_), None) => false,
        }
    })
}

/// The value of the field at a path in one spelling. A star in the path stands for an item of a list.
fn normal(path: &str, value: &Value) -> Option<Value> {
    let mut fields = path.rsplit('/').filter(|field| *field != "*");
    let field = fields.next().unwrap_or_default();
    reduced(value, fields.next().unwrap_or_default(), field)
}

/// Whether all entries of a map and all items of a list are there. Admission adds others.
fn contains(current: &Value, wanted: &Value) -> bool {
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| current.get(key) == Some(value))
        }
        (Value::Array(current), Value::Array(wanted)) => wanted.iter().all(|item| current.contains(item)),
        (current, wanted) => current == wanted,
    }
}

/// A value in one spelling; `None` if it counts as absent. `field` is the field that contains it, and `around` the field
/// that contains that one.
fn reduced(value: &Value, around: &str, field: &str) -> Option<Value> {
    let is_map_entry = MAPS.contains(&around);
    match value {
        Value::Null => None,
        Value::Object(object) => {
            let reduced: Map<String, Value> = object
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), reduced(value, field, key)?)))
                .collect();
            let implied = !is_map_entry && (MAPS.contains(&field) || STRUCTS.contains(&field));
            (!reduced.is_empty() || !implied).then_some(Value::Object(reduced))
        }
        Value::Array(items) if items.is_empty() => None,
        // The items of a list have the name of the list, and positions in it are significant.
        Value::Array(items) => Some(items.iter().map(|item| item_of(item, field)).collect()),
        scalar if is_quantity(around, field) => Some(quantity(scalar)),
        Value::String(text) if text.is_empty() => {
            (is_map_entry || OPTIONAL_TEXTS.contains(&field)).then(|| value.clone())
        }
        Value::Bool(false) if !is_map_entry && PLAIN.contains(&field) => None,
        Value::Number(number) if number.as_i64() == Some(0) && PLAIN.contains(&field) => None,
        other => Some(other.clone()),
    }
}

fn item_of(item: &Value, list: &str) -> Value {
    match item {
        Value::Object(_) => reduced(item, "", &format!("{list}[]")).unwrap_or(Value::Null),
        other => other.clone(),
    }
}

fn is_quantity(around: &str, field: &str) -> bool {
    QUANTITY_MAPS.contains(&around) || QUANTITIES.contains(&(around, field))
}

/// A quantity in billionths. A value that is no quantity stays as it is.
fn quantity(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return other.clone(),
    };
    Quantity::new(text).nanos().map_or_else(|_| value.clone(), |nanos| format!("{nanos}n").into())
}

/// Removes the field at a JSON pointer, and the objects around it that have no other field.
fn remove(value: &mut Value, path: &str) {
    let Some((around, field)) = path.rsplit_once('/') else { return };
    let Some(object) = value.pointer_mut(around).and_then(Value::as_object_mut) else { return };
    let removed = object.remove(field).is_some();
    if removed && object.is_empty() && STRUCTS.iter().all(|known| !around.ends_with(known)) {
        // An absent `memory` gets the guest's memory by hot-plug, too.
        remove(value, around);
    }
}

#[cfg(test)]
mod tests;
