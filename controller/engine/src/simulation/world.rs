//! The world of a simulation: users, the platform, the garbage collector, and faults.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::admission_policy::ModelAdmissionPolicy;
use super::api::{Api, BrokenInvariant};
use super::controller::{RequestDelivery, SentRequest, SimulatedController};
use super::healing::HEALING;
use super::hooks::HookStep;
use super::instances::can_finish;
use super::removal_client::{ModelRemovalClient, RemovalStepResult};
use super::request::InFlight;
use super::standby::select_standby_settings;
use super::step::SimulationStep;
use crate::ledger::{REQUEST_TIMEOUT, VersionedFacts};
use crate::model::{
    Disk, DiskAnnotations, Machine, MachineActivity, Naming, ObjectId, Owner, ScaleDownPolicy,
};
use crate::protection::{ProtectionEnd, time_after};
use crate::scale_up::names::NameBlock;
use crate::scale_up::provisioning_limit::ProvisioningLimit;
use crate::testing::{numbered_machine_name, running_machine};
use crate::{Plan, PoolAction};

#[derive(Clone)]
pub(super) struct EngineSimulation {
    pub(super) api: Api,
    pub(super) controller: SimulatedController,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) hangs: bool,
    /// Clients of targeted removals.
    pub(super) removal_clients: Vec<ModelRemovalClient>,
    calls: usize,
    /// The transcript.
    pub(super) transcript: String,
    /// Whether the transcript is disabled.
    pub(super) silent: bool,
    /// The duration of a step.
    pub(super) tick: Duration,
}

impl EngineSimulation {
    /// A pool of `desired` machines with `opened` numbers in its first name block, and foreign objects with
    /// similar names.
    pub(super) fn new(naming: Naming, desired: usize, opened: u64) -> Self {
        let mut pool = crate::testing::PoolWorld::desiring(desired).pool;
        pool.naming = naming;
        pool.max_protection = Duration::from_mins(1);
        pool.drain_timeout = Duration::from_secs(45);
        pool.name_block = (opened > 0).then_some(NameBlock { first: 0, end: opened });
        let mut api = Api::new(pool);
        for (name, labels) in [("web-batch", true), (&*numbered_machine_name(3), false), ("web-3", false)] {
            let mut foreign = Machine { owner: None, ..running_machine(name, 1) };
            if !labels {
                (foreign.pool_label, foreign.pool_uid_label) = (None, None);
            }
            api.put_machine(foreign);
        }
        for disk in ["root", "web-1-root", &format!("{}-root", numbered_machine_name(1))] {
            api.put_disk(disk, None);
        }
        Self::around(api)
    }

    /// A new leader without any other client.
    pub(super) fn around(api: Api) -> Self {
        Self {
            controller: SimulatedController::start(&api),
            api,
            in_flight: Vec::new(),
            hangs: false,
            removal_clients: Vec::new(),
            calls: 0,
            transcript: String::new(),
            silent: false,
            tick: Duration::from_millis(1),
        }
    }

