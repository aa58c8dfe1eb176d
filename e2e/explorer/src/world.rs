//! A cluster in memory: the API server model, the platform simulator, a garbage collector, and the project's
//! processes. All share one clock that advances from event to event.

mod processes;
mod record;
mod stored;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_invariants::UserActions;
use vmpool_invariants::draining;
use vmpool_invariants::image_references::ImageReferences;
use vmpool_invariants::object::JsonObject;
use vmpool_invariants::other_namespaces::ForgedObject;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::protection;
use vmpool_invariants::recorder::RecordedHistory;
use vmpool_model::{ApiServerModel, PatchKind, Verb};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::SeededRandom;
use vmpool_runtime::testing::{Idle, ManualClock, test_env};
use vmpool_simulator::world::{DiskViolation, DiskViolationKind};

use crate::aggregation::{self, AggregatedApi};
use crate::attempt::{ClientRequestEvent, Holding};
use crate::fault_injector::{InjectorState, ScheduleFaultInjector};
use crate::instance::{ProgramInstance, SimulatedProgram};
use crate::manifest::{POOL, Resources, resources_of_platform};
use crate::manifest_kubevirt::{INSTANCETYPES, TypeSource, claim_naming_instancetype, instancetype_object};
use crate::platform::PlatformSimulation;
use crate::platform_dvp::cluster_image_object;
use crate::webhook::{Webhook, WebhookState};

/// The namespace of the pool.
pub const NAMESPACE: &str = "team";
/// A namespace whose wrappers and machines use images of [`NAMESPACE`] if a grant permits it.
pub const OTHER_NAMESPACE: &str = "guests";
/// The namespace of a tenant that has a pool of the same name, and forges references to the pool of
/// [`NAMESPACE`].
pub const TENANT: &str = "tenant";

/// How long after the end of a protection all controllers know that it has ended.
const LATEST_CLOCK: Duration = Duration::from_mins(2);

/// For how long a controller may not know a change of a machine. Schedules interrupt watches and
/// replace leaders.
const UNSEEN_FOR: SignedDuration = SignedDuration::from_mins(2);

/// How far time advances at most until the platform acts and changes are recorded. A process that has just
/// started waits for times that the clock does not know yet.
const LONGEST_STRIDE: Duration = Duration::from_secs(1);

/// The front proxy's CA. It is generated once, because no check depends on its content.
static FRONT_PROXY: LazyLock<Value> =
    LazyLock::new(|| aggregation::authentication_config_map().expect("a certificate can be generated"));

/// How a world is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedWorldOptions {
    /// The platform of the pool.
    pub platform: TestedPlatform,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Number of controllers that compete for the lease.
    pub controllers: usize,
    /// Number of replicas of the aggregated API.
    pub apiservers: usize,
    /// Whether the webhook is called.
    pub webhook: bool,
    /// Longest time that a request or a response takes, in milliseconds.
    pub latency: u64,
    /// Random faults: this many of 1000 writes of the project's processes.
    pub write_faults_per_mille: u64,
    /// Random faults: this many of 1000 reads.
    pub read_faults_per_mille: u64,
    /// Maximum number of objects in a page of a list; 0 means as many as the client requests.
    pub page: usize,
    /// By how many changes a list with `resourceVersion=0` is behind.
    pub old: usize,
    /// Whether the controllers reconcile disk images and wrappers. Only with KubeVirt.
    pub images: bool,
    /// If the template of the pool has an instance type instead of cores and memory, where its name is at
    /// first. Only with KubeVirt.
    pub instancetypes: Option<TypeSource>,
    /// How many machines of the pool may provision at the same time; 0 for no limit.
    pub provisioning_limit: usize,
    /// How many standby machines the pool has at first. With 0, no operation concerns them.
    pub standby: usize,
    /// The feature gates that are on in some worlds only.
    pub features: SimulatedFeatures,
}

/// Features that are on in some worlds only.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedFeatures {
    /// Whether the controllers follow the images of pools.
    pub image_refresh: bool,
    /// Whether the programs serve autoscalers.
    pub autoscales: bool,
}

