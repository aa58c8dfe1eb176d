//! Every single fault at every position of short scenarios: 20 of pools of both platforms, one that only
//! pools of DVP have, and with KubeVirt eleven that only its pools have, and four of disk images.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;

use crate::admission_policy::AdmissionPolicyEffect;
use crate::claim_client::ClaimParameters;
use crate::fault::{ReadFault, WriteFault};
use crate::manifest::resources_of_platform;
use crate::operation::{RemovalOperation, ScheduleOperation};
use crate::operation_autoscaler::{AutoscalerOperation, AutoscalerParameters, FreeParameter};
use crate::operation_health::HealthOperation;
use crate::operation_image::ImageOperation;
use crate::operation_kubevirt::KubeVirtOperation;
use crate::operation_protection::ProtectionOperation;
use crate::operation_recycling::RecyclingOperation;
use crate::operation_standby::StandbyOperation;
use crate::operation_tenant::{Forgery, TenantOperation};
use crate::schedule::{Schedule, ScheduleResult};
use crate::webhook::WebhookState;
use crate::world::{SimulatedFeatures, SimulatedWorldOptions};

/// Pause between the prelude and the scenario's own step, in milliseconds.
const PRELUDE_PAUSE: u64 = 4000;
/// Offsets from the start of a scenario at which another operation runs, in milliseconds. A scenario takes
/// one or two seconds.
const OFFSETS: [u64; 9] = [0, 15, 40, 90, 160, 280, 450, 800, 1600];
/// The same for scenarios in which the watches of machines and disks deliver no events.
const UNSEEN_OFFSETS: [u64; 3] = [0, 90, 800];
/// How long a leader is paused, the webhook is down, or watches deliver no events, in milliseconds.
const LONG: u64 = 30_000;
/// How long before the scenario an unseen operation runs, in milliseconds. It is longer than the time for
/// which the controller acts on an earlier read.
const LEAD_TIME: u64 = 6000;
/// Faults after which the sender does not know whether the write took effect.
const UNCONFIRMED: [WriteFault; 4] =
    [WriteFault::TimeoutAfterCommit, WriteFault::ResponseLost, WriteFault::Hang, WriteFault::Late];

/// A scenario: what happens if no fault is injected.
#[derive(Clone, Debug)]
pub struct FaultScenario {
    /// The platform of the pool.
    pub platform: TestedPlatform,
    /// Whether the subject is disk images. The world has no pool then.
    pub images: bool,
    /// The subject, as printed in reports.
    pub name: &'static str,
    /// Steps that prepare the world.
    pub prelude: Vec<(u64, ScheduleOperation)>,
    /// The step under test. No fault is injected before it.
    pub op: ScheduleOperation,
}

/// A disk that is deleted with its machine.
fn ephemeral_disk() -> Vec<(&'static str, Value)> {
    vec![("root", Value::Null)]
}

/// A second disk that stays for the next machine. Pools of KubeVirt then preserve all storage.
fn retained_disk(ttl: &str) -> Vec<(&'static str, Value)> {
    vec![("root", Value::Null), ("cache", json!({ "onScaleDown": "Retain", "keep": 0, "ttl": ttl }))]
}

impl FaultScenario {
    fn of_pools(
        platform: TestedPlatform,
        name: &'static str,
        prelude: Vec<ScheduleOperation>,
        op: ScheduleOperation,
    ) -> Self {
        let pauses = std::iter::once(0).chain(std::iter::repeat(PRELUDE_PAUSE));
        Self { platform, images: false, name, prelude: pauses.zip(prelude).collect(), op }
    }
}

/// All scenarios.
pub fn all_scenarios(platform: TestedPlatform) -> Vec<FaultScenario> {
    let mut all = machine_scenarios(platform);
    all.extend(template_scenarios(platform));
    all.extend(autoscaler_scenarios(platform));
    match platform {
        TestedPlatform::Dvp => all.push(lost_node_scenario()),
        TestedPlatform::KubeVirt => {
            all.extend(kubevirt_scenarios());
            all.extend(image_scenarios());
        }
    }
    all
}

