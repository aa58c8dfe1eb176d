//! The project's processes: start, kill, pause and cut off.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use vmpool_controller::metrics::ControllerMetrics;
use vmpool_controller::options::PlatformName;
use vmpool_controller::{
    ControllerSettings, Dependencies, ImageRefreshSettings, ImageSettings, LeaderHealth, SharedServerClock,
    run_leader_election,
};
use vmpool_engine::scale_down::removal::{RESERVATION_AGE, acceptance_window};
use vmpool_model::WatchDelay;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::HealthEndpoints;
use vmpool_runtime::lease::{Candidate, LeaseConfig};
use vmpool_runtime::testing::SeededEntropy;
use vmpool_runtime::tls::ClientCas;

use super::SimulatedWorld;
use crate::aggregation::{allow_every_review, route_aggregated};
use crate::fault::PAUSE;
use crate::instance::{APISERVER, CONTROLLER, ProgramInstance, SYSTEM, SimulatedProgram};
use crate::process::SimulatedProcess;

/// How long a request of the aggregated API may take. The default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(12);

/// The name of the lease.
const LEASE: &str = "vmpool-controller";

/// Short times, so that a run of some minutes contains several attempts. One import at a time, so that images
/// wait.
fn image_settings() -> ImageSettings {
    let mut settings = ImageSettings { wrappers: true, ..ImageSettings::default() };
    settings.limits.max_concurrent_syncs = 1;
    settings.limits.backoff_unit = Duration::from_secs(1);
    settings.limits.max_backoff = Duration::from_secs(20);
    settings.limits.snapshot_unready_grace = Duration::from_secs(20);
    settings
}

impl SimulatedWorld {
    /// Starts one more process.
    pub fn start(&mut self, program: SimulatedProgram) {
        let process = SimulatedProcess::new();
        let clock = self.clock.with_separate_wall_clock();
        self.started += 1;
        let entropy = SeededEntropy::new(self.options.seed.wrapping_add(self.started));
        let env = process.env(Arc::new(clock.clone()), Arc::new(entropy));
        let (name, main) = match program {
            SimulatedProgram::Controller => self.controller(&env),
            SimulatedProgram::Apiserver => self.apiserver(&env, &process),
        };
        self.log(|| format!("{name} starts"));
        self.instances.push(ProgramInstance { name, program, process, clock, until: None, led: false, main });
    }

    fn controller(&self, env: &Env) -> (String, Task) {
        let name = format!("{CONTROLLER}-{}", self.started);
        let front = self.front.clone();
        let route = tower::layer::layer_fn(move |connection| route_aggregated(front.clone(), connection));
        let server_clock = SharedServerClock::default();
        let client = self.server.client_through(&name, SYSTEM, &(server_clock.layer(env), route));
        let lease = LeaseConfig::new(SYSTEM, LEASE, &*name);
        let dependencies = Dependencies {
            env: env.clone(),
            client: client.clone(),
            namespace: None,
            instance: name.clone(),
            settings: ControllerSettings {
                limits_provisioning: true,
                keeps_standby: true,
                autoscales: self.options.features.autoscales,
                ..ControllerSettings::default()
            },
            metrics: ControllerMetrics::new(env),
            images: self.options.images.then(image_settings),
            image_refresh: self.options.features.image_refresh.then(ImageRefreshSettings::default),
            server_clock,
        };
        let leader_health = LeaderHealth::default();
        let platform = match self.options.platform {
            vmpool_invariants::platform::TestedPlatform::Dvp => PlatformName::Dvp,
            vmpool_invariants::platform::TestedPlatform::KubeVirt => PlatformName::Kubevirt,
        };
        let mut candidate = Candidate::new(client, lease.clone(), env.clone());
        let main = env.spawn("main", async move {
            run_leader_election(
                &mut candidate,
                &lease,
                dependencies,
                leader_health,
                &[platform],
                CancellationToken::new(),
            )
            .await;
        });
        (name, main)
    }

    fn apiserver(&self, env: &Env, process: &SimulatedProcess) -> (String, Task) {
        let name = format!("{APISERVER}-{}", self.started);
        let client = self.server.client_through(&name, SYSTEM, &tower::layer::layer_fn(allow_every_review));
        let state = vmpool_apiserver::ApiServerState::new(
            client,
            env.clone(),
            vmpool_apiserver::ApiServerSettings {
                apis: vmpool_platforms::removal::APIS,
                enabled: true,
                accept_within: acceptance_window(RESERVATION_AGE),
                autoscales: self.options.features.autoscales,
                request_timeout: REQUEST_TIMEOUT,
            },
            HealthEndpoints::new(),
            vmpool_apiserver::ApiServerMetrics::new(|_| ()),
        );
        let main = env.spawn("front proxy", state.follow_front_proxy(ClientCas::none()));
        self.front.add(&name, process, vmpool_apiserver::api_router(state));
        (name, main)
    }

    /// The indexes of the processes of a program.
    fn places(&self, program: SimulatedProgram) -> Vec<usize> {
        let of = |place: &usize| self.instances[*place].program == program;
        (0..self.instances.len()).filter(of).collect()
    }

    /// The index of a program's `which`-th process.
    fn place(&self, program: SimulatedProgram, which: usize) -> Option<usize> {
        let places = self.places(program);
        places.get(which.checked_rem(places.len())?).copied()
    }

    /// Kills a process, and starts a replacement after a while.
    pub fn kill(&mut self, program: SimulatedProgram, which: usize) {
        if let Some(place) = self.place(program, which) {
            self.kill_at(place);
        }
    }

