//! The controller around the engine: it observes, plans, sends one request after the other, and records the
//! responses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, RequestBasis, RequestRefusal};
use super::healing::check_healing_plan;
use super::request::{
    CommittedRequest, InFlight, commit_request, commit_unconfirmed_request, machines_by_disk, with_held,
};
use super::watch_cache::{NamesInCaches, WatchCache};
use crate::failure::PoolFailure;
use crate::ledger::LedgerCache;
use crate::membership::losses::{CreatedObjectState as ObjectFate, Loss, LossKind, Rehearsal};
use crate::model::{Disk, DiskAnnotations, DiskSource, Draft, Machine, ObjectId};
use crate::plan::{
    ApplyStage, DeleteReason, Disruption, NamesInUse, ObservedPool, PlanSettings, PoolSnapshot, UpdateOutcome,
};
use crate::server_clock::ServerClock;
use crate::{ComputedStatus, PassMemory, Plan, PoolAction};

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestDelivery {
    Answered,
    /// Committed, and the response is lost.
    AnswerLost,
    /// Lost before the server receives it.
    RequestLost,
    /// Unconfirmed, and committed later or never.
    Late,
}

/// The result of a request.
pub(super) struct SentRequest {
    pub(super) action: PoolAction,
    pub(super) outcome: &'static str,
    /// The request, if it is still in flight.
    pub(super) in_flight: Option<InFlight>,
}

#[derive(Clone)]
pub(super) struct SimulatedController {
    pub(super) memory: PassMemory,
    pub(super) machines: WatchCache<Machine>,
    pub(super) disks: WatchCache<Disk>,
    pub(super) pending: VecDeque<PoolAction>,
    pub(super) basis: RequestBasis,
    /// The position of the cache of machines that the last plan used.
    cached: usize,
    /// The clock of the API server.
    server_clock: Option<ServerClock>,
    /// The machines of the last pass, by name.
    pub(super) known: BTreeMap<Arc<str>, Arc<Machine>>,
    /// The versions of the disks of the last pass, by name.
    pub(super) versions: BTreeMap<Arc<str>, u64>,
    /// The versions of the machines of the last pass, by name.
    pub(super) machine_versions: BTreeMap<Arc<str>, u64>,
    /// The basis of the first attempt of every unconfirmed create.
    pub(super) first_basis: BTreeMap<Arc<str>, RequestBasis>,
    /// What is wrong with the last plan, which the first of its requests reports.
    broken: Option<BrokenInvariant>,
}

impl SimulatedController {
    pub(super) fn start(api: &Api) -> Self {
        Self {
            memory: PassMemory::default(),
            machines: WatchCache::list(&api.machines, api.now),
            disks: WatchCache::list(&api.disks, api.now),
            pending: VecDeque::new(),
            basis: RequestBasis { seen: 0, pool: 0, planned: 0, current: true, activating: 0 },
            cached: 0,
            server_clock: None,
            known: BTreeMap::new(),
            versions: BTreeMap::new(),
            machine_versions: BTreeMap::new(),
            first_basis: BTreeMap::new(),
            broken: None,
        }
    }

