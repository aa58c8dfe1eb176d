//! The storage that updates took out of a machine, which still owns it.
//!
//! Only the spec of a machine says which storage the machine has. An update writes the changed template long
//! before a new machine replaces this one. If a scale-in removes the machine meanwhile, the storage of both
//! templates must be preserved, so the update records the names that it takes out of the spec.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::kubevirt::annotations::FORMER_STORAGE;
use vmpool_engine::limits;

/// The value of the annotation after the update: the names that `live` records, those of its storage that the
/// patch of its spec drops, and `expected`, those that its own revision gave it. `None` if the annotation
/// does not change, and [`Value::Null`] if no name is left.
pub fn dropped_storage_annotation(
    live: &Value,
    patch: Option<&Value>,
    expected: Vec<String>,
) -> Option<Value> {
    let after = storage_names_after_patch(&live["spec"], patch.unwrap_or(&Value::Null));
    let stored = live["metadata"]["annotations"][FORMER_STORAGE].as_str();
    let recorded = stored.into_iter().flat_map(recorded_storage_names).map(str::to_owned);
    let former = recorded.chain(storage_names_after_patch(&live["spec"], &Value::Null)).chain(expected);
    let former: BTreeSet<String> =
        former.filter(|name| !after.contains(name)).take(limits::ENTRIES).collect();
    let text = former.into_iter().collect::<Vec<_>>().join(",");
    match stored {
        None if text.is_empty() => None,
        Some(stored) if *stored == text => None,
        Some(_) if text.is_empty() => Some(Value::Null),
        _ => Some(text.into()),
    }
}

/// The names in a value of the annotation.
pub fn recorded_storage_names(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split(',').filter(|name| !name.is_empty() && name.len() <= limits::NAME);
    names.take(limits::ENTRIES)
}

/// Names of the DataVolumes and claims in the spec of a machine after this merge patch, which replaces lists.
fn storage_names_after_patch(spec: &Value, patch: &Value) -> BTreeSet<String> {
    let list = |pointer: &str| {
        let list = patch.pointer(pointer).unwrap_or_else(|| spec.pointer(pointer).unwrap_or(&Value::Null));
        list.as_array().into_iter().flatten()
    };
    let templates = list("/dataVolumeTemplates").filter_map(|template| template["metadata"]["name"].as_str());
    let volumes = list("/template/spec/volumes").flat_map(|volume| {
        [&volume["dataVolume"]["name"], &volume["persistentVolumeClaim"]["claimName"]]
            .into_iter()
            .filter_map(Value::as_str)
    });
    templates.chain(volumes).map(str::to_owned).collect()
}
