//! Values of templates in one spelling, and the parts of them that KubeVirt changes while a guest runs.
//!
//! Templates, machines, instances and stored revisions are all compared in this spelling; see
//! [`field_encodings`](super::field_encodings).

use serde_json::{Value, json};
use vmpool_engine::limits;
use vmpool_engine::revisions::LiveParts;

use super::field_encodings::{INSTANCE_SPEC, MACHINE_SPEC, TEMPLATE};

/// The parts of a template that KubeVirt applies to a running machine if its rollout strategy is LiveUpdate,
/// as JSON pointers into the spec of a VirtualMachineInstance.
const LIVE: [&str; 5] =
    ["/domain/cpu/sockets", "/domain/memory/guest", "/affinity", "/nodeSelector", "/tolerations"];

/// The live parts of a spec of a VirtualMachineInstance. What a template leaves out is no part, because
/// KubeVirt fills it in.
pub(super) fn live_parts(spec: &Value) -> LiveParts {
    let mut parts = Vec::new();
    for path in LIVE {
        let value =
            spec.pointer(path).and_then(|value| TEMPLATE.canonical_at_pointer(INSTANCE_SPEC, path, value));
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

/// A machine template, with metadata and spec, in one spelling.
pub(super) fn canonical_value(template: &Value) -> Value {
    TEMPLATE.canonical("", template).unwrap_or(Value::Null)
}

/// The value of a field in one spelling; `None` if it counts as absent. The path is a JSON pointer into the
/// spec of a machine, in which a star stands for an item of a list.
pub(super) fn canonical_field_value(path: &str, value: &Value) -> Option<Value> {
    TEMPLATE.canonical_at_pointer(MACHINE_SPEC, path, value)
}

/// Removes the field at a JSON pointer, and the objects around it that have no other field.
fn remove_field(value: &mut Value, path: &str) {
    let Some((around, field)) = path.rsplit_once('/') else { return };
    let Some(object) = value.pointer_mut(around).and_then(Value::as_object_mut) else { return };
    let removed = object.remove(field).is_some();
    if removed && object.is_empty() {
        // An absent `memory` gets the guest's memory by hot-plug, too. An empty `domain` equals an absent
        // one.
        remove_field(value, around);
    }
}
