//! Values of templates in one spelling.
//!
//! KubeVirt compares templates as values of its Go types. There, absent, null and empty lists and maps are
//! equal, as are spellings of the same quantity, and absent and zero values of fields that are no pointers.

use serde_json::{Map, Value, json};
use vmpool_api::Quantity;
use vmpool_engine::limits;
use vmpool_engine::revision::LiveParts;

/// Fields that are maps. Their keys are free, so an empty text in them is a value. An empty map equals an
/// absent one.
const MAPS: [&str; 6] = ["labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits"];
/// Fields that are structs and no pointers: an empty one equals an absent one. Any other empty object is
/// significant, for example `masquerade: {}`.
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

/// The parts of a template that KubeVirt applies to a running machine if its rollout strategy is LiveUpdate,
/// as JSON pointers into the spec of a VirtualMachineInstance.
const LIVE: [&str; 5] =
    ["/domain/cpu/sockets", "/domain/memory/guest", "/affinity", "/nodeSelector", "/tolerations"];

/// The live parts of a spec of a VirtualMachineInstance. What a template leaves out is no part, because
/// KubeVirt fills it in.
pub(super) fn live_parts(spec: &Value) -> LiveParts {
    let mut parts = Vec::new();
    for path in LIVE {
        let value = spec.pointer(path).and_then(|value| canonical_field_value(path, value));
        match value {
            Some(Value::Object(entries)) => {
                parts.extend(entries.into_iter().map(|(key, value)| (path, json!([key, value]))));
            }
            Some(Value::Array(items)) => parts.extend(items.into_iter().map(|item| (path, item))),
            Some(scalar) => parts.push((path, scalar)),
            None => {}
        }
    }
    parts.truncate(limits::ENTRIES);
    LiveParts::of(parts.into_iter())
}

/// Removes the live parts from a template of VirtualMachineInstances in its canonical form.
pub(super) fn remove_live_parts(instance: &mut Value) {
    for path in LIVE {
        remove_field(instance, &format!("/spec{path}"));
    }
}

/// The value of the field at a path in one spelling. A star in the path stands for an item of a list.
pub(super) fn canonical_field_value(path: &str, value: &Value) -> Option<Value> {
    let mut fields = path.rsplit('/').filter(|field| *field != "*");
    let field = fields.next().unwrap_or_default();
    canonical_value(value, fields.next().unwrap_or_default(), field)
}

/// A value in one spelling; `None` if it counts as absent. `field` is the field that contains it, and
/// `around` the field that contains that one.
pub(super) fn canonical_value(value: &Value, around: &str, field: &str) -> Option<Value> {
    let is_map_entry = MAPS.contains(&around);
    match value {
        Value::Null => None,
        Value::Object(object) => {
            let reduced: Map<String, Value> = object
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), canonical_value(value, field, key)?)))
                .collect();
            let is_struct = STRUCTS.contains(&field) || (around, field) == ("features", "acpi");
            let implied = !is_map_entry && (MAPS.contains(&field) || is_struct);
            (!reduced.is_empty() || !implied).then_some(Value::Object(reduced))
        }
        Value::Array(items) if items.is_empty() => None,
        // The items of a list have the name of the list, and positions in it are significant.
        Value::Array(items) => Some(items.iter().map(|item| canonical_list_item(item, field)).collect()),
        scalar if is_quantity(around, field) => Some(canonical_quantity(scalar)),
        Value::String(text) if text.is_empty() => {
            (is_map_entry || OPTIONAL_TEXTS.contains(&field)).then(|| value.clone())
        }
        Value::Bool(false) if !is_map_entry && PLAIN.contains(&field) => None,
        Value::Number(number) if number.as_i64() == Some(0) && PLAIN.contains(&field) => None,
        other => Some(other.clone()),
    }
}

fn canonical_list_item(item: &Value, list: &str) -> Value {
    match item {
        Value::Object(_) => canonical_value(item, "", &format!("{list}[]")).unwrap_or(Value::Null),
        other => other.clone(),
    }
}

fn is_quantity(around: &str, field: &str) -> bool {
    QUANTITY_MAPS.contains(&around) || QUANTITIES.contains(&(around, field))
}

/// A quantity in billionths. A value that is no quantity stays as it is.
fn canonical_quantity(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return other.clone(),
    };
    Quantity::new(text).nanos().map_or_else(|_| value.clone(), |nanos| format!("{nanos}n").into())
}

/// Removes the field at a JSON pointer, and the objects around it that have no other field.
fn remove_field(value: &mut Value, path: &str) {
    let Some((around, field)) = path.rsplit_once('/') else { return };
    let Some(object) = value.pointer_mut(around).and_then(Value::as_object_mut) else { return };
    let removed = object.remove(field).is_some();
    if removed && object.is_empty() && STRUCTS.iter().all(|known| !around.ends_with(known)) {
        // An absent `memory` gets the guest's memory by hot-plug, too.
        remove_field(value, around);
    }
}
