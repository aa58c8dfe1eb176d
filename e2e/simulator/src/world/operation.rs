//! VirtualMachineOperation: starts, stops, restarts and migrates a machine.

use super::{
    events::{DvpModelAction, DvpObservationSource, DvpWrite},
    model::{DvpModel, ManualState, OperationState, Power, SimulatedMachine, SimulatedOperation},
};
use crate::{
    objects::{DvpObjectKind, NamespacedKey, OperationPhase, OperationType, OperationView, RunPolicy},
    shared::outbox::{Outbox, Permit, locked_status},
};
use jiff::Timestamp;
use serde_json::json;

impl DvpModel {
    pub(super) fn see_operation(
        &mut self,
        key: &NamespacedKey,
        view: OperationView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let finished = matches!(view.phase.as_deref(), Some("Completed" | "Failed"));
        let machine = key.sibling(&view.machine);
        match self.operations.get_mut(key) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                if view.meta.version <= known.view.meta.version {
                    return;
                }
                known.view = view;
                known.outbox.touched = now;
            }
            _ if novelty == DvpObservationSource::KnownOnly => return,
            _ => {
                let operation =
                    SimulatedOperation { view, outbox: Outbox::new(now), state: OperationState::New };
                self.operations.insert(key.clone(), operation);
            }
        }
        if finished {
            self.forget_operation(key, &machine);
        } else {
            self.operations_of.entry(machine).or_default().insert(key.clone());
            self.mark(DvpObjectKind::Operation, key);
        }
    }

    pub(super) fn lose_operation(&mut self, key: &NamespacedKey) {
        if let Some(operation) = self.operations.remove(key) {
            self.forget_operation(key, &key.sibling(&operation.view.machine));
        }
    }

    fn forget_operation(&mut self, key: &NamespacedKey, machine: &NamespacedKey) {
        if let Some(operations) = self.operations_of.get_mut(machine) {
            operations.remove(key);
            if operations.is_empty() {
                self.operations_of.remove(machine);
            }
        }
    }

    pub(super) fn plan_operation(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(mut operation) = self.operations.remove(key) else { return };
        let machine_key = key.sibling(&operation.view.machine);
        if !matches!(operation.view.phase.as_deref(), Some("Completed" | "Failed")) {
            operation.state = self.drive(&operation, &machine_key);
            self.publish_operation(key, &mut operation, now);
        }
        self.operations.insert(key.clone(), operation);
    }

    fn drive(&mut self, operation: &SimulatedOperation, key: &NamespacedKey) -> OperationState {
        let asked = operation.view.type_;
        let Some(machine) = self.machines.get_mut(key).filter(|machine| !machine.view.meta.deleting) else {
            return OperationState::Failed(format!("VirtualMachine {} does not exist", key.name));
        };
        match &operation.state {
            OperationState::New => {
                // The run policy of a machine that was not evaluated yet is unknown.
                let Some((_, spec)) = machine.evaluated.clone() else { return OperationState::New };
                if let Err(why) = accept(asked, operation.view.force, spec.run_policy, machine) {
                    return OperationState::Failed(why.to_owned());
                }
                let state = OperationState::Accepted { boots: machine.boots, migrations: machine.migrations };
                self.mark(DvpObjectKind::Machine, key);
                // Processed again after the machine.
                state
            }
            OperationState::Accepted { boots, migrations } => {
                let on = matches!(machine.power, Power::On { .. });
                let done = match asked {
                    OperationType::Start => on,
                    OperationType::Stop => machine.power.is_off(),
                    OperationType::Restart => on && machine.boots > *boots,
                    OperationType::Migrate | OperationType::Evict => on && machine.migrations > *migrations,
                    OperationType::Other => true,
                };
                if done { OperationState::Done } else { operation.state.clone() }
            }
            finished => finished.clone(),
        }
    }

    fn publish_operation(&mut self, key: &NamespacedKey, operation: &mut SimulatedOperation, now: Timestamp) {
        let id = crate::objects::DvpObjectId::new(DvpObjectKind::Operation, key.clone());
        let (phase, message) = match &operation.state {
            OperationState::New => (OperationPhase::Pending, None),
            OperationState::Accepted { .. } => (OperationPhase::InProgress, None),
            OperationState::Done => (OperationPhase::Completed, None),
            OperationState::Failed(why) => (OperationPhase::Failed, Some(why.clone())),
        };
        let word = format!("{phase:?}");
        if operation.view.phase.as_deref() == Some(&word) {
            return;
        }
        match operation.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id, at),
        }
        let mut status = json!({"phase": phase, "observedGeneration": operation.view.meta.generation});
        let done = phase == OperationPhase::Completed;
        if done || message.is_some() {
            let condition = crate::objects::SimulatedDvpCondition::next(
                &[],
                "Completed",
                (
                    done,
                    if done { "OperationCompleted" } else { "OperationFailed" },
                    message.unwrap_or_default(),
                ),
                operation.view.meta.generation,
                now,
            );
            status["conditions"] = json!([condition]);
        }
        if operation.outbox.admit(&status, operation.view.meta.version) {
            let patch = locked_status(&operation.view.meta, &status);
            self.actions.push(DvpModelAction::Write(id, DvpWrite::PatchStatus(patch)));
        }
    }
}

/// Passes the request to the machine. `Err` holds the reason for the refusal.
fn accept(
    asked: OperationType,
    force: bool,
    policy: RunPolicy,
    machine: &mut SimulatedMachine,
) -> Result<(), &'static str> {
    let runs = matches!(machine.power, Power::On { .. } | Power::Crashed { .. });
    match asked {
        OperationType::Start if policy == RunPolicy::AlwaysOff => {
            return Err("a machine with run policy AlwaysOff cannot be started");
        }
        OperationType::Start => machine.manual_state = ManualState::Started,
        OperationType::Stop if policy == RunPolicy::AlwaysOn => {
            return Err("a machine with run policy AlwaysOn cannot be stopped");
        }
        OperationType::Stop => machine.manual_state = ManualState::Stopped,
        OperationType::Restart if !runs => return Err("only a running machine can be restarted"),
        OperationType::Restart => machine.requests.restart = true,
        OperationType::Migrate | OperationType::Evict if !matches!(machine.power, Power::On { .. }) => {
            return Err("only a running machine can be migrated");
        }
        OperationType::Migrate | OperationType::Evict => machine.requests.migrate = true,
        OperationType::Other => return Err("the simulator does not support this operation"),
    }
    machine.requests.force |= force;
    Ok(())
}