/// A node is lost while healing is on. The simulated KubeVirt shows that only by Pods, which the model of the
/// API server does not have.
fn lost_node_scenario() -> FaultScenario {
    FaultScenario::of_pools(
        TestedPlatform::Dvp,
        "a node lost",
        vec![
            ScheduleOperation::CreatePool(2, "Explicit", ephemeral_disk()),
            ScheduleOperation::Health(HealthOperation::SetHealing(true)),
        ],
        ScheduleOperation::Health(HealthOperation::LoseNode(0)),
    )
}

/// The scenarios in which machines are created, replaced, claimed and removed.
fn machine_scenarios(platform: TestedPlatform) -> Vec<FaultScenario> {
    let scenario = |name, prelude, op| FaultScenario::of_pools(platform, name, prelude, op);
    let claim = |seconds| {
        ScheduleOperation::Protection(ProtectionOperation::Claim(
            ClaimParameters { id: "a", seconds, renew: false },
            0,
        ))
    };
    let named =
        RemovalOperation { targets: vec![0, 2], first: 0, pinned: true, forced: false, dry_run: false };
    vec![
        scenario("up", vec![], ScheduleOperation::CreatePool(3, "NewestFirst", retained_disk("10m"))),
        scenario(
            "down",
            vec![ScheduleOperation::CreatePool(3, "NewestFirst", ephemeral_disk())],
            ScheduleOperation::Scale(1),
        ),
        scenario(
            "a drain",
            vec![
                ScheduleOperation::CreatePool(2, "NewestFirst", ephemeral_disk()),
                ScheduleOperation::Protection(ProtectionOperation::SetHook(0)),
                ScheduleOperation::Protection(ProtectionOperation::SetHook(1)),
            ],
            ScheduleOperation::Scale(1),
        ),
        scenario(
            "a standby machine",
            vec![ScheduleOperation::CreatePool(1, "NewestFirst", ephemeral_disk())],
            ScheduleOperation::Standby(StandbyOperation::SetReplicas(1, true)),
        ),
        scenario(
            "an activation",
            vec![
                ScheduleOperation::CreatePool(1, "NewestFirst", ephemeral_disk()),
                ScheduleOperation::Standby(StandbyOperation::SetReplicas(1, false)),
            ],
            ScheduleOperation::Scale(2),
        ),
        scenario(
            "a requested replacement",
            vec![
                ScheduleOperation::CreatePool(2, "Explicit", ephemeral_disk()),
                ScheduleOperation::Recycling(RecyclingOperation::Request(0)),
            ],
            ScheduleOperation::Recycling(RecyclingOperation::Request(1)),
        ),
        scenario(
            "a drained replacement",
            vec![
                ScheduleOperation::CreatePool(2, "NewestFirst", ephemeral_disk()),
                ScheduleOperation::Protection(ProtectionOperation::SetHook(0)),
            ],
            ScheduleOperation::Recycling(RecyclingOperation::Request(0)),
        ),
        scenario(
            "a machine after its last claim",
            vec![
                ScheduleOperation::CreatePool(2, "NewestFirst", ephemeral_disk()),
                ScheduleOperation::Recycling(RecyclingOperation::LimitClaims(1)),
            ],
            claim(10),
        ),
        scenario(
            "removal by name",
            vec![ScheduleOperation::CreatePool(3, "Explicit", ephemeral_disk())],
            ScheduleOperation::RemoveTargets(named),
        ),
        scenario(
            "a claim",
            vec![ScheduleOperation::CreatePool(2, "NewestFirst", ephemeral_disk())],
            claim(10),
        ),
        scenario(
            "a claimed machine replaced",
            vec![ScheduleOperation::CreatePool(2, "NewestFirst", ephemeral_disk()), claim(100)],
            ScheduleOperation::Protection(ProtectionOperation::Release("a", "Replace", 0)),
        ),
    ]
}

