//! Changes that a running machine applies only at its restart.

use super::model::{Boot, DvpModel, Power, SimulatedMachine};
use crate::objects::{RestartAwaitingChange, SimulatedDvpMachineSpec};
use serde_json::{Value, json};

/// The differences between the spec with which a machine was started and its current spec that require a
/// restart.
pub(super) fn changes_requiring_restart(
    boot: &Boot,
    spec: &SimulatedDvpMachineSpec,
) -> Vec<RestartAwaitingChange> {
    let started = &boot.spec;
    let mut paths: Vec<&String> = started.fixed.keys().chain(spec.fixed.keys()).collect();
    paths.sort();
    paths.dedup();
    let mut changes: Vec<RestartAwaitingChange> = paths
        .into_iter()
        .filter_map(|path| restart_awaiting_change(path, started.fixed.get(path), spec.fixed.get(path)))
        .collect();
    if started.grace() != spec.grace() {
        let seconds = |spec: &SimulatedDvpMachineSpec| json!(spec.grace().as_secs());
        let path = "terminationGracePeriodSeconds";
        changes.extend(restart_awaiting_change(path, Some(&seconds(started)), Some(&seconds(spec))));
    }
    if let Some(boot_device) = started.boot_device()
        && !spec.block_device_refs.iter().any(|device| device.same(boot_device))
    {
        let current = json!({"kind": boot_device.kind, "name": boot_device.name});
        changes.extend(restart_awaiting_change("blockDeviceRefs", Some(&current), None));
    }
    changes
}

fn restart_awaiting_change(
    path: &str,
    current: Option<&Value>,
    desired: Option<&Value>,
) -> Option<RestartAwaitingChange> {
    let operation = match (current, desired) {
        (None, Some(_)) => "add",
        (Some(_), None) => "remove",
        (old, new) if old != new => "replace",
        _ => return None,
    };
    Some(RestartAwaitingChange {
        operation: operation.to_owned(),
        path: path.to_owned(),
        current_value: current.cloned(),
        desired_value: desired.cloned(),
    })
}

impl DvpModel {
    /// Changes that will be applied when the machine restarts; none if it does not run.
    pub(super) fn pending_changes(machine: &SimulatedMachine) -> Vec<RestartAwaitingChange> {
        let runs =
            matches!(machine.power, Power::On { .. } | Power::Migrating { .. } | Power::Crashed { .. });
        machine
            .power
            .boot()
            .filter(|_| runs)
            .map(|boot| changes_requiring_restart(boot, machine.spec()))
            .unwrap_or_default()
    }

    /// Whether a running machine must be restarted now.
    pub(super) fn restart_is_due(&self, machine: &SimulatedMachine) -> bool {
        let by_itself = machine.spec().restarts_automatically();
        let asked = machine.requests.restart || (by_itself && !Self::pending_changes(machine).is_empty());
        asked && !self.knobs_of(machine).is(|k| k.hold_restart)
    }
}
