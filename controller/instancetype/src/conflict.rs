//! Fields that both the machine and its instance type set.
//!
//! An instance type never merges with the machine: what it sets, the machine must not set. `cpu.maxSockets`
//! is the exception, which KubeVirt overwrites without a report.

use std::fmt;

use serde_json::Value;

use crate::fields::{MachineLocation, StatusCause};
use crate::model::{InstanceTemplate, InstanceTypeObject, InstancetypeSpec};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// The conflicts of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflicts {
    /// The paths, in a fixed order.
    paths: Vec<String>,
    /// What sets the fields, for messages.
    source: String,
}

impl FieldConflicts {
    /// The paths, from the root of the request's object. An annotation is `annotations.KEY`.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// One cause for each path.
    pub fn causes(&self) -> Vec<StatusCause> {
        let source = &self.source;
        let cause = |path: &String| {
            StatusCause::invalid(
                path,
                format!("{source} sets {path}, and it does not merge; remove the field"),
            )
        };
        self.paths.iter().map(cause).collect()
    }

    /// The conflicts with the name of the instance type.
    #[must_use]
    pub(crate) fn with(self, object: &InstanceTypeObject) -> Self {
        Self { source: format!("{} {:?}", object.kind, object.identity.name), ..self }
    }
}

impl fmt::Display for FieldConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the machine sets fields that {} sets: {}", self.source, self.paths.join(", "))
    }
}

impl std::error::Error for FieldConflicts {}

/// Looks for conflicts between a machine and its instance type. `None` if there are none.
///
/// # Errors
/// A field of the machine has the wrong type. The path starts at the root of the request's object.
pub fn find_conflicts(
    instancetype: &InstancetypeSpec,
    template: &InstanceTemplate,
    location: MachineLocation,
) -> Result<Option<FieldConflicts>, Malformed> {
    let found = conflicting_fields(instancetype, template.spec())
        .map_err(|error| location.in_template(error.below("spec")))?;
    let mut paths: Vec<String> = found.into_iter().map(|field| location.instance_field(field)).collect();
    let annotations = template.annotations().map_err(|error| location.in_template(error))?;
    for (key, wanted) in &instancetype.annotations {
        if annotations.get(key).is_some_and(|value| value != wanted) {
            paths.push(format!("annotations.{key}"));
        }
    }
    let conflicts = FieldConflicts { paths, source: "its instance type".to_owned() };
    Ok(Some(conflicts).filter(|conflicts| !conflicts.paths.is_empty()))
}

/// The conflicting fields, in the order in which an instance type is applied.
fn conflicting_fields(instancetype: &InstancetypeSpec, spec: &Value) -> Result<Vec<&'static str>, Malformed> {
    let mut found = Vec::new();
    let mut check = |field, set_by_both| {
        if set_by_both {
            found.push(field);
        }
    };
    let present = |field| Ok::<_, Malformed>(tree::value_at(spec, field)?.is_some());
    let text = |field| Ok::<_, Malformed>(tree::text_at(spec, field)?.is_some());
    let positive = |field| Ok::<_, Malformed>(tree::u32_at(spec, field)?.is_some_and(|number| number > 0));
    let yes = |field| Ok::<_, Malformed>(tree::flag_at(spec, field)? == Some(true));
    let filled = |field| Ok::<_, Malformed>(!tree::items_at(spec, field)?.is_empty());
    let cpu = &instancetype.cpu;

    check("nodeSelector", instancetype.node_selector.is_some() && present("nodeSelector")?);
    check("schedulerName", instancetype.scheduler_name.is_some() && text("schedulerName")?);
    for field in ["domain.resources.requests.cpu", "domain.resources.limits.cpu"] {
        check(field, present(field)?);
    }
    for field in ["domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads"] {
        check(field, positive(field)?);
    }
    check("domain.cpu.model", cpu.model.is_some() && text("domain.cpu.model")?);
    // KubeVirt reports this conflict with the spelling of the instance type.
    let is_dedicated = cpu.dedicated_cpu_placement.is_some() && yes("domain.cpu.dedicatedCpuPlacement")?;
    check("domain.cpu.dedicatedCPUPlacement", is_dedicated);
    let field = "domain.cpu.isolateEmulatorThread";
    check(field, cpu.isolate_emulator_thread.is_some() && yes(field)?);
    check("domain.cpu.numa", cpu.numa.is_some() && present("domain.cpu.numa")?);
    check("domain.cpu.realtime", cpu.realtime.is_some() && present("domain.cpu.realtime")?);
    if let Some(field) = conflicting_memory_field(instancetype, spec)? {
        check(field, true);
    }
    let field = "domain.ioThreads.supplementalPoolThreadCount";
    check(field, instancetype.supplemental_pool_thread_count.is_some() && present(field)?);
    check(
        "domain.ioThreadsPolicy",
        instancetype.io_threads_policy.is_some() && text("domain.ioThreadsPolicy")?,
    );
    check(
        "domain.launchSecurity",
        instancetype.launch_security.is_some() && present("domain.launchSecurity")?,
    );
    check("domain.devices.gpus", !instancetype.gpus.is_empty() && filled("domain.devices.gpus")?);
    let field = "domain.devices.hostDevices";
    check(field, !instancetype.host_devices.is_empty() && filled(field)?);
    Ok(found)
}

/// The first conflict about memory: KubeVirt reports one at most.
fn conflicting_memory_field(
    instancetype: &InstancetypeSpec,
    spec: &Value,
) -> Result<Option<&'static str>, Malformed> {
    let memory = &instancetype.memory;
    let fields = [
        ("domain.memory.guest", true),
        ("domain.memory.hugepages", memory.hugepages.is_some()),
        ("domain.memory.maxGuest", memory.max_guest.is_some()),
        ("domain.resources.requests.memory", true),
        ("domain.resources.limits.memory", true),
    ];
    for (field, set_by_type) in fields {
        if set_by_type && tree::value_at(spec, field)?.is_some() {
            return Ok(Some(field));
        }
    }
    Ok(None)
}