/// The scenarios in which disks stay, the template changes, or the pool is deleted.
fn template_scenarios(platform: TestedPlatform) -> Vec<FaultScenario> {
    let scenario = |name, prelude, op| FaultScenario::of_pools(platform, name, prelude, op);
    vec![
        scenario(
            "reuse",
            vec![
                ScheduleOperation::CreatePool(2, "NewestFirst", retained_disk("10m")),
                ScheduleOperation::Scale(0),
            ],
            ScheduleOperation::Scale(2),
        ),
        scenario(
            "rollout",
            vec![ScheduleOperation::CreatePool(3, "Explicit", ephemeral_disk())],
            ScheduleOperation::SetCores(2),
        ),
        scenario(
            "a disk template removed",
            vec![ScheduleOperation::CreatePool(2, "OldestFirst", retained_disk("10m"))],
            ScheduleOperation::RemoveDiskTemplate("cache"),
        ),
        scenario(
            "free disks collected",
            vec![ScheduleOperation::CreatePool(2, "NewestFirst", retained_disk("5s"))],
            ScheduleOperation::Scale(0),
        ),
        scenario(
            "a machine lost",
            vec![ScheduleOperation::CreatePool(2, "Explicit", retained_disk("10m"))],
            ScheduleOperation::DeleteMachine(0),
        ),
        scenario(
            "the pool deleted",
            vec![ScheduleOperation::CreatePool(2, "NewestFirst", retained_disk("10m"))],
            ScheduleOperation::DeletePool("Background"),
        ),
    ]
}

/// The scenarios in which an autoscaler raises the replicas of a pool, lowers them, and lowers them by name.
fn autoscaler_scenarios(platform: TestedPlatform) -> Vec<FaultScenario> {
    let scenario = |name, replicas, policy, free| {
        let parameters =
            AutoscalerParameters { free: FreeParameter::Machines(free), min: 0, max: 3, delay: 1 };
        FaultScenario::of_pools(
            platform,
            name,
            vec![ScheduleOperation::CreatePool(replicas, policy, ephemeral_disk())],
            ScheduleOperation::Autoscaler(AutoscalerOperation::Create(0, parameters)),
        )
    };
    vec![
        scenario("an autoscaler raises", 1, "NewestFirst", 2),
        scenario("an autoscaler lowers", 2, "NewestFirst", 0),
        scenario("an autoscaler lowers by name", 3, "Explicit", 1),
    ]
}

/// The scenarios that only pools of KubeVirt have.
fn kubevirt_scenarios() -> Vec<FaultScenario> {
    let scenario = |name, prelude, op| FaultScenario::of_pools(TestedPlatform::KubeVirt, name, prelude, op);
    let only = ScheduleOperation::KubeVirt;
    let create = |replicas, disks| ScheduleOperation::CreatePool(replicas, "DescendingOrder", disks);
    let manual = |which| only(KubeVirtOperation::SetRunStrategy(which, "Manual"));
    vec![
        scenario("paused", vec![create(3, ephemeral_disk())], only(KubeVirtOperation::SetPaused(true))),
        scenario(
            "continued",
            vec![
                create(2, ephemeral_disk()),
                only(KubeVirtOperation::SetPaused(true)),
                ScheduleOperation::SetCores(2),
                ScheduleOperation::Scale(3),
            ],
            only(KubeVirtOperation::SetPaused(false)),
        ),
        scenario(
            "healed",
            vec![create(2, retained_disk("10m")), only(KubeVirtOperation::SetHealing(true))],
            only(KubeVirtOperation::FailStarts(0, 2)),
        ),
        scenario(
            "an instance deleted",
            vec![create(2, ephemeral_disk())],
            only(KubeVirtOperation::DeleteInstance(0)),
        ),
        scenario(
            "restarts by request",
            vec![create(2, ephemeral_disk()), manual(0), manual(1)],
            ScheduleOperation::SetCores(2),
        ),
        scenario("released", vec![create(2, ephemeral_disk())], ScheduleOperation::RemoveLabels(0)),
        scenario("detached", vec![create(2, ephemeral_disk())], ScheduleOperation::RemoveOwner(0)),
        scenario(
            "returned",
            vec![create(2, ephemeral_disk()), ScheduleOperation::RemoveOwner(0)],
            only(KubeVirtOperation::ReturnOwner(0)),
        ),
        scenario(
            "a larger budget",
            vec![create(3, ephemeral_disk()), only(KubeVirtOperation::SetMaxUnavailable(2))],
            ScheduleOperation::SetCores(2),
        ),
        scenario("a label changed", vec![create(3, ephemeral_disk())], only(KubeVirtOperation::SetTier(2))),
        scenario(
            "a disk template added",
            vec![create(2, retained_disk("10m"))],
            ScheduleOperation::AddDiskTemplate("extra", Value::Null),
        ),
    ]
}

