//! Every single fault at every position of short scenarios: eleven of pools, and with KubeVirt four of disk images.

use serde_json::{Value, json};
use vmpool_invariants::platform::PlatformName;

use crate::claim_client::Claim;
use crate::fault::{ReadFault, WriteFault};
use crate::manifest::resources;
use crate::operation::{Operation, Removal};
use crate::operation_image::ImageOperation;
use crate::operation_protection::ProtectionOperation;
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

/// All scenarios.
pub fn scenarios(platform: PlatformName) -> Vec<Scenario> {
    let own = || vec![("root", Value::Null)];
    let kept = |ttl: &str| {
        vec![("root", Value::Null), ("cache", json!({ "onScaleDown": "Retain", "keep": 0, "ttl": ttl }))]
    };
    let scenario = |name, prelude: Vec<Operation>, op| {
        let prelude = prelude.into_iter().zip([0, PRELUDE_PAUSE]).map(|(op, pause)| (pause, op)).collect();
        Scenario { platform, images: false, name, prelude, op }
    };
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
        all.extend(image_scenarios());
    }
    all
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
            for write_fault in WriteFault::ALL {
                let mut schedule = Schedule { write_faults: vec![(at, write_fault)], ..self.plain() };
                if write_fault.stalls() {
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
        for op in users(self.images) {
            for at in UNSEEN_OFFSETS {
                let schedule = without_watch_events(vec![(0, self.op.clone()), (at, op.clone())]);
                all.push((format!("{op:?} after {at} ms, unseen"), schedule));
            }
            let name = format!("{op:?} {LEAD_TIME} ms before, unseen");
            all.push((name, without_watch_events(vec![(0, op), (LEAD_TIME, self.op.clone())])));
        }
        all
    }

    /// Each other operation at each offset.
    fn at_offsets(&self) -> Named {
        let mut all = Named::new();
        for at in OFFSETS {
            for mut what in concurrent_operations(self.watched().len(), self.images) {
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
fn concurrent_operations(watched: usize, images: bool) -> Vec<Vec<(u64, Operation)>> {
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
    let jumps = [-3600, -5, 5, 3600].map(|seconds| Operation::StepWallClock(0, seconds));
    all.extend(jumps.map(|op| vec![(0, op)]));
    all.extend(users(images).into_iter().map(|op| vec![(0, op)]));
    all
}

/// Operations of users that can run in parallel with a scenario.
fn users(images: bool) -> Vec<Operation> {
    if images {
        return users_of_images();
    }
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
        Operation::RemoveTargets(named(vec![0])),
        Operation::RemoveTargets(named(vec![1, 2])),
        Operation::DeletePool("Background"),
        Operation::DeletePool("Foreground"),
        Operation::DeletePool("Orphan"),
    ]
}

/// Operations of users that can run in parallel with a scenario of disk images.
fn users_of_images() -> Vec<Operation> {
    let all = [
        ImageOperation::Create("debian", None),
        ImageOperation::Delete(0),
        ImageOperation::Release(0),
        ImageOperation::SetTimeToLive(0, Some("5s")),
        ImageOperation::LoseData(0, 0),
        ImageOperation::LoseData(1, 0),
        ImageOperation::LoseData(2, 0),
        ImageOperation::LoseLabels(0, 0),
        ImageOperation::KeepClaim(0),
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
