//! A cluster in memory: the model of the API server, the played platform, a garbage collector, and real controllers,
//! all on one clock that moves from one event to the next.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use vmpool_api::crds::ALL_CRDS;
use vmpool_controller::metrics::Metrics;
use vmpool_controller::{Settings, Surroundings, Vitals, serve};
use vmpool_e2e::invariants::Grounds;
use vmpool_e2e::object::{Kind, Object};
use vmpool_e2e::recorder::{self, History};
use vmpool_model::{Call, Change, ChangeKind, Refusal, Resource, Server, Verb};
use vmpool_runtime::env::Task;
use vmpool_runtime::lease::{Candidate, LeaseConfig};
use vmpool_runtime::testing::{ManualClock, SeededEntropy, env};

use crate::chance::Chance;
use crate::platform::{Platform, image};
use crate::process::Process;
use crate::referee::{Notes, Referee};

/// How the names of controllers begin, and who they are in the audit log.
pub const CONTROLLER: &str = "controller";
/// The namespace in which everything happens.
pub const NAMESPACE: &str = "team";
/// The longest that time moves at once.
const STRIDE: Duration = Duration::from_millis(500);

/// One controller process.
struct Controller {
    name: String,
    process: Process,
    clock: ManualClock,
    /// Dropping it would end the process's tasks; killing is what ends them here.
    main: Task,
}

/// How a world is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything that is not decided otherwise.
    pub seed: u64,
    /// How many controllers compete for the lease.
    pub controllers: usize,
    /// Longest time that a request or an answer is under way, in milliseconds.
    pub latency: u64,
    /// Troubles that come by chance: how many of a thousand writes.
    pub trouble: u64,
}

/// A cluster in memory.
pub struct World {
    /// Time.
    pub clock: ManualClock,
    /// The API server.
    pub server: Server,
    /// What the scenario did.
    pub grounds: Grounds,
    /// Whether somebody did what leaves a machine without a disk that it needs: then not all need to run in the end.
    pub harmed: bool,
    /// What happened, a line each.
    pub transcript: Vec<String>,
    pub(crate) chance: Chance,
    pub(crate) notes: Arc<Mutex<Notes>>,
    options: Options,
    platform: Platform,
    controllers: Vec<Controller>,
    started: usize,
    /// When the next controller starts, if one died.
    restarts: Vec<Timestamp>,
    history: History,
    changes: usize,
    /// When something other than a lease changed last.
    changed: Timestamp,
    next_garbage: Timestamp,
}

impl World {
    /// A cluster with controllers that wait for something to do.
    pub async fn new(options: Options) -> Self {
        let clock = ManualClock::new();
        let env = env(&clock, options.seed ^ 0x5eed);
        let server = Server::new(&env, resources());
        let notes = Arc::new(Mutex::new(Notes { per_mille: options.trouble, ..Notes::default() }));
        server.set_referee(Referee {
            notes: notes.clone(),
            chance: Chance::new(options.seed ^ 0xfa17),
            latency: options.latency,
        });
        let chance = Chance::new(options.seed);
        let platform = Platform::new(&server, options.seed, chance.number(20..=400), chance.number(5..=200));
        let mut world = Self {
            platform,
            grounds: Grounds::default(),
            harmed: false,
            transcript: Vec::new(),
            notes,
            options,
            controllers: Vec::new(),
            started: 0,
            restarts: Vec::new(),
            history: History::default(),
            changes: 0,
            changed: ManualClock::START,
            next_garbage: ManualClock::START,
            chance,
            clock,
            server,
        };
        world.create("clustervirtualimages", &image()).await;
        for _ in 0..options.controllers {
            world.start_controller();
        }
        world
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// Everything that happened to pools, machines and disks.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The moments in which two machines mounted one disk.
    pub fn double_mounts(&self) -> Vec<String> {
        self.platform.violations().iter().map(|violation| format!("{violation:?}")).collect()
    }

    /// A line for whoever reads what happened.
    pub fn tell(&mut self, line: impl AsRef<str>) {
        let since = self.now().duration_since(ManualClock::START);
        self.transcript.push(format!("[{:>9.3}] {}", since.as_secs_f64(), line.as_ref()));
    }

    /// Creates an object as a user.
    pub async fn create(&mut self, resource: &str, object: &Value) -> Option<Value> {
        let call = self.call(Verb::Create, resource, "", "", object.clone());
        self.do_as_user(&call).await.ok()
    }

    /// Sends a request as a user, whom nothing delays.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn do_as_user(&mut self, call: &Call) -> Result<Value, Refusal> {
        let answer = self.server.handle(call).await.map(|(_, object)| object);
        let said = answer
            .as_ref()
            .map_or_else(|refusal| format!("{} {}", refusal.code, refusal.message), |_| "done".to_owned());
        self.tell(format!(
            "{call} {}: {said}",
            if call.body.is_null() { String::new() } else { call.body.to_string() }
        ));
        self.record();
        answer
    }