    pub(super) fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        if self.silent {
            return;
        }
        let seconds = self.api.now.saturating_sub(Duration::from_secs(1000)).as_secs_f64();
        writeln!(self.transcript, "{seconds:7.2}  {what}").expect("a string takes all");
    }

    pub(super) fn step(&mut self, step: SimulationStep) -> Result<(), BrokenInvariant> {
        // No two events have the same time, because a list that begins at the time of a write may not contain
        // it.
        self.api.now += self.tick;
        match step {
            SimulationStep::Pass => self.pass()?,
            SimulationStep::Act(fate) => self.act(fate)?,
            SimulationStep::Hang => {
                self.hangs = true;
                self.tell(format_args!("the watch of machines hangs"));
            }
            SimulationStep::WatchMachines(_) if self.hangs => {}
            SimulationStep::WatchMachines(events) => {
                let came = self.controller.machines.advance(&self.api.machines, events);
                self.watched(
                    "machines",
                    came,
                    self.controller.machines.position,
                    self.api.machines.log.len(),
                );
            }
            SimulationStep::WatchDisks(events) => {
                let came = self.controller.disks.advance(&self.api.disks, events);
                self.watched("disks", came, self.controller.disks.position, self.api.disks.log.len());
            }
            SimulationStep::Land(which) if !self.in_flight.is_empty() => {
                let mut request = self.in_flight.swap_remove(which % self.in_flight.len());
                if let PoolAction::Create { draft } = &request.action {
                    // A repeated create with success is confirmed. If its machine is already gone, the first
                    // request counts as one of a former leader.
                    request.basis.current &= !self.api.existed(&draft.name);
                }
                let action = action_text(&request.action);
                let did = request.land(&mut self.api)?;
                self.tell(format_args!("late: {action}{}", if did { "" } else { ", without effect" }));
            }
            SimulationStep::Crash(late) => self.crash(late),
            SimulationStep::Call(which) => self.call(which),
            SimulationStep::RemovalClient(which) if !self.removal_clients.is_empty() => {
                let index = which % self.removal_clients.len();
                let RemovalStepResult { what, done } = self.removal_clients[index].step(&mut self.api)?;
                let request = self.removal_clients[index].request.clone();
                self.tell(format_args!("{request} {what}"));
                if done {
                    self.removal_clients.swap_remove(index);
                }
            }
            SimulationStep::RemovalClientExits(which) if !self.removal_clients.is_empty() => {
                let caller = self.removal_clients.swap_remove(which % self.removal_clients.len());
                self.tell(format_args!("{} dies", caller.request));
            }
            SimulationStep::Relist => {
                self.hangs = false;
                self.controller.machines =
                    super::watch_cache::WatchCache::list(&self.api.machines, self.api.now);
                self.controller.disks = super::watch_cache::WatchCache::list(&self.api.disks, self.api.now);
                self.tell(format_args!("the watches are opened anew"));
            }
            SimulationStep::Wait(seconds) => {
                self.api.now += Duration::from_millis(250 + 1000 * seconds as u64);
                self.in_flight.retain(|request| self.api.now < request.sent + REQUEST_TIMEOUT);
            }
            SimulationStep::Disk(step) => self.disk_step(step),
            step => self.others(step),
        }
        self.api.record_disk_use();
        Ok(())
    }

    fn pass(&mut self) -> Result<(), BrokenInvariant> {
        if self.controller.pending.is_empty() {
            let (plan, _) = self.controller.pass(&self.api);
            let (pool, blockers) =
                (&self.api.pool, plan.blockers.iter().map(|blocker| format!("; {blocker}")));
            let what = format!("pass for {} under {:?}", pool.desired, pool.scale_down_policy);
            let what = format!("{what}: {}{}", summarize_plan(&plan), blockers.collect::<String>());
            self.tell(format_args!("{what}"));
            self.replaces_within_budget(&plan)?;
        }
        Ok(())
    }

    pub(super) fn act(&mut self, fate: RequestDelivery) -> Result<(), BrokenInvariant> {
        if let Some(SentRequest { action, outcome, in_flight }) = self.controller.act(&mut self.api, fate)? {
            self.tell(format_args!("  {}: {outcome}", action_text(&action)));
            self.in_flight.extend(in_flight);
        }
        Ok(())
    }

    fn watched(&mut self, what: &str, came: usize, position: usize, end: usize) {
        if came > 0 {
            self.tell(format_args!("watch of {what}: {came} events, {} behind", end - position));
        }
    }

    /// The leader exits, and a new one starts with new lists. Up to `late` requests of the former leader are
    /// still in flight.
    fn crash(&mut self, late: usize) {
        let before = self.in_flight.len();
        while self.in_flight.len() < before + late {
            let Ok(Some(SentRequest { in_flight: Some(request), .. })) =
                self.controller.act(&mut self.api, RequestDelivery::Late)
            else {
                break;
            };
            self.in_flight.push(request);
        }
        for request in &mut self.in_flight {
            request.basis.current = false;
        }
        self.controller = SimulatedController::start(&self.api);
        self.api.taken.leaders += 1;
        self.hangs = false;
        self.tell(format_args!("the leader dies with {} requests on their way", self.in_flight.len()));
    }

    /// A client starts a targeted removal of up to three machines. They can include duplicates, terminating
    /// and foreign machines, and targets of other removals.
    fn call(&mut self, which: usize) {
        let machines: Vec<ObjectId> = self.api.owned_machines().map(|machine| machine.id.clone()).collect();
        let mut targets = match pick_by_number(&self.removal_clients, which) {
            Some(other) if which.is_multiple_of(4) => other.targets.clone(),
            _ => (0..=which % 3)
                .filter_map(|nth| pick_by_number(&machines, which / 3 + nth * (which % 5)).cloned())
                .collect(),
        };
        if which.is_multiple_of(16) {
            targets.push(self.api.machines.objects["web-batch"].facts.id.clone());
        }
        if targets.is_empty() {
            return;
        }
        self.begin(targets);
    }

    /// Changes a machine because of a user.
    pub(super) fn ask(&mut self, target: &ObjectId) {
        self.begin(vec![target.clone()]);
    }

    fn begin(&mut self, targets: Vec<ObjectId>) {
        self.calls += 1;
        let caller = ModelRemovalClient::new(&format!("request {}", self.calls), targets);
        self.tell(format_args!("{} wants to remove {}", caller.request, caller.wants()));
        self.removal_clients.push(caller);
    }

    /// Another client removes the owner of all machines of the pool.
    fn take_all_machines(&mut self) {
        let live = self.api.owned_machines().filter(|machine| !machine.terminating);
        let ids: Vec<ObjectId> = live.map(|machine| machine.id.clone()).collect();
        self.tell(format_args!("{} machines lose their owner", ids.len()));
        for id in ids {
            self.api.remove_by_hand(&id, |machine| machine.owner = None);
            self.api.retained.excused += 1;
        }
    }

    fn set_scale_down_policy(&mut self, which: usize) {
        let policies: &[ScaleDownPolicy] = match self.api.pool.naming {
            Naming::Random => {
                &[ScaleDownPolicy::NewestFirst, ScaleDownPolicy::OldestFirst, ScaleDownPolicy::Explicit]
            }
            Naming::Ordinal => &[
                ScaleDownPolicy::LowestOrdinalFirst,
                ScaleDownPolicy::HighestOrdinalFirst,
                ScaleDownPolicy::StoppedOnly,
            ],
        };
        let policy = policies[which % policies.len()];
        self.api.edit_pool(|pool| pool.scale_down_policy = policy);
        self.tell(format_args!("owner: policy {policy:?}"));
    }

    pub(super) fn others(&mut self, step: SimulationStep) {
        match step {
            SimulationStep::Scale(desired) => {
                self.api.edit_pool(|pool| pool.desired = desired);
                self.tell(format_args!("owner: replicas {desired}"));
            }
            SimulationStep::Standby(which) => {
                let settings = select_standby_settings(which);
                self.api.edit_pool(|pool| pool.standby = Some(settings));
                self.tell(format_args!(
                    "owner: {} standby machines, {:?}",
                    settings.replicas, settings.warm_up
                ));
            }
            SimulationStep::Limit(machines) => {
                let limit = (machines > 0).then_some(ProvisioningLimit::Machines(machines));
                self.api.edit_pool(|pool| pool.max_provisioning = limit);
                self.tell(format_args!("owner: limits provisioning to {limit:?}"));
            }
            SimulationStep::Heal(on) => {
                self.api.edit_pool(|pool| pool.healing = on.then_some(HEALING));
                self.tell(format_args!("owner: turns healing {}", if on { "on" } else { "off" }));
            }
            SimulationStep::Policy(which) => self.set_scale_down_policy(which),
            SimulationStep::Quota(free) => {
                self.api.quota = (free > 2).then_some(free);
                match self.api.quota {
                    Some(machines) => self.tell(format_args!("quota: {machines} machines in all")),
                    None => self.tell(format_args!("quota: none")),
                }
            }
            SimulationStep::DeleteByHand(which) => self.machine(which, "is deleted by hand", |api, id| {
                api.remove_by_hand(id, |machine| machine.terminating = true);
                // Without finalizers it is deleted immediately.
                if which.is_multiple_of(3) {
                    api.finish(&id.name);
                }
            }),
            SimulationStep::Disown(which) => self.machine(which, "loses its owner", |api, id| {
                api.remove_by_hand(id, |machine| machine.owner = None);
                // The pool has one more disk when the machine is gone.
                api.retained.excused += 1;
            }),
            SimulationStep::Unlabel(which) => self.machine(which, "loses its label", |api, id| {
                api.edit_machine(id, |machine| machine.pool_uid_label = None);
            }),
            SimulationStep::Policies(which) => {
                self.api.taken.policies += 1;
                self.api.policy = ModelAdmissionPolicy { machines: which % 3 == 1, disks: which % 3 == 2 };
                let ModelAdmissionPolicy { machines, disks } = self.api.policy;
                self.tell(format_args!("policies strip the owners: machines {machines}, disks {disks}"));
            }
            SimulationStep::TakeAll => self.take_all_machines(),
            SimulationStep::Protect(which) => self.machine(which, "is protected, or no longer", |api, id| {
                // An hour exceeds the maximum of the pool, so the controller shortens it.
                let seconds = [None, Some(5), Some(20), Some(45), Some(3600)][which % 5];
                let until = seconds.map(|seconds| time_after(api.timestamp(), Duration::from_secs(seconds)));
                api.protect(id, until.map(ProtectionEnd::At));
            }),
            SimulationStep::Recycle(number) => self.recycle_step(number),
            SimulationStep::Hook(which) => {
                let step = HookStep::from_number(which);
                let what = format!("has a hook whose owner takes the step {step:?}");
                self.machine(which / 6, &what, |api, id| api.hook_step(id, step));
            }
            SimulationStep::Toggle(which) => self.machine(which, "starts or stops", |api, id| {
                if api.toggle_standby(id) {
                    return;
                }
                let runs =
                    api.machines.find(id).is_ok_and(|machine| machine.activity == MachineActivity::Running);
                if runs {
                    api.stop(id, MachineActivity::NotRunning);
                } else {
                    api.start(id);
                }
            }),
            SimulationStep::Fail(which) => self.machine(which, "fails if it is ready", |api, id| {
                if api.machines.find(id).is_ok_and(|machine| machine.runs()) {
                    api.fail(id);
                }
            }),
            SimulationStep::LoseDisk(which) => self.lose_disk(which),
            SimulationStep::GrabDiskName(number) => self.grab_disk_name(number),
            SimulationStep::Finish(which) => self.finish_deletion(which),
            SimulationStep::Collect => {
                let collected = self.api.collect();
                if collected > 0 {
                    self.tell(format_args!("{collected} disks are collected"));
                }
            }
            _ => {}
        }
    }

    /// A disk of the pool is lost.
    fn lose_disk(&mut self, which: usize) {
        let uid = &self.api.pool.id.uid;
        let ours = |disk: &&VersionedFacts<Disk>| disk.facts.pool_uid_label.as_ref() == Some(uid);
        let disks = self.api.disks.objects.values().filter(ours);
        let names: Vec<Arc<str>> = disks.map(|disk| disk.facts.id.name.clone()).collect();
        if let Some(name) = pick_by_number(&names, which) {
            self.api.lose_disk(name);
            self.tell(format_args!("disk {name} is lost"));
        }
    }

    /// A user creates a disk with a name that the pool may want.
    fn grab_disk_name(&mut self, number: usize) {
        let disk = match self.api.pool.naming {
            Naming::Random => format!("{}-root", numbered_machine_name(number as u64)),
            Naming::Ordinal => format!("web-{number}-root"),
        };
        if !self.api.disks.objects.contains_key(&*disk) {
            let owner = &self.api.machines.objects["web-batch"].facts.id;
            let owner = number.is_multiple_of(2).then(|| Owner::machine(owner));
            self.api.put_disk(&disk, owner);
            self.tell(format_args!("a user creates disk {disk}"));
        }
    }

    /// A deletion ends.
    fn finish_deletion(&mut self, which: usize) {
        let machines = self.api.machines.objects.values().filter(|seen| can_finish(&seen.facts));
        let names: Vec<Arc<str>> = machines.map(|seen| seen.facts.id.name.clone()).collect();
        if let Some(name) = pick_by_number(&names, which) {
            self.api.finish(name);
            self.tell(format_args!("{name} is gone"));
        }
    }

    pub(super) fn machine(&mut self, which: usize, what: &str, edit: impl FnOnce(&mut Api, &ObjectId)) {
        let live = self.api.owned_machines().filter(|machine| !machine.terminating);
        let ids: Vec<ObjectId> = live.map(|machine| machine.id.clone()).collect();
        if let Some(id) = pick_by_number(&ids, which) {
            edit(&mut self.api, id);
            self.tell(format_args!("{id} {what}"));
        }
    }
}

