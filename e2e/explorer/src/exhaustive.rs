//! Every single fault at every position of short scenarios: eleven of pools of both platforms, and with KubeVirt eleven that
//! only its pools have, and four of disk images.

use serde_json::{Value, json};
use vmpool_invariants::platform::PlatformName;

use crate::admission_policy::AdmissionPolicy;
use crate::claim_client::Claim;
use crate::fault::{ReadFault, WriteFault};
use crate::manifest::resources;
use crate::operation::{Operation, Removal};
use crate::operation_image::ImageOperation;
use crate::operation_kubevirt::KubeVirtOperation;
use crate::operation_protection::ProtectionOperation;
use crate::operation_tenant::{Forgery, TenantOperation};
use crate::schedule::{Schedule, Verdict};
use crate::webhook::WebhookState;
use crate::world::Options;

/// Pause between the prelude and the scenario's own step, in milliseconds.
const PRELUDE_PAUSE: u64 = 4000;
/// Offsets from the start of a scenario at which another operation runs, in milliseconds. A scenario takes one or two
/// seconds.
const OFFSETS: [u64; 9] = [0, 15, 40, 90, 160, 280, 450, 800, 1600];
/// The same for scenarios in which the watches of machines and disks deliver no events.
const UNSEEN_OFFSETS: [u64; 3] = [0, 90, 800];
/// How long a leader is paused, the webhook is down, or watches deliver no events, in milliseconds.
const LONG: u64 = 30_000;
/// How long before the scenario an unseen operation runs, in milliseconds. It is longer than the time for which the
/// controller acts on an earlier read.
const LEAD_TIME: u64 = 6000;
/// Faults after which the sender does not know whether the write took effect.
const UNCONFIRMED: [WriteFault; 4] =
    [WriteFault::TimeoutAfterCommit, WriteFault::ResponseLost, WriteFault::Hang, WriteFault::Late];

/// A scenario: what happens if no fault is injected.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The platform of the pool.
    pub platform: PlatformName,
    /// Whether the subject is disk images. The world has no pool then.
    pub images: bool,
    /// The subject, as printed in reports.
    pub name: &'static str,
    /// Steps that prepare the world.
    pub prelude: Vec<(u64, Operation)>,
    /// The step under test. No fault is injected before it.
    pub op: Operation,
}

/// A disk that is deleted with its machine.
fn own() -> Vec<(&'static str, Value)> {
    vec![("root", Value::Null)]
}

/// A second disk that stays for the next machine. Pools of KubeVirt then preserve all storage.
fn kept(ttl: &str) -> Vec<(&'static str, Value)> {
    vec![("root", Value::Null), ("cache", json!({ "onScaleDown": "Retain", "keep": 0, "ttl": ttl }))]
}

impl Scenario {
    fn of_pools(platform: PlatformName, name: &'static str, prelude: Vec<Operation>, op: Operation) -> Self {
        let pauses = std::iter::once(0).chain(std::iter::repeat(PRELUDE_PAUSE));
        Self { platform, images: false, name, prelude: pauses.zip(prelude).collect(), op }
    }
}

