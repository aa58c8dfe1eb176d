//! The project's processes: start, kill, pause and cut off.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio_util::sync::CancellationToken;
use vmpool_controller::metrics::Metrics;
use vmpool_controller::{Settings, Surroundings, LeaderHealth, serve};
use vmpool_engine::removal::{RESERVATION_AGE, accept_within};
use vmpool_model::Pace;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::Health;
use vmpool_runtime::lease::{Candidate, LeaseConfig};
use vmpool_runtime::testing::SeededEntropy;
use vmpool_runtime::tls::ClientCas;

use super::World;
use crate::cast::{APISERVER, CONTROLLER, Member, Program, SYSTEM};
use crate::front::allowing;
use crate::process::Process;
use crate::trouble::STALL;

/// How long a request of the aggregated API may take. The default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// The name of the lease.
const LEASE: &str = "vmpool-controller";

impl World {
    /// Starts one more process.
    pub fn start(&mut self, program: Program) {
        let process = Process::new();
        let clock = self.clock.with_own_wall();
        self.started += 1;
        let entropy = SeededEntropy::new(self.options.seed.wrapping_add(self.started));
        let env = process.env(Arc::new(clock.clone()), Arc::new(entropy));
        let (name, main) = match program {
            Program::Controller => self.controller(&env),
            Program::Apiserver => self.apiserver(&env, &process),
        };
        self.tell(|| format!("{name} starts"));
        self.cast.push(Member { name, program, process, clock, until: None, led: false, main });
    }

    fn controller(&self, env: &Env) -> (String, Task) {
        let name = format!("{CONTROLLER}-{}", self.started);
        let client: Client = self.server.client(&name, SYSTEM);
        let lease = LeaseConfig::new(SYSTEM, LEASE, &*name);
        let surroundings = Surroundings {
            env: env.clone(),
            client: client.clone(),
            namespace: None,
            instance: name.clone(),
            settings: Settings::default(),
            metrics: Metrics::new(env),
        };
        let leader_health = LeaderHealth::new(env);
        let mut candidate = Candidate::new(client, lease.clone(), env.clone());
        let main = env.spawn("main", async move {
            serve(&mut candidate, &lease, surroundings, leader_health, CancellationToken::new()).await;
        });
        (name, main)
    }

    fn apiserver(&self, env: &Env, process: &Process) -> (String, Task) {
        let name = format!("{APISERVER}-{}", self.started);
        let client = self.server.client_through(&name, SYSTEM, &tower::layer::layer_fn(allowing));
        let state = vmpool_apiserver::State::new(
            client,
            env.clone(),
            vmpool_apiserver::Settings {
                enabled: true,
                accept_within: accept_within(RESERVATION_AGE),
                request_timeout: REQUEST_TIMEOUT,
            },
            Health::new(),
            vmpool_apiserver::Metrics::new(|_| ()),
        );
        let main = env.spawn("front proxy", state.follow_front_proxy(ClientCas::none()));
        self.front.add(&name, process, vmpool_apiserver::router(state));
        (name, main)
    }

    /// The indexes of the processes of a program.
    fn places(&self, program: Program) -> Vec<usize> {
        let of = |place: &usize| self.cast[*place].program == program;
        (0..self.cast.len()).filter(of).collect()
    }

    /// The index of a program's `which`-th process.
    fn place(&self, program: Program, which: usize) -> Option<usize> {
        let places = self.places(program);
        places.get(which.checked_rem(places.len())?).copied()
    }

    /// Kills a process, and starts a replacement after a while.
    pub fn kill(&mut self, program: Program, which: usize) {
        if let Some(place) = self.place(program, which) {
            self.kill_at(place);
        }
    }

    fn kill_at(&mut self, place: usize) {
        let member = self.cast.remove(place);
        member.process.kill();
        self.front.remove(&member.name);
        self.server.hang_up(&member.name);
        self.notes.lock().cut.remove(&member.name);
        self.tell(|| format!("{} is killed", member.name));
        drop(member.main);
        let pause = SignedDuration::from_millis(self.chance.number(10..=8_000).cast_signed());
        self.restarts.push((self.now() + pause, member.program));
    }

    /// Pauses a process.
    pub fn pause(&mut self, program: Program, which: usize) {
        if let Some(place) = self.place(program, which) {
            self.pause_at(place, None);
        }
    }

