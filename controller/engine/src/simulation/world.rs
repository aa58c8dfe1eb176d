//! Everybody else: owners, users, the platform, the garbage collector, and what goes wrong between them all.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Broken, check};
use super::shell::{Fate, InFlight, Shell};
use crate::condition;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Activity, Naming, ObjectId, Removal, Replica};
use crate::testing::{member, name};
use crate::{Action, Plan, Status};

/// Requests of one dead leader that may still be on their way.
const IN_FLIGHT: usize = 3;

/// One thing that happens. The argument chooses among what is there; a step that finds nothing to do does nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Pass,
    Act(Fate),
    WatchMachines(usize),
    WatchDisks(usize),
    Land(usize),
    Crash(usize),
    Relist,
    Scale(usize),
    Policy(usize),
    Quota(usize),
    DeleteByHand(usize),
    Disown(usize),
    Unlabel(usize),
    LoseDisk(usize),
    GrabDiskName(usize),
    Toggle(usize),
    Finish(usize),
    Collect,
    Wait(usize),
}

impl Step {
    /// Reads a step from a random number: its kind from the last two digits, its argument from the others.
    pub(super) fn from_number(number: u32) -> Self {
        let argument = usize::try_from(number / 100).expect("small");
        match number % 100 {
            0..=9 => Self::Pass,
            10..=44 => Self::Act(Fate::Answered),
            45..=47 => Self::Act(Fate::AnswerLost),
            48..=49 => Self::Act(Fate::RequestLost),
            50..=52 => Self::Act(Fate::Late),
            53..=60 => Self::WatchMachines(1 + argument % 8),
            61..=65 => Self::WatchDisks(1 + argument % 8),
            66..=68 => Self::Land(argument),
            69 => Self::Crash(argument % (IN_FLIGHT + 1)),
            70 => Self::Relist,
            71..=74 => Self::Scale(argument % 9),
            75 => Self::Policy(argument),
            76 => Self::Quota(argument % 12),
            77..=78 => Self::DeleteByHand(argument),
            79 => Self::Disown(argument),
            80 => Self::Unlabel(argument),
            81 => Self::LoseDisk(argument),
            82 => Self::GrabDiskName(argument % 32),
            83..=85 => Self::Toggle(argument),
            86..=90 => Self::Finish(argument),
            91..=93 => Self::Collect,
            _ => Self::Wait(argument % 40),
        }
    }
}

pub(super) struct World {
    pub(super) api: Api,
    shell: Shell,
    in_flight: Vec<InFlight>,
    /// What happened, for people.
    pub(super) transcript: String,
}

impl World {
    /// A pool of `desired` machines beside objects of others that look like its own.
    pub(super) fn new(naming: Naming, desired: usize) -> Self {
        let mut pool = crate::testing::World::desiring(desired).pool;
        pool.naming = naming;
        let mut api = Api::new(pool);
        for (name, labels) in [("web-batch", true), (&*name(3), false), ("web-3", false)] {
            let mut foreign = Replica { owner: None, ..member(name, 1) };
            if !labels {
                (foreign.pool_label, foreign.pool_uid_label) = (None, None);
            }
            api.put_machine(foreign);
        }
        for disk in ["root", "web-1-root", &format!("{}-root", name(1))] {
            api.put_disk(disk, None);
        }
        let shell = Shell::start(&api);
        Self { api, shell, in_flight: Vec::new(), transcript: String::new() }
    }

    fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        let seconds = self.api.now.saturating_sub(Duration::from_secs(1000)).as_secs_f64();
        writeln!(self.transcript, "{seconds:7.2}  {what}").expect("a string takes all");
    }

    pub(super) fn step(&mut self, step: Step) -> Result<(), Broken> {
        // No two things happen at the same moment: a list that began with a write says nothing about it.
        self.api.now += Duration::from_millis(1);
        match step {
            Step::Pass => self.pass(),
            Step::Act(fate) => self.act(fate)?,
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
                    // A name that was settled by repeating its create is not waited for: the first request counts
                    // as one that was in flight.
                    let lost = self.shell.memory.machines.lost_answers();
                    request.basis.current &= lost.iter().any(|lost| lost.name == draft.name);
                }
                let action = told(&request.action);
                let did = request.land(&mut self.api)?;
                self.tell(format_args!("late: {action}{}", if did { "" } else { ", without effect" }));
            }
            Step::Crash(late) => self.crash(late),
            Step::Relist => {
                self.shell.machines = super::view::View::list(&self.api.machines, self.api.now);
                self.shell.disks = super::view::View::list(&self.api.disks, self.api.now);
                self.tell(format_args!("the watches are opened anew"));
            }
            Step::Wait(seconds) => {
                self.api.now += Duration::from_millis(250 + 1000 * seconds as u64);
                self.in_flight.retain(|request| self.api.now < request.sent + REQUEST_TIMEOUT);
            }
            step => self.others(step),
        }
        Ok(())
    }

    fn pass(&mut self) {
        if self.shell.pending.is_empty() {
            let (plan, _) = self.shell.pass(&self.api);
            let (pool, waits) = (&self.api.pool, plan.waits.iter().map(|wait| format!("; {wait}")));
            let what = format!("pass for {} under {:?}", pool.desired, pool.removal);
            let what = format!("{what}: {}{}", summary(&plan), waits.collect::<String>());
            self.tell(format_args!("{what}"));
        }
    }

    fn act(&mut self, fate: Fate) -> Result<(), Broken> {
        if let Some((action, outcome, in_flight)) = self.shell.act(&mut self.api, fate)? {
            self.tell(format_args!("  {}: {outcome}", told(&action)));
            self.in_flight.extend(in_flight);
        }
        Ok(())
    }

    fn watched(&mut self, what: &str, came: usize, position: usize, end: usize) {
        if came > 0 {
            self.tell(format_args!("watch of {what}: {came} events, {} behind", end - position));
        }
    }

    /// The leader dies; a new one starts with fresh lists. Up to `late` of its requests are still on their way.
    fn crash(&mut self, late: usize) {
        let before = self.in_flight.len();
        while self.in_flight.len() < before + late {
            let Ok(Some((.., Some(request)))) = self.shell.act(&mut self.api, Fate::Late) else { break };
            self.in_flight.push(request);
        }
        for request in &mut self.in_flight {
            request.basis.current = false;
        }
        self.shell = Shell::start(&self.api);
        self.tell(format_args!("the leader dies with {} requests on their way", self.in_flight.len()));
    }

    fn others(&mut self, step: Step) {
        match step {
            Step::Scale(desired) => {
                self.api.edit_pool(|pool| pool.desired = desired);
                self.tell(format_args!("owner: replicas {desired}"));
            }
            Step::Policy(which) => {
                let policies: &[Removal] = match self.api.pool.naming {
                    Naming::Scattered => &[Removal::NewestFirst, Removal::OldestFirst, Removal::Explicit],
                    Naming::Ordinal => &[Removal::LowestOrdinalFirst, Removal::HighestOrdinalFirst],
                };
                let policy = policies[which % policies.len()];
                self.api.edit_pool(|pool| pool.removal = policy);
                self.tell(format_args!("owner: policy {policy:?}"));
            }
            Step::Quota(free) => {
                self.api.quota = (free > 2).then_some(free);
                match self.api.quota {
                    Some(machines) => self.tell(format_args!("quota: {machines} machines in all")),
                    None => self.tell(format_args!("quota: none")),
                }
            }
            Step::DeleteByHand(which) => self.member(which, "is deleted by hand", |api, id| {
                api.remove_by_hand(id, |machine| machine.terminating = true);
            }),
            Step::Disown(which) => self.member(which, "loses its owner", |api, id| {
                api.remove_by_hand(id, |machine| machine.owner = None);
            }),
            Step::Unlabel(which) => self.member(which, "loses its label", |api, id| {
                api.edit_machine(id, |machine| machine.pool_uid_label = None);
            }),
            Step::Toggle(which) => self.member(which, "starts or stops", |api, id| {
                api.edit_machine(id, |machine| {
                    machine.activity = match machine.activity {
                        Activity::Running => Activity::NotRunning,
                        Activity::NotRunning => Activity::Running,
                    };
                });
            }),
            Step::LoseDisk(which) => {
                let disks = self.api.disks.objects.values().filter(|disk| disk.facts.owner.is_some());
                let names: Vec<Arc<str>> = disks.map(|disk| disk.facts.id.name.clone()).collect();
                if let Some(name) = pick(&names, which) {
                    self.api.lose_disk(name);
                    self.tell(format_args!("disk {name} is lost"));
                }
            }
            Step::GrabDiskName(number) => {
                let disk = match self.api.pool.naming {
                    Naming::Scattered => format!("{}-root", name(number as u64)),
                    Naming::Ordinal => format!("web-{number}-root"),
                };
                if !self.api.disks.objects.contains_key(&*disk) {
                    self.api.put_disk(&disk, None);
                    self.tell(format_args!("somebody creates disk {disk}"));
                }
            }
            Step::Finish(which) => {
                let machines = self.api.machines.objects.values().filter(|seen| seen.facts.terminating);
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

    fn member(&mut self, which: usize, what: &str, edit: impl FnOnce(&mut Api, &ObjectId)) {
        let live = self.api.members().filter(|member| !member.terminating);
        let ids: Vec<ObjectId> = live.map(|member| member.id.clone()).collect();
        if let Some(id) = pick(&ids, which) {
            edit(&mut self.api, id);
            self.tell(format_args!("{id} {what}"));
        }
    }

    /// Ends all faults and lets everybody do their work until nothing happens any more; I8.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        self.tell(format_args!("from here on nothing fails"));
        self.api.quota = None;
        self.in_flight.clear();
        let mut again = Duration::ZERO;
        for _ in 0..100 {
            while !self.shell.pending.is_empty() {
                self.act(Fate::Answered)?;
            }
            self.api.now += again.max(Duration::from_secs(1));
            while self.api.machines.objects.values().any(|seen| seen.facts.terminating) {
                self.others(Step::Finish(0));
            }
            self.others(Step::Collect);
            self.start_idle();
            self.step(Step::WatchMachines(usize::MAX - self.api.machines.log.len()))?;
            self.step(Step::WatchDisks(usize::MAX - self.api.disks.log.len()))?;
            let (plan, status) = self.shell.pass(&self.api);
            let desired = self.api.pool.desired;
            self.tell(format_args!("pass for {desired}: {}", summary(&plan)));
            if plan == Plan::default() && self.unseen() == 0 {
                self.is_settled(&status)?;
                return self.stays_settled();
            }
            again = plan.again.unwrap_or_default();
        }
        Err("I8: the world does not settle".into())
    }

    fn start_idle(&mut self) {
        let idle = self.api.members().filter(|member| member.activity == Activity::NotRunning);
        let ids: Vec<ObjectId> = idle.map(|member| member.id.clone()).collect();
        for id in ids {
            self.api.edit_machine(&id, |machine| machine.activity = Activity::Running);
        }
    }

    fn is_settled(&self, status: &Status) -> Result<(), Broken> {
        let (pool, members) = (&self.api.pool, self.api.members().count());
        let may_exceed = pool.removal == Removal::Explicit && members > pool.desired;
        check(members == pool.desired || may_exceed, || {
            format!("{members} members, {} desired", pool.desired)
        })?;
        for member in self.api.members() {
            let disk = member.disks.first().and_then(|disk| self.api.disks.objects.get(&disk.disk));
            let owner = disk.and_then(|disk| disk.facts.owner.as_ref());
            check(owner == Some(&member.id), || format!("{} has not got its own disk", member.id))?;
            check(member.pool_uid_label.as_ref() == Some(&pool.id.uid), || {
                format!("{} lacks labels", member.id)
            })?;
        }
        let foreign = self.api.machines.objects.values().filter(|seen| seen.facts.owner.is_none());
        for machine in foreign.map(|seen| &seen.facts) {
            let labelled = machine.pool_uid_label.is_some();
            check(labelled == (&*machine.id.name == "web-batch") || pool.naming == Naming::Ordinal, || {
                format!("{} is not a member and has the wrong labels", machine.id)
            })?;
        }
        check(status.summary.ready == members && status.summary.replicas == members, || {
            format!("{:?} of {members} members", status.summary)
        })?;
        let failures: Vec<_> = status
            .conditions
            .iter()
            .filter(|condition| match &*condition.kind {
                condition::PROGRESSING => !may_exceed,
                condition::REPLICA_FAILURE => true,
                _ => condition.status != "True",
            })
            .collect();
        check(failures.is_empty(), || format!("settled, and still {failures:?}"))
    }

    /// Writes that wait for the caches.
    fn unseen(&self) -> usize {
        self.shell.memory.machines.len() + self.shell.memory.disks.len()
    }

    fn stays_settled(&mut self) -> Result<(), Broken> {
        for _ in 0..3 {
            self.api.now += Duration::from_mins(2);
            let (plan, _) = self.shell.pass(&self.api);
            check(plan == Plan::default(), || format!("I8: not settled for good: {plan:?}"))?;
        }
        self.tell(format_args!("settled"));
        Ok(())
    }
}

fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    (!from.is_empty()).then(|| &from[which % from.len()])
}

fn summary(plan: &Plan) -> String {
    let actions: Vec<String> = plan.actions.iter().map(told).collect();
    if actions.is_empty() { "nothing to do".into() } else { actions.join(", ") }
}

fn told(action: &Action) -> String {
    match action {
        Action::Relabel { member } => format!("relabel {member}"),
        Action::Release { machine } => format!("release {machine}"),
        Action::CreateDisk { disk, .. } => format!("create disk {}", disk.name),
        Action::Repoint { member, from, to, .. } => format!("let {member} use {} and not {from}", to.name),
        Action::Delete { member, .. } => format!("delete {member}"),
        Action::OpenBlock { block } => format!("open block {block}"),
        Action::Create { draft } => format!("create {}", draft.name),
    }
}