/// A cluster in memory.
pub struct SimulatedWorld {
    /// The shared clock.
    pub clock: ManualClock,
    /// The API server model.
    pub server: ApiServerModel,
    /// What users did, as the checks need it.
    pub user_actions: UserActions,
    /// Whether a user deleted something that a machine needs, or stopped a machine. In that case not all
    /// machines need to run after settling.
    pub some_may_not_run: bool,
    /// Names of the disks that users deleted.
    pub deleted_disks: BTreeSet<String>,
    /// Whether a replaced leader has resumed.
    pub former_leader_resumed: bool,
    /// Names of the machines whose targeted removal was requested without UIDs.
    pub unpinned: BTreeSet<String>,
    /// What callers hold according to the responses.
    pub holdings: Vec<Holding>,
    /// UIDs of the machines whose protection a user changed.
    pub annotated: BTreeSet<String>,
    /// Releases that were sent: the id and the machine's UID.
    pub(crate) released: BTreeSet<(&'static str, String)>,
    /// Two callers that hold one machine at the same time.
    pub(crate) shared_machines: Vec<String>,
    /// How far the wall clock of each controller is ahead.
    pub(crate) clocks: BTreeMap<String, SignedDuration>,
    /// Writes that arrive long after their sender has given up.
    pub late: BTreeSet<String>,
    /// The creates that slow admission delays, by name: their sender and the UID of the owner.
    pub(crate) slow_creates: BTreeMap<String, (String, String)>,
    /// Processes that ran in a loop while time stood still.
    pub loops: Vec<String>,
    /// One line per event; `None` if no transcript was requested.
    pub transcript: Option<Vec<String>>,
    /// The behavior of the webhook.
    pub webhook: Arc<Mutex<WebhookState>>,
    pub(crate) random: SeededRandom,
    pub(crate) injector: Arc<Mutex<InjectorState>>,
    env: Env,
    options: SimulatedWorldOptions,
    platform: PlatformSimulation,
    front: AggregatedApi,
    instances: Vec<ProgramInstance>,
    started: u64,
    /// When killed processes start again.
    restarts: Vec<(Timestamp, SimulatedProgram)>,
    attempts: Arc<Mutex<Vec<ClientRequestEvent>>>,
    callers: Vec<Task>,
    history: RecordedHistory,
    /// The changes in the namespace of the tenant.
    pub(crate) tenant_history: RecordedHistory,
    /// The objects that the tenant forged, and when.
    pub(crate) forged: BTreeMap<ForgedObject, Timestamp>,
    /// What refers to which image.
    pub(crate) image_references: ImageReferences,
    /// Deletions of images that are referenced.
    pub(crate) image_violations: Vec<String>,
    changes: usize,
    /// When an object other than a lease last changed.
    changed: Timestamp,
    /// When the garbage collector runs next; `None` while it has processed all changes.
    next_garbage: Option<Timestamp>,
}

impl SimulatedWorld {
    /// A cluster whose processes have started. `idle` belongs to the runtime of the world.
    pub async fn new(options: SimulatedWorldOptions, idle: Idle, telling: bool) -> Self {
        let mut world = Self::without_programs(options, idle, telling);
        world.create_initial_objects().await;
        world.start_programs();
        world
    }

    fn start_programs(&mut self) {
        for _ in 0..self.options.controllers {
            self.start(SimulatedProgram::Controller);
        }
        for _ in 0..self.options.apiservers {
            self.start(SimulatedProgram::Apiserver);
        }
    }

    fn without_programs(options: SimulatedWorldOptions, idle: Idle, telling: bool) -> Self {
        let clock = ManualClock::of(idle);
        let env = test_env(&clock, options.seed ^ 0x5eed);
        let all = vmpool_model::platform_resources();
        let server = match options.platform {
            TestedPlatform::Dvp => ApiServerModel::new(&env, all),
            TestedPlatform::KubeVirt => {
                ApiServerModel::new(&env, all.chain(vmpool_model::kubevirt_resources()))
            }
        };
        // The model serves CustomResourceDefinitions.
        drop(server.install_definitions());
        let injector = Arc::new(Mutex::new(InjectorState {
            write_faults_per_mille: options.write_faults_per_mille,
            read_faults_per_mille: options.read_faults_per_mille,
            ..InjectorState::default()
        }));
        server.set_fault_injector(ScheduleFaultInjector::new(
            injector.clone(),
            options.seed,
            options.latency,
        ));
        if options.page > 0 {
            server.limit_pages(options.page);
        }
        server.set_list_staleness(options.old);
        let webhook = Arc::new(Mutex::new(WebhookState::Works));
        if options.webhook {
            server.set_admission(Webhook::new(&server, &env, webhook.clone()));
        }
        let random = SeededRandom::new(options.seed);
        let (start, evaluation) = (random.number(20..=400), random.number(5..=200));
        let platform = PlatformSimulation::new(options.platform, &server, options.seed, start, evaluation);
        Self {
            platform,
            user_actions: UserActions {
                limits_provisioning: true,
                unseen_for: UNSEEN_FOR,
                ..UserActions::default()
            },
            some_may_not_run: false,
            deleted_disks: BTreeSet::new(),
            former_leader_resumed: false,
            unpinned: BTreeSet::new(),
            holdings: Vec::new(),
            annotated: BTreeSet::new(),
            released: BTreeSet::new(),
            shared_machines: Vec::new(),
            clocks: BTreeMap::new(),
            late: BTreeSet::new(),
            slow_creates: BTreeMap::new(),
            loops: Vec::new(),
            transcript: telling.then(Vec::new),
            webhook,
            injector,
            env,
            options,
            front: AggregatedApi::default(),
            instances: Vec::new(),
            started: 0,
            restarts: Vec::new(),
            attempts: Arc::default(),
            callers: Vec::new(),
            history: RecordedHistory::default(),
            tenant_history: RecordedHistory::default(),
            forged: BTreeMap::new(),
            image_references: ImageReferences::default(),
            image_violations: Vec::new(),
            changes: 0,
            changed: ManualClock::START,
            next_garbage: Some(ManualClock::START),
            random,
            clock,
            server,
        }
    }

