//! Hot-plugs: a guest gets the CPU sockets and the memory of the spec of its instance later than the instance,
//! when it has been migrated.

use super::status::new_condition;
use crate::{
    kubevirt::{
        model::{Guest, KubeVirtModel},
        objects::{
            InstancePhase, InstanceStatus, InstanceView, KubeVirtObjectId, KubeVirtObjectKind,
            SimulatedKubeVirtCondition,
        },
    },
    objects::NamespacedKey,
    shared::delay_end,
};
use jiff::Timestamp;
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
    fn of_spec(spec: &Value) -> Self {
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
    fn pending(&self, wanted: &Self) -> Vec<&'static str> {
        let lacks_sockets = self.topology["sockets"] != wanted.topology["sockets"];
        let lacks_memory = self.memory["guestCurrent"] != wanted.memory["guestCurrent"];
        let pending = [(lacks_sockets, HOT_CPU), (lacks_memory, HOT_MEMORY)];
        pending.into_iter().filter(|(lacks, _)| *lacks).map(|(_, condition)| condition).collect()
    }

    /// The size after the hot-plug.
    fn after_hot_plug(self, wanted: Self) -> Self {
        let Self { mut topology, memory: mut before } = self;
        let Self { topology: wanted_topology, mut memory } = wanted;
        topology["sockets"] = wanted_topology["sockets"].clone();
        if !memory.is_null() && !before["guestAtBoot"].is_null() {
            memory["guestAtBoot"] = before["guestAtBoot"].take();
        }
        Self { topology, memory }
    }
}

impl KubeVirtModel {
    /// Gives a running guest what its instance has got while it runs.
    pub(super) fn advance_hot_plugs(
        &mut self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &mut Guest,
        now: Timestamp,
    ) {
        if guest.phase != InstancePhase::Running {
            return;
        }
        let wanted = GuestSize::of_spec(&instance.spec);
        let Some(size) = guest.size.take() else {
            guest.size = Some(wanted);
            return;
        };
        if size.pending(&wanted).is_empty() {
            (guest.size, guest.resizing) = (Some(size), None);
            return;
        }
        let since = *guest.resizing.get_or_insert(now);
        let end =
            delay_end(since, self.settings.hot_plug_delay).filter(|_| !self.holds_hot_plug(key, instance));
        match end {
            Some(at) if at <= now => {
                (guest.size, guest.resizing) = (Some(size.after_hot_plug(wanted)), None);
            }
            Some(at) => {
                guest.size = Some(size);
                self.agenda.wake(KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key), at);
            }
            None => guest.size = Some(size),
        }
    }

    fn holds_hot_plug(&self, key: &NamespacedKey, instance: &InstanceView) -> bool {
        self.knobs_of_instance(key, instance).is(|knobs| knobs.hold_hot_plug)
    }

    /// A condition for each hot-plug that is not done. KubeVirt gives it no message.
    pub(super) fn hot_plug_conditions(
        &self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &Guest,
        now: Timestamp,
    ) -> Vec<SimulatedKubeVirtCondition> {
        let Some(size) = guest.size.as_ref().filter(|_| guest.phase == InstancePhase::Running) else {
            return Vec::new();
        };
        let is_held = self.holds_hot_plug(key, instance);
        let pending = size.pending(&GuestSize::of_spec(&instance.spec)).into_iter();
        let conditions = pending.map(|kind| {
            let message = "the guest cannot be migrated, as the knob hold-hot-plug says";
            let held = new_condition(kind, "True", "NotMigratable", message.to_owned(), now);
            if is_held { held } else { SimulatedKubeVirtCondition { reason: None, message: None, ..held } }
        });
        conditions.collect()
    }
}