    /// Observes and plans.
    pub(super) fn pass(&mut self, api: &Api) -> (Plan, ComputedStatus) {
        let PassMemory { machines, disks, .. } = &mut self.memory;
        for name in machines.overdue(api.now) {
            machines.resolve(&name, api.machines.objects.get(&name).cloned(), api.now);
        }
        for name in disks.overdue(api.now) {
            disks.resolve(&name, api.disks.objects.get(&name).cloned(), api.now);
        }
        let unconfirmed = machines.unconfirmed_creates();
        machines.settle(&self.machines);
        for seen in unconfirmed
            .iter()
            .filter(|_| api.counts_losses)
            .filter_map(|create| self.machines.get(&create.name))
        {
            self.memory.machine_losses.watch(&seen.facts.id, api.now);
        }
        let PassMemory { machines, disks, .. } = &mut self.memory;
        disks.settle(&self.disks);
        let (mut machine_snapshot, mut disk_snapshot) = (self.machines.snapshot(), self.disks.snapshot());
        machines.overlay(&mut machine_snapshot);
        disks.overlay(&mut disk_snapshot);
        let (id, uid) = (&api.pool.id, &api.pool.id.uid);
        let (machines, foreign): (Vec<_>, Vec<_>) = machine_snapshot.into_iter().partition(|machine| {
            let released = machine.owner.is_none() && machine.has_finalizer;
            machine.belongs_to(id) || machine.pool_uid_label.as_ref() == Some(uid) || released
        });
        let known_version = |disk: &Arc<Disk>| {
            let name = &disk.id.name;
            let seen = disks.written_as(name).or_else(|| self.disks.get(name));
            Some((name.clone(), seen?.version))
        };
        self.versions = disk_snapshot.iter().filter_map(known_version).collect();
        let known_version = |machine: &Arc<Machine>| {
            let name = &machine.id.name;
            let seen = self.memory.machines.written_as(name).or_else(|| self.machines.get(name));
            Some((name.clone(), seen?.version))
        };
        self.machine_versions = machines.iter().filter_map(known_version).collect();
        let pool_disks = disk_snapshot
            .iter()
            .filter(|disk| disk.belongs_to(id) || disk.pool_uid_label.as_ref() == Some(uid));
        let pool_disks = pool_disks.cloned().collect();
        let read = api.history.len() - 1;
        let is_activating =
            |machine: &&Arc<Machine>| self.memory.machines.is_activation_unconfirmed(&machine.id);
        let activating = machines.iter().filter(is_activating).count();
        self.basis = RequestBasis {
            seen: self.machines.position,
            pool: read,
            planned: read,
            current: true,
            activating,
        };
        self.cached = self.machines.position;
        self.known = machines.iter().map(|machine| (machine.id.name.clone(), machine.clone())).collect();
        self.memory.observe(&api.pool, api.now);
        if api.has_instances() {
            self.memory.restarts.observe(machines.iter());
        }
        let own = machines.iter().filter(|machine| machine.belongs_to(id));
        self.memory.observe_machines(own, api.now);
        self.observe_losses(api);
        let mut snapshot = PoolSnapshot {
            now: api.timestamp(),
            uptime: api.now,
            server_clock: self.server_clock,
            machines,
            disks: disk_snapshot.into_iter().map(|disk| (disk.id.name.clone(), disk)).collect(),
            pool_disks,
            other_users: machines_by_disk(&foreign),
            // The model has no operations that restore disks.
            replaced_disks: BTreeMap::new(),
            unconfirmed_creates: self.memory.machines.unconfirmed_creates(),
        };
        let mut plan =
            crate::plan_pass(&self.observed(api, &snapshot, &NamesInCaches(&self.machines, &self.disks)));
        if plan.deletes_surplus() {
            let staying = api.owned_machines().filter(|machine| !machine.terminating);
            snapshot.count_live(id, &staying.map(|machine| machine.id.uid.clone()).collect());
            self.basis.seen = api.machines.log.len();
            plan =
                crate::plan_pass(&self.observed(api, &snapshot, &NamesInCaches(&self.machines, &self.disks)));
        }
        let names = NamesInCaches(&self.machines, &self.disks);
        let broken = check_healing_plan(&self.observed(api, &snapshot, &names), &plan).err();
        self.broken = broken;
        // A failure of a write that the plan no longer contains must not be reported, because nothing else
        // would clear it.
        let mut memory = self.memory.clone();
        memory.reset_unwanted(plan.wants);
        memory.await_disks(&plan.awaited, api.now);
        let status = crate::compute_status(&self.observed(api, &snapshot, &names), memory.failure().as_ref());
        let lost = snapshot.unconfirmed_creates;
        self.first_basis.retain(|name, _| lost.iter().any(|lost| lost.name == *name));
        self.memory = memory;
        self.pending = plan.actions.clone().into();
        (plan, status)
    }