    /// Pauses the leader, or any controller if there is no leader.
    pub fn pause_leader(&mut self) {
        let leader = self.leader();
        let place = self.cast.iter().position(|member| Some(&member.name) == leader.as_ref());
        if let Some(place) = place.or_else(|| self.place(Program::Controller, 0)) {
            self.pause_at(place, None);
        }
    }

    fn pause_at(&mut self, place: usize, until: Option<Timestamp>) {
        let leader = self.leader();
        let member = &mut self.cast[place];
        if member.process.is_paused() {
            return;
        }
        member.process.pause();
        member.until = until;
        member.led |= leader.as_deref() == Some(&*member.name);
        let line = format!("{} is paused", member.name);
        self.tell(|| line);
    }

    /// Cuts a controller off: its requests do not arrive, and its watches deliver no events.
    pub fn cut(&mut self, which: usize) {
        let Some(place) = self.place(Program::Controller, which) else { return };
        let name = self.cast[place].name.clone();
        for resource in crate::op::WATCHED {
            self.server.set_pace(&name, resource, Pace::Held);
        }
        self.notes.lock().cut.insert(name.clone());
        self.tell(|| format!("{name} is cut off"));
    }

    /// Resumes all processes and reconnects them.
    pub fn resume(&mut self) {
        for place in 0..self.cast.len() {
            self.resume_at(place);
        }
        let cut = std::mem::take(&mut self.notes.lock().cut);
        for name in cut {
            for resource in crate::op::WATCHED {
                self.server.set_pace(&name, resource, Pace::Prompt);
            }
            self.tell(|| format!("{name} is reconnected"));
        }
    }

    fn resume_at(&mut self, place: usize) {
        let leader = self.leader();
        let member = &mut self.cast[place];
        // The process resumes and still considers itself the leader.
        self.rivals |= std::mem::take(&mut member.led) && leader.is_some_and(|leader| leader != member.name);
        if !member.process.is_paused() {
            return;
        }
        member.process.resume();
        member.until = None;
        let line = format!("{} resumes", member.name);
        self.tell(|| line);
    }

    /// Moves the wall clock of a controller's host.
    pub fn jump(&mut self, which: usize, by: SignedDuration) {
        if let Some(place) = self.place(Program::Controller, which) {
            let member = &self.cast[place];
            member.clock.step_wall(by);
            let line = format!("the wall clock of {} jumps by {by:?}", member.name);
            self.tell(|| line);
        }
    }

    /// The names of the running controllers.
    pub fn controllers(&self) -> Vec<String> {
        self.places(Program::Controller).into_iter().map(|place| self.cast[place].name.clone()).collect()
    }

    /// The holder of the lease.
    fn leader(&self) -> Option<String> {
        let lease = self.server.get("leases.coordination.k8s.io", SYSTEM, LEASE)?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Kills and pauses the processes that faults selected, resumes those whose pause is over, and starts replacements.
    pub(super) fn keep_cast(&mut self) {
        let now = self.now();
        let (dying, stalling) = {
            let notes = &mut *self.notes.lock();
            (std::mem::take(&mut notes.dying), std::mem::take(&mut notes.stalling))
        };
        while let Some(place) = self.cast.iter().position(|member| member.process.has_looped()) {
            self.loops.push(format!("{} ran in a loop while time stood still", self.cast[place].name));
            self.kill_at(place);
        }
        for name in dying {
            if let Some(place) = self.cast.iter().position(|member| member.name == name) {
                self.kill_at(place);
            }
        }
        for name in stalling {
            if let Some(place) = self.cast.iter().position(|member| member.name == name) {
                self.pause_at(place, Some(now + STALL));
            }
        }
        for place in 0..self.cast.len() {
            if self.cast[place].until.is_some_and(|until| until <= now) {
                self.resume_at(place);
            }
        }
        let due: Vec<Program> =
            self.restarts.extract_if(.., |(time, _)| *time <= now).map(|(_, program)| program).collect();
        for program in due {
            self.start(program);
        }
    }

    /// How long until [`World::keep_cast`] has something to do.
    pub(super) fn until_cast(&self) -> Option<Duration> {
        let restarts = self.restarts.iter().map(|(time, _)| *time);
        let next = restarts.chain(self.cast.iter().filter_map(|member| member.until)).min()?;
        Some(Duration::try_from(next.duration_since(self.now())).unwrap_or_default())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for member in &self.cast {
            member.process.kill();
        }
        self.server.shut_down();
    }
}
