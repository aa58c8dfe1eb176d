//! The patch that writes a template to an existing machine.
//!
//! It is a three-way merge of the template in the machine's own revision, the wanted template and the live
//! machine. It writes only the fields in which the two templates differ. Labels and annotations of other
//! clients, hot-plugged volumes, allocated addresses, volumes that a restore renamed, and a start or stop by
//! a user stay.

mod run_strategy;
mod variants;

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::annotations::FORMER_STORAGE;
use vmpool_platform::merge::Schema;

use super::dropped_storage;
use super::keys::REVISION_LABEL;
use super::machine::{self, RevisionTemplate};
use super::storage::data_volume_names_in;
use super::template;

/// The spec of a machine. Items of these lists have a key; all other lists are single values.
const SPEC: Schema = Schema {
    defaults: &[],
    keyed: &[
        (variants::DATA_VOLUME_TEMPLATES, &["/metadata/name"]),
        (variants::VOLUMES, &["name"]),
        (variants::NETWORKS, &["name"]),
        (variants::DISKS, &["name"]),
        (variants::INTERFACES, &["name"]),
        ("/template/spec/domain/devices/filesystems", &["name"]),
        ("/template/spec/domain/devices/gpus", &["name"]),
        ("/template/spec/domain/devices/hostDevices", &["name"]),
        ("/template/spec/domain/devices/inputs", &["name"]),
    ],
    unions: &[],
};

/// Fields that KubeVirt fills in at the creation of a machine and that identify the guest. The value of the
/// machine overrides that of any template.
const IDENTITY: [&str; 2] = ["uuid", "serial"];
const FIRMWARE: &str = "/template/spec/domain/firmware";

/// The JSON merge patch that brings `live`, the complete live machine with this ordinal, from the template of
/// its own revision to template `to` with the name `revision`; `None` if nothing differs.
///
/// Without `from`, because the revision is not stored, the patch sets all fields of `to` except the run
/// strategy, and removes none.
pub fn update_machine(
    live: &Value,
    from: Option<RevisionTemplate<'_>>,
    to: RevisionTemplate<'_>,
    ordinal: u64,
    revision: &str,
) -> Option<Value> {
    let mut metadata = metadata_patch(live, from, to, revision);
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let base = from.map(|from| machine::named_machine_spec(from, name, ordinal));
    let expected = base.as_ref().map(data_volume_names_in).unwrap_or_default();
    let to_spec = machine::named_machine_spec(to, name, ordinal);
    let spec = spec_patch(&live["spec"], from.zip(base), to, to_spec, revision);
    if let Some(names) = dropped_storage::dropped_storage_annotation(live, spec.as_ref(), expected) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[FORMER_STORAGE] = names;
    }
    if metadata.is_empty() && spec.is_none() {
        return None;
    }
    let mut patch = json!({ "metadata": metadata });
    if let Some(spec) = spec {
        patch["spec"] = spec;
    }
    Some(patch)
}

fn metadata_patch(
    live: &Value,
    from: Option<RevisionTemplate<'_>>,
    to: RevisionTemplate<'_>,
    revision: &str,
) -> Map<String, Value> {
    let schema = Schema::default();
    let nothing = json!({});
    let merged = |field: &str, from: Option<Map<String, Value>>, to: Map<String, Value>| {
        let live = match &live["metadata"][field] {
            Value::Null => &nothing,
            live => live,
        };
        let (from, to) = (from.map(Value::Object), Value::Object(to));
        let mut wanted = match &from {
            Some(from) => schema.keep_live(live, from, &to, |_, one, other| one == other),
            None => to,
        };
        if field == "labels" {
            wanted[REVISION_LABEL] = revision.into();
        }
        schema.patch(live, from.as_ref(), &wanted)
    };
    let (from, to) =
        (from.map(|from| machine::template_metadata(from.content)), machine::template_metadata(to.content));
    let (from_labels, from_annotations) = from.map(|from| (from.labels, from.annotations)).unzip();
    let labels = merged("labels", from_labels, to.labels);
    let annotations = merged("annotations", from_annotations, to.annotations);
    let fields = [("labels", labels), ("annotations", annotations)];
    fields.into_iter().filter_map(|(field, patch)| Some((field.to_owned(), patch?))).collect()
}