/// The scenarios of disk images: an image is held, or deleted, or both at the same time.
fn image_scenarios() -> Vec<FaultScenario> {
    let image = |ttl| ScheduleOperation::Image(ImageOperation::Create("debian", ttl));
    let wrapper = |creates| ScheduleOperation::Image(ImageOperation::CreateWrapper("one", "debian", creates));
    let scenario = |name, prelude: Vec<ScheduleOperation>, op| {
        let prelude = prelude.into_iter().zip([0, PRELUDE_PAUSE]).map(|(op, pause)| (pause, op)).collect();
        FaultScenario {
            platform: TestedPlatform::KubeVirt,
            images: true,
            name,
            prelude,
            op: ScheduleOperation::Image(op),
        }
    };
    vec![
        scenario("a wrapper creates its image", vec![], ImageOperation::CreateWrapper("one", "debian", true)),
        scenario("an image deleted", vec![image(None)], ImageOperation::Delete(0)),
        scenario("a held image deleted", vec![image(None), wrapper(false)], ImageOperation::Delete(0)),
        scenario(
            "an image expires",
            vec![image(Some("5s")), wrapper(true)],
            ImageOperation::DeleteWrapper(0),
        ),
    ]
}

/// Schedules with their names.
type Named = Vec<(String, Schedule)>;

impl FaultScenario {
    fn schedule(&self, steps: Vec<(u64, ScheduleOperation)>) -> Schedule {
        // The scenario's own step counts even if `steps` leaves it out, so that the prelude is the same in
        // both cases.
        let uses_api = steps.iter().map(|(_, op)| op).chain([&self.op]).any(ScheduleOperation::uses_api);
        let apiservers = if uses_api { 2 } else { 0 };
        let options = SimulatedWorldOptions {
            platform: self.platform,
            seed: 11,
            controllers: 1,
            apiservers,
            webhook: true,
            latency: 10,
            images: self.images,
            features: SimulatedFeatures {
                autoscales: matches!(self.op, ScheduleOperation::Autoscaler(_)),
                ..SimulatedFeatures::default()
            },
            ..SimulatedWorldOptions::default()
        };
        Schedule { options, steps, ..Schedule::default() }
    }

