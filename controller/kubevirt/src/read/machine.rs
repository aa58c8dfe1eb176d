//! The storage of machines.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmpool_api::kubevirt::annotations::FORMER_STORAGE;

use super::super::dropped_storage;
use super::super::objects::KubeVirtMachineObject;

/// Names of the DataVolumes of a machine: those of its templates, those that its volumes refer to, and those
/// that an update took out of it.
pub fn data_volume_names(object: &KubeVirtMachineObject) -> Vec<Arc<str>> {
    machine_storage_names(object, &object.storage.data_volumes)
}

/// Names of the claims of a machine: those of its DataVolume templates, those that its volumes refer to, and
/// those that an update took out of it.
pub fn claim_names(object: &KubeVirtMachineObject) -> Vec<Arc<str>> {
    machine_storage_names(object, &object.storage.claims)
}

fn machine_storage_names(object: &KubeVirtMachineObject, of_volumes: &[String]) -> Vec<Arc<str>> {
    let former = object.metadata.annotations.as_ref().and_then(|map| map.get(FORMER_STORAGE));
    let former = former.into_iter().flat_map(|text| dropped_storage::recorded_storage_names(text));
    let names = object.storage.templates.iter().chain(of_volumes).map(String::as_str).chain(former);
    let mut known = BTreeSet::new();
    names.filter(|name| known.insert(*name)).map(Arc::from).collect()
}