    /// A request of a user about one object of DVP's group.
    pub fn call(&self, verb: Verb, resource: &str, name: &str, subresource: &str, body: Value) -> Call {
        Call {
            who: "user".to_owned(),
            verb,
            group: "virtualization.deckhouse.io".to_owned(),
            version: "v1alpha2".to_owned(),
            resource: resource.to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: Vec::new(),
            body,
        }
    }

    /// Starts one more controller process.
    pub fn start_controller(&mut self) {
        self.started += 1;
        let name = format!("{CONTROLLER}-{}", self.started);
        let process = Process::new();
        let clock = self.clock.with_own_wall();
        let entropy = SeededEntropy::new(self.options.seed.wrapping_add(self.started as u64));
        let env = process.env(Arc::new(clock.clone()), Arc::new(entropy));
        let metrics = Metrics::new(&env);
        let client: Client = self.server.client(&name, "vmpool-system");
        let lease = LeaseConfig::new("vmpool-system", "vmpool-controller", &*name);
        let surroundings = Surroundings {
            env: env.clone(),
            client: client.clone(),
            namespace: None,
            instance: name.clone(),
            settings: Settings::default(),
            metrics,
        };
        let vitals = Vitals::new(&env);
        let mut candidate = Candidate::new(client, lease.clone(), env.clone());
        let main = env.spawn("main", async move {
            serve(&mut candidate, &lease, surroundings, vitals, CancellationToken::new()).await;
        });
        self.tell(format!("{name} starts"));
        self.controllers.push(Controller { name, process, clock, main });
    }

    /// Kills a controller, and starts another one after a while.
    pub fn kill(&mut self, which: usize) {
        if self.controllers.is_empty() {
            return;
        }
        let controller = self.controllers.remove(which % self.controllers.len());
        controller.process.kill();
        self.server.hang_up(&controller.name);
        self.tell(format!("{} dies", controller.name));
        drop(controller.main);
        let pause = SignedDuration::from_millis(self.chance.number(10..=8_000).cast_signed());
        self.restarts.push(self.now() + pause);
    }

    /// Lets a controller stand still.
    pub fn pause(&mut self, which: usize) {
        if let Some(controller) =
            pick(&self.controllers, which).filter(|controller| !controller.process.is_paused())
        {
            controller.process.pause();
            let line = format!("{} stands still", controller.name);
            self.tell(line);
        }
    }

    /// Lets all controllers go on.
    pub fn resume(&mut self) {
        let paused: Vec<&Controller> =
            self.controllers.iter().filter(|controller| controller.process.is_paused()).collect();
        let lines: Vec<String> =
            paused.iter().map(|controller| format!("{} goes on", controller.name)).collect();
        for controller in paused {
            controller.process.resume();
        }
        for line in lines {
            self.tell(line);
        }
    }

    /// Sets the wall clock of a controller's machine.
    pub fn jump(&mut self, which: usize, by: SignedDuration) {
        if let Some(controller) = pick(&self.controllers, which) {
            controller.clock.step_wall(by);
            let line = format!("the wall clock of {} jumps by {by:?}", controller.name);
            self.tell(line);
        }
    }

    /// The names of the controllers that live.
    pub fn controllers(&self) -> Vec<String> {
        self.controllers.iter().map(|controller| controller.name.clone()).collect()
    }

    /// Lets the next thing happen, and time pass until then, but not beyond `until`.
    pub async fn step(&mut self, until: Timestamp) {
        let now = self.now();
        let left = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let next = [
            self.clock.until_next(),
            self.platform.next_due().map(left),
            self.restarts.iter().min().copied().map(left),
            Some(left(self.next_garbage)),
            Some(left(until)),
        ];
        let stride =
            next.into_iter().flatten().min().unwrap_or(STRIDE).clamp(Duration::from_millis(1), STRIDE);
        self.clock.advance(stride).await;
        self.platform.step().await;
        self.bury();
        self.collect_garbage();
        let now = self.now();
        let due = self.restarts.iter().filter(|time| **time <= now).count();
        self.restarts.retain(|time| *time > now);
        for _ in 0..due {
            self.start_controller();
        }
        self.listen();
        self.record();
    }

