//! A cluster in memory: the model of the API server, the played platform, a garbage collector, and processes of ours, all
//! on one clock that moves from one event to the next.

mod hear;
mod processes;
mod users;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_e2e::invariants::Grounds;
use vmpool_e2e::recorder::History;
use vmpool_model::{PatchKind, Server, Verb};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::{Idle, ManualClock, env};

use crate::caller::Asked;
use crate::cast::{Member, Program};
use crate::chance::Chance;
use crate::front::{self, Front};
use crate::op::WATCHED;
use crate::platform::{Platform, image};
use crate::referee::{Notes, Referee};
use crate::webhook::{Service, Webhook};

/// The namespace in which everything happens.
pub const NAMESPACE: &str = "team";

/// How replicas of the aggregated API recognise the API server; made once, since nothing hangs on which certificate it is.
static FRONT: LazyLock<Value> =
    LazyLock::new(|| front::configuration().expect("the key of a certificate can be made from nothing"));

/// How a world is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Decides everything that is not decided otherwise.
    pub seed: u64,
    /// How many controllers compete for the lease.
    pub controllers: usize,
    /// How many replicas of the aggregated API there are.
    pub apiservers: usize,
    /// Whether the webhook is asked.
    pub webhook: bool,
    /// Longest time that a request or an answer is under way, in milliseconds.
    pub latency: u64,
    /// Troubles that come by chance: to how many of a thousand writes of ours.
    pub trouble: u64,
    /// The same for reads.
    pub unread: u64,
    /// Most objects in a page of a list; 0 is as many as were asked for.
    pub page: usize,
    /// By how many changes a list is behind whose sender takes one of any time.
    pub old: usize,
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
    /// Whether a leader ever went on after it was replaced.
    pub rivals: bool,
    /// Names of the machines whose removal somebody asked for without their UIDs.
    pub unpinned: BTreeSet<String>,
    /// Writes that arrive long after their sender has given them up.
    pub late: BTreeSet<String>,
    /// Processes that went on and on while no time passed.
    pub loops: Vec<String>,
    /// What happened, a line each; nothing if nobody wants to know.
    pub transcript: Option<Vec<String>>,
    /// How the webhook does.
    pub webhook: Arc<Mutex<Service>>,
    pub(crate) chance: Chance,
    pub(crate) notes: Arc<Mutex<Notes>>,
    env: Env,
    options: Options,
    platform: Platform,
    front: Front,
    cast: Vec<Member>,
    started: u64,
    /// When a process starts, since one died.
    restarts: Vec<(Timestamp, Program)>,
    asked: Arc<Mutex<Vec<Asked>>>,
    callers: Vec<Task>,
    history: History,
    changes: usize,
    /// When something other than a lease changed last.
    changed: Timestamp,
    /// When the garbage collector looks again; it does not as long as nothing changes that it has seen.
    next_garbage: Option<Timestamp>,
}

impl World {
    /// A cluster with processes that wait for something to do. `idle` belongs to the runtime in which it lives.
    pub async fn new(options: Options, idle: Idle, telling: bool) -> Self {
        let clock = ManualClock::of(idle);
        let env = env(&clock, options.seed ^ 0x5eed);
        let server = Server::new(&env, vmpool_model::platform());
        let notes = Arc::new(Mutex::new(Notes {
            per_mille: options.trouble,
            unread_per_mille: options.unread,
            ..Notes::default()
        }));
        server.set_referee(Referee::new(notes.clone(), options.seed, options.latency));
        if options.page > 0 {
            server.limit_pages(options.page);
        }
        server.age_lists(options.old);
        let webhook = Arc::new(Mutex::new(Service::Works));
        if options.webhook {
            server.set_admission(Webhook::new(&server, &env, webhook.clone()));
        }
        let chance = Chance::new(options.seed);
        let platform = Platform::new(&server, options.seed, chance.number(20..=400), chance.number(5..=200));
        let mut world = Self {
            platform,
            grounds: Grounds::default(),
            harmed: false,
            rivals: false,
            unpinned: BTreeSet::new(),
            late: BTreeSet::new(),
            loops: Vec::new(),
            transcript: telling.then(Vec::new),
            webhook,
            notes,
            env,
            options,
            front: Front::default(),
            cast: Vec::new(),
            started: 0,
            restarts: Vec::new(),
            asked: Arc::default(),
            callers: Vec::new(),
            history: History::default(),
            changes: 0,
            changed: ManualClock::START,
            next_garbage: Some(ManualClock::START),
            chance,
            clock,
            server,
        };
        world.furnish().await;
        for _ in 0..options.controllers {
            world.start(Program::Controller);
        }
        for _ in 0..options.apiservers {
            world.start(Program::Apiserver);
        }
        world
    }

    /// What was there before us.
    async fn furnish(&mut self) {
        let class = json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachineClass",
            "metadata": { "name": "generic" }, "spec": { "cpu": { "type": "Host" } },
        });
        let mut all = vec![("clustervirtualimages", "", image()), ("virtualmachineclasses", "", class)];
        if self.options.apiservers > 0 {
            all.push(("configmaps", "kube-system", FRONT.clone()));
        }
        for (resource, namespace, object) in all {
            let mut call = self.call(Verb::Create, resource, "", "", object);
            namespace.clone_into(&mut call.namespace);
            if resource == "configmaps" {
                (call.group, call.version) = (String::new(), "v1".to_owned());
            }
            _ = self.do_as_user(&call).await;
        }
        let ready = json!({ "phase": "Ready", "cdrom": false, "size": { "unpackedBytes": "2097152" } });
        let patch = json!({ "status": ready });
        let call =
            self.call(Verb::Patch(PatchKind::Merge), "clustervirtualimages", "alpine", "status", patch);
        _ = self.do_as_user(&call).await;
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// Everything that happened to pools, machines and disks.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How many changes there were so far of each kind that controllers watch.
    pub fn events(&self) -> [usize; WATCHED.len()] {
        let history = self.server.history();
        WATCHED.map(|resource| history.iter().filter(|change| &*change.key.resource == resource).count())
    }

    /// The moments in which two machines mounted one disk.
    pub fn double_mounts(&self) -> Vec<String> {
        self.platform.violations().iter().map(|violation| format!("{violation:?}")).collect()
    }

    /// A line for whoever reads what happened, if somebody does.
    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        let since = self.now().duration_since(ManualClock::START);
        if let Some(transcript) = &mut self.transcript {
            transcript.push(format!("[{:>9.3}] {}", since.as_secs_f64(), line()));
        }
    }

    /// Lets the next thing happen, and time pass until then, but not beyond `until`.
    pub async fn step(&mut self, until: Timestamp) {
        let now = self.now();
        let left = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let next = [
            self.clock.until_next(),
            self.platform.next_due().map(left),
            self.until_cast(),
            self.next_garbage.map(left),
            Some(left(until)),
        ];
        let stride = next.into_iter().flatten().min().unwrap_or_default();
        self.clock.advance(stride.max(Duration::from_millis(1))).await;
        self.platform.step().await;
        self.collect_garbage();
        self.keep_cast();
        self.listen();
        self.record();
    }

    /// Lets time pass.
    pub async fn advance(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.step(end).await;
        }
    }

    /// Since when nothing has changed, leases apart; now if somebody still waits for an answer.
    pub fn quiet_since(&self) -> Timestamp {
        if self.callers.is_empty() { self.changed } else { self.now() }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("options", &self.options).finish_non_exhaustive()
    }
}