    /// What the controllers watch.
    fn watched(&self) -> &'static [&'static str] {
        resources_of_platform(self.platform, self.images).watched
    }

    /// The scenario without faults.
    pub fn plain(&self) -> Schedule {
        self.after_prelude(Vec::new(), vec![(0, self.op.clone())])
    }

    /// Only the prelude.
    pub fn before(&self) -> Schedule {
        self.schedule(self.prelude.clone())
    }

    /// The scenario after its prelude. `before_scenario` runs first, directly after the prelude.
    fn after_prelude(
        &self,
        before_scenario: Vec<(u64, ScheduleOperation)>,
        scenario: Vec<(u64, ScheduleOperation)>,
    ) -> Schedule {
        let mut steps = self.prelude.clone();
        let prepared = steps.len();
        steps.extend(before_scenario.into_iter().chain(scenario));
        if prepared > 0 {
            steps[prepared].0 += PRELUDE_PAUSE;
        }
        self.schedule(steps)
    }

    /// Every schedule that injects one fault into the scenario. `before` and `plain` are the verdicts of the
    /// schedules with these names. They contain the number of positions.
    pub fn with_faults(&self, before: &ScheduleResult, plain: &ScheduleResult) -> Named {
        let mut all = self.requests(before, plain);
        all.extend(self.watches(plain));
        all.extend(self.at_offsets());
        all.extend(self.schedules_without_events(before, plain));
        for (name, _) in &mut all {
            *name = format!("{}: {name}", self.name);
        }
        all
    }

    /// Each request with each fault.
    fn requests(&self, before: &ScheduleResult, plain: &ScheduleResult) -> Named {
        let mut all = Named::new();
        for at in before.writes..plain.writes {
            for write_fault in WriteFault::ALL.into_iter().chain(WriteFault::OF_SLOW_ADMISSION) {
                let mut schedule = Schedule { write_faults: vec![(at, write_fault)], ..self.plain() };
                if write_fault.stalls() || write_fault == WriteFault::SlowCrash {
                    schedule.options.controllers = 2;
                }
                all.push((format!("write {at}, {write_fault:?}"), schedule));
            }
        }
        for at in before.reads..plain.reads {
            for read_fault in ReadFault::ALL {
                let schedule = Schedule { read_faults: vec![(at, read_fault)], ..self.plain() };
                all.push((format!("read {at}, {read_fault:?}"), schedule));
            }
        }
        all
    }

    /// Each watch, and all watches together, behind by each possible number of events.
    fn watches(&self, plain: &ScheduleResult) -> Named {
        let late = |behind| self.after_prelude(behind, vec![(0, self.op.clone())]);
        let mut all = Named::new();
        for (resource, events) in plain.events.iter().enumerate() {
            for behind in 1..=*events {
                let schedule = late(vec![(0, ScheduleOperation::DelayWatch(resource, behind))]);
                all.push((format!("{} are {behind} events behind", self.watched()[resource]), schedule));
            }
        }
        for behind in 1..=plain.events.iter().copied().max().unwrap_or_default() {
            let steps = (0..self.watched().len())
                .map(|resource| (0, ScheduleOperation::DelayWatch(resource, behind)));
            all.push((format!("all watches are {behind} events behind"), late(steps.collect())));
        }
        all
    }

    /// Each unconfirmed write and each operation of a user while the watches of machines and disks deliver no
    /// events.
    fn schedules_without_events(&self, before: &ScheduleResult, plain: &ScheduleResult) -> Named {
        let without_watch_events = |scenario: Vec<(u64, ScheduleOperation)>| {
            let until = [(LONG, ScheduleOperation::ReleaseWatches)];
            // With images: what refers to them.
            let held: &[usize] = if self.images { &[0, 1, 5, 6] } else { &[1, 2] };
            self.after_prelude(
                held.iter().map(|resource| (0, ScheduleOperation::HoldWatch(*resource))).collect(),
                scenario.into_iter().chain(until).collect(),
            )
        };
        let mut all = Named::new();
        for at in before.writes..plain.writes {
            for write_fault in UNCONFIRMED {
                let write_faults = vec![(at, write_fault)];
                let schedule = Schedule { write_faults, ..without_watch_events(vec![(0, self.op.clone())]) };
                all.push((format!("write {at}, {write_fault:?}, unseen"), schedule));
            }
        }
        for op in self.users() {
            for at in UNSEEN_OFFSETS {
                let schedule = without_watch_events(vec![(0, self.op.clone()), (at, op.clone())]);
                all.push((format!("{op:?} after {at} ms, unseen"), schedule));
            }
            let name = format!("{op:?} {LEAD_TIME} ms before, unseen");
            all.push((name, without_watch_events(vec![(0, op), (LEAD_TIME, self.op.clone())])));
        }
        all
    }

    /// Operations of users that can run in parallel with the scenario.
    fn users(&self) -> Vec<ScheduleOperation> {
        match self.platform {
            _ if self.images => users_of_images(),
            TestedPlatform::Dvp => users(),
            TestedPlatform::KubeVirt => users().into_iter().chain(users_of_kubevirt()).collect(),
        }
    }

    /// Each other operation at each offset.
    fn at_offsets(&self) -> Named {
        let mut all = Named::new();
        for at in OFFSETS {
            for mut what in concurrent_operations(self.watched().len(), self.users()) {
                let name = format!("{:?} after {at} ms", what[0].1);
                what[0].0 += at;
                let needs_two = matches!(
                    what[0].1,
                    ScheduleOperation::PauseLeader | ScheduleOperation::KillController(_)
                );
                what.insert(0, (0, self.op.clone()));
                let mut schedule = self.after_prelude(Vec::new(), what);
                if needs_two {
                    schedule.options.controllers = 2;
                }
                all.push((name, schedule));
            }
        }
        all
    }
}

