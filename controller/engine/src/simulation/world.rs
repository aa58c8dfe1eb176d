//! The world of a simulation: users, the platform, the garbage collector, and faults.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::admission_policy::AdmissionPolicy;
use super::api::{Api, Broken};
use super::controller::{Controller, Fate, Sent};
use super::instances::can_finish;
use super::removal_client::{RemovalClient, Went};
use super::request::InFlight;
use super::step::Step;
use crate::ledger::{REQUEST_TIMEOUT, Seen};
use crate::model::{Activity, Disk, DiskAnnotations, Machine, Naming, ObjectId, Owner, ScaleDownPolicy};
use crate::names::NameBlock;
use crate::protection::{Until, after};
use crate::testing::{machine, name};
use crate::{Action, Plan};

#[derive(Clone)]
pub(super) struct World {
    pub(super) api: Api,
    pub(super) shell: Controller,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) hangs: bool,
    /// Clients of targeted removals.
    pub(super) removal_clients: Vec<RemovalClient>,
    calls: usize,
    /// The transcript.
    pub(super) transcript: String,
    /// Whether the transcript is disabled.
    pub(super) silent: bool,
    /// The duration of a step.
    pub(super) tick: Duration,
}

impl World {
    /// A pool of `desired` machines with `opened` numbers in its first name block, and foreign objects with similar
    /// names.
    pub(super) fn new(naming: Naming, desired: usize, opened: u64) -> Self {
        let mut pool = crate::testing::World::desiring(desired).pool;
        pool.naming = naming;
        pool.max_protection = Duration::from_mins(1);
        pool.name_block = (opened > 0).then_some(NameBlock { first: 0, end: opened });
        let mut api = Api::new(pool);
        for (name, labels) in [("web-batch", true), (&*name(3), false), ("web-3", false)] {
            let mut foreign = Machine { owner: None, ..machine(name, 1) };
            if !labels {
                (foreign.pool_label, foreign.pool_uid_label) = (None, None);
            }
            api.put_machine(foreign);
        }
        for disk in ["root", "web-1-root", &format!("{}-root", name(1))] {
            api.put_disk(disk, None);
        }
        Self::around(api)
    }

