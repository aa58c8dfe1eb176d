//! Replacements of machines: their causes, and their invariants.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, PoolHistoryEntry, RequestBasis, RequestRefusal, check_invariant};
use super::images::contents_after;
use super::world::EngineSimulation;
use crate::draining::Draining;
use crate::image_refresh::{DiskContents, ImageRefresh, SETTLING_TIME};
use crate::ledger::VersionedFacts;
use crate::model::{Machine, MachineActivity, ObjectId, Uid};
use crate::plan::DeleteReason;
use crate::recycling::{RecycleFacts, RecyclePolicy, SHORTEST_LIFETIME};
use crate::{Plan, PoolAction};

/// What users do about the replacement of machines, and how much time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecycleStep {
    /// A user requests the replacement of a machine.
    Request,
    /// A user withdraws the request.
    Withdraw,
    /// A client claims the machine, and releases it at once.
    Claim,
    /// The pool replaces machines after their second claim.
    LimitClaims,
    /// The pool replaces machines of a certain age, and all machines reach it.
    Age,
    /// The pool has no limits.
    RemoveLimits,
    /// The images of the pool get other content, and the pool replaces machines for it.
    ChangeImages,
    /// The content of the images has lasted long enough to count.
    SettleImages,
    /// The pool does not follow its images.
    ForgetImages,
}

impl RecycleStep {
    const ALL: [Self; 15] = [
        Self::Request,
        Self::Request,
        Self::Request,
        Self::Withdraw,
        Self::Claim,
        Self::Claim,
        Self::Claim,
        Self::LimitClaims,
        Self::Age,
        Self::RemoveLimits,
        Self::ChangeImages,
        Self::ChangeImages,
        Self::SettleImages,
        Self::SettleImages,
        Self::ForgetImages,
    ];
}

impl Api {
    /// A user requests the replacement of a machine. The creation has whole seconds.
    pub(super) fn request_replacement(&mut self, id: &ObjectId) {
        let requested = Some(self.timestamp() + Duration::from_secs(1));
        self.edit_machine(id, |machine| {
            machine.recycling = Some(Arc::new(RecycleFacts { requested, ..RecycleFacts::default() }));
        });
    }

    fn edit_recycling(&mut self, id: &ObjectId, edit: impl FnOnce(&mut RecycleFacts)) {
        self.edit_machine(id, |machine| {
            let mut facts = machine.recycling.as_deref().cloned().unwrap_or_default();
            edit(&mut facts);
            machine.recycling = (facts != RecycleFacts::default()).then(|| Arc::new(facts));
        });
    }

    /// Whether a request, or a limit or an image that the pool had since this basis, is a cause to replace
    /// the machine.
    fn has_recycle_cause(&self, machine: &Machine, basis: RequestBasis) -> bool {
        let requested = machine.recycling.as_ref().and_then(|facts| facts.requested);
        let age = self.timestamp().duration_since(machine.created).unsigned_abs();
        let since = &self.history[basis.pool..];
        let mut limits = since.iter().map(PoolHistoryEntry::recycle);
        since.iter().any(|entry| entry.images().replaces(machine))
            || requested.is_some_and(|requested| requested > machine.created)
            || limits.any(|limits| {
                let claims = limits.max_claims.is_some_and(|most| machine.claims() >= most);
                claims || limits.max_lifetime.is_some() && age >= SHORTEST_LIFETIME
            })
    }

    /// Deletes a machine that has a cause for its replacement, or that its hooks released. I1 allows it,
    /// because the pool creates another one. I12: it is not protected at the version that the plan used. I6:
    /// no accepted removal targets it.
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
        check_invariant(machine.standby.is_none(), || {
            format!("I17: the standby machine {id} is replaced as an active one")
        })?;
        self.check_drained(&machine)?;
        let is_released = machine.draining.as_deref().is_some_and(Draining::is_released_by_owner);
        check_invariant(is_released || self.has_recycle_cause(&machine, basis), || {
            format!("I1: {id} is replaced, and neither a request, a limit nor a hook is the cause")
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
    /// Takes a step about the replacement of machines.
    pub(super) fn recycle_step(&mut self, number: usize) {
        let step = RecycleStep::ALL[number % RecycleStep::ALL.len()];
        let which = number / RecycleStep::ALL.len();
        let what = format!("is recycled: {step:?}");
        let limit = |world: &mut Self, policy| {
            world.tell(format_args!("{what}"));
            world.api.edit_pool(|pool| pool.recycle = policy);
        };
        match step {
            RecycleStep::Request => self.machine(which, &what, Api::request_replacement),
            RecycleStep::Withdraw => self.machine(which, &what, |api, id| {
                api.edit_recycling(id, |facts| facts.requested = None);
            }),
            RecycleStep::Claim => self.machine(which, &what, |api, id| {
                api.edit_recycling(id, |facts| facts.claims += 1);
            }),
            RecycleStep::LimitClaims => {
                limit(self, RecyclePolicy { max_claims: Some(2), ..RecyclePolicy::default() });
            }
            RecycleStep::Age => {
                limit(
                    self,
                    RecyclePolicy { max_lifetime: Some(SHORTEST_LIFETIME), ..RecyclePolicy::default() },
                );
                self.api.now += SHORTEST_LIFETIME;
                self.in_flight.clear();
            }
            RecycleStep::RemoveLimits => limit(self, RecyclePolicy::default()),
            RecycleStep::ChangeImages => self.change_images(ImageRefresh::Recreate),
            RecycleStep::SettleImages => self.settle_images(),
            RecycleStep::ForgetImages => self.forget_images(),
        }
    }

    /// The images of the pool get other content, and the pool follows them with this mode.
    fn change_images(&mut self, refresh: ImageRefresh) {
        let (changes, now) = (self.api.history.len(), self.api.now);
        self.api.edit_pool(|pool| {
            pool.image_refresh = refresh;
            pool.disk_contents = contents_after(pool, changes, now);
        });
    }

    /// The pool does not follow its images any more.
    fn forget_images(&mut self) {
        self.api.edit_pool(|pool| {
            pool.image_refresh = ImageRefresh::Off;
            pool.disk_contents = DiskContents::new();
        });
    }

    /// Enough time passes that the content of the images counts.
    fn settle_images(&mut self) {
        self.api.now += SETTLING_TIME;
        self.in_flight.clear();
    }

    /// I21: the replacements of a plan make no more machines unavailable than the budget allows, as far as
    /// the controller knows. The replacement of an unavailable machine makes none unavailable. The repetition
    /// of an unconfirmed deletion neither, because the machine may be gone.
    pub(super) fn replaces_within_budget(&self, plan: &Plan) -> Result<(), BrokenInvariant> {
        let pool = &self.api.pool;
        let replaced: BTreeSet<&Uid> = plan.actions.iter().filter_map(replaced_machine).collect();
        let available = |machine: &&Arc<Machine>| {
            machine.belongs_to(&pool.id)
                && machine.standby.is_none()
                && !machine.terminating
                && !self.controller.memory.is_delete_unconfirmed(&machine.id.uid, self.api.now)
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
