//! The spec of an instance type.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::Amount;
use crate::tree::{self, Malformed};

/// A typed view of an instance type's spec. Parts that are copied whole are JSON, so that they keep unknown
/// fields.
///
/// `None` means that the instance type does not set the field.
#[derive(Debug, Clone)]
pub struct InstancetypeSpec {
    /// `cpu`.
    pub cpu: InstanceTypeCpu,
    /// `memory`.
    pub memory: InstanceTypeMemory,
    /// `gpus`; empty equals absent.
    pub gpus: Vec<Value>,
    /// `hostDevices`; empty equals absent.
    pub host_devices: Vec<Value>,
    /// `ioThreadsPolicy`.
    pub io_threads_policy: Option<String>,
    /// `ioThreads.supplementalPoolThreadCount`.
    pub supplemental_pool_thread_count: Option<u32>,
    /// `launchSecurity`, deprecated in favor of the preference.
    pub launch_security: Option<Value>,
    /// `nodeSelector`.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// `schedulerName`.
    pub scheduler_name: Option<String>,
    /// `annotations` for the instance.
    pub annotations: BTreeMap<String, String>,
}

/// `cpu` of an instance type.
#[derive(Debug, Clone, Default)]
pub struct InstanceTypeCpu {
    /// The number of vCPUs that the guest sees.
    pub guest: u32,
    /// The CPU model.
    pub model: Option<String>,
    /// Whether vCPUs are pinned on dedicated CPUs of the host.
    pub dedicated_cpu_placement: Option<bool>,
    /// Whether the emulator has a dedicated CPU.
    pub isolate_emulator_thread: Option<bool>,
    /// NUMA settings.
    pub numa: Option<Value>,
    /// Realtime settings.
    pub realtime: Option<Value>,
    /// The largest number of sockets for CPU hotplug.
    pub max_sockets: Option<u32>,
}

/// `memory` of an instance type.
#[derive(Debug, Clone)]
pub struct InstanceTypeMemory {
    /// The memory that the guest sees.
    pub guest: Amount,
    /// Huge page settings.
    pub hugepages: Option<Value>,
    /// The percentage by which the memory request is lower than the guest's memory. Validation keeps it in 0
    /// to 100.
    pub overcommit_percent: i64,
    /// The largest amount for memory hotplug.
    pub max_guest: Option<Amount>,
}

impl InstanceTypeMemory {
    /// The percentage, in its limits.
    pub(crate) fn overcommit(&self) -> u8 {
        // Admission keeps the percentage in 0 to 100. What is outside was stored without admission, and
        // counts as the nearest limit.
        u8::try_from(self.overcommit_percent.clamp(0, 100)).unwrap_or(0)
    }
}

impl InstancetypeSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// `cpu.guest` or `memory.guest` is missing, or a field has the wrong type. The path is relative to the
    /// spec.
    pub fn read(spec: &Value) -> Result<Self, Malformed> {
        let owned = |path| Ok::<_, Malformed>(tree::text_at(spec, path)?.map(str::to_owned));
        let object = |path| Ok::<_, Malformed>(tree::object_at(spec, path)?.cloned());
        Ok(Self {
            cpu: InstanceTypeCpu {
                guest: tree::u32_at(spec, "cpu.guest")?
                    .ok_or_else(|| Malformed::new("cpu.guest", "set: it is the number of vCPUs"))?,
                model: owned("cpu.model")?,
                dedicated_cpu_placement: tree::flag_at(spec, "cpu.dedicatedCPUPlacement")?,
                isolate_emulator_thread: tree::flag_at(spec, "cpu.isolateEmulatorThread")?,
                numa: object("cpu.numa")?,
                realtime: object("cpu.realtime")?,
                max_sockets: tree::u32_at(spec, "cpu.maxSockets")?,
            },
            memory: InstanceTypeMemory {
                guest: amount_at(spec, "memory.guest")?
                    .ok_or_else(|| Malformed::new("memory.guest", "set: it is the amount of memory"))?,
                hugepages: object("memory.hugepages")?,
                overcommit_percent: tree::i64_at(spec, "memory.overcommitPercent")?.unwrap_or(0),
                max_guest: amount_at(spec, "memory.maxGuest")?,
            },
            gpus: tree::items_at(spec, "gpus")?.to_vec(),
            host_devices: tree::items_at(spec, "hostDevices")?.to_vec(),
            io_threads_policy: owned("ioThreadsPolicy")?,
            supplemental_pool_thread_count: tree::u32_at(spec, "ioThreads.supplementalPoolThreadCount")?,
            launch_security: object("launchSecurity")?,
            node_selector: tree::text_map_at(spec, "nodeSelector")?,
            scheduler_name: owned("schedulerName")?,
            annotations: tree::text_map_at(spec, "annotations")?.unwrap_or_default(),
        })
    }
}

/// The amount of memory at a path.
pub(crate) fn amount_at(document: &Value, path: &str) -> Result<Option<Amount>, Malformed> {
    let Some(value) = tree::value_at(document, path)? else { return Ok(None) };
    let amount = Amount::from_json(value);
    amount.map(Some).ok_or_else(|| Malformed::new(path, "a quantity, for example 512Mi or 2Gi"))
}
