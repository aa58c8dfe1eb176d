//! Every single fault at every place of nine short stories.

use serde_json::{Value, json};

use crate::op::{Op, Removal, WATCHED};
use crate::schedule::{Schedule, Verdict};
use crate::trouble::{Trouble, Unread};
use crate::webhook::Service;
use crate::world::Options;

/// How long a prepared world is left alone before its story begins, in milliseconds.
const PREPARED: u64 = 4000;
/// When something happens beside a story, in milliseconds from its beginning: it is over after a second or two.
const MOMENTS: [u64; 9] = [0, 15, 40, 90, 160, 280, 450, 800, 1600];
/// The same beside a story that nobody sees.
const UNSEEN_MOMENTS: [u64; 3] = [0, 90, 800];
/// For how long a leader stands still, a webhook does not work, or watches tell nothing, in milliseconds.
const LONG: u64 = 30_000;
/// How long before a story something happens that nobody has seen when it begins, in milliseconds: longer than what was
/// read before may still be acted on.
const EARLIER: u64 = 6000;
/// What leaves its sender without knowing what became of it.
const UNKNOWN: [Trouble; 4] =
    [Trouble::TimeoutAfterCommit, Trouble::AnswerLost, Trouble::Hang, Trouble::Late];

/// A story: what happens if nothing breaks.
#[derive(Clone, Debug)]
pub struct Story {
    /// What it is about.
    pub name: &'static str,
    /// What was there before.
    pub prelude: Vec<(u64, Op)>,
    /// What happens. Before it, nothing breaks.
    pub op: Op,
}

/// The stories.
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

/// Schedules with names.
type Named = Vec<(String, Schedule)>;

impl Story {
    fn schedule(&self, steps: Vec<(u64, Op)>) -> Schedule {
        // The story's own step counts even where it is left out: what comes before it is to be the same with and without.
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

    /// The undisturbed story.
    pub fn plain(&self) -> Schedule {
        self.told(Vec::new(), vec![(0, self.op.clone())])
    }

    /// What comes before it.
    pub fn before(&self) -> Schedule {
        self.schedule(self.prelude.clone())
    }

    /// The story itself and what is beside it, in a prepared world in which something is otherwise than usual.
    fn told(&self, unusual: Vec<(u64, Op)>, story: Vec<(u64, Op)>) -> Schedule {
        let mut steps = self.prelude.clone();
        let prepared = steps.len();
        steps.extend(unusual.into_iter().chain(story));
        if prepared > 0 {
            steps[prepared].0 += PREPARED;
        }
        self.schedule(steps)
    }

    /// Every schedule that disturbs the story in one place. `before` and `plain` are what came of the schedules of these
    /// names: they tell how many places there are.
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

    /// Each request answered in each way.
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

    /// Each watch, and all of them together, behind by each number of events.
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

    /// Each write without an answer, and each thing that users do, while no watch tells of machines and disks.
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

    /// Each other thing at each moment.
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

/// What can happen beside a story.
fn beside() -> Vec<Vec<(u64, Op)>> {
    let mut all = Vec::new();
    for resource in 0..WATCHED.len() {
        all.push(vec![(0, Op::Break(resource, false))]);
        all.push(vec![(0, Op::Break(resource, true))]);
        all.push(vec![(0, Op::Repeat(resource))]);
        // What was not told when the connection breaks is not told at all.
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
        // Who is in the middle of a removal by name is still in time when it goes on, and finds fewer machines.
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

/// What users can do beside a story.
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
