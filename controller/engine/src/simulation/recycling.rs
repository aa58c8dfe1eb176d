//! Requested replacements of machines, and their invariants.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, RequestBasis, RequestRefusal, check_invariant};
use super::world::EngineSimulation;
use crate::draining::Draining;
use crate::ledger::VersionedFacts;
use crate::model::{Machine, MachineActivity, ObjectId, Uid};
use crate::plan::DeleteReason;
use crate::recycling::RecycleFacts;
use crate::{Plan, PoolAction};

impl Api {
    /// A user requests the replacement of a machine. The creation has whole seconds.
    pub(super) fn request_replacement(&mut self, id: &ObjectId) {
        let requested = Some(self.timestamp() + Duration::from_secs(1));
        self.edit_machine(id, |machine| {
            machine.recycling = Some(Arc::new(RecycleFacts { requested, ..RecycleFacts::default() }));
        });
    }

    /// Deletes a machine whose replacement was requested, or that its hooks released. I1 allows it, because the
    /// pool creates another one. I12: it is not protected at the version that the plan used. I6: no accepted
    /// removal targets it.
    pub(super) fn replace(
        &mut self,
        id: &ObjectId,
        planned: Option<u64>,
        basis: RequestBasis,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.machines.find(id) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if machine.terminating {
            return Ok(Ok(self.machines.objects[&id.name].clone()));
        }
        if planned.is_none_or(|version| self.machines.objects[&id.name].version != version) {
            return Ok(Err(RequestRefusal::Conflict));
        }
        self.check_drained(&machine)?;
        let is_released = machine.draining.as_deref().is_some_and(Draining::is_released_by_owner);
        check_invariant(is_released || machine.recycling.is_some(), || {
            format!("I1: {id} is replaced, and neither a request nor a hook is the cause")
        })?;
        check_invariant(!machine.is_protected(self.timestamp()), || {
            format!("I12: {id} is replaced while it is protected")
        })?;
        check_invariant(!self.removals.was_accepted_at(&id.uid, basis.pool), || {
            format!("I6: {id} is replaced, and a removal targets it")
        })?;
        self.others_removals.push(self.machines.log.len());
        Ok(self.change(id, |machine| machine.terminating = true))
    }
}

impl EngineSimulation {
    /// I21: the replacements of a plan make no more machines unavailable than the budget allows, as far as the
    /// controller knows. The replacement of an unavailable machine makes none unavailable.
    pub(super) fn replaces_within_budget(&self, plan: &Plan) -> Result<(), BrokenInvariant> {
        let pool = &self.api.pool;
        let replaced: BTreeSet<&Uid> = plan.actions.iter().filter_map(replaced_machine).collect();
        let available = |machine: &&Arc<Machine>| {
            machine.belongs_to(&pool.id)
                && !machine.terminating
                && matches!(machine.activity, MachineActivity::Running | MachineActivity::Stopped)
        };
        let available = self.controller.known.values().filter(available);
        let (leaving, staying): (Vec<_>, Vec<_>) =
            available.partition(|machine| replaced.contains(&machine.id.uid));
        let budget = pool.rollout.budget.of(pool.desired);
        check_invariant(leaving.is_empty() || staying.len() + budget >= pool.desired, || {
            let (staying, desired) = (staying.len(), pool.desired);
            format!(
                "I21: replacements leave {staying} of {desired} machines available with a budget of {budget}"
            )
        })
    }
}

fn replaced_machine(action: &PoolAction) -> Option<&Uid> {
    match action {
        PoolAction::Delete { machine, reason: DeleteReason::Recycled { .. } } => Some(&machine.uid),
        _ => None,
    }
}