    fn observed<'a>(
        &'a self,
        api: &'a Api,
        snapshot: &'a PoolSnapshot,
        names: &'a dyn NamesInUse,
    ) -> ObservedPool<'a> {
        let stored = &api.revisions.stored;
        ObservedPool::new(snapshot, &api.pool, stored, PlanSettings::default(), &self.memory, names)
    }

    /// Sends the next request of the plan.
    pub(super) fn act(
        &mut self,
        api: &mut Api,
        fate: RequestDelivery,
    ) -> Result<Option<SentRequest>, BrokenInvariant> {
        let Some(action) = self.pending.pop_front().map(|action| self.claim_first(action)) else {
            return Ok(None);
        };
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        if !self.confirm(api, &action) {
            self.pending.clear();
            return Ok(Some(SentRequest { action, outcome: "a live read disagrees", in_flight: None }));
        }
        let basis = self.reach(&action);
        let version = match &action {
            PoolAction::Update { machine, .. }
            | PoolAction::RecordRevision { machine, .. }
            | PoolAction::AddFinalizer { machine }
            | PoolAction::Restart { machine, .. }
            | PoolAction::Activate { machine, .. }
            | PoolAction::StopStandby { machine }
            | PoolAction::EndRestart { machine } => {
                api.machines.objects.get(&machine.name).map(|seen| seen.version)
            }
            PoolAction::Delete { machine, reason } => self.planned(machine, *reason),
            action => self.versions.get(action.object()).copied(),
        };
        let marks = matches!(&action, PoolAction::Restart { machine, .. } if !api.is_restarting(machine));
        let answer = match fate {
            RequestDelivery::Answered => Some(self.send(api, &action, basis, version)?),
            RequestDelivery::AnswerLost => {
                commit_unconfirmed_request(api, &action, basis, version, false)?;
                None
            }
            RequestDelivery::RequestLost | RequestDelivery::Late => None,
        };
        let in_flight = (fate == RequestDelivery::Late).then(|| InFlight {
            action: action.clone(),
            basis,
            sent: api.now,
            version,
        });
        let outcome = match answer {
            Some(Ok(())) => {
                self.succeed(action.stage());
                "done"
            }
            Some(Err(refusal)) => self.refused(api, &action, refusal),
            None => {
                if let PoolAction::Restart { instance, .. } = &action
                    && !marks
                {
                    self.memory.restarts.request_unconfirmed(instance, api.now);
                }
                if let PoolAction::Create { draft } = &action
                    && self.first_basis.contains_key(&draft.name)
                {
                    api.repeated_creates.insert(draft.name.clone());
                }
                self.response_lost(&action, basis, api.now, api.retains_disks());
                "no answer"
            }
        };
        Ok(Some(SentRequest { action, outcome, in_flight }))
    }

    /// A free disk is allocated in a separate write before an object refers to it.
    fn claim_first(&mut self, action: PoolAction) -> PoolAction {
        let (machine, disks) = match &action {
            PoolAction::Create { draft } => (draft.name.clone(), draft.disks.clone()),
            PoolAction::Repoint { machine, to, .. } => (machine.name.clone(), vec![to.clone()]),
            PoolAction::Update { machine, disks, .. } => (machine.name.clone(), disks.clone()),
            _ => return action,
        };
        let Some(free) = disks.iter().find_map(|disk| match &disk.source {
            DiskSource::Free(id) => Some(id.clone()),
            DiskSource::New | DiskSource::Existing(_) => None,
        }) else {
            return action;
        };
        self.pending.push_front(with_held(action, &free));
        let annotations = DiskAnnotations { claimed_by: Some(machine), ..DiskAnnotations::default() };
        PoolAction::AnnotateDisk { disk: free, annotations, absent: None }
    }

    /// The live reads before a write. Their results are recorded.
    fn confirm(&mut self, api: &Api, action: &PoolAction) -> bool {
        match action {
            PoolAction::AnnotateDisk { absent: Some(machine), .. } => match api.machines.objects.get(machine)
            {
                Some(seen) => {
                    if seen.facts.belongs_to(&api.pool.id) {
                        self.memory.machines.written(seen.clone(), api.now);
                    }
                    false
                }
                None => true,
            },
            PoolAction::DeleteDisk { disk, .. } => !api.is_referred_to(&disk.name),
            _ => true,
        }
    }

    /// A create has the basis of the oldest unconfirmed create, because the server may carry out that one
    /// first.
    fn reach(&self, action: &PoolAction) -> RequestBasis {
        let oldest = |basis: RequestBasis, other: &RequestBasis| RequestBasis {
            seen: basis.seen.min(other.seen),
            pool: basis.pool.min(other.pool),
            ..basis
        };
        match action {
            PoolAction::Create { .. } | PoolAction::Activate { .. } => {
                // A count of the live machines shows which are gone, and no new ones.
                let cached = RequestBasis { seen: self.cached, ..self.basis };
                self.first_basis.values().fold(cached, oldest)
            }
            _ => self.basis,
        }
    }

    fn send(
        &mut self,
        api: &mut Api,
        action: &PoolAction,
        basis: RequestBasis,
        version: Option<u64>,
    ) -> Result<Result<(), RequestRefusal>, BrokenInvariant> {
        match action {
            PoolAction::Create { draft } if draft.rehearsal != Rehearsal::None && api.policy.machines => {
                self.memory.machine_losses.rehearsal_lost("a policy".into(), api.now);
                return Ok(Err(RequestRefusal::Lost));
            }
            PoolAction::PruneRecord { gone, .. } => {
                let (_, here) = api.confirm(gone);
                for seen in here {
                    self.memory.machines.written(seen, api.now);
                }
            }
            _ => {}
        }
        let answer = commit_request(api, action, basis, version, false)?;
        if matches!(action, PoolAction::OpenNameBlock { .. } | PoolAction::PruneRecord { .. }) {
            self.basis.pool = api.history.len() - 1;
        }
        Ok(answer.and_then(|committed| self.record_committed(api, action, committed)))
    }

    /// Records a response.
    fn record_committed(
        &mut self,
        api: &Api,
        action: &PoolAction,
        committed: CommittedRequest,
    ) -> Result<(), RequestRefusal> {
        let (memory, now) = (&mut self.memory, api.now);
        match committed {
            CommittedRequest::Machine(seen) => {
                let machine = seen.facts.clone();
                memory.machines.written(seen, now);
                return self.machine_written(api, action, &machine);
            }
            CommittedRequest::MachineDeleted(seen) => {
                memory.machines.deleted(&seen.facts, now);
                if let PoolAction::Delete { machine, reason: DeleteReason::NotReady } = action {
                    memory.replace_unready(machine, now);
                }
            }
            CommittedRequest::Disk(seen) => {
                let (id, is_lost) = (seen.facts.id.clone(), seen.facts.owner.is_none());
                memory.disks.written(seen, now);
                if matches!(action, PoolAction::CreateDisk { .. }) {
                    return self.disk_created(api, &id, is_lost);
                }
            }
            CommittedRequest::DiskDeleted(seen) => memory.disks.deleted(&seen.facts, now),
            CommittedRequest::Other { .. } => match action {
                PoolAction::Restart { instance, .. } => memory.restarts.request(instance, now),
                PoolAction::StartActivated { machine } => memory.request_start(&machine.uid),
                PoolAction::PruneRecord { block: Some(block), .. } => {
                    memory.next_number = block.first.max(memory.next_number);
                }
                _ => {}
            },
        }
        Ok(())
    }

    /// Records what follows from a written machine.
    fn machine_written(
        &mut self,
        api: &Api,
        action: &PoolAction,
        machine: &Machine,
    ) -> Result<(), RequestRefusal> {
        match action {
            PoolAction::Create { draft } => {
                self.memory.next_number = (draft.number + 1).max(self.memory.next_number);
                self.server_clock = Some(ServerClock::of_response(machine.created, api.now));
                return self.machine_created(api, &machine.id, api.pool.includes(machine), draft);
            }
            PoolAction::Update { to, .. } => {
                let accepted = UpdateOutcome::Accepted;
                self.memory.rollout_attempts.record(&machine.id.uid, to, accepted, api.now);
            }
            // The second request deletes the instance.
            PoolAction::Restart { .. } => self.pending.push_front(action.clone()),
            _ => {}
        }
        Ok(())
    }

    /// Records a created machine. Disks are created only for one that belongs to the pool.
    fn machine_created(
        &mut self,
        api: &Api,
        machine: &ObjectId,
        is_kept: bool,
        draft: &Draft,
    ) -> Result<(), RequestRefusal> {
        if is_kept {
            if api.counts_losses {
                self.memory.machine_losses.created(machine, api.pool.machine_loss_limit(), api.now);
            }
            self.queue_disks(machine, draft);
            return Ok(());
        }
        self.memory.machine_losses.lost(loss_at_birth(), api.now);
        Err(RequestRefusal::Lost)
    }

    fn disk_created(&mut self, api: &Api, disk: &ObjectId, is_lost: bool) -> Result<(), RequestRefusal> {
        if is_lost {
            self.memory.disk_losses.lost(loss_at_birth(), api.now);
            return Err(RequestRefusal::Lost);
        }
        if api.counts_losses {
            self.memory.disk_losses.created(disk, api.pool.disk_loss_limit(), api.now);
        }
        Ok(())
    }

    /// Records which of the lately created objects do not belong to the pool any more.
    fn observe_losses(&mut self, api: &Api) {
        let Self { memory, machines, disks, .. } = self;
        let later = || Loss { kind: LossKind::Later, message: "a client".into() };
        let lost = memory.machine_losses.observe(
            |name, uid| match machines.get(name) {
                None => ObjectFate::Unknown,
                Some(seen) if seen.facts.id.uid != *uid || seen.facts.terminating => ObjectFate::Gone,
                Some(seen) if api.pool.includes(&seen.facts) => ObjectFate::Kept,
                Some(_) => ObjectFate::Lost,
            },
            api.now,
        );
        for _ in &lost {
            memory.machine_losses.lost(later(), api.now);
        }
        let lost = memory.disk_losses.observe(
            |name, uid| match disks.get(name) {
                None => ObjectFate::Unknown,
                Some(seen) if seen.facts.id.uid != *uid || seen.facts.terminating => ObjectFate::Gone,
                Some(seen) if seen.facts.owner.is_some() => ObjectFate::Kept,
                Some(_) => ObjectFate::Lost,
            },
            api.now,
        );
        for _ in &lost {
            memory.disk_losses.lost(later(), api.now);
        }
    }

    /// The version that a deletion requires: a target is deleted in any state.
    fn planned(&self, machine: &ObjectId, reason: DeleteReason) -> Option<u64> {
        let version = || self.machine_versions.get(&machine.name).copied().unwrap_or_default();
        (!matches!(reason, DeleteReason::Targeted { forced: true })).then(version)
    }

    /// The disks of a machine are created after it.
    fn queue_disks(&mut self, machine: &ObjectId, draft: &Draft) {
        for disk in draft.disks.iter().rev().filter(|disk| disk.source == DiskSource::New) {
            self.pending.push_front(PoolAction::CreateDisk { machine: machine.clone(), disk: disk.clone() });
        }
    }

    fn succeed(&mut self, stage: ApplyStage) {
        if self.pending.front().is_none_or(|next| next.stage() != stage) {
            self.memory.backoff_mut(stage).succeeded();
        }
    }

    fn fail(&mut self, action: &PoolAction, message: &str, now: Duration) {
        let cause = PoolFailure { reason: action.failure_reason(), message: message.into() };
        self.memory.backoff_mut(action.stage()).failed(cause, now, None, 0.0);
        self.pending.clear();
    }

    fn refused(&mut self, api: &Api, action: &PoolAction, refusal: RequestRefusal) -> &'static str {
        let now = api.now;
        match (action, refusal) {
            (PoolAction::Create { draft }, RequestRefusal::AlreadyExists) => {
                self.memory.next_number = self.memory.next_number.max(draft.number + 1);
                let live = &api.machines.objects[&draft.name];
                if live.facts.belongs_to(&api.pool.id) {
                    self.memory.machines.written(live.clone(), now);
                    return "was there already";
                }
                if self.memory.machines.name_taken(&draft.name) && api.counts_losses {
                    self.memory.machine_losses.watch(&live.facts.id, now);
                }
                // It may have belonged to the pool when it was created, and then uses disks of the pool.
                self.memory.machines.written(live.clone(), now);
                "the object of this name is not the pool's"
            }
            (PoolAction::StartActivated { machine }, RequestRefusal::AlreadyExists) => {
                self.memory.request_start(&machine.uid);
                "was there already"
            }
            (PoolAction::CreateDisk { disk, .. }, RequestRefusal::AlreadyExists) => {
                // The next pass decides about the existing disk.
                self.memory.disks.written(api.disks.objects[&disk.name].clone(), now);
                "was there already"
            }
            (
                PoolAction::Delete { machine, .. } | PoolAction::RemoveFinalizer { machine, .. },
                RequestRefusal::NotFound,
            ) => {
                self.deleted(&machine.name, now);
                "was gone already"
            }
            (_, RequestRefusal::Lost) => {
                self.fail(action, "the object does not belong to the pool", now);
                "lost"
            }
            (PoolAction::ExpandDisk { disk, .. }, RequestRefusal::Invalid) => {
                self.memory.record_result(&disk.name, true);
                self.fail(action, "the platform refuses it", now);
                "refused"
            }
            (PoolAction::Create { .. }, RequestRefusal::QuotaExceeded) => {
                self.fail(action, "exceeded quota", now);
                "refused: exceeded quota"
            }
            _ => {
                // The state differs from the plan. A write of a machine includes a live read.
                if let PoolAction::Update { machine, to, disruption, .. } = action
                    && matches!(disruption, Disruption::MetadataOnly | Disruption::ForApproval)
                {
                    let outcome = UpdateOutcome::Differs;
                    self.memory.rollout_attempts.record(&machine.uid, to, outcome, now);
                }
                if let PoolAction::Update { machine, .. }
                | PoolAction::RecordRevision { machine, .. }
                | PoolAction::ShortenProtection { machine, .. }
                | PoolAction::BeginDrain { machine, .. }
                | PoolAction::EndDrain { machine }
                | PoolAction::AddFinalizer { machine }
                | PoolAction::Release { machine, .. }
                | PoolAction::RemoveFinalizer { machine, .. }
                | PoolAction::EndDeletion { machine }
                | PoolAction::Restart { machine, .. }
                | PoolAction::EndRestart { machine }
                | PoolAction::Activate { machine, .. }
                | PoolAction::StopStandby { machine }
                | PoolAction::Delete { machine, .. } = action
                    && let Some(seen) = api.machines.objects.get(&machine.name)
                    && seen.facts.id == *machine
                {
                    self.memory.machines.written(seen.clone(), now);
                }
                self.pending.clear();
                "conflict"
            }
        }
    }

    /// Records a deletion with the newest known facts of the machine.
    fn deleted(&mut self, machine: &str, now: Duration) {
        let known = self.memory.machines.get(machine).or_else(|| self.known.get(machine)).cloned();
        self.memory.machines.deleted(&known.expect("only what is known is deleted"), now);
    }

    fn response_lost(&mut self, action: &PoolAction, basis: RequestBasis, now: Duration, keeps: bool) {
        match action {
            PoolAction::Create { draft } => {
                self.memory.next_number = self.memory.next_number.max(draft.number + 1);
                match draft.standby {
                    Some(_) => self.memory.machines.standby_unconfirmed(&draft.name, draft.number, now),
                    None => self.memory.machines.create_unconfirmed(&draft.name, draft.number, now),
                }
                self.first_basis.entry(draft.name.clone()).or_insert(basis);
            }
            PoolAction::Activate { machine, .. } => self.memory.machines.activation_unconfirmed(machine, now),
            // As in the shell, the machine counts until a read shows that it is gone.
            PoolAction::Delete { machine, .. } => self.memory.delete_unconfirmed(&machine.uid, now),
            PoolAction::Update { machine, to, .. } => {
                self.memory.rollout_attempts.record(&machine.uid, to, UpdateOutcome::Unconfirmed, now);
            }
            PoolAction::CreateDisk { disk, .. } if keeps => {
                self.memory.disks.create_unconfirmed(&disk.name, 0, now);
            }
            _ => {}
        }
        self.fail(action, "no answer", now);
    }
}

fn loss_at_birth() -> Loss {
    Loss { kind: LossKind::AtBirth, message: "a policy".into() }
}
