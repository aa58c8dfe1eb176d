//! The end of every simulation: without faults, the state must converge.

use std::sync::Arc;
use std::time::Duration;

use super::admission_policy::ModelAdmissionPolicy;
use super::api::{BrokenInvariant, check_invariant};
use super::controller::RequestDelivery;
use super::disk_steps::DiskStep;
use super::step::SimulationStep;
use super::world::{EngineSimulation, summarize_plan};
use crate::condition::ConditionType;
use crate::image_refresh::ImageRefresh;
use crate::model::{Machine, MachineActivity, Naming};
use crate::{ComputedStatus, Plan};

impl EngineSimulation {
    /// Ends all faults and lets all components work until nothing changes; I8.
    pub(super) fn settle(&mut self) -> Result<(), BrokenInvariant> {
        self.tell(format_args!("from here on nothing fails"));
        self.api.quota = None;
        // Otherwise machines reach their age for ever.
        if self.api.pool.recycle.max_lifetime.is_some() {
            self.api.edit_pool(|pool| pool.recycle.max_lifetime = None);
        }
        self.api.policy = ModelAdmissionPolicy::default();
        if self.api.retains_disks() {
            self.disk_step(DiskStep::Detach);
            self.disk_step(DiskStep::Refuse(false));
        }
        self.in_flight.clear();
        while !self.removal_clients.is_empty() {
            self.step(SimulationStep::RemovalClient(0))?;
        }
        self.step(SimulationStep::Relist)?;
        let mut again = Duration::ZERO;
        for _ in 0..100 {
            while !self.controller.pending.is_empty() {
                self.act(RequestDelivery::Answered)?;
            }
            self.api.now += again.max(Duration::from_secs(1));
            while self.api.machines.objects.values().any(|seen| seen.facts.terminating) {
                self.others(SimulationStep::Finish(0));
            }
            self.others(SimulationStep::Collect);
            self.start_idle();
            self.settle_disks();
            self.api.record_disk_use();
            self.step(SimulationStep::WatchMachines(usize::MAX - self.api.machines.log.len()))?;
            self.step(SimulationStep::WatchDisks(usize::MAX - self.api.disks.log.len()))?;
            let (plan, status) = self.controller.pass(&self.api);
            let desired = self.api.pool.desired;
            self.tell(format_args!("pass for {desired}: {}", summarize_plan(&plan)));
            if plan == Plan::default() && self.pending_write_count() == 0 {
                self.is_settled(&status)?;
                return self.stays_settled();
            }
            again = plan.requeue_after.unwrap_or_default();
        }
        Err("I8: the world does not settle".into())
    }

    fn start_idle(&mut self) {
        let idle = self.api.owned_machines().filter(|machine| machine.activity != MachineActivity::Running);
        let idle: Vec<Arc<Machine>> = idle.cloned().collect();
        for machine in idle {
            if machine.standby.is_some() && machine.activity == MachineActivity::Stopping {
                self.api.toggle_standby(&machine.id);
            } else {
                self.api.start(&machine.id);
            }
        }
    }

    pub(super) fn is_settled(&self, status: &ComputedStatus) -> Result<(), BrokenInvariant> {
        let (pool, machines) = (&self.api.pool, self.api.pool_machines().count());
        let may_exceed = !pool.scale_down_policy.deletes_whole_surplus() && machines > pool.desired;
        check_invariant(machines == pool.desired || may_exceed, || {
            format!("{machines} machines, {} desired", pool.desired)
        })?;
        self.api.standby_is_settled()?;
        self.api.names_are_settled()?;
        self.api.retained_disks_are_settled()?;
        self.api.instances_are_settled()?;
        for machine in self.api.owned_machines().filter(|_| !self.api.has_instances()) {
            let disk = machine.disks.first().and_then(|disk| self.api.disks.objects.get(&disk.disk));
            let is_own = disk.is_some_and(|disk| disk.facts.is_of_machine(&machine.id));
            check_invariant(is_own, || format!("{} has not got its own disk", machine.id))?;
            let is_labelled = machine.pool_uid_label.as_ref() == Some(&pool.id.uid);
            check_invariant(machine.standby.is_some() || is_labelled, || {
                format!("{} lacks labels", machine.id)
            })?;
        }
        let is_refreshed = pool.image_refresh != ImageRefresh::Recreate || status.summary.image_outdated == 0;
        // After such losses the pool replaces nothing, and it need not create a machine that ends this.
        let losses = &self.controller.memory.machine_losses;
        let has_stopped = losses.is_stopped(pool.machine_loss_limit());
        check_invariant(may_exceed || has_stopped || is_refreshed, || {
            format!("{} machines have disks from earlier images", status.summary.image_outdated)
        })?;
        let foreign = self.api.machines.objects.values().filter(|seen| seen.facts.owner.is_none());
        for machine in foreign.map(|seen| &seen.facts) {
            let labelled = machine.pool_uid_label.is_some();
            check_invariant(
                labelled == (&*machine.id.name == "web-batch") || pool.naming == Naming::Ordinal,
                || format!("{} is not in the pool and has the wrong labels", machine.id),
            )?;
        }
        check_invariant(status.summary.ready == machines && status.summary.replicas == machines, || {
            format!("{:?} of {machines} machines", status.summary)
        })?;
        let standby = self.api.standby_machines().count();
        check_invariant(status.summary.standby.total == standby, || {
            format!("I17: {:?} of {standby} standby machines", status.summary)
        })?;
        let failures: Vec<_> = status
            .conditions
            .iter()
            .filter(|condition| match ConditionType::parse(&condition.kind) {
                Some(ConditionType::Progressing) => !may_exceed,
                Some(ConditionType::ReplicaFailure) => true,
                Some(ConditionType::Ready) => !may_exceed && condition.status != "True",
                Some(ConditionType::Reconciling) => condition.status != "False",
                Some(ConditionType::Stalled) => !may_exceed && condition.status != "False",
                _ => condition.status != "True",
            })
            .collect();
        check_invariant(failures.is_empty(), || format!("settled, and still {failures:?}"))
    }

    /// Number of writes that the caches do not show yet.
    pub(super) fn pending_write_count(&self) -> usize {
        self.controller.memory.machines.len() + self.controller.memory.disks.len()
    }

    fn stays_settled(&mut self) -> Result<(), BrokenInvariant> {
        for _ in 0..3 {
            self.api.now += Duration::from_mins(2);
            let (plan, _) = self.controller.pass(&self.api);
            check_invariant(plan == Plan::default(), || format!("I8: not settled for good: {plan:?}"))?;
        }
        self.tell(format_args!("settled"));
        Ok(())
    }
}
