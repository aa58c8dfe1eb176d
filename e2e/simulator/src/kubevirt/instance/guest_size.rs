//! The size of a guest, which follows that of its instance with a delay.

use crate::kubevirt::objects::InstanceStatus;
use serde_json::{Value, json};

/// The condition while the guest lacks CPU sockets.
pub(super) const HOT_CPU: &str = "HotVCPUChange";
/// The condition while the guest lacks memory.
pub(super) const HOT_MEMORY: &str = "HotMemoryChange";

/// What a guest has, as the status of its instance shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GuestSize {
    /// Sockets, cores and threads.
    pub(super) topology: Value,
    /// Memory at the start and now; null if the spec had none.
    pub(super) memory: Value,
}

impl GuestSize {
    /// The size of a guest that starts with this spec.
    pub(super) fn of_spec(spec: &Value) -> Self {
        let domain = &spec["domain"];
        let count = |field: &str| domain["cpu"][field].as_u64().unwrap_or(1);
        let guest = &domain["memory"]["guest"];
        let memory = match guest {
            Value::Null => Value::Null,
            guest => json!({ "guestAtBoot": guest, "guestCurrent": guest, "guestRequested": guest }),
        };
        let topology =
            json!({ "cores": count("cores"), "sockets": count("sockets"), "threads": count("threads") });
        Self { topology, memory }
    }

    /// The size of a guest that started earlier.
    pub(super) fn of_status(status: &InstanceStatus) -> Option<Self> {
        let (topology, memory) = (status.current_cpu_topology.clone(), status.memory.clone());
        (!topology.is_null()).then_some(Self { topology, memory })
    }

    /// The conditions of the hot-plugs that are not done.
    pub(super) fn pending(&self, wanted: &Self) -> Vec<&'static str> {
        let lacks_sockets = self.topology["sockets"] != wanted.topology["sockets"];
        let lacks_memory = self.memory["guestCurrent"] != wanted.memory["guestCurrent"];
        let pending = [(lacks_sockets, HOT_CPU), (lacks_memory, HOT_MEMORY)];
        pending.into_iter().filter(|(lacks, _)| *lacks).map(|(_, condition)| condition).collect()
    }

    /// The size after the hot-plug.
    pub(super) fn after_hot_plug(self, wanted: Self) -> Self {
        let Self { mut topology, memory: mut before } = self;
        let Self { topology: wanted_topology, mut memory } = wanted;
        topology["sockets"] = wanted_topology["sockets"].clone();
        if !memory.is_null() && !before["guestAtBoot"].is_null() {
            memory["guestAtBoot"] = before["guestAtBoot"].take();
        }
        Self { topology, memory }
    }
}