    /// Creates the objects that exist before the scenario.
    async fn create_initial_objects(&mut self) {
        let class = json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachineClass",
            "metadata": { "name": "generic" }, "spec": { "cpu": { "type": "Host" } },
        });
        let mut all = match self.options.platform {
            TestedPlatform::Dvp => {
                vec![
                    ("clustervirtualimages", "", cluster_image_object()),
                    ("virtualmachineclasses", "", class),
                ]
            }
            TestedPlatform::KubeVirt => {
                vec![("virtualmachinepreferences", NAMESPACE, crate::manifest_kubevirt::preference_object())]
            }
        };
        if self.instancetypes() == Some(TypeSource::Claim) {
            all.push(("persistentvolumeclaims", NAMESPACE, claim_naming_instancetype()));
        }
        if self.instancetypes().is_some() {
            let types =
                (0..INSTANCETYPES.len()).zip(1..).map(|(which, vcpus)| instancetype_object(which, vcpus));
            all.extend(types.map(|object| ("virtualmachineinstancetypes", NAMESPACE, object)));
        }
        if self.options.apiservers > 0 {
            all.push(("configmaps", "kube-system", FRONT_PROXY.clone()));
        }
        for (resource, namespace, object) in all {
            let mut call = self.call(Verb::Create, resource, "", "", object);
            namespace.clone_into(&mut call.namespace);
            if resource == "configmaps" {
                (call.group, call.version) = (String::new(), "v1".to_owned());
            }
            _ = self.do_as_user(&call).await;
        }
        if self.options.platform == TestedPlatform::Dvp {
            self.complete_image().await;
        }
    }

    /// A user deletes the image of the pool, and creates it with other content.
    pub(crate) async fn replace_image(&mut self) {
        for verb in [Verb::Delete, Verb::Create] {
            let body = if verb == Verb::Create { cluster_image_object() } else { Value::Null };
            let mut call = self.call(verb, "clustervirtualimages", "alpine", "", body);
            call.namespace.clear();
            _ = self.do_as_user(&call).await;
        }
        self.complete_image().await;
    }

    /// The platform has imported the image of the pool.
    async fn complete_image(&mut self) {
        let ready = json!({ "phase": "Ready", "cdrom": false, "size": { "unpackedBytes": "2097152" } });
        let patch = json!({ "status": ready });
        let call =
            self.call(Verb::Patch(PatchKind::Merge), "clustervirtualimages", "alpine", "status", patch);
        _ = self.do_as_user(&call).await;
    }

    /// How many machines of the pool may provision at the same time; 0 for no limit.
    pub(crate) fn provisioning_limit(&self) -> usize {
        self.options.provisioning_limit
    }

    /// How many standby machines the pool has at first.
    pub(crate) fn initial_standby(&self) -> usize {
        self.options.standby
    }

    /// Where the instance type of the pool comes from; `None` if it has none.
    pub(crate) fn instancetypes(&self) -> Option<TypeSource> {
        self.options.instancetypes
    }

    /// Whether the world has replicas of the aggregated API, which may be killed or paused.
    pub(crate) fn has_aggregated_api(&self) -> bool {
        self.options.apiservers > 0
    }

    /// The resources of the platform.
    pub fn resources(&self) -> &'static Resources {
        resources_of_platform(self.options.platform, self.options.images)
    }

    /// The platform of the pool.
    pub fn platform(&self) -> TestedPlatform {
        self.options.platform
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.server.now()
    }

    /// All changes of pools, machines and disks.
    pub fn history(&self) -> &RecordedHistory {
        &self.history
    }

    /// Number of changes so far of each watched resource.
    pub fn events(&self) -> Vec<usize> {
        let history = self.server.history();
        let count =
            |resource: &&str| history.iter().filter(|change| *change.key.resource == **resource).count();
        self.resources().watched.iter().map(count).collect()
    }

    /// The moments at which two machines had mounted the same disk, or a mounted disk was deleted other than
    /// by a user.
    pub fn mount_violations(&self) -> Vec<String> {
        let by_user = |violation: &&DiskViolation| {
            violation.problem == DiskViolationKind::DeletedWhileMounted
                && self.deleted_disks.contains(&violation.disk)
        };
        let violations = self.platform.violations().iter().filter(|violation| !by_user(violation));
        violations.map(|violation| format!("{violation:?}")).collect()
    }

    /// Adds a line to the transcript, if one is recorded.
    pub fn log(&mut self, line: impl FnOnce() -> String) {
        let since = self.now().duration_since(ManualClock::START);
        if let Some(transcript) = &mut self.transcript {
            transcript.push(format!("[{:>9.3}] {}", since.as_secs_f64(), line()));
        }
    }

    /// Runs the next event and advances time up to it, but not beyond `until`.
    pub async fn step(&mut self, until: Timestamp) {
        let now = self.now();
        let left = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
        let next = [
            self.clock.until_next(),
            self.platform.next_due().map(left),
            self.until_next_instance_event(),
            self.next_garbage.map(left),
            Some(left(until)),
        ];
        let stride = next.into_iter().flatten().min().unwrap_or_default().min(LONGEST_STRIDE);
        self.clock.advance(stride.max(Duration::from_millis(1))).await;
        self.platform.step().await;
        self.collect_garbage();
        self.update_instances();
        self.collect_reports();
        self.record();
    }

    /// Advances time.
    pub async fn advance(&mut self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end {
            self.step(end).await;
        }
    }

    /// When the last change happened, leases apart. It is now if a client still waits for a response, while a
    /// machine of the pool is protected or drains, an image expires or the platform waits to start a machine
    /// again, because the end of that time is a change. `creates` is whether the pool would create a machine:
    /// then one that stopped to create tries again after a while.
    pub fn quiet_since(&self, creates: bool) -> Timestamp {
        if !self.callers.is_empty() {
            return self.now();
        }
        let pools = self.resources().pools;
        let is_stopped = |condition: &Value| {
            matches!(condition["reason"].as_str(), Some("MachineLost" | "DiskLost"))
                && condition["status"] == "True"
        };
        let is_pool_stopped = |namespace| {
            let pool = self.server.get(pools, namespace, POOL);
            // A pool that is being deleted does not try again.
            let pool = pool.filter(|pool| pool["metadata"]["deletionTimestamp"].is_null());
            let conditions = pool.as_deref().and_then(|pool| pool["status"]["conditions"].as_array());
            conditions.into_iter().flatten().any(is_stopped)
        };
        if creates && is_pool_stopped(NAMESPACE) || is_pool_stopped(TENANT) {
            return self.now();
        }
        let pool = self.server.get(pools, NAMESPACE, POOL);
        // The controller changes no machine of a paused pool, and shortens no protection.
        let pool =
            pool.map(JsonObject::from).filter(|pool| !pool.is_kubevirt() || pool.at("/spec/paused") != true);
        let machines = self.server.all(self.resources().machines).into_iter().map(JsonObject::from);
        let machines = machines.filter(|one| pool.as_ref().is_some_and(|pool| one.is_owned_by(pool)));
        let ends = machines.flat_map(|machine| {
            // The clock of the controller that wrote the mark may be far behind.
            let drained =
                draining::drain_timeout(&machine).and_then(|timeout| self.changed.checked_add(timeout).ok());
            [protection::protection_end(&machine), draining::drain_deadline(&machine), drained]
                .into_iter()
                .flatten()
        });
        let failed = self.server.all(self.resources().machines);
        let retries = failed.iter().filter_map(|machine| {
            machine["status"]["startFailure"]["retryAfterTimestamp"].as_str()?.parse().ok()
        });
        let images =
            if self.options.images { self.server.all("vmdiskimages.vmpool.dev") } else { Vec::new() };
        let expiries = images.iter().filter_map(|image| image["status"]["expiresAt"].as_str()?.parse().ok());
        let ends: Vec<Timestamp> = ends.chain(expiries).chain(retries).collect();
        // The clock of a controller may be behind.
        let late = SignedDuration::try_from(LATEST_CLOCK).unwrap_or_default();
        ends.into_iter().map(|end| end + late).fold(self.changed, Timestamp::max).min(self.now())
    }
}

impl std::fmt::Debug for SimulatedWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("options", &self.options).finish_non_exhaustive()
    }
}
