//! Every single fault at every place of eight short stories.

use serde_json::{Value, json};

use crate::op::Op;
use crate::referee::Trouble;
use crate::schedule::Schedule;
use crate::world::Options;

/// How many events a watch may be behind: more than any of the stories has.
const MOST_BEHIND: usize = 12;

/// A story: what happens if nothing breaks.
#[derive(Clone, Debug)]
pub struct Story {
    /// What it is about.
    pub name: &'static str,
    /// What happens, and when.
    pub steps: Vec<(u64, Op)>,
    /// How many of the first steps prepare the story: nothing breaks before they are done.
    pub prelude: usize,
}

/// The eight stories.
pub fn stories() -> Vec<Story> {
    let own = || vec![("root", Value::Null)];
    let kept = |ttl: &str| {
        vec![("root", Value::Null), ("cache", json!({ "onScaleDown": "Retain", "keep": 0, "ttl": ttl }))]
    };
    let make = |replicas, policy, disks| (0, Op::Make(replicas, policy, disks));
    let story = |name, prelude, steps| Story { name, steps, prelude };
    vec![
        story("up", 0, vec![make(3, "NewestFirst", kept("10m"))]),
        story("down", 1, vec![make(3, "NewestFirst", own()), (4000, Op::Scale(1))]),
        story(
            "reuse",
            2,
            vec![make(2, "NewestFirst", kept("10m")), (4000, Op::Scale(0)), (4000, Op::Scale(2))],
        ),
        story("rollout", 1, vec![make(3, "Explicit", own()), (4000, Op::Cores(2))]),
        story(
            "a disk template removed",
            1,
            vec![make(2, "OldestFirst", kept("10m")), (4000, Op::RemoveDisk("cache"))],
        ),
        story("free disks collected", 1, vec![make(2, "NewestFirst", kept("5s")), (4000, Op::Scale(0))]),
        story("a machine lost", 1, vec![make(2, "Explicit", kept("10m")), (4000, Op::DeleteMachine(0))]),
        story(
            "the pool deleted",
            1,
            vec![make(2, "NewestFirst", kept("10m")), (4000, Op::DeletePool("Background"))],
        ),
    ]
}

impl Story {
    fn schedule(&self, troubles: Vec<(usize, Trouble)>) -> Schedule {
        let options = Options { seed: 11, controllers: 1, latency: 10, trouble: 0 };
        Schedule { options, steps: self.steps.clone(), troubles }
    }

    /// The undisturbed story.
    pub fn plain(&self) -> Schedule {
        self.schedule(Vec::new())
    }

    /// Every schedule that disturbs the story in one place. `writes` is how many writes the undisturbed story has.
    pub fn disturbed(&self, writes: usize) -> Vec<(String, Schedule)> {
        let mut all = Vec::new();
        for at in 0..writes {
            for trouble in Trouble::ALL {
                all.push((
                    format!("{}: write {at}, {trouble:?}", self.name),
                    self.schedule(vec![(at, trouble)]),
                ));
            }
        }
        let disturb = |ops: Vec<Op>| {
            let mut schedule = self.plain();
            let inserted = ops.into_iter().map(|op| (0, op));
            schedule.steps.splice(self.prelude..self.prelude, inserted);
            schedule
        };
        for resource in 0..3 {
            for behind in 1..=MOST_BEHIND {
                let name = format!("{}: watch {resource} is {behind} behind", self.name);
                all.push((name, disturb(vec![Op::Behind(resource, behind)])));
            }
            for (what, op) in [
                ("held", Op::Hold(resource)),
                ("closed", Op::Break(resource, false)),
                ("expired", Op::Break(resource, true)),
            ] {
                all.push((format!("{}: watch {resource} {what}", self.name), disturb(vec![op])));
            }
        }
        for behind in 1..=MOST_BEHIND {
            let ops = (0..3).map(|resource| Op::Behind(resource, behind)).collect();
            all.push((format!("{}: all watches {behind} behind", self.name), disturb(ops)));
        }
        all.push((
            format!("{}: history forgotten", self.name),
            disturb(vec![Op::Compact, Op::Break(1, false)]),
        ));
        for seconds in [-3600, -5, 5, 3600] {
            all.push((
                format!("{}: the clock jumps by {seconds} s", self.name),
                disturb(vec![Op::Jump(0, seconds)]),
            ));
        }
        all
    }
}