    /// A new leader without any other client.
    pub(super) fn around(api: Api) -> Self {
        Self {
            shell: Controller::start(&api),
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

    pub(super) fn step(&mut self, step: Step) -> Result<(), Broken> {
        // No two events have the same time, because a list that begins at the time of a write may not contain it.
        self.api.now += self.tick;
        match step {
            Step::Pass => self.pass(),
            Step::Act(fate) => self.act(fate)?,
            Step::Hang => {
                self.hangs = true;
                self.tell(format_args!("the watch of machines hangs"));
            }
            Step::WatchMachines(_) if self.hangs => {}
            Step::WatchMachines(events) => {
                let came = self.shell.machines.advance(&self.api.machines, events);
                self.watched("machines", came, self.shell.machines.position, self.api.machines.log.len());
            }
            Step::WatchDisks(events) => {
                let came = self.shell.disks.advance(&self.api.disks, events);
                self.watched("disks", came, self.shell.disks.position, self.api.disks.log.len());
            }
            Step::Land(which) if !self.in_flight.is_empty() => {
                let mut request = self.in_flight.swap_remove(which % self.in_flight.len());
                if let Action::Create { draft } = &request.action {
                    // A repeated create with success is confirmed. If its machine is already gone, the first request
                    // counts as one of a former leader.
                    request.basis.current &= !self.api.existed(&draft.name);
                }
                let action = action_text(&request.action);
                let did = request.land(&mut self.api)?;
                self.tell(format_args!("late: {action}{}", if did { "" } else { ", without effect" }));
            }
            Step::Crash(late) => self.crash(late),
            Step::Call(which) => self.call(which),
            Step::RemovalClient(which) if !self.removal_clients.is_empty() => {
                let index = which % self.removal_clients.len();
                let Went { what, done } = self.removal_clients[index].step(&mut self.api)?;
                let request = self.removal_clients[index].request.clone();
                self.tell(format_args!("{request} {what}"));
                if done {
                    self.removal_clients.swap_remove(index);
                }
            }
            Step::RemovalClientExits(which) if !self.removal_clients.is_empty() => {
                let caller = self.removal_clients.swap_remove(which % self.removal_clients.len());
                self.tell(format_args!("{} dies", caller.request));
            }
            Step::Relist => {
                self.hangs = false;
                self.shell.machines = super::watch_cache::WatchCache::list(&self.api.machines, self.api.now);
                self.shell.disks = super::watch_cache::WatchCache::list(&self.api.disks, self.api.now);
                self.tell(format_args!("the watches are opened anew"));
            }
            Step::Wait(seconds) => {
                self.api.now += Duration::from_millis(250 + 1000 * seconds as u64);
                self.in_flight.retain(|request| self.api.now < request.sent + REQUEST_TIMEOUT);
            }
            Step::Disk(step) => self.disk_step(step),
            step => self.others(step),
        }
        self.api.record_disk_use();
        Ok(())
    }

    fn pass(&mut self) {
        if self.shell.pending.is_empty() {
            let (plan, _) = self.shell.pass(&self.api);
            let (pool, blockers) =
                (&self.api.pool, plan.blockers.iter().map(|blocker| format!("; {blocker}")));
            let what = format!("pass for {} under {:?}", pool.desired, pool.scale_down_policy);
            let what = format!("{what}: {}{}", summary(&plan), blockers.collect::<String>());
            self.tell(format_args!("{what}"));
        }
    }

    pub(super) fn act(&mut self, fate: Fate) -> Result<(), Broken> {
        if let Some(Sent { action, outcome, in_flight }) = self.shell.act(&mut self.api, fate)? {
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

    /// The leader exits, and a new one starts with new lists. Up to `late` requests of the former leader are still in
    /// flight.
    fn crash(&mut self, late: usize) {
        let before = self.in_flight.len();
        while self.in_flight.len() < before + late {
            let Ok(Some(Sent { in_flight: Some(request), .. })) = self.shell.act(&mut self.api, Fate::Late)
            else {
                break;
            };
            self.in_flight.push(request);
        }
        for request in &mut self.in_flight {
            request.basis.current = false;
        }
        self.shell = Controller::start(&self.api);
        self.api.taken.leaders += 1;
        self.hangs = false;
        self.tell(format_args!("the leader dies with {} requests on their way", self.in_flight.len()));
    }

    /// A client starts a targeted removal of up to three machines. They can include duplicates, terminating and foreign
    /// machines, and targets of other removals.
    fn call(&mut self, which: usize) {
        let machines: Vec<ObjectId> = self.api.pool_machines().map(|machine| machine.id.clone()).collect();
        let mut targets = match pick(&self.removal_clients, which) {
            Some(other) if which.is_multiple_of(4) => other.targets.clone(),
            _ => (0..=which % 3)
                .filter_map(|nth| pick(&machines, which / 3 + nth * (which % 5)).cloned())
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
        let caller = RemovalClient::new(&format!("request {}", self.calls), targets);
        self.tell(format_args!("{} wants to remove {}", caller.request, caller.wants()));
        self.removal_clients.push(caller);
    }

    /// Another client removes the owner of all machines of the pool.
    fn take_all_machines(&mut self) {
        let live = self.api.pool_machines().filter(|machine| !machine.terminating);
        let ids: Vec<ObjectId> = live.map(|machine| machine.id.clone()).collect();
        self.tell(format_args!("{} machines lose their owner", ids.len()));
        for id in ids {
            self.api.remove_by_hand(&id, |machine| machine.owner = None);
            self.api.retained.excused += 1;
        }
    }

    pub(super) fn others(&mut self, step: Step) {
        match step {
            Step::Scale(desired) => {
                self.api.edit_pool(|pool| pool.desired = desired);
                self.tell(format_args!("owner: replicas {desired}"));
            }
            Step::Policy(which) => {
                let policies: &[ScaleDownPolicy] = match self.api.pool.naming {
                    Naming::Random => &[
                        ScaleDownPolicy::NewestFirst,
                        ScaleDownPolicy::OldestFirst,
                        ScaleDownPolicy::Explicit,
                    ],
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
            Step::Quota(free) => {
                self.api.quota = (free > 2).then_some(free);
                match self.api.quota {
                    Some(machines) => self.tell(format_args!("quota: {machines} machines in all")),
                    None => self.tell(format_args!("quota: none")),
                }
            }
            Step::DeleteByHand(which) => self.machine(which, "is deleted by hand", |api, id| {
                api.remove_by_hand(id, |machine| machine.terminating = true);
                // Without finalizers it is deleted immediately.
                if which.is_multiple_of(3) {
                    api.finish(&id.name);
                }
            }),
            Step::Disown(which) => self.machine(which, "loses its owner", |api, id| {
                api.remove_by_hand(id, |machine| machine.owner = None);
                // The pool has one more disk when the machine is gone.
                api.retained.excused += 1;
            }),
            Step::Unlabel(which) => self.machine(which, "loses its label", |api, id| {
                api.edit_machine(id, |machine| machine.pool_uid_label = None);
            }),
            Step::Policies(which) => {
                self.api.taken.policies += 1;
                self.api.policy = AdmissionPolicy { machines: which % 3 == 1, disks: which % 3 == 2 };
                let AdmissionPolicy { machines, disks } = self.api.policy;
                self.tell(format_args!("policies strip the owners: machines {machines}, disks {disks}"));
            }
            Step::TakeAll => self.take_all_machines(),
            Step::Protect(which) => self.machine(which, "is protected, or no longer", |api, id| {
                // An hour exceeds the maximum of the pool, so the controller shortens it.
                let seconds = [None, Some(5), Some(20), Some(45), Some(3600)][which % 5];
                let until = seconds.map(|seconds| after(api.timestamp(), Duration::from_secs(seconds)));
                api.protect(id, until.map(Until::At));
            }),
            Step::Toggle(which) => self.machine(which, "starts or stops", |api, id| {
                let runs = api.machines.find(id).is_ok_and(|machine| machine.activity == Activity::Running);
                if runs {
                    api.stop(id, Activity::NotRunning);
                } else {
                    api.start(id);
                }
            }),
            Step::LoseDisk(which) => {
                let uid = &self.api.pool.id.uid;
                let ours = |disk: &&Seen<Disk>| disk.facts.pool_uid_label.as_ref() == Some(uid);
                let disks = self.api.disks.objects.values().filter(ours);
                let names: Vec<Arc<str>> = disks.map(|disk| disk.facts.id.name.clone()).collect();
                if let Some(name) = pick(&names, which) {
                    self.api.lose_disk(name);
                    self.tell(format_args!("disk {name} is lost"));
                }
            }
            Step::GrabDiskName(number) => {
                let disk = match self.api.pool.naming {
                    Naming::Random => format!("{}-root", name(number as u64)),
                    Naming::Ordinal => format!("web-{number}-root"),
                };
                if !self.api.disks.objects.contains_key(&*disk) {
                    let owner = &self.api.machines.objects["web-batch"].facts.id;
                    let owner = (number % 2 == 0).then(|| Owner::machine(owner));
                    self.api.put_disk(&disk, owner);
                    self.tell(format_args!("a user creates disk {disk}"));
                }
            }
            Step::Finish(which) => {
                let machines = self.api.machines.objects.values().filter(|seen| can_finish(&seen.facts));
                let names: Vec<Arc<str>> = machines.map(|seen| seen.facts.id.name.clone()).collect();
                if let Some(name) = pick(&names, which) {
                    self.api.finish(name);
                    self.tell(format_args!("{name} is gone"));
                }
            }
            Step::Collect => {
                let collected = self.api.collect();
                if collected > 0 {
                    self.tell(format_args!("{collected} disks are collected"));
                }
            }
            _ => {}
        }
    }

    fn machine(&mut self, which: usize, what: &str, edit: impl FnOnce(&mut Api, &ObjectId)) {
        let live = self.api.pool_machines().filter(|machine| !machine.terminating);
        let ids: Vec<ObjectId> = live.map(|machine| machine.id.clone()).collect();
        if let Some(id) = pick(&ids, which) {
            edit(&mut self.api, id);
            self.tell(format_args!("{id} {what}"));
        }
    }
}

pub(super) fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    (!from.is_empty()).then(|| &from[which % from.len()])
}

pub(super) fn summary(plan: &Plan) -> String {
    let actions: Vec<String> = plan.actions.iter().map(action_text).collect();
    if actions.is_empty() { "nothing to do".into() } else { actions.join(", ") }
}

fn action_text(action: &Action) -> String {
    match action {
        Action::AddPoolFinalizer
        | Action::RemovePoolFinalizer
        | Action::AddFinalizer { .. }
        | Action::RemoveFinalizer { .. }
        | Action::Restart { .. }
        | Action::EndRestart { .. }
        | Action::ShortenProtection { .. } => format!("{action:?}"),
        Action::Relabel { machine } => format!("relabel {machine}"),
        Action::Release { machine, .. } => format!("release {machine}"),
        Action::CreateDisk { disk, .. } => format!("create disk {}", disk.name),
        Action::AdoptDisk { machine, disk, .. } => format!("give disk {disk} to {machine} again"),
        Action::Repoint { machine, from, to, .. } => format!("let {machine} use {} and not {from}", to.name),
        Action::Detach { machine, disk, .. } => format!("take {disk} away from {machine}"),
        Action::Delete { machine, .. } => format!("delete {machine}"),
        Action::Update { machine, to, .. } => format!("write {to} to {machine}"),
        Action::RecordRevision { machine, to, .. } => format!("{to} is in effect in {machine}"),
        Action::AnnotateDisk { disk, annotations, absent } => {
            annotation_text(disk, annotations, absent.as_deref())
        }
        Action::ExpandDisk { disk, to } => format!("let {disk} grow to {to}"),
        Action::DeleteDisk { disk, reason } => format!("delete disk {disk}: {reason:?}"),
        Action::StoreRevision { revision } => format!("store {revision}"),
        Action::RestoreCopies { revision } => format!("restore copies of {revision}"),
        Action::DeleteCopy { copy } => format!("delete copy {copy}"),
        Action::PruneRevision { revision } => format!("prune {revision}"),
        Action::OpenNameBlock { block } => format!("open block {block}"),
        Action::Create { draft } => format!("create {}", draft.name),
        Action::PruneRecord { gone, expired, block } => {
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
