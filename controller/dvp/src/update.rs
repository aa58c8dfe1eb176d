//! Updates of existing machines to another template.

mod filled;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use vmpool_api::{annotations, is_reserved};
use vmpool_engine::model::DiskDraft;
use vmpool_engine::protection;
use vmpool_engine::revisions::RevisionId;
use vmpool_platform::merge::Schema;

use super::devices::{self, DiskAssignment};
use super::template::SPEC;

/// The merge patch; see [`vmpool_platform::Platform::update`].
///
/// The patch contains the whole device list in the order of the template. Devices that the machine already
/// has are preserved.
pub(super) fn update_machine(
    live: &Value,
    from: Option<&Value>,
    revision: &RevisionId,
    to: &Value,
    disks: &[DiskDraft],
) -> Option<Value> {
    let filling = DiskAssignment::new(live, to, disks);
    let metadata = metadata_patch(live, from, revision, to, &filling);
    machine_patch(metadata, spec_patch(live, from, to, &filling))
}

/// The merge patch; see [`vmpool_platform::Platform::adopt`].
pub(super) fn adopt_machine(
    live: &Value,
    revision: &RevisionId,
    to: &Value,
    disks: &[DiskDraft],
) -> Option<Value> {
    let filling = DiskAssignment::new(live, to, disks);
    let metadata = metadata_patch(live, None, revision, to, &filling);
    let list = devices::fill_placeholders(live, &filling);
    let differs = list != devices::machine_devices(live);
    machine_patch(metadata, differs.then(|| json!({ devices::FIELD: list })))
}

/// The merge patch with these changes; `None` if there are none.
fn machine_patch(metadata: Map<String, Value>, spec: Option<Value>) -> Option<Value> {
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), metadata.into());
    }
    patch.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn spec_patch(live: &Value, from: Option<&Value>, to: &Value, filling: &DiskAssignment<'_>) -> Option<Value> {
    let without_devices = |template: &Value| {
        let mut spec = template["spec"].clone();
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(devices::FIELD);
        }
        spec
    };
    let from_spec = from.map(without_devices);
    let mut patch = SPEC.patch(&live["spec"], from_spec.as_ref(), &without_devices(to));
    if let Some(patch) = &mut patch {
        filled::reset_filled_fields(live, &to["spec"], patch);
    }
    let list = devices::merge_devices(live, from, to, filling);
    if list != devices::machine_devices(live) {
        patch.get_or_insert_with(|| json!({}))[devices::FIELD] = list.into();
    }
    patch
}

fn metadata_patch(
    live: &Value,
    from: Option<&Value>,
    revision: &RevisionId,
    to: &Value,
    filling: &DiskAssignment<'_>,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for field in ["labels", "annotations"] {
        let set = |template: &Value| Value::Object(settable_entries(&template["metadata"][field]));
        let change = Schema::default().patch(&live["metadata"][field], from.map(set).as_ref(), &set(to));
        if let Some(change) = change {
            patch.insert(field.to_owned(), change);
        }
    }
    let markers = changed_markers(&live["metadata"]["annotations"], revision, filling);
    if !markers.is_empty()
        && let Some(annotations) = patch.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
    {
        annotations.extend(markers);
    }
    patch
}

/// The labels or annotations that a template can set: all except the keys of vmpool.
pub(super) fn settable_entries(map: &Value) -> Map<String, Value> {
    let entries = map.as_object().into_iter().flatten();
    let is_ours = |key: &str| is_reserved(key) || key.starts_with(protection::PREFIX);
    let entries = entries.filter(|(key, value)| !is_ours(key) && !value.is_null());
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The labels and annotations of the controller that differ.
fn changed_markers(live: &Value, revision: &RevisionId, filling: &DiskAssignment<'_>) -> Map<String, Value> {
    let mut markers = Map::new();
    if live[annotations::PATCHED_TEMPLATE_HASH] != *revision.as_str() {
        markers.insert(annotations::PATCHED_TEMPLATE_HASH.to_owned(), revision.as_str().into());
    }
    let wanted = filling.map();
    let known: Option<BTreeMap<String, String>> =
        live[annotations::DISKS].as_str().and_then(|text| serde_json::from_str(text).ok());
    let is_known = known.is_some_and(|known| known.iter().map(|(t, d)| (&**t, &**d)).eq(wanted.clone()));
    if !is_known {
        markers.insert(annotations::DISKS.to_owned(), json!(wanted).to_string().into());
    }
    markers
}

#[cfg(test)]
mod tests;