fn spec_patch(
    live: &Value,
    from: Option<(RevisionTemplate<'_>, Value)>,
    to: RevisionTemplate<'_>,
    mut to_spec: Value,
    revision: &str,
) -> Option<Value> {
    let (from, base) = from.unzip();
    let mut base = base.unwrap_or_else(|| json!({}));
    for spec in [&mut base, &mut to_spec] {
        run_strategy::remove_run_strategy(spec);
    }
    let mut wanted = match from {
        Some(_) => SPEC.keep_live(live, &base, &to_spec, template::is_same_field_value),
        None => to_spec.clone(),
    };
    run_strategy::remove_run_strategy(&mut wanted);
    machine::label_instance(&mut wanted, revision);
    if to.pins.is_object() {
        restore_references(live, &mut base, &mut wanted, &to_spec);
    }
    keep_identity(live, &mut base, &mut wanted);
    variants::replace_variants(live, &mut base, &wanted);
    let mut patch = match SPEC.patch(live, Some(&base), &wanted) {
        Some(Value::Object(patch)) => patch,
        _ => Map::new(),
    };
    let strategy =
        run_strategy::run_strategy_patch(live, from.map(|from| &from.content["spec"]), &to.content["spec"]);
    patch.extend(strategy);
    remove_stale_pins(live, &wanted, &mut patch);
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Makes the references to instance type and preference those of the wanted template, also if a user changed
/// them: all machines of a revision use the same copies.
fn restore_references(live: &Value, base: &mut Value, wanted: &mut Value, to: &Value) {
    for field in ["instancetype", "preference"] {
        for (spec, value) in [(&mut *base, &live[field]), (&mut *wanted, &to[field])] {
            let Some(spec) = spec.as_object_mut() else { continue };
            match value {
                Value::Null => spec.remove(field),
                value => spec.insert(field.to_owned(), value.clone()),
            };
        }
    }
}

/// Makes both templates agree with the firmware identity of the machine.
fn keep_identity(live: &Value, base: &mut Value, wanted: &mut Value) {
    for field in IDENTITY {
        let path = format!("{FIRMWARE}/{field}");
        let Some(current) =
            live.pointer(&path).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        else {
            continue;
        };
        for template in [&mut *base, &mut *wanted] {
            if let Some(Value::Object(firmware)) = template.pointer_mut(FIRMWARE)
                && firmware.contains_key(field)
            {
                firmware.insert(field.to_owned(), current.clone());
            }
        }
        // A field that only the former template set would be removed.
        if wanted.pointer(&path).is_none()
            && let Some(Value::Object(firmware)) = base.pointer_mut(FIRMWARE)
        {
            firmware.remove(field);
        }
    }
}

/// Removes the name of a captured revision if the machine gets another instance type or preference, or none.
/// It would otherwise keep the former one.
fn remove_stale_pins(live: &Value, wanted: &Value, patch: &mut Map<String, Value>) {
    for field in ["instancetype", "preference"] {
        let (current, next) = (&live[field], &wanted[field]);
        if next.is_null() && patch.contains_key(field) {
            patch.insert(field.to_owned(), Value::Null);
            continue;
        }
        let is_pinned = current["revisionName"].as_str().is_some_and(|name| !name.is_empty());
        let changes = |part: &str| !next[part].is_null() && next[part] != current[part];
        let sets_pin = patch.get(field).is_some_and(|patch| patch["revisionName"].is_string());
        if is_pinned && !sets_pin && next.is_object() && (changes("name") || changes("kind")) {
            let entry = patch.entry(field).or_insert_with(|| json!({}));
            if entry.is_object() {
                entry["revisionName"] = Value::Null;
            }
        }
    }
}

#[cfg(test)]
mod tests;
