//! Every single fault at every position of nine short scenarios.

use serde_json::{Value, json};

use crate::op::{Op, Removal, WATCHED};
use crate::schedule::{Schedule, Verdict};
use crate::trouble::{Trouble, Unread};
use crate::webhook::Service;
use crate::world::Options;

/// Pause between the prelude and the scenario's own step, in milliseconds.
const PREPARED: u64 = 4000;
/// Offsets from the start of a scenario at which another operation runs, in milliseconds. A scenario takes one or two
/// seconds.
const MOMENTS: [u64; 9] = [0, 15, 40, 90, 160, 280, 450, 800, 1600];
/// The same for scenarios in which the watches of machines and disks deliver no events.
const UNSEEN_MOMENTS: [u64; 3] = [0, 90, 800];
/// How long a leader is paused, the webhook is down, or watches deliver no events, in milliseconds.
const LONG: u64 = 30_000;
/// How long before the scenario an unseen operation runs, in milliseconds. It is longer than the time for which the
/// controller acts on an earlier read.
const EARLIER: u64 = 6000;
/// Faults after which the sender does not know whether the write took effect.
const UNKNOWN: [Trouble; 4] =
    [Trouble::TimeoutAfterCommit, Trouble::AnswerLost, Trouble::Hang, Trouble::Late];

/// A scenario: what happens if no fault is injected.
#[derive(Clone, Debug)]
pub struct Story {
    /// The subject, as printed in reports.
    pub name: &'static str,
    /// Steps that prepare the world.
    pub prelude: Vec<(u64, Op)>,
    /// The step under test. No fault is injected before it.
    pub op: Op,
}

/// All scenarios.
pub fn stories() -> Vec<Story> {
    let own = || vec![("root", Value::Null)];
    let kept = |ttl: &str| {
        vec![("root", Value::Null), ("cache", json!({ "onScaleDown": "Retain", "keep": 0, "ttl": ttl }))]
    };
    let story = |name, prelude: Vec<Op>, op| {
        let prelude = prelude.into_iter().zip([0, PREPARED]).map(|(op, pause)| (pause, op)).collect();
        Story { name, prelude, op }
    };
    let named = Removal { targets: vec![0, 2], first: 0, pinned: true, dry_run: false };
    vec![
        story("up", vec![], Op::Make(3, "NewestFirst", kept("10m"))),
        story("down", vec![Op::Make(3, "NewestFirst", own())], Op::Scale(1)),
        story("removal by name", vec![Op::Make(3, "Explicit", own())], Op::Remove(named)),
        story("reuse", vec![Op::Make(2, "NewestFirst", kept("10m")), Op::Scale(0)], Op::Scale(2)),
        story("rollout", vec![Op::Make(3, "Explicit", own())], Op::Cores(2)),
        story(
            "a disk template removed",
            vec![Op::Make(2, "OldestFirst", kept("10m"))],
            Op::RemoveDisk("cache"),
        ),
        story("free disks collected", vec![Op::Make(2, "NewestFirst", kept("5s"))], Op::Scale(0)),
        story("a machine lost", vec![Op::Make(2, "Explicit", kept("10m"))], Op::DeleteMachine(0)),
        story(
            "the pool deleted",
            vec![Op::Make(2, "NewestFirst", kept("10m"))],
            Op::DeletePool("Background"),
        ),
    ]
}

/// Schedules with their names.
type Named = Vec<(String, Schedule)>;

impl Story {
    fn schedule(&self, steps: Vec<(u64, Op)>) -> Schedule {
        // The scenario's own step counts even if `steps` leaves it out, so that the prelude is the same in both cases.
        let uses_api = steps.iter().map(|(_, op)| op).chain([&self.op]).any(Op::uses_api);
        let apiservers = if uses_api { 2 } else { 0 };
        let options = Options {
            seed: 11,
            controllers: 1,
            apiservers,
            webhook: true,
            latency: 10,
            ..Options::default()
        };
        Schedule { options, steps, ..Schedule::default() }
    }

    /// The scenario without faults.
    pub fn plain(&self) -> Schedule {
        self.told(Vec::new(), vec![(0, self.op.clone())])
    }

    /// Only the prelude.
    pub fn before(&self) -> Schedule {
        self.schedule(self.prelude.clone())
    }

    /// The scenario after its prelude. `unusual` runs first, directly after the prelude.
    fn told(&self, unusual: Vec<(u64, Op)>, story: Vec<(u64, Op)>) -> Schedule {
        let mut steps = self.prelude.clone();
        let prepared = steps.len();
        steps.extend(unusual.into_iter().chain(story));
        if prepared > 0 {
            steps[prepared].0 += PREPARED;
        }
        self.schedule(steps)
    }

