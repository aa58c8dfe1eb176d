//! A small model of machines that evaluate, restart, refuse, stop and crash, and of lost requests.

use super::*;
use crate::rollout::attempts::UpdateOutcome;

/// A template is a number. Three consecutive numbers differ only in fields that need no restart. With an odd
/// number, restarts need an approval.
pub(super) type ModelTemplate = u64;

/// The template of a machine that another controller created. It is no revision of the pool, and its content
/// is that of [`SAME`].
const ANOTHERS: ModelTemplate = 9;
pub(super) const SAME: ModelTemplate = 4;

pub(super) fn id(template: ModelTemplate) -> RevisionId {
    format!("r{template}").as_str().into()
}

fn template(id: &RevisionId) -> ModelTemplate {
    id.as_str()[1..].parse().expect("one of ours")
}

fn content(template: ModelTemplate) -> u64 {
    if template == ANOTHERS { SAME } else { template }
}

fn cold_part(template: ModelTemplate) -> u64 {
    content(template) / 3
}

fn restarts_itself(template: ModelTemplate) -> bool {
    content(template).is_multiple_of(2)
}

pub(super) struct ModelMachine {
    pub(super) facts: Machine,
    /// The template that the machine runs with.
    runs: ModelTemplate,
    version: u64,
    /// Whether the rollout made the machine unavailable and it is not available again.
    disturbed: bool,
    pub(super) stubborn: bool,
    pub(super) updates: usize,
    pub(super) advances: usize,
}

impl ModelMachine {
    fn spec(&self) -> ModelTemplate {
        template(self.facts.written.as_ref().expect("it has a revision"))
    }

    fn change(&mut self, edit: impl FnOnce(&mut Self)) {
        edit(self);
        self.version += 1;
        let facts = &self.facts;
        let back = match facts.activity {
            MachineActivity::Stopped => true,
            MachineActivity::Stopping | MachineActivity::NotRunning => false,
            MachineActivity::Running => facts.evaluated && !(facts.restart_pending && facts.restarts_itself),
        };
        self.disturbed &= !back;
    }

    fn write(&mut self, to: &RevisionId) {
        self.updates += 1;
        self.change(|machine| {
            let facts = &mut machine.facts;
            machine.disturbed |= facts.activity == MachineActivity::Running;
            facts.evaluated = false;
            facts.restarts_itself = restarts_itself(template(to));
            facts.written = Some(to.clone());
        });
    }

    fn get(&mut self, to: &RevisionId, disruption: Disruption) {
        match disruption {
            // No machine of this model is protected.
            Disruption::ForApproval => unreachable!("only for protected machines"),
            Disruption::Budgeted | Disruption::NotRunning => self.write(to),
            Disruption::MetadataOnly => self.mark(to),
        }
    }

    fn mark(&mut self, to: &RevisionId) {
        self.updates += 1;
        self.change(|machine| machine.facts.written = Some(to.clone()));
    }

    /// Turns the machine into one that another controller created.
    pub(super) fn make_anothers(&mut self) {
        (self.facts.revision, self.facts.written) = (Some(id(ANOTHERS)), Some(id(ANOTHERS)));
        self.facts.restarts_itself = restarts_itself(ANOTHERS);
        self.runs = ANOTHERS;
    }

    pub(super) fn evaluate(&mut self) {
        self.change(|machine| {
            let differs = cold_part(machine.spec()) != cold_part(machine.runs);
            machine.facts.evaluated = true;
            machine.facts.restart_pending = differs && machine.facts.activity == MachineActivity::Running;
        });
    }

    /// The guest shuts down for a restart. It still runs with its template, and the platform no longer
    /// reports the pending restart.
    fn stop(&mut self) {
        self.change(|machine| {
            machine.facts.activity = MachineActivity::Stopping;
            machine.facts.restart_pending = false;
        });
    }