    fn kill_at(&mut self, place: usize) {
        let instance = self.instances.remove(place);
        instance.process.kill();
        self.front.remove(&instance.name);
        self.server.disconnect(&instance.name);
        self.injector.lock().disconnected.remove(&instance.name);
        self.log(|| format!("{} is killed", instance.name));
        drop(instance.main);
        let pause = SignedDuration::from_millis(self.random.number(10..=8_000).cast_signed());
        self.restarts.push((self.now() + pause, instance.program));
    }

    /// Pauses a process.
    pub fn pause(&mut self, program: SimulatedProgram, which: usize) {
        if let Some(place) = self.place(program, which) {
            self.pause_at(place, None);
        }
    }

    /// Pauses the leader, or any controller if there is no leader.
    pub fn pause_leader(&mut self) {
        let leader = self.leader();
        let place = self.instances.iter().position(|instance| Some(&instance.name) == leader.as_ref());
        if let Some(place) = place.or_else(|| self.place(SimulatedProgram::Controller, 0)) {
            self.pause_at(place, None);
        }
    }

    fn pause_at(&mut self, place: usize, until: Option<Timestamp>) {
        let leader = self.leader();
        let instance = &mut self.instances[place];
        if instance.process.is_paused() {
            return;
        }
        instance.process.pause();
        instance.until = until;
        instance.led |= leader.as_deref() == Some(&*instance.name);
        let line = format!("{} is paused", instance.name);
        self.log(|| line);
    }

    /// Cuts a controller off: its requests do not arrive, and its watches deliver no events.
    pub fn disconnect(&mut self, which: usize) {
        let Some(place) = self.place(SimulatedProgram::Controller, which) else { return };
        let name = self.instances[place].name.clone();
        for &resource in self.resources().watched {
            self.server.delay_watches(&name, resource, WatchDelay::Held);
        }
        self.injector.lock().disconnected.insert(name.clone());
        self.log(|| format!("{name} is cut off"));
    }

    /// Resumes all processes and reconnects them.
    pub fn resume(&mut self) {
        for place in 0..self.instances.len() {
            self.resume_at(place);
        }
        let disconnected = std::mem::take(&mut self.injector.lock().disconnected);
        for name in disconnected {
            for &resource in self.resources().watched {
                self.server.delay_watches(&name, resource, WatchDelay::None);
            }
            self.log(|| format!("{name} is reconnected"));
        }
    }

    fn resume_at(&mut self, place: usize) {
        let leader = self.leader();
        let instance = &mut self.instances[place];
        // The process resumes and still considers itself the leader.
        self.former_leader_resumed |=
            std::mem::take(&mut instance.led) && leader.is_some_and(|leader| leader != instance.name);
        if !instance.process.is_paused() {
            return;
        }
        instance.process.resume();
        instance.until = None;
        let line = format!("{} resumes", instance.name);
        self.log(|| line);
    }

    /// Moves the wall clock of a controller's host.
    pub fn jump(&mut self, which: usize, by: SignedDuration) {
        if let Some(place) = self.place(SimulatedProgram::Controller, which) {
            let instance = &self.instances[place];
            instance.clock.step_wall(by);
            let ahead = self.clocks.entry(instance.name.clone()).or_default();
            *ahead += by;
            self.user_actions.clocks_ahead = self.user_actions.clocks_ahead.max(*ahead);
            let line = format!("the wall clock of {} jumps by {by:?}", instance.name);
            self.log(|| line);
        }
    }

    /// The names of the running controllers.
    pub fn controllers(&self) -> Vec<String> {
        self.places(SimulatedProgram::Controller)
            .into_iter()
            .map(|place| self.instances[place].name.clone())
            .collect()
    }

    /// The holder of the lease.
    pub(super) fn leader(&self) -> Option<String> {
        let lease = self.server.get("leases.coordination.k8s.io", SYSTEM, LEASE)?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Kills and pauses the processes that faults selected, resumes those whose pause is over, and starts
    /// replacements.
    pub(super) fn update_instances(&mut self) {
        let now = self.now();
        let (to_kill, to_pause) = {
            let injector = &mut *self.injector.lock();
            (std::mem::take(&mut injector.to_kill), std::mem::take(&mut injector.to_pause))
        };
        while let Some(place) = self.instances.iter().position(|instance| instance.process.has_looped()) {
            self.loops.push(format!("{} ran in a loop while time stood still", self.instances[place].name));
            self.kill_at(place);
        }
        for name in to_kill {
            if let Some(place) = self.instances.iter().position(|instance| instance.name == name) {
                self.kill_at(place);
            }
        }
        for name in to_pause {
            if let Some(place) = self.instances.iter().position(|instance| instance.name == name) {
                self.pause_at(place, Some(now + PAUSE));
            }
        }
        for place in 0..self.instances.len() {
            if self.instances[place].until.is_some_and(|until| until <= now) {
                self.resume_at(place);
            }
        }
        let due: Vec<SimulatedProgram> =
            self.restarts.extract_if(.., |(time, _)| *time <= now).map(|(_, program)| program).collect();
        for program in due {
            self.start(program);
        }
    }

    /// How long until [`SimulatedWorld::update_instances`] has something to do.
    pub(super) fn until_next_instance_event(&self) -> Option<Duration> {
        let restarts = self.restarts.iter().map(|(time, _)| *time);
        let next = restarts.chain(self.instances.iter().filter_map(|instance| instance.until)).min()?;
        Some(Duration::try_from(next.duration_since(self.now())).unwrap_or_default())
    }
}

impl Drop for SimulatedWorld {
    fn drop(&mut self) {
        for instance in &self.instances {
            instance.process.kill();
        }
        self.server.shut_down();
    }
}
