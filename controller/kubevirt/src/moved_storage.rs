//! Storage to which a user moved a volume of a machine, with a volume migration or by hand.
//!
//! The volume then names another claim, and the DataVolume template with the old one is no longer in the
//! machine. The machine still has the volume of the template, with its name. If its storage is preserved, the
//! next machine with the ordinal must use the new claim: the old one contains the data of the time before the
//! migration. No object of the machine remains that could say so, so the pool does.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations::MOVED_STORAGE;
use vmpool_engine::limits;
use vmpool_engine::scale_up::names::parse_canonical_number;
use vmpool_platform::StorageMove;

use super::machine::{RevisionTemplate, numbered_machine_spec};
use super::objects::{KubeVirtMachineObject, VolumeSource};
use super::storage::data_volume_names_in;

/// The kinds of sources, as the annotation names them.
const DATA_VOLUME: &str = "DataVolume";
const CLAIM: &str = "PersistentVolumeClaim";

/// The source of a volume, and the field in it that names the object.
const OF_DATA_VOLUME: (&str, &str) = ("dataVolume", "name");
const OF_CLAIM: (&str, &str) = ("persistentVolumeClaim", "claimName");

/// A move, and whether the volume names a DataVolume.
struct Entry<'a> {
    from: &'a str,
    is_data_volume: bool,
    to: &'a str,
}

fn read_entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let is_name = |name: &str| !name.is_empty() && name.len() <= limits::NAME;
    let entries = text.split(',').filter_map(move |entry| {
        let (from, source) = entry.split_once('=')?;
        let (kind, to) = source.split_once('/')?;
        let is_known = [DATA_VOLUME, CLAIM].contains(&kind) && is_name(from) && is_name(to);
        is_known.then_some(Entry { from, is_data_volume: kind == DATA_VOLUME, to })
    });
    entries.take(limits::ENTRIES)
}

/// The moves of a machine with this ordinal, as the annotation stores them; `None` if its volumes use the
/// storage of the template.
pub(super) fn find_moves(
    template: RevisionTemplate<'_>,
    ordinal: u64,
    machine: &KubeVirtMachineObject,
) -> Option<String> {
    let spec = numbered_machine_spec(template, ordinal);
    let templates = data_volume_names_in(&spec);
    let volumes = spec.pointer("/template/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let moves = volumes.filter_map(|volume| {
        let mut named = [OF_DATA_VOLUME, OF_CLAIM].into_iter().map(|(source, field)| &volume[source][field]);
        let from =
            named.find_map(Value::as_str).filter(|from| templates.iter().any(|template| template == from))?;
        let is_left = !machine.storage.templates.iter().any(|template| template == from);
        let mut sources = machine.storage.sources.iter();
        let source = sources.find(|source| volume["name"] == *source.volume).filter(|_| is_left)?;
        let VolumeSource { is_data_volume, name, .. } = source;
        let kind = if *is_data_volume { DATA_VOLUME } else { CLAIM };
        (name != from).then(|| format!("{from}={kind}/{name}"))
    });
    let moves: Vec<String> = moves.take(limits::ENTRIES).collect();
    (!moves.is_empty()).then(|| moves.join(","))
}

/// The moves in a value of the annotation.
pub(super) fn read_moves(text: &str) -> Vec<StorageMove> {
    read_entries(text)
        .map(|Entry { from, to, .. }| StorageMove { from: from.to_owned(), to: to.to_owned() })
        .collect()
}

/// The moves that a pool records, by ordinal.
pub(super) fn recorded_moves(pool: &ObjectMeta) -> BTreeMap<u64, Arc<str>> {
    let annotations = pool.annotations.iter().flatten();
    let recorded = annotations.filter_map(|(key, text)| {
        Some((parse_canonical_number(key.strip_prefix(MOVED_STORAGE)?)?, text.as_str().into()))
    });
    recorded.collect()
}

/// The merge patch of a pool that records moves, or that there are none.
pub(super) fn record_moves(ordinal: u64, moves: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { format!("{MOVED_STORAGE}{ordinal}"): moves } } })
}

/// Lets the spec of a new machine use the storage to which volumes of an earlier one were moved.
pub(super) fn apply_moves(spec: &mut Value, text: &str) {
    for Entry { from, is_data_volume, to } in read_entries(text) {
        if let Some(templates) = spec["dataVolumeTemplates"].as_array_mut() {
            let before = templates.len();
            templates.retain(|template| template["metadata"]["name"] != from);
            if templates.len() == before {
                // The template of the pool has changed, and this is not its storage.
                continue;
            }
        }
        let volumes = spec.pointer_mut("/template/spec/volumes").and_then(Value::as_array_mut);
        for volume in volumes.into_iter().flatten().filter_map(Value::as_object_mut) {
            for (former, field) in [OF_DATA_VOLUME, OF_CLAIM] {
                if volume.get(former).is_some_and(|source| source[field] == from) {
                    volume.remove(former);
                    let (source, field) = if is_data_volume { OF_DATA_VOLUME } else { OF_CLAIM };
                    volume.insert(source.to_owned(), json!({ field: to }));
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