pub(super) fn pick_by_number<T>(from: &[T], which: usize) -> Option<&T> {
    (!from.is_empty()).then(|| &from[which % from.len()])
}

pub(super) fn summarize_plan(plan: &Plan) -> String {
    let actions: Vec<String> = plan.actions.iter().map(action_text).collect();
    if actions.is_empty() { "nothing to do".into() } else { actions.join(", ") }
}

fn action_text(action: &PoolAction) -> String {
    match action {
        PoolAction::AddPoolFinalizer
        | PoolAction::RemovePoolFinalizer
        | PoolAction::AddFinalizer { .. }
        | PoolAction::RemoveFinalizer { .. }
        | PoolAction::EndDeletion { .. }
        | PoolAction::Restart { .. }
        | PoolAction::EndRestart { .. }
        | PoolAction::BeginDrain { .. }
        | PoolAction::EndDrain { .. }
        | PoolAction::ShortenProtection { .. } => format!("{action:?}"),
        PoolAction::Relabel { machine } => format!("relabel {machine}"),
        PoolAction::Release { machine, .. } => format!("release {machine}"),
        PoolAction::CreateDisk { disk, .. } => format!("create disk {}", disk.name),
        PoolAction::AdoptDisk { machine, disk, .. } => format!("give disk {disk} to {machine} again"),
        PoolAction::Repoint { machine, from, to, .. } => {
            format!("let {machine} use {} and not {from}", to.name)
        }
        PoolAction::Detach { machine, disk, .. } => format!("take {disk} away from {machine}"),
        PoolAction::Delete { machine, .. } => format!("delete {machine}"),
        PoolAction::Update { machine, to, .. } => format!("write {to} to {machine}"),
        PoolAction::RecordRevision { machine, to, .. } => format!("{to} is in effect in {machine}"),
        PoolAction::AnnotateDisk { disk, annotations, absent } => {
            annotation_text(disk, annotations, absent.as_deref())
        }
        PoolAction::ExpandDisk { disk, to } => format!("let {disk} grow to {to}"),
        PoolAction::DeleteDisk { disk, reason } => format!("delete disk {disk}: {reason:?}"),
        PoolAction::StoreRevision { revision } => format!("store {revision}"),
        PoolAction::RestoreCopies { revision } => format!("restore copies of {revision}"),
        PoolAction::DeleteCopy { copy } => format!("delete copy {copy}"),
        PoolAction::PruneRevision { revision } => format!("prune {revision}"),
        PoolAction::OpenNameBlock { block } => format!("open block {block}"),
        PoolAction::Create { draft } => format!("create {}", draft.name),
        PoolAction::Activate { machine, .. } => format!("activate {machine}"),
        PoolAction::StartActivated { machine } => format!("start {machine}"),
        PoolAction::StopStandby { machine } => format!("stop standby machine {machine}"),
        PoolAction::PruneRecord { gone, expired, block } => {
            let gone = gone.iter().map(|target| format!("settle {target}"));
            let expired = expired.iter().map(|request| format!("drop {request}"));
            let block = block.map(|block| format!("begin the block with {}", block.first));
            gone.chain(expired).chain(block).collect::<Vec<_>>().join(" and ")
        }
    }
}

fn annotation_text(disk: &ObjectId, annotations: &DiskAnnotations, absent: Option<&str>) -> String {
    let what = match annotations {
        DiskAnnotations { claimed_by: Some(machine), .. } => format!("promise {disk} to {machine}"),
        DiskAnnotations { collecting_since: Some(_), .. } => {
            format!("note that {disk} is about to be deleted")
        }
        DiskAnnotations { free_since: Some(_), .. } => format!("mark {disk} as free"),
        DiskAnnotations { .. } => format!("mark {disk} as in use"),
    };
    absent.map_or(what.clone(), |machine| format!("{what} if there is no {machine}"))
}