    /// Every schedule that injects one fault into the scenario. `before` and `plain` are the verdicts of the schedules
    /// with these names. They contain the number of positions.
    pub fn disturbed(&self, before: &Verdict, plain: &Verdict) -> Named {
        let mut all = self.requests(before, plain);
        all.extend(self.watches(plain));
        all.extend(self.moments());
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
            for trouble in Trouble::ALL {
                let mut schedule = Schedule { troubles: vec![(at, trouble)], ..self.plain() };
                if trouble.stalls() {
                    schedule.options.controllers = 2;
                }
                all.push((format!("write {at}, {trouble:?}"), schedule));
            }
        }
        for at in before.reads..plain.reads {
            for unread in Unread::ALL {
                let schedule = Schedule { unread: vec![(at, unread)], ..self.plain() };
                all.push((format!("read {at}, {unread:?}"), schedule));
            }
        }
        all
    }

    /// Each watch, and all watches together, behind by each possible number of events.
    fn watches(&self, plain: &Verdict) -> Named {
        let late = |behind| self.told(behind, vec![(0, self.op.clone())]);
        let mut all = Named::new();
        for (resource, events) in plain.events.iter().enumerate() {
            for behind in 1..=*events {
                let schedule = late(vec![(0, Op::Behind(resource, behind))]);
                all.push((format!("{} are {behind} events behind", WATCHED[resource]), schedule));
            }
        }
        for behind in 1..=plain.events.iter().copied().max().unwrap_or_default() {
            let steps = (0..WATCHED.len()).map(|resource| (0, Op::Behind(resource, behind)));
            all.push((format!("all watches are {behind} events behind"), late(steps.collect())));
        }
        all
    }

    /// Each unconfirmed write and each operation of a user while the watches of machines and disks deliver no events.
    fn unseen(&self, before: &Verdict, plain: &Verdict) -> Named {
        let blind = |story: Vec<(u64, Op)>| {
            let until = [(LONG, Op::Release)];
            self.told(vec![(0, Op::Hold(1)), (0, Op::Hold(2))], story.into_iter().chain(until).collect())
        };
        let mut all = Named::new();
        for at in before.writes..plain.writes {
            for trouble in UNKNOWN {
                let troubles = vec![(at, trouble)];
                let schedule = Schedule { troubles, ..blind(vec![(0, self.op.clone())]) };
                all.push((format!("write {at}, {trouble:?}, unseen"), schedule));
            }
        }
        for op in users() {
            for at in UNSEEN_MOMENTS {
                let schedule = blind(vec![(0, self.op.clone()), (at, op.clone())]);
                all.push((format!("{op:?} after {at} ms, unseen"), schedule));
            }
            let name = format!("{op:?} {EARLIER} ms before, unseen");
            all.push((name, blind(vec![(0, op), (EARLIER, self.op.clone())])));
        }
        all
    }

    /// Each other operation at each offset.
    fn moments(&self) -> Named {
        let mut all = Named::new();
        for at in MOMENTS {
            for mut what in beside() {
                let name = format!("{:?} after {at} ms", what[0].1);
                what[0].0 += at;
                let needs_two = matches!(what[0].1, Op::PauseLeader | Op::Kill(_));
                what.insert(0, (0, self.op.clone()));
                let mut schedule = self.told(Vec::new(), what);
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
fn beside() -> Vec<Vec<(u64, Op)>> {
    let mut all = Vec::new();
    for resource in 0..WATCHED.len() {
        all.push(vec![(0, Op::Break(resource, false))]);
        all.push(vec![(0, Op::Break(resource, true))]);
        all.push(vec![(0, Op::Repeat(resource))]);
        // Events that were held when the connection breaks are never delivered.
        all.push(vec![(0, Op::Hold(resource)), (1500, Op::Coalesce(resource)), (0, Op::Release)]);
        all.push(vec![
            (0, Op::Hold(resource)),
            (1500, Op::Compact),
            (0, Op::Break(resource, false)),
            (0, Op::Release),
        ]);
    }
    all.extend([
        vec![(0, Op::PauseLeader), (LONG, Op::Resume)],
        vec![(0, Op::Cut(0)), (LONG, Op::Resume)],
        vec![(0, Op::Kill(0)), (0, Op::Kill(0))],
        vec![(0, Op::Webhook(Service::Down)), (LONG, Op::Webhook(Service::Works))],
        vec![(0, Op::Webhook(Service::Hangs)), (LONG, Op::Webhook(Service::Works))],
        vec![(0, Op::Webhook(Service::Denies)), (LONG, Op::Webhook(Service::Works))],
        vec![(0, Op::KillApiserver(0))],
        vec![(0, Op::PauseApiserver(0)), (LONG, Op::Resume)],
        // A paused replica resumes within its deadline in the middle of a targeted removal, and finds fewer machines.
        vec![
            (0, Op::PauseApiserver(0)),
            (300, Op::DeleteMachine(0)),
            (0, Op::DeleteMachine(1)),
            (20_000, Op::Resume),
        ],
    ]);
    let jumps = [-3600, -5, 5, 3600].map(|seconds| Op::Jump(0, seconds));
    all.extend(jumps.map(|op| vec![(0, op)]));
    all.extend(users().into_iter().map(|op| vec![(0, op)]));
    all
}

/// Operations of users that can run in parallel with a scenario.
fn users() -> Vec<Op> {
    let named = |targets: Vec<usize>| Removal { targets, first: 0, pinned: false, dry_run: false };
    vec![
        Op::Scale(0),
        Op::Scale(2),
        Op::Scale(5),
        Op::Cores(4),
        Op::Policy("OldestFirst"),
        Op::Policy("Explicit"),
        Op::AddDisk("extra", Value::Null),
        Op::RemoveDisk("cache"),
        Op::DeleteMachine(0),
        Op::DeleteMachine(2),
        Op::DeleteDisk(0),
        Op::Relabel(0),
        Op::Disown(0),
        Op::Remove(named(vec![0])),
        Op::Remove(named(vec![1, 2])),
        Op::DeletePool("Background"),
        Op::DeletePool("Foreground"),
        Op::DeletePool("Orphan"),
    ]
}
