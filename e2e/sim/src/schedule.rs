//! A run: what happens when, and what came of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::judge::{QUIET, broken, unsettled};
use crate::op::Op;
use crate::referee::Trouble;
use crate::world::{Options, World};

/// The longest that a world may take to settle once nothing breaks any more.
const PATIENCE: Duration = Duration::from_mins(20);

/// What happens, and when: milliseconds since the step before.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// How the world is made.
    pub options: Options,
    /// The steps.
    pub steps: Vec<(u64, Op)>,
    /// What happens to which write of a controller.
    pub troubles: Vec<(usize, Trouble)>,
}

/// What came of a schedule.
#[derive(Debug)]
pub struct Verdict {
    /// What is wrong; empty if all is well.
    pub wrong: Vec<String>,
    /// What happened.
    pub transcript: Vec<String>,
    /// Writes of controllers, leases and events apart.
    pub writes: usize,
}

impl Schedule {
    /// Runs it on a runtime of its own.
    ///
    /// # Panics
    /// If the system has nothing left for a runtime.
    pub fn run(&self) -> Verdict {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime without threads and sockets needs nothing of the system");
        runtime.block_on(self.play())
    }

    async fn play(&self) -> Verdict {
        let mut world = World::new(self.options).await;
        world.notes.lock().troubles = self.troubles.iter().copied().collect();
        for (pause, op) in &self.steps {
            world.advance(Duration::from_millis(*pause)).await;
            world.tell(format!("── {op}"));
            op.perform(&mut world).await;
        }
        let mut wrong = settle(&mut world).await;
        wrong.extend(broken(&world));
        if wrong.is_empty() {
            wrong = unsettled(&world);
        }
        let writes = world.notes.lock().writes;
        Verdict { wrong, transcript: std::mem::take(&mut world.transcript), writes }
    }

    /// The shortest schedule with fewer steps that is still wrong.
    #[must_use]
    pub fn shrunk(&self) -> Self {
        let wrong = |schedule: &Self| !schedule.run().wrong.is_empty();
        let mut least = self.clone();
        let quiet = Self { options: Options { trouble: 0, ..least.options }, ..least.clone() };
        if wrong(&quiet) {
            least = quiet;
        }
        // Later steps first: what an earlier one prepares can go only when nobody needs it.
        let mut index = least.steps.len();
        while index > 0 {
            index -= 1;
            let mut shorter = least.clone();
            let (pause, _) = shorter.steps.remove(index);
            if let Some(next) = shorter.steps.get_mut(index) {
                next.0 += pause;
            }
            if wrong(&shorter) {
                least = shorter;
            }
        }
        least
    }

    /// A schedule that the seed makes up.
    pub fn random(seed: u64) -> Self {
        let chance = Chance::new(seed ^ 0x0dd5);
        let options = Options {
            seed,
            controllers: if chance.per_mille(350) { 2 } else { 1 },
            latency: chance.number(1..=60),
            trouble: if chance.per_mille(600) { chance.number(0..=150) } else { 0 },
        };
        let mut disks = vec![("root", Value::Null)];
        if chance.per_mille(500) {
            disks.push(("cache", retained(&chance)));
        }
        let policy = *chance.one(&["NewestFirst", "OldestFirst", "Explicit"]).unwrap_or(&"NewestFirst");
        let first = Op::Make(chance.number(0..=5).cast_signed(), policy, disks);
        let mut steps = vec![(chance.number(0..=2000), first)];
        for _ in 0..chance.number(1..=14) {
            let pause = if chance.per_mille(300) { chance.number(0..=40) } else { chance.number(0..=6000) };
            steps.push((pause, random_op(&chance, options.controllers)));
        }
        Self { options, steps, troubles: Vec::new() }
    }
}

fn retained(chance: &Chance) -> Value {
    let ttl = *chance.one(&["1s", "20s", "10m"]).unwrap_or(&"10m");
    json!({ "onScaleDown": "Retain", "keep": chance.number(0..=2), "ttl": ttl })
}

fn random_op(chance: &Chance, controllers: usize) -> Op {
    let which = || usize::try_from(chance.number(0..=9)).unwrap_or_default();
    match chance.number(0..=99) {
        0..=29 => Op::Scale(chance.number(0..=6).cast_signed()),
        30..=37 => Op::DeleteMachine(which()),
        38..=40 => Op::DeleteDisk(which()),
        41..=44 => Op::Cores(chance.number(1..=4).cast_signed()),
        45..=47 => {
            Op::Policy(chance.one(&["NewestFirst", "OldestFirst", "Explicit"]).copied().unwrap_or("Explicit"))
        }
        48..=49 => Op::AddDisk("extra", Value::Null),
        50..=51 => Op::RemoveDisk("cache"),
        52..=54 => Op::Relabel(which()),
        55..=57 => Op::Disown(which()),
        58 => Op::DeletePool(
            chance.one(&["Background", "Foreground", "Orphan"]).copied().unwrap_or("Background"),
        ),
        59..=64 => Op::Kill(which()),
        65..=70 if controllers > 1 => Op::Pause(which()),
        71..=74 => Op::Resume,
        75..=76 => Op::Jump(which(), chance.number(0..=60).cast_signed() - 30),
        77..=81 => Op::Behind(which(), which()),
        82..=85 => Op::Hold(which()),
        86..=89 => Op::Release,
        90..=91 => Op::Coalesce(which()),
        92..=94 => Op::Break(which(), chance.per_mille(500)),
        95..=96 => Op::Compact,
        97 => Op::Bookmark,
        _ => Op::Scale(chance.number(0..=3).cast_signed()),
    }
}

/// Everything that is broken is mended, and the world gets the time that it needs.
async fn settle(world: &mut World) -> Vec<String> {
    world.tell("── nothing breaks any more");
    world.resume();
    world.server.release();
    {
        // What was planned for a certain write still happens to it: once.
        world.notes.lock().per_mille = 0;
    }
    let begun = world.now();
    loop {
        world.advance(Duration::from_secs(5)).await;
        let now = world.now();
        let since = |time: jiff::Timestamp| Duration::try_from(now.duration_since(time)).unwrap_or_default();
        if since(world.quiet_since().max(begun)) > QUIET {
            return Vec::new();
        }
        if since(begun) > PATIENCE {
            return vec![format!("I8: still changing {PATIENCE:?} after the last fault")];
        }
    }
}
