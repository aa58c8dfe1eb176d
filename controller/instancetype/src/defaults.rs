//! The general defaults of an instance: what is still empty after instance type and preference were applied.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Amount;
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// The defaults that come from the cluster's configuration. The others need no configuration.
#[derive(Debug, Clone, Default)]
pub struct InstanceDefaults {
    /// The architecture, for example `amd64`.
    pub architecture: String,
    /// The machine type for each architecture, for example `q35` for `amd64`.
    pub machine_types: BTreeMap<String, String>,
    /// The CPU request of an instance without dedicated CPUs, for example `100m`. `None` adds none.
    pub cpu_request: Option<String>,
    /// What happens to an instance when its node is drained, for example `LiveMigrate`. `None` adds none.
    pub eviction_strategy: Option<String>,
}

impl InstanceDefaults {
    /// Fills what is empty, as in an instance that starts.
    pub(crate) fn fill(&self, spec: &mut Value) -> Result<(), Malformed> {
        self.fill_architecture(spec)?;
        fill_cpu_and_memory(spec)?;
        self.cpu_request(spec)?;
        pull_policies(spec, has_mutable_tag)?;
        tree::set_default_text(spec, "evictionStrategy", self.eviction_strategy.as_deref())?;
        tree::for_each_item(spec, "domain.devices.inputs", |input| {
            tree::set_default_text(input, "bus", Some("usb"))?;
            tree::set_default_text(input, "type", Some("tablet"))
        })
    }

    /// Fills what KubeVirt fills in an expansion: a topology only if the machine has no part of one, a CPU
    /// request that equals the limit, and no fields of input devices.
    pub(crate) fn fill_as_kubevirt(&self, spec: &mut Value) -> Result<(), Malformed> {
        self.fill_architecture(spec)?;
        request_cpu_limit(spec)?;
        self.cpu_request(spec)?;
        tree::object_mut(spec, "domain.memory")?;
        fill_guest_memory(spec)?;
        if unset_dimensions(spec)?.len() == DIMENSIONS.len() {
            fill_cpu_topology(spec)?;
        }
        pull_policies(spec, has_mutable_tag_in_expansion)?;
        tree::set_default_text(spec, "evictionStrategy", self.eviction_strategy.as_deref())
    }

    /// Fills architecture and machine type. The second follows the first.
    fn fill_architecture(&self, spec: &mut Value) -> Result<(), Malformed> {
        let architecture = Some(self.architecture.as_str()).filter(|name| !name.is_empty());
        tree::set_default_text(spec, "architecture", architecture)?;
        let machine_type = tree::text_at(spec, "architecture")?.and_then(|name| self.machine_types.get(name));
        tree::set_default_text(spec, "domain.machine.type", machine_type.map(String::as_str))
    }

    /// The request of an instance that states neither a request nor a limit.
    fn cpu_request(&self, spec: &mut Value) -> Result<(), Malformed> {
        let dedicated = tree::flag_at(spec, "domain.cpu.dedicatedCpuPlacement")? == Some(true);
        let limited = tree::value_at(spec, "domain.resources.limits.cpu")?.is_some();
        let request = self.cpu_request.as_deref().filter(|_| !dedicated && !limited);
        tree::set_default(spec, "domain.resources.requests.cpu", request)
    }
}

/// Fills the number of vCPUs and the memory that the guest sees. They follow from the rest of the instance.
pub(crate) fn fill_cpu_and_memory(spec: &mut Value) -> Result<(), Malformed> {
    fill_guest_memory(spec)?;
    fill_cpu_topology(spec)
}

/// The guest sees the requested memory, else its limit, else one huge page.
fn fill_guest_memory(spec: &mut Value) -> Result<(), Malformed> {
    let mut default = None;
    for path in [
        "domain.resources.requests.memory",
        "domain.resources.limits.memory",
        "domain.memory.hugepages.pageSize",
    ] {
        default = default.or(positive_amount_at(spec, path)?.cloned());
    }
    tree::set_default(spec, "domain.memory.guest", default)
}

/// The amount at a path; `None` if it is zero or no amount.
fn positive_amount_at<'a>(spec: &'a Value, path: &str) -> Result<Option<&'a Value>, Malformed> {
    let is_positive = |amount: &&Value| Amount::from_json(amount).is_some_and(|amount| amount.is_positive());
    Ok(tree::value_at(spec, path)?.filter(is_positive))
}

/// Requests as much CPU as the limit, if a limit and no request is stated.
fn request_cpu_limit(spec: &mut Value) -> Result<(), Malformed> {
    let request = "domain.resources.requests.cpu";
    let limit = positive_amount_at(spec, "domain.resources.limits.cpu")?.cloned();
    let is_open = positive_amount_at(spec, request)?.is_none();
    tree::set_given(spec, request, limit.filter(|_| is_open))
}

/// The parts of a topology.
const DIMENSIONS: [&str; 3] = ["domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads"];

/// The parts of the topology that the machine does not set.
fn unset_dimensions(spec: &Value) -> Result<Vec<&'static str>, Malformed> {
    let mut unset = Vec::new();
    for dimension in DIMENSIONS {
        if tree::u32_at(spec, dimension)?.unwrap_or(0) == 0 {
            unset.push(dimension);
        }
    }
    Ok(unset)
}

/// An instance without a topology has as many sockets as its CPU limit, else as CPUs are requested, else one.
fn fill_cpu_topology(spec: &mut Value) -> Result<(), Malformed> {
    let unset = unset_dimensions(spec)?;
    let mut sockets = 1;
    if unset.len() == DIMENSIONS.len() {
        let cpus = |path| Ok::<_, Malformed>(tree::value_at(spec, path)?.and_then(Amount::from_json));
        let limit = cpus("domain.resources.limits.cpu")?.or(cpus("domain.resources.requests.cpu")?);
        sockets = limit.map_or(1, |cpus| cpus.whole().max(1));
    }
    for dimension in unset {
        tree::set_value(spec, dimension, if dimension == "domain.cpu.sockets" { sockets } else { 1 })?;
    }
    Ok(())
}

/// Images whose tag can move are pulled at every start.
fn pull_policies(spec: &mut Value, is_mutable: fn(&str) -> bool) -> Result<(), Malformed> {
    tree::for_each_item(spec, "volumes", |volume| {
        if tree::object_at(volume, "containerDisk")?.is_none() {
            return Ok(());
        }
        let policy = if tree::text_at(volume, "containerDisk.image")?.is_some_and(is_mutable) {
            "Always"
        } else {
            "IfNotPresent"
        };
        tree::set_default_text(volume, "containerDisk.imagePullPolicy", Some(policy))
    })
}

/// Whether an image has no digest, and the tag `latest` or none.
fn has_mutable_tag(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// The same as KubeVirt decides it: the port of a registry counts as a tag.
fn has_mutable_tag_in_expansion(image: &str) -> bool {
    image.ends_with(":latest") || !image.contains([':', '@'])
}