    /// Takes what the referee noted.
    fn listen(&mut self) {
        let (told, late) = {
            let notes = &mut *self.notes.lock();
            (std::mem::take(&mut notes.told), std::mem::take(&mut notes.late))
        };
        for line in told {
            self.tell(line);
        }
        for call in late.iter().filter(|call| call.resource == "virtualmachines") {
            let owner = call.body["metadata"]["ownerReferences"][0]["uid"].as_str();
            if let (Verb::Create, Some(pool)) = (call.verb, owner) {
                *self.grounds.in_flight.entry(pool.to_owned()).or_default() += 1;
            }
            if let (Verb::Delete, Some(uid)) = (call.verb, call.body["preconditions"]["uid"].as_str()) {
                self.grounds.named.insert(uid.to_owned());
            }
        }
    }

    /// Lets time pass.
    pub async fn advance(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.step(end).await;
        }
    }

    /// Since when nothing has changed, leases apart.
    pub fn quiet_since(&self) -> Timestamp {
        self.changed
    }

    fn bury(&mut self) {
        let dying = std::mem::take(&mut self.notes.lock().dying);
        for name in dying {
            if let Some(which) = self.controllers.iter().position(|controller| controller.name == name) {
                self.kill(which);
            }
        }
    }

    fn collect_garbage(&mut self) {
        if self.now() < self.next_garbage {
            return;
        }
        let choice = self.chance.any();
        self.server.collect_garbage(choice);
        let pause = SignedDuration::from_millis(self.chance.number(5..=400).cast_signed());
        self.next_garbage = self.now() + pause;
    }

    /// Takes what happened into the history and the transcript.
    fn record(&mut self) {
        let news = self.server.changes_since(self.changes);
        self.changes += news.len();
        for change in news {
            if let Some(line) = told(&change) {
                self.changed = self.now();
                self.tell(line);
            }
            let kind = Kind::RECORDED.into_iter().find(|kind| {
                *kind != Kind::Event
                    && change
                        .key
                        .resource
                        .strip_prefix(kind.plural())
                        .is_some_and(|rest| rest.starts_with('.'))
            });
            if let Some(kind) = kind {
                self.history.push(recorder::Change {
                    revision: change.version,
                    at: self.now(),
                    kind,
                    object: Object::new((*change.object).clone()),
                    removed: change.kind == ChangeKind::Deleted,
                });
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for controller in &self.controllers {
            controller.process.kill();
        }
        self.server.shut_down();
    }
}

fn pick<T>(from: &[T], which: usize) -> Option<&T> {
    from.get(which.checked_rem(from.len())?)
}

fn resources() -> Vec<Resource> {
    let custom = ALL_CRDS.iter().filter_map(|crd| Resource::custom(&serde_yaml_ng::from_str(crd.yaml).ok()?));
    let builtin = [
        Resource::builtin("coordination.k8s.io", "v1", "leases", "Lease"),
        Resource::builtin("events.k8s.io", "v1", "events", "Event"),
        Resource::builtin("apps", "v1", "controllerrevisions", "ControllerRevision"),
    ];
    custom.chain(builtin).collect()
}

/// A change as the transcript has it.
fn told(change: &Change) -> Option<String> {
    let resource = change.key.resource.split('.').next().unwrap_or_default();
    if ["leases", "events"].contains(&resource) {
        return None;
    }
    let name = &change.key.name;
    let what = match (change.kind, &change.before) {
        (ChangeKind::Added, _) => brief(&change.object).to_string(),
        (ChangeKind::Deleted, _) => "gone".to_owned(),
        (ChangeKind::Modified, before) => {
            difference(before.as_deref().unwrap_or(&Value::Null), &change.object, "")
        }
    };
    Some(format!("  {} {resource} {name}: {what}", change.version))
}

fn brief(object: &Value) -> Value {
    json!({ "labels": object["metadata"]["labels"], "spec": object["spec"] })
}

/// What differs between two values, by path.
fn difference(old: &Value, new: &Value, path: &str) -> String {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let parts = keys
                .into_iter()
                .filter(|key| !["resourceVersion", "lastTransitionTime"].contains(&key.as_str()));
            let parts = parts.filter_map(|key| {
                let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
                (old != new).then(|| difference(old, new, &format!("{path}/{key}")))
            });
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        }
        _ => format!("{path}={new}"),
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("options", &self.options).finish_non_exhaustive()
    }
}