/// Operations that can run in parallel with a scenario.
fn concurrent_operations(
    watched: usize,
    users: Vec<ScheduleOperation>,
) -> Vec<Vec<(u64, ScheduleOperation)>> {
    let mut all = Vec::new();
    for resource in 0..watched {
        all.push(vec![(0, ScheduleOperation::EndWatch(resource, false))]);
        all.push(vec![(0, ScheduleOperation::EndWatch(resource, true))]);
        all.push(vec![(0, ScheduleOperation::RepeatEvent(resource))]);
        // Events that were held when the connection breaks are never delivered.
        all.push(vec![
            (0, ScheduleOperation::HoldWatch(resource)),
            (1500, ScheduleOperation::CoalesceEvents(resource)),
            (0, ScheduleOperation::ReleaseWatches),
        ]);
        all.push(vec![
            (0, ScheduleOperation::HoldWatch(resource)),
            (1500, ScheduleOperation::CompactHistory),
            (0, ScheduleOperation::EndWatch(resource, false)),
            (0, ScheduleOperation::ReleaseWatches),
        ]);
    }
    all.extend([
        vec![(0, ScheduleOperation::PauseLeader), (LONG, ScheduleOperation::Resume)],
        vec![(0, ScheduleOperation::DisconnectController(0)), (LONG, ScheduleOperation::Resume)],
        vec![(0, ScheduleOperation::KillController(0)), (0, ScheduleOperation::KillController(0))],
        vec![
            (0, ScheduleOperation::SetWebhook(WebhookState::Down)),
            (LONG, ScheduleOperation::SetWebhook(WebhookState::Works)),
        ],
        vec![
            (0, ScheduleOperation::SetWebhook(WebhookState::Hangs)),
            (LONG, ScheduleOperation::SetWebhook(WebhookState::Works)),
        ],
        vec![
            (0, ScheduleOperation::SetWebhook(WebhookState::Denies)),
            (LONG, ScheduleOperation::SetWebhook(WebhookState::Works)),
        ],
        vec![(0, ScheduleOperation::KillApiserver(0))],
        vec![(0, ScheduleOperation::PauseApiserver(0)), (LONG, ScheduleOperation::Resume)],
        // A paused replica resumes within its deadline in the middle of a targeted removal, and finds fewer
        // machines.
        vec![
            (0, ScheduleOperation::PauseApiserver(0)),
            (300, ScheduleOperation::DeleteMachine(0)),
            (0, ScheduleOperation::DeleteMachine(1)),
            (20_000, ScheduleOperation::Resume),
        ],
    ]);
    all.extend(
        [
            AdmissionPolicyEffect::StripsOwners,
            AdmissionPolicyEffect::ReplacesLabels,
            AdmissionPolicyEffect::StripsDisks,
        ]
        .map(|policy| vec![(0, ScheduleOperation::SetPolicy(policy))]),
    );
    let jumps = [-3600, -5, 5, 3600].map(|seconds| ScheduleOperation::StepWallClock(0, seconds));
    all.extend(jumps.map(|op| vec![(0, op)]));
    all.extend(users.into_iter().map(|op| vec![(0, op)]));
    all
}