    pub(super) fn go(&mut self, activity: MachineActivity) {
        self.change(|machine| {
            machine.facts.activity = activity;
            machine.facts.restart_pending = false;
            machine.runs = machine.spec();
        });
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ModelRequestDelivery {
    Answered,
    AnswerLost,
    RequestLost,
    Late,
}

pub(super) struct RolloutModel {
    pub(super) world: PoolWorld,
    pub(super) machines: Vec<ModelMachine>,
    /// Delayed requests: machine, required resource version, revision, disruption, uptime.
    late: Vec<(usize, u64, RevisionId, Disruption, Duration)>,
    budget: usize,
    /// The uptime at which the cache was last complete.
    watched: Duration,
}

impl RolloutModel {
    pub(super) fn new(machines: usize, budget: usize) -> Self {
        let count = u64::try_from(machines).expect("small");
        let world = PoolWorld::desiring(machines).with_machines(count).pool(|pool| {
            pool.revision.id = id(0);
            pool.rollout.budget = DisruptionBudget::Machines(budget);
        });
        let world = PoolWorld { stored: (0..9).map(id).collect(), ..world };
        let made = |machine: &Arc<Machine>| {
            let mut facts = (**machine).clone();
            (facts.revision, facts.written) = (Some(id(0)), Some(id(0)));
            facts.restarts_itself = restarts_itself(0);
            ModelMachine {
                facts,
                runs: 0,
                version: 0,
                disturbed: false,
                stubborn: false,
                updates: 0,
                advances: 0,
            }
        };
        let machines = world.machines.iter().map(made).collect();
        let mut model = Self { world, machines, late: Vec::new(), budget, watched: Duration::ZERO };
        model.watch();
        model
    }

    /// Makes the cache complete.
    pub(super) fn watch(&mut self) {
        self.watched = self.world.uptime;
        self.world.machines = self.machines.iter().map(|machine| Arc::new(machine.facts.clone())).collect();
    }

    fn show(&mut self, index: usize) {
        self.world.machines[index] = Arc::new(self.machines[index].facts.clone());
    }

    pub(super) fn pass(&mut self, mut fate: impl FnMut() -> ModelRequestDelivery) -> Plan {
        let uptime = self.world.uptime;
        self.world.memory.observe(&self.world.pool, uptime);
        self.world.memory.rollout_attempts.observe(self.world.machines.iter(), uptime);
        let plan = self.world.plan();
        for stage in [ApplyStage::Update, ApplyStage::Restart, ApplyStage::RecordRevision] {
            let batch: Vec<_> = plan.actions.iter().filter(|action| action.stage() == stage).collect();
            let mut refused = false;
            for action in &batch {
                if !self.act(action, fate()) {
                    refused = true;
                    break;
                }
            }
            let failure = PoolFailure { reason: FailureReason::FailedTemplateUpdate, message: "no".into() };
            match refused {
                true => self.world.memory.backoff_mut(stage).failed(failure, uptime, None, 0.0),
                false if !batch.is_empty() => self.world.memory.backoff_mut(stage).succeeded(),
                false => {}
            }
        }
        plan
    }

    /// Sends one request; `false` if it failed.
    fn act(&mut self, action: &PoolAction, fate: ModelRequestDelivery) -> bool {
        let uptime = self.world.uptime;
        let index = |machine: &crate::ObjectId| {
            self.machines.iter().position(|known| known.facts.id == *machine).expect("it exists")
        };
        match action {
            PoolAction::RecordRevision { machine, to, .. } => {
                let index = index(machine);
                let known = &self.machines[index];
                // The write includes a live read.
                if known.facts.written.as_ref() != Some(to) || !known.facts.has_spec_in_effect() {
                    self.show(index);
                    return true;
                }
                let may_run =
                    matches!(known.facts.activity, MachineActivity::Running | MachineActivity::Stopping);
                assert!(
                    !may_run || cold_part(known.runs) == cold_part(template(to)),
                    "{machine} counts as updated and still runs with r{}",
                    known.runs
                );
                self.machines[index].advances += 1;
                self.machines[index].change(|machine| machine.facts.revision = Some(to.clone()));
                self.show(index);
                true
            }
            PoolAction::Update { machine, to, disruption, .. } => {
                let index = index(machine);
                let known = &mut self.machines[index];
                // The patch requires the resource version of a machine that does not run.
                if *disruption == Disruption::NotRunning && known.facts.activity == MachineActivity::Running {
                    self.show(index);
                    return true;
                }
                if *disruption == Disruption::MetadataOnly && content(known.spec()) != content(template(to)) {
                    self.world.memory.rollout_attempts.record(
                        &machine.uid,
                        to,
                        UpdateOutcome::Differs,
                        uptime,
                    );
                    self.show(index);
                    return true;
                }
                let answer = match fate {
                    ModelRequestDelivery::Answered if known.stubborn => UpdateOutcome::Refused,
                    ModelRequestDelivery::Answered => UpdateOutcome::Accepted,
                    ModelRequestDelivery::AnswerLost
                    | ModelRequestDelivery::RequestLost
                    | ModelRequestDelivery::Late => UpdateOutcome::Unconfirmed,
                };
                let uid = machine.uid.clone();
                match fate {
                    ModelRequestDelivery::Late => {
                        self.late.push((index, known.version, to.clone(), *disruption, uptime));
                    }
                    ModelRequestDelivery::Answered | ModelRequestDelivery::AnswerLost if !known.stubborn => {
                        known.get(to, *disruption);
                    }
                    _ => {}
                }
                self.world.memory.rollout_attempts.record(&uid, to, answer, uptime);
                if answer == UpdateOutcome::Accepted {
                    self.show(index);
                }
                answer == UpdateOutcome::Accepted
            }
            other => panic!("{other:?}"),
        }
    }

    /// Executes a delayed request if the machine still has the required resource version.
    fn land(&mut self) {
        for (index, version, to, disruption, sent) in std::mem::take(&mut self.late) {
            let machine = &mut self.machines[index];
            let in_time = self.world.uptime.saturating_sub(sent) < crate::ledger::REQUEST_TIMEOUT;
            if in_time && machine.version == version && !machine.stubborn {
                machine.get(&to, disruption);
            }
        }
    }

    /// Advances the time. The cache is never stale for longer than a request may be delayed.
    fn wait(&mut self, time: Duration) {
        self.world.uptime += time;
        if self.world.uptime.saturating_sub(self.watched) >= crate::ledger::REQUEST_TIMEOUT / 2 {
            self.watch();
        }
    }

    pub(super) fn step(&mut self, number: u32) {
        let argument = usize::try_from(number / 32).expect("small");
        let index = argument % self.machines.len();
        let machine = &mut self.machines[index];
        let activity = machine.facts.activity;
        match number % 32 {
            0..=9 => {
                let mut roll = argument;
                let paused = self.world.pool.rollout.paused;
                let plan = self.pass(|| {
                    roll = roll.wrapping_mul(0x5851_f42d).wrapping_add(0x1405_7b7e);
                    match (roll >> 8) % 8 {
                        0 => ModelRequestDelivery::AnswerLost,
                        1 => ModelRequestDelivery::RequestLost,
                        2 => ModelRequestDelivery::Late,
                        _ => ModelRequestDelivery::Answered,
                    }
                });
                let writes = updated(&plan).len();
                assert!(!paused || writes == 0, "paused, and still {plan:?}");
            }
            10..=14 | 29 => machine.evaluate(),
            15..=16 if machine.facts.restart_pending && machine.facts.restarts_itself => machine.stop(),
            // If a user approves a restart, the machine becomes unavailable because of the user and not
            // because of the rollout.
            17 if machine.facts.restart_pending => {
                machine.stop();
                machine.disturbed = false;
            }
            18..=20 if activity == MachineActivity::Stopping => machine.go(MachineActivity::NotRunning),
            18..=20 if activity == MachineActivity::NotRunning => machine.go(MachineActivity::Running),
            21 if activity == MachineActivity::Running => machine.go(MachineActivity::NotRunning),
            22 => machine.go(MachineActivity::Stopped),
            23 if activity == MachineActivity::Stopped => machine.go(MachineActivity::NotRunning),
            24 => machine.stubborn = !machine.stubborn,
            25 => self.world.pool.revision.id = id(u64::from(number / 32) % 9),
            26 => self.world.pool.rollout.paused = argument % 3 == 0,
            27 => self.watch(),
            28 => self.wait(Duration::from_secs(1)),
            30 => self.land(),
            _ => self.wait(Duration::from_secs(u64::try_from(argument % 50).expect("small"))),
        }
        let disturbed = self.machines.iter().filter(|machine| machine.disturbed).count();
        assert!(disturbed <= self.budget, "{disturbed} machines were taken away, {} may be", self.budget);
    }

    /// Runs passes without faults until nothing changes. All machines must then have the template.
    pub(super) fn settle(&mut self) {
        self.late.clear();
        self.world.pool.rollout.paused = false;
        for machine in &mut self.machines {
            machine.stubborn = false;
        }
        for _ in 0..20 * (self.machines.len() + 1) {
            for machine in &mut self.machines {
                machine.evaluate();
                if machine.facts.restart_pending || machine.facts.activity == MachineActivity::Stopping {
                    machine.go(MachineActivity::NotRunning);
                }
                if machine.facts.activity == MachineActivity::NotRunning {
                    machine.go(MachineActivity::Running);
                    machine.evaluate();
                }
            }
            self.watch();
            self.world.uptime += Duration::from_mins(1);
            if self.pass(|| ModelRequestDelivery::Answered) == Plan::default() {
                let wanted = &self.world.pool.revision.id;
                let has = |machine: &ModelMachine| {
                    let facts = &machine.facts;
                    let runs = cold_part(machine.runs) == cold_part(template(wanted));
                    facts.written.as_ref() == Some(wanted)
                        && facts.revision.as_ref() == Some(wanted)
                        && (runs || facts.activity == MachineActivity::Stopped)
                };
                assert!(self.machines.iter().all(has), "settled without the template");
                return;
            }
        }
        panic!("the rollout does not end");
    }
}
