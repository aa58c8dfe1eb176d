//! Fields that both the machine and its instance type set.
//!
//! An instance type never merges with the machine: what it sets, the machine must not set. `cpu.maxSockets` is the
//! exception, which KubeVirt overwrites without a report.

use std::fmt;

use serde_json::Value;

use crate::fields::{Cause, Location};
use crate::model::{InstanceTemplate, InstancetypeSpec, Object};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// The conflicts of one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts {
    /// The paths, in a fixed order.
    paths: Vec<String>,
    /// What sets the fields, for messages.
    source: String,
}

impl Conflicts {
    /// The paths, from the root of the request's object. An annotation is `annotations.KEY`.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// One cause for each path.
    pub fn causes(&self) -> Vec<Cause> {
        let source = &self.source;
        let cause = |path: &String| {
            Cause::invalid(path, format!("{source} sets {path}, and it does not merge; remove the field"))
        };
        self.paths.iter().map(cause).collect()
    }

    /// The conflicts with the name of the instance type.
    #[must_use]
    pub(crate) fn with(self, object: &Object) -> Self {
        Self { source: format!("{} {:?}", object.kind, object.identity.name), ..self }
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the machine sets fields that {} sets: {}", self.source, self.paths.join(", "))
    }
}

impl std::error::Error for Conflicts {}

/// Looks for conflicts between a machine and its instance type. `None` if there are none.
///
/// # Errors
/// A field of the machine has the wrong type. The path starts at the root of the request's object.
pub fn conflicts(
    instancetype: &InstancetypeSpec,
    template: &InstanceTemplate,
    location: Location,
) -> Result<Option<Conflicts>, Malformed> {
    let found =
        fields(instancetype, template.spec()).map_err(|error| location.in_template(error.below("spec")))?;
    let mut paths: Vec<String> = found.into_iter().map(|field| location.instance_field(field)).collect();
    let annotations = template.annotations().map_err(|error| location.in_template(error))?;
    for (key, wanted) in &instancetype.annotations {
        if annotations.get(key).is_some_and(|value| value != wanted) {
            paths.push(format!("annotations.{key}"));
        }
    }
    let conflicts = Conflicts { paths, source: "its instance type".to_owned() };
    Ok(Some(conflicts).filter(|conflicts| !conflicts.paths.is_empty()))
}

/// The conflicting fields, in the order in which an instance type is applied.
fn fields(instancetype: &InstancetypeSpec, spec: &Value) -> Result<Vec<&'static str>, Malformed> {
    let mut found = Vec::new();
    let mut check = |field, set_by_both| {
        if set_by_both {
            found.push(field);
        }
    };
    let present = |field| Ok::<_, Malformed>(tree::get(spec, field)?.is_some());
    let text = |field| Ok::<_, Malformed>(tree::text(spec, field)?.is_some());
    let positive = |field| Ok::<_, Malformed>(tree::count(spec, field)?.is_some_and(|number| number > 0));
    let yes = |field| Ok::<_, Malformed>(tree::flag(spec, field)? == Some(true));
    let filled = |field| Ok::<_, Malformed>(!tree::items(spec, field)?.is_empty());
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
    if let Some(field) = memory(instancetype, spec)? {
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
fn memory(instancetype: &InstancetypeSpec, spec: &Value) -> Result<Option<&'static str>, Malformed> {
    let memory = &instancetype.memory;
    let fields = [
        ("domain.memory.guest", true),
        ("domain.memory.hugepages", memory.hugepages.is_some()),
        ("domain.memory.maxGuest", memory.max_guest.is_some()),
        ("domain.resources.requests.memory", true),
        ("domain.resources.limits.memory", true),
    ];
    for (field, set_by_type) in fields {
        if set_by_type && tree::get(spec, field)?.is_some() {
            return Ok(Some(field));
        }
    }
    Ok(None)
}
