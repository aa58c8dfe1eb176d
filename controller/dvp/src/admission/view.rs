//! Lenient access to a pool object, because the cluster may have another definition of pools.

use serde_json::Value;
use vmpool_engine::admission::count::ReplicasState;
use vmpool_engine::admission::shorten_text;
use vmpool_engine::model::ScaleDownPolicy;

pub(super) use vmpool_platform::value::{json_at_path, json_entries, json_field, json_text};

/// Path of the spec of machines in a pool.
pub(super) const MACHINE: &str = "spec.virtualMachineTemplate.spec";

/// A pool object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewedPool<'a>(pub(super) &'a Value);

/// One entry of the list of disk templates.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReviewedDiskTemplate<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
}

impl<'a> ReviewedPool<'a> {
    pub(super) fn name(self) -> &'a str {
        json_at_path(self.0, &["metadata", "name"]).as_str().unwrap_or_default()
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

    /// An absent count means zero.
    pub(super) fn replicas(self) -> i64 {
        json_field(self.spec(), "replicas").as_i64().unwrap_or(0)
    }

    /// The number of machines in the status, if the controller has published one.
    pub(super) fn current_replicas(self) -> Option<i64> {
        json_at_path(self.0, &["status", "replicas"]).as_i64()
    }

    pub(super) fn explicit(self) -> bool {
        let policy = json_text(self.spec(), "scaleDownPolicy").and_then(ScaleDownPolicy::parse);
        policy.is_some_and(ScaleDownPolicy::deletes_only_targets)
    }

    pub(super) fn count(self) -> ReplicasState<'a> {
        let replicas = json_field(self.spec(), "replicas");
        ReplicasState { replicas, desired: self.replicas(), explicit: self.explicit() }
    }

    pub(super) fn template(self) -> &'a Value {
        json_field(self.spec(), "virtualMachineTemplate")
    }

    /// The devices of the machines.
    pub(super) fn devices(self) -> &'a [Value] {
        json_entries(json_at_path(self.template(), &["spec", "blockDeviceRefs"]))
    }

    pub(super) fn disks(self) -> impl Iterator<Item = ReviewedDiskTemplate<'a>> {
        json_entries(json_field(self.spec(), "virtualDiskTemplates"))
            .iter()
            .map(|value| ReviewedDiskTemplate { name: json_text(value, "name").unwrap_or_default(), value })
    }

    pub(super) fn disk(self, name: &str) -> Option<ReviewedDiskTemplate<'a>> {
        self.disks().find(|disk| disk.name == name)
    }
}

/// Path of a part of the disk template with this name; `below` begins with a dot, or is empty.
pub(super) fn disk_template_path(name: &str, below: &str) -> String {
    // A valid name has at most 63 characters.
    format!("spec.virtualDiskTemplates[{}]{below}", shorten_text(name, 63))
}

impl<'a> ReviewedDiskTemplate<'a> {
    /// Path of a part of it; `below` begins with a dot, or is empty.
    pub(super) fn path(self, below: &str) -> String {
        disk_template_path(self.name, below)
    }

    pub(super) fn spec(self) -> &'a Value {
        json_field(self.value, "spec")
    }

    pub(super) fn reclaim(self) -> &'a Value {
        json_field(self.value, "reclaim")
    }

    /// The reclaim policy; `Delete` if it is absent.
    pub(super) fn on_scale_down(self) -> &'a str {
        json_text(self.reclaim(), "onScaleDown").unwrap_or("Delete")
    }

    pub(super) fn retains(self) -> bool {
        self.on_scale_down() == "Retain"
    }

    pub(super) fn size(self) -> &'a Value {
        json_at_path(self.spec(), &["persistentVolumeClaim", "size"])
    }
}
