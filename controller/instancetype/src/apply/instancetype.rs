//! Applying an instance type that has no conflict with the instance.

use serde_json::Value;

use crate::model::{InstanceTemplate, InstanceTypeCpu, InstanceTypeMemory, InstancetypeSpec};
use crate::topology::{Layout, Topology};
use crate::tree::{self, Malformed};

/// Writes the fields of the instance type. Errors have paths relative to the template.
pub(super) fn apply_instancetype(
    instancetype: &InstancetypeSpec,
    topology: Topology,
    template: &mut InstanceTemplate,
) -> Result<(), Malformed> {
    write_instancetype_fields(instancetype, topology, template.spec_mut())
        .map_err(|error| error.below("spec"))?;
    for (key, value) in &instancetype.annotations {
        template.annotations_mut()?.insert(key.clone(), value.clone().into());
    }
    Ok(())
}

fn write_instancetype_fields(
    instancetype: &InstancetypeSpec,
    topology: Topology,
    spec: &mut Value,
) -> Result<(), Malformed> {
    if let Some(selector) = &instancetype.node_selector {
        let selector: Value = selector.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        tree::set_value(spec, "nodeSelector", selector)?;
    }
    tree::set_given(spec, "schedulerName", instancetype.scheduler_name.as_deref())?;
    write_cpu_fields(&instancetype.cpu, topology, spec)?;
    write_memory_fields(&instancetype.memory, spec)?;
    let threads = "domain.ioThreads.supplementalPoolThreadCount";
    tree::set_given(spec, threads, instancetype.supplemental_pool_thread_count)?;
    tree::set_given(spec, "domain.ioThreadsPolicy", instancetype.io_threads_policy.as_deref())?;
    tree::set_given(spec, "domain.launchSecurity", instancetype.launch_security.clone())?;
    for (path, devices) in [
        ("domain.devices.gpus", &instancetype.gpus),
        ("domain.devices.hostDevices", &instancetype.host_devices),
    ] {
        if !devices.is_empty() {
            tree::set_value(spec, path, devices.clone())?;
        }
    }
    Ok(())
}

fn write_cpu_fields(cpu: &InstanceTypeCpu, topology: Topology, spec: &mut Value) -> Result<(), Malformed> {
    let Layout { sockets, cores, threads } = topology.layout(cpu.guest);
    tree::set_value(spec, "domain.cpu.sockets", sockets)?;
    tree::set_value(spec, "domain.cpu.cores", cores)?;
    tree::set_value(spec, "domain.cpu.threads", threads)?;
    tree::set_given(spec, "domain.cpu.model", cpu.model.as_deref())?;
    // The instance type spells it `dedicatedCPUPlacement`.
    tree::set_given(spec, "domain.cpu.dedicatedCpuPlacement", cpu.dedicated_cpu_placement)?;
    tree::set_given(spec, "domain.cpu.isolateEmulatorThread", cpu.isolate_emulator_thread)?;
    tree::set_given(spec, "domain.cpu.numa", cpu.numa.clone())?;
    tree::set_given(spec, "domain.cpu.realtime", cpu.realtime.clone())?;
    tree::set_given(spec, "domain.cpu.maxSockets", cpu.max_sockets)
}

fn write_memory_fields(memory: &InstanceTypeMemory, spec: &mut Value) -> Result<(), Malformed> {
    tree::set_value(spec, "domain.memory.guest", &memory.guest)?;
    tree::set_given(spec, "domain.memory.hugepages", memory.hugepages.clone())?;
    tree::set_given(spec, "domain.memory.maxGuest", memory.max_guest.as_ref())?;
    let percent = memory.overcommit();
    if percent > 0 {
        tree::set_value(spec, "domain.resources.requests.memory", &memory.guest.lowered_by(percent))?;
    }
    Ok(())
}