/// All scenarios.
pub fn scenarios(platform: PlatformName) -> Vec<Scenario> {
    let scenario = |name, prelude, op| Scenario::of_pools(platform, name, prelude, op);
    let claim = |seconds| {
        Operation::Protection(ProtectionOperation::Claim(Claim { id: "a", seconds, renew: false }, 0))
    };
    let named = Removal { targets: vec![0, 2], first: 0, pinned: true, forced: false, dry_run: false };
    let mut all = vec![
        scenario("up", vec![], Operation::CreatePool(3, "NewestFirst", kept("10m"))),
        scenario("down", vec![Operation::CreatePool(3, "NewestFirst", own())], Operation::Scale(1)),
        scenario(
            "removal by name",
            vec![Operation::CreatePool(3, "Explicit", own())],
            Operation::RemoveTargets(named),
        ),
        scenario("a claim", vec![Operation::CreatePool(2, "NewestFirst", own())], claim(10)),
        scenario(
            "a claimed machine replaced",
            vec![Operation::CreatePool(2, "NewestFirst", own()), claim(100)],
            Operation::Protection(ProtectionOperation::Release("a", "Replace", 0)),
        ),
        scenario(
            "reuse",
            vec![Operation::CreatePool(2, "NewestFirst", kept("10m")), Operation::Scale(0)],
            Operation::Scale(2),
        ),
        scenario("rollout", vec![Operation::CreatePool(3, "Explicit", own())], Operation::SetCores(2)),
        scenario(
            "a disk template removed",
            vec![Operation::CreatePool(2, "OldestFirst", kept("10m"))],
            Operation::RemoveDiskTemplate("cache"),
        ),
        scenario(
            "free disks collected",
            vec![Operation::CreatePool(2, "NewestFirst", kept("5s"))],
            Operation::Scale(0),
        ),
        scenario(
            "a machine lost",
            vec![Operation::CreatePool(2, "Explicit", kept("10m"))],
            Operation::DeleteMachine(0),
        ),
        scenario(
            "the pool deleted",
            vec![Operation::CreatePool(2, "NewestFirst", kept("10m"))],
            Operation::DeletePool("Background"),
        ),
    ];
    if platform == PlatformName::KubeVirt {
        all.extend(kubevirt_scenarios());
        all.extend(image_scenarios());
    }
    all
}

/// The scenarios that only pools of KubeVirt have.
fn kubevirt_scenarios() -> Vec<Scenario> {
    let scenario = |name, prelude, op| Scenario::of_pools(PlatformName::KubeVirt, name, prelude, op);
    let only = Operation::KubeVirt;
    let create = |replicas, disks| Operation::CreatePool(replicas, "DescendingOrder", disks);
    let manual = |which| only(KubeVirtOperation::SetRunStrategy(which, "Manual"));
    vec![
        scenario("paused", vec![create(3, own())], only(KubeVirtOperation::SetPaused(true))),
        scenario(
            "continued",
            vec![
                create(2, own()),
                only(KubeVirtOperation::SetPaused(true)),
                Operation::SetCores(2),
                Operation::Scale(3),
            ],
            only(KubeVirtOperation::SetPaused(false)),
        ),
        scenario(
            "healed",
            vec![create(2, kept("10m")), only(KubeVirtOperation::SetHealing(true))],
            only(KubeVirtOperation::FailStarts(0, 2)),
        ),
        scenario("an instance deleted", vec![create(2, own())], only(KubeVirtOperation::DeleteInstance(0))),
        scenario("restarts by request", vec![create(2, own()), manual(0), manual(1)], Operation::SetCores(2)),
        scenario("released", vec![create(2, own())], Operation::RemoveLabels(0)),
        scenario("detached", vec![create(2, own())], Operation::RemoveOwner(0)),
        scenario(
            "returned",
            vec![create(2, own()), Operation::RemoveOwner(0)],
            only(KubeVirtOperation::ReturnOwner(0)),
        ),
        scenario(
            "a larger budget",
            vec![create(3, own()), only(KubeVirtOperation::SetMaxUnavailable(2))],
            Operation::SetCores(2),
        ),
        scenario("a label changed", vec![create(3, own())], only(KubeVirtOperation::SetTier(2))),
        scenario(
            "a disk template added",
            vec![create(2, kept("10m"))],
            Operation::AddDiskTemplate("extra", Value::Null),
        ),
    ]
}