/// Operations of users that can run in parallel with a scenario of pools.
fn users() -> Vec<ScheduleOperation> {
    let named = |targets: Vec<usize>| RemovalOperation {
        targets,
        first: 0,
        pinned: false,
        forced: false,
        dry_run: false,
    };
    vec![
        ScheduleOperation::Scale(0),
        ScheduleOperation::Scale(2),
        ScheduleOperation::Scale(5),
        ScheduleOperation::SetCores(4),
        ScheduleOperation::SetScaleDownPolicy("OldestFirst"),
        ScheduleOperation::SetScaleDownPolicy("Explicit"),
        ScheduleOperation::AddDiskTemplate("extra", Value::Null),
        ScheduleOperation::RemoveDiskTemplate("cache"),
        ScheduleOperation::DeleteMachine(0),
        ScheduleOperation::DeleteMachine(2),
        ScheduleOperation::DeleteDisk(0),
        ScheduleOperation::RemoveLabels(0),
        ScheduleOperation::RemoveOwner(0),
        ScheduleOperation::TakeMachines,
        ScheduleOperation::RemoveTargets(named(vec![0])),
        ScheduleOperation::RemoveTargets(named(vec![1, 2])),
        ScheduleOperation::DeletePool("Background"),
        ScheduleOperation::DeletePool("Foreground"),
        ScheduleOperation::DeletePool("Orphan"),
        ScheduleOperation::Tenant(TenantOperation::ForgeMachines(3, Forgery::UnknownGroup)),
        ScheduleOperation::Tenant(TenantOperation::ForgeDisks(2, Forgery::UnknownGroup)),
        ScheduleOperation::Tenant(TenantOperation::ForgeMachines(2, Forgery::SameOwner)),
    ]
}

/// The further ones of pools of KubeVirt.
fn users_of_kubevirt() -> Vec<ScheduleOperation> {
    let all = [
        KubeVirtOperation::SetPaused(true),
        KubeVirtOperation::SetPaused(false),
        KubeVirtOperation::SetMaxUnavailable(3),
        KubeVirtOperation::SetTier(3),
        KubeVirtOperation::SetHealing(true),
        KubeVirtOperation::FailStarts(0, 1),
        KubeVirtOperation::DeleteInstance(1),
        KubeVirtOperation::SetRunStrategy(0, "Manual"),
        KubeVirtOperation::SetRunStrategy(1, "Halted"),
        KubeVirtOperation::ReturnOwner(0),
    ];
    all.map(ScheduleOperation::KubeVirt).into()
}

/// Operations of users that can run in parallel with a scenario of disk images.
fn users_of_images() -> Vec<ScheduleOperation> {
    let all = [
        ImageOperation::Create("debian", None),
        ImageOperation::Delete(0),
        ImageOperation::Release(0),
        ImageOperation::RemoveFinalizer(0),
        ImageOperation::SetTimeToLive(0, Some("5s")),
        ImageOperation::LoseData(0, 0),
        ImageOperation::LoseData(1, 0),
        ImageOperation::LoseData(2, 0),
        ImageOperation::LoseLabels(0, 0),
        ImageOperation::KeepClaim(0),
        ImageOperation::FailImport(0),
        ImageOperation::FailClone(0),
        ImageOperation::LoseDisk(false, 0),
        ImageOperation::SnapshotQuota(true),
        ImageOperation::CreateWrapper("two", "debian", true),
        ImageOperation::CreateWrapper("two", "debian", false),
        ImageOperation::DeleteWrapper(0),
        ImageOperation::CreateMachine("own-a", "debian"),
        ImageOperation::Grant(true),
        ImageOperation::CreateGuestWrapper("guest-a", "debian"),
    ];
    let all = all.map(ScheduleOperation::Image);
    all.into_iter().chain([ScheduleOperation::DeleteMachine(0)]).collect()
}
