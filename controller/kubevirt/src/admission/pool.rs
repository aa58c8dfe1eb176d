//! Lenient access to a pool object, because the cluster may have another definition of pools.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations::NAME_GENERATION;

use crate::annotated_names::{FIELD, add_annotated_names};
use crate::read::{NameGenerationSettings, read_pool_settings};
use vmpool_platform::value::{json_at_path, json_entries, json_field, json_text};

/// The path of the machine template in a pool.
pub(super) const TEMPLATE: &str = "spec.virtualMachineTemplate";
/// The path of the spec of machines in a pool.
pub(super) const MACHINE: &str = "spec.virtualMachineTemplate.spec";
/// The path of the template for VirtualMachineInstances in a pool.
pub(super) const INSTANCE: &str = "spec.virtualMachineTemplate.spec.template";

/// A pool object.
#[derive(Clone, Copy, Debug)]
pub(super) struct KubeVirtPoolView<'a>(pub(super) &'a Value);

/// Whether values are equal to the API: an absent map or list equals an empty one.
pub(super) fn is_same_value(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    one == other || (is_empty(one) && is_empty(other))
}

/// Labels as text. Values of other types are skipped.
pub(super) fn to_label_map(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

impl<'a> KubeVirtPoolView<'a> {
    pub(super) fn name(self) -> &'a str {
        json_at_path(self.0, &["metadata", "name"]).as_str().unwrap_or_default()
    }

    pub(super) fn uid(self) -> Option<&'a str> {
        json_at_path(self.0, &["metadata", "uid"]).as_str()
    }

    pub(super) fn deleting(self) -> bool {
        !json_at_path(self.0, &["metadata", "deletionTimestamp"]).is_null()
    }

    pub(super) fn annotation(self, key: &str) -> &'a Value {
        json_at_path(self.0, &["metadata", "annotations", key])
    }

    pub(super) fn spec(self) -> &'a Value {
        json_field(self.0, "spec")
    }

    /// A field of the spec.
    pub(super) fn part(self, name: &str) -> &'a Value {
        json_field(self.spec(), name)
    }

    pub(super) fn selector(self) -> &'a Value {
        self.part("selector")
    }

    pub(super) fn template(self) -> &'a Value {
        self.part("virtualMachineTemplate")
    }

    /// The spec of the machines.
    pub(super) fn machine(self) -> &'a Value {
        json_field(self.template(), "spec")
    }

    /// The template of the VirtualMachineInstances.
    pub(super) fn instance(self) -> &'a Value {
        json_field(self.machine(), "template")
    }

    /// The labels of the machines.
    pub(super) fn labels(self) -> &'a Value {
        json_at_path(self.template(), &["metadata", "labels"])
    }

    /// The labels of the VirtualMachineInstances.
    pub(super) fn inner_labels(self) -> &'a Value {
        json_at_path(self.instance(), &["metadata", "labels"])
    }

    /// The disks of the machines.
    pub(super) fn disks(self) -> &'a [Value] {
        json_entries(json_at_path(self.instance(), &["spec", "domain", "devices", "disks"]))
    }

    /// The volumes of the machines.
    pub(super) fn volumes(self) -> &'a [Value] {
        json_entries(json_at_path(self.instance(), &["spec", "volumes"]))
    }

    /// The DataVolume templates of the machines.
    pub(super) fn data_volumes(self) -> &'a [Value] {
        json_entries(json_field(self.machine(), "dataVolumeTemplates"))
    }

    /// Which names get the ordinal, by the spec and the annotation.
    pub(super) fn name_generation(self) -> NameGenerationSettings {
        let mut spec = json!({ FIELD: self.part(FIELD) });
        let annotation = self.annotation(NAME_GENERATION).as_str().map(str::to_owned);
        add_annotated_names(&mut spec, annotation.as_ref());
        read_pool_settings(&spec).names
    }

    /// The names of the DataVolume templates.
    pub(super) fn data_volume_names(self) -> impl Iterator<Item = &'a str> {
        self.data_volumes().iter().filter_map(|template| json_text(json_field(template, "metadata"), "name"))
    }
}