/// The scenarios of disk images: an image is held, or deleted, or both at the same time.
fn image_scenarios() -> Vec<Scenario> {
    let image = |ttl| Operation::Image(ImageOperation::Create("debian", ttl));
    let wrapper = |creates| Operation::Image(ImageOperation::CreateWrapper("one", "debian", creates));
    let scenario = |name, prelude: Vec<Operation>, op| {
        let prelude = prelude.into_iter().zip([0, PRELUDE_PAUSE]).map(|(op, pause)| (pause, op)).collect();
        Scenario { platform: PlatformName::KubeVirt, images: true, name, prelude, op: Operation::Image(op) }
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

impl Scenario {
    fn schedule(&self, steps: Vec<(u64, Operation)>) -> Schedule {
        // The scenario's own step counts even if `steps` leaves it out, so that the prelude is the same in both cases.
        let uses_api = steps.iter().map(|(_, op)| op).chain([&self.op]).any(Operation::uses_api);
        let apiservers = if uses_api { 2 } else { 0 };
        let options = Options {
            platform: self.platform,
            seed: 11,
            controllers: 1,
            apiservers,
            webhook: true,
            latency: 10,
            images: self.images,
            ..Options::default()
        };
        Schedule { options, steps, ..Schedule::default() }
    }

    /// What the controllers watch.
    fn watched(&self) -> &'static [&'static str] {
        resources(self.platform, self.images).watched
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
        before_scenario: Vec<(u64, Operation)>,
        scenario: Vec<(u64, Operation)>,
    ) -> Schedule {
        let mut steps = self.prelude.clone();
        let prepared = steps.len();
        steps.extend(before_scenario.into_iter().chain(scenario));
        if prepared > 0 {
            steps[prepared].0 += PRELUDE_PAUSE;
        }
        self.schedule(steps)
    }

    /// Every schedule that injects one fault into the scenario. `before` and `plain` are the verdicts of the schedules
    /// with these names. They contain the number of positions.
    pub fn with_faults(&self, before: &Verdict, plain: &Verdict) -> Named {
        let mut all = self.requests(before, plain);
        all.extend(self.watches(plain));
        all.extend(self.at_offsets());
        all.extend(self.unseen(before, plain));
        for (name, _) in &mut all {
            *name = format!("{}: {name}", self.name);
        }
        all
    }

    /// Each request with each fault.
    fn requests(&self, before: &Verdict, plain: &Verdict) -> Named {
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
    fn watches(&self, plain: &Verdict) -> Named {
        let late = |behind| self.after_prelude(behind, vec![(0, self.op.clone())]);
        let mut all = Named::new();
        for (resource, events) in plain.events.iter().enumerate() {
            for behind in 1..=*events {
                let schedule = late(vec![(0, Operation::DelayWatch(resource, behind))]);
                all.push((format!("{} are {behind} events behind", self.watched()[resource]), schedule));
            }
        }
        for behind in 1..=plain.events.iter().copied().max().unwrap_or_default() {
            let steps =
                (0..self.watched().len()).map(|resource| (0, Operation::DelayWatch(resource, behind)));
            all.push((format!("all watches are {behind} events behind"), late(steps.collect())));
        }
        all
    }

    /// Each unconfirmed write and each operation of a user while the watches of machines and disks deliver no events.
    fn unseen(&self, before: &Verdict, plain: &Verdict) -> Named {
        let without_watch_events = |scenario: Vec<(u64, Operation)>| {
            let until = [(LONG, Operation::ReleaseWatches)];
            // With images: what refers to them.
            let held: &[usize] = if self.images { &[0, 1, 5, 6] } else { &[1, 2] };
            self.after_prelude(
                held.iter().map(|resource| (0, Operation::HoldWatch(*resource))).collect(),
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
    fn users(&self) -> Vec<Operation> {
        match self.platform {
            _ if self.images => users_of_images(),
            PlatformName::Dvp => users(),
            PlatformName::KubeVirt => users().into_iter().chain(users_of_kubevirt()).collect(),
        }
    }

    /// Each other operation at each offset.
    fn at_offsets(&self) -> Named {
        let mut all = Named::new();
        for at in OFFSETS {
            for mut what in concurrent_operations(self.watched().len(), self.users()) {
                let name = format!("{:?} after {at} ms", what[0].1);
                what[0].0 += at;
                let needs_two = matches!(what[0].1, Operation::PauseLeader | Operation::KillController(_));
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
fn concurrent_operations(watched: usize, users: Vec<Operation>) -> Vec<Vec<(u64, Operation)>> {
    let mut all = Vec::new();
    for resource in 0..watched {
        all.push(vec![(0, Operation::EndWatch(resource, false))]);
        all.push(vec![(0, Operation::EndWatch(resource, true))]);
        all.push(vec![(0, Operation::RepeatEvent(resource))]);
        // Events that were held when the connection breaks are never delivered.
        all.push(vec![
            (0, Operation::HoldWatch(resource)),
            (1500, Operation::CoalesceEvents(resource)),
            (0, Operation::ReleaseWatches),
        ]);
        all.push(vec![
            (0, Operation::HoldWatch(resource)),
            (1500, Operation::CompactHistory),
            (0, Operation::EndWatch(resource, false)),
            (0, Operation::ReleaseWatches),
        ]);
    }
    all.extend([
        vec![(0, Operation::PauseLeader), (LONG, Operation::Resume)],
        vec![(0, Operation::DisconnectController(0)), (LONG, Operation::Resume)],
        vec![(0, Operation::KillController(0)), (0, Operation::KillController(0))],
        vec![
            (0, Operation::SetWebhook(WebhookState::Down)),
            (LONG, Operation::SetWebhook(WebhookState::Works)),
        ],
        vec![
            (0, Operation::SetWebhook(WebhookState::Hangs)),
            (LONG, Operation::SetWebhook(WebhookState::Works)),
        ],
        vec![
            (0, Operation::SetWebhook(WebhookState::Denies)),
            (LONG, Operation::SetWebhook(WebhookState::Works)),
        ],
        vec![(0, Operation::KillApiserver(0))],
        vec![(0, Operation::PauseApiserver(0)), (LONG, Operation::Resume)],
        // A paused replica resumes within its deadline in the middle of a targeted removal, and finds fewer machines.
        vec![
            (0, Operation::PauseApiserver(0)),
            (300, Operation::DeleteMachine(0)),
            (0, Operation::DeleteMachine(1)),
            (20_000, Operation::Resume),
        ],
    ]);
    all.extend(
        [AdmissionPolicy::StripsOwners, AdmissionPolicy::ReplacesLabels, AdmissionPolicy::StripsDisks]
            .map(|policy| vec![(0, Operation::SetPolicy(policy))]),
    );
    let jumps = [-3600, -5, 5, 3600].map(|seconds| Operation::StepWallClock(0, seconds));
    all.extend(jumps.map(|op| vec![(0, op)]));
    all.extend(users.into_iter().map(|op| vec![(0, op)]));
    all
}

/// Operations of users that can run in parallel with a scenario of pools.
fn users() -> Vec<Operation> {
    let named =
        |targets: Vec<usize>| Removal { targets, first: 0, pinned: false, forced: false, dry_run: false };
    vec![
        Operation::Scale(0),
        Operation::Scale(2),
        Operation::Scale(5),
        Operation::SetCores(4),
        Operation::SetScaleDownPolicy("OldestFirst"),
        Operation::SetScaleDownPolicy("Explicit"),
        Operation::AddDiskTemplate("extra", Value::Null),
        Operation::RemoveDiskTemplate("cache"),
        Operation::DeleteMachine(0),
        Operation::DeleteMachine(2),
        Operation::DeleteDisk(0),
        Operation::RemoveLabels(0),
        Operation::RemoveOwner(0),
        Operation::TakeMachines,
        Operation::RemoveTargets(named(vec![0])),
        Operation::RemoveTargets(named(vec![1, 2])),
        Operation::DeletePool("Background"),
        Operation::DeletePool("Foreground"),
        Operation::DeletePool("Orphan"),
        Operation::Tenant(TenantOperation::ForgeMachines(3, Forgery::UnknownGroup)),
        Operation::Tenant(TenantOperation::ForgeDisks(2, Forgery::UnknownGroup)),
        Operation::Tenant(TenantOperation::ForgeMachines(2, Forgery::SameOwner)),
    ]
}

/// The further ones of pools of KubeVirt.
fn users_of_kubevirt() -> Vec<Operation> {
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
    all.map(Operation::KubeVirt).into()
}

/// Operations of users that can run in parallel with a scenario of disk images.
fn users_of_images() -> Vec<Operation> {
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
    let all = all.map(Operation::Image);
    all.into_iter().chain([Operation::DeleteMachine(0)]).collect()
}
