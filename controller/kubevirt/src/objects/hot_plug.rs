//! Hot-plugs: CPU sockets and memory that the spec of an instance has, and its guest not yet.
//!
//! KubeVirt changes the spec of an instance at once. The guest gets the change when it is migrated, and never
//! if it cannot be migrated. The status of the instance has the values of the guest, and a condition while a
//! hot-plug is not done.

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_engine::limits;

use super::machine_status::MachineCondition;

/// The condition of an instance that can be migrated, or not.
const LIVE_MIGRATABLE: &str = "LiveMigratable";

/// libvirt rounds the memory of a guest up to a multiple of this. KubeVirt hot-plugs larger blocks.
const MEMORY_UNIT: u64 = 1 << 20;

/// What KubeVirt hot-plugs, with its values in the spec of an instance and in the guest.
pub(super) struct HotPlug<'a> {
    kind: HotPlugKind,
    /// Null if the spec has none.
    wanted: &'a mut Value,
    /// Null if KubeVirt has not reported it.
    current: Value,
}

/// What KubeVirt hot-plugs.
#[derive(Clone, Copy)]
enum HotPlugKind {
    Sockets,
    Memory,
}

impl HotPlugKind {
    /// The condition that exists while it is not done.
    fn condition(self) -> &'static str {
        match self {
            Self::Sockets => "HotVCPUChange",
            Self::Memory => "HotMemoryChange",
        }
    }

    fn describe(self, wanted: &Value) -> String {
        let amount = wanted.as_str().map_or_else(|| wanted.to_string(), str::to_owned);
        match self {
            Self::Sockets => format!("the guest does not have {amount} CPU sockets yet"),
            Self::Memory => format!("the guest does not have {amount} of memory yet"),
        }
    }

    /// Whether the guest has what the spec has. A value that cannot be read counts as equal.
    fn is_done(self, wanted: &Value, current: &Value) -> bool {
        match self {
            Self::Sockets => wanted.as_u64().zip(current.as_u64()).is_none_or(|(spec, guest)| spec == guest),
            Self::Memory => read_bytes(wanted)
                .zip(read_bytes(current))
                .is_none_or(|(spec, guest)| spec.abs_diff(guest) < MEMORY_UNIT),
        }
    }
}

impl<'a> HotPlug<'a> {
    /// CPU sockets.
    pub(super) fn sockets(wanted: &'a mut Value, current: Value) -> Self {
        Self { kind: HotPlugKind::Sockets, wanted, current }
    }

    /// Memory.
    pub(super) fn memory(wanted: &'a mut Value, current: Value) -> Self {
        Self { kind: HotPlugKind::Memory, wanted, current }
    }

    /// If the guest does not have the value of the spec, makes that the value of the guest, or none if it is
    /// unknown, and returns why.
    fn take_pending(self, conditions: &[MachineCondition]) -> Option<String> {
        let Self { kind, wanted, current } = self;
        let condition = find_condition(conditions, kind.condition());
        let is_done = kind.is_done(wanted, &current);
        // KubeVirt sets the condition before or after it reports other values.
        let is_announced = condition.is_some_and(|condition| condition.status == "True");
        if wanted.is_null() || is_done && !is_announced {
            return None;
        }
        let message = condition.map(|condition| condition.message.clone()).filter(|text| !text.is_empty());
        let text = message.unwrap_or_else(|| kind.describe(wanted));
        *wanted = if is_done { Value::Null } else { current };
        Some(format!("{}: {text}", kind.condition()))
    }
}

/// Replaces the values of a spec that the guest does not have yet by those that it has, and returns why it
/// does not have them, in the words of KubeVirt; `None` if it has all.
pub(super) fn take_pending_hot_plugs(
    hot_plugs: [HotPlug<'_>; 2],
    conditions: &[MachineCondition],
) -> Option<String> {
    let mut causes: Vec<String> =
        hot_plugs.into_iter().filter_map(|hot_plug| hot_plug.take_pending(conditions)).collect();
    if causes.is_empty() {
        return None;
    }
    let migratable = find_condition(conditions, LIVE_MIGRATABLE);
    let refused = migratable.filter(|known| known.status == "False" && !known.message.is_empty());
    causes.extend(refused.map(|refused| format!("{LIVE_MIGRATABLE}: {}", refused.message)));
    Some(limits::shorten_message(causes.join("; ")))
}

fn find_condition<'a>(conditions: &'a [MachineCondition], kind: &str) -> Option<&'a MachineCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

fn read_bytes(amount: &Value) -> Option<u64> {
    serde_json::from_value::<Quantity>(amount.clone()).ok()?.bytes().ok()
}

#[cfg(test)]
mod tests;
