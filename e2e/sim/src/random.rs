//! Random schedules.

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::op::{Op, Removal};
use crate::schedule::Schedule;
use crate::webhook::Service;
use crate::world::Options;

/// Of 1000 schedules, this many pause the leader until another one has replaced it, in addition to their other faults.
const RIVALS: u64 = 300;
/// Length of that pause in milliseconds. It is longer than a lease plus the time until another replica takes the lease.
const STILL: (u64, u64) = (19_000, 40_000);

/// Of 1000 schedules, this many have a period in which the watches of machines, disks or both deliver no events.
const BLIND: u64 = 250;

const POLICIES: [&str; 3] = ["NewestFirst", "OldestFirst", "Explicit"];

impl Schedule {
    /// The schedule of a seed.
    pub fn random(seed: u64) -> Self {
        let chance = Chance::new(seed ^ 0x0dd5);
        let rivals = chance.per_mille(RIVALS);
        let named = chance.per_mille(450);
        let options = Options {
            seed,
            controllers: if rivals || chance.per_mille(200) { 2 } else { 1 },
            apiservers: if named { one_or_two(&chance) } else { 0 },
            webhook: chance.per_mille(600),
            latency: chance.number(1..=60),
            trouble: if chance.per_mille(600) { chance.number(0..=150) } else { 0 },
            unread: if chance.per_mille(300) { chance.number(0..=150) } else { 0 },
            page: if chance.per_mille(300) { one_or_two(&chance) } else { 0 },
            old: which(&chance),
        };
        let mut steps = vec![(chance.number(0..=2000), first(&chance))];
        for _ in 0..chance.number(1..=14) {
            steps.push((pause(&chance), op(&chance, &options)));
        }
        if rivals {
            replace_leader(&chance, &options, &mut steps);
        }
        if chance.per_mille(BLIND) {
            blind(&chance, &mut steps);
        }
        Self { options, steps, ..Self::default() }
    }
}

/// Pauses the leader at a random step until another one has replaced it, then resumes it.
fn replace_leader(chance: &Chance, options: &Options, steps: &mut Vec<(u64, Op)>) {
    let all = u64::try_from(steps.len()).unwrap_or_default();
    let at = usize::try_from(chance.number(1..=all)).unwrap_or(1);
    let still = chance.number(STILL.0..=STILL.1);
    let before = chance.number(0..=still);
    let meanwhile = [
        (chance.number(0..=400), Op::PauseLeader),
        (before, op(chance, options)),
        (still - before, Op::Resume),
    ];
    steps.splice(at..at, meanwhile);
}

/// From a random step on, watches deliver no events until a random later step.
fn blind(chance: &Chance, steps: &mut Vec<(u64, Op)>) {
    let last = u64::try_from(steps.len()).unwrap_or_default();
    let from = chance.number(0..=last);
    let until = chance.number(from..=last);
    let place = |step: u64| usize::try_from(step).unwrap_or_default();
    steps.insert(place(until), (chance.number(0..=20_000), Op::Release));
    for resource in 1..=2 {
        if chance.per_mille(700) {
            steps.insert(place(from), (0, Op::Hold(resource)));
        }
    }
}

fn first(chance: &Chance) -> Op {
    let mut disks = vec![("root", Value::Null)];
    if chance.per_mille(500) {
        disks.push(("cache", retained(chance)));
    }
    Op::Make(chance.number(0..=5).cast_signed(), policy(chance), disks)
}

fn policy(chance: &Chance) -> &'static str {
    chance.one(&POLICIES).copied().unwrap_or(POLICIES[0])
}

fn retained(chance: &Chance) -> Value {
    let ttl = *chance.one(&["1s", "20s", "10m"]).unwrap_or(&"10m");
    json!({ "onScaleDown": "Retain", "keep": chance.number(0..=2), "ttl": ttl })
}

fn pause(chance: &Chance) -> u64 {
    if chance.per_mille(300) { chance.number(0..=40) } else { chance.number(0..=6000) }
}

fn which(chance: &Chance) -> usize {
    usize::try_from(chance.number(0..=9)).unwrap_or_default()
}

fn one_or_two(chance: &Chance) -> usize {
    if chance.per_mille(500) { 1 } else { 2 }
}

fn op(chance: &Chance, options: &Options) -> Op {
    let which = || which(chance);
    let scale = |most| Op::Scale(chance.number(0..=most).cast_signed());
    match chance.number(0..=149) {
        0..=29 => scale(6),
        30..=37 => Op::DeleteMachine(which()),
        38..=40 => Op::DeleteDisk(which()),
        41..=46 => Op::Cores(chance.number(1..=4).cast_signed()),
        47..=49 => Op::Policy(policy(chance)),
        50..=51 => Op::AddDisk("extra", Value::Null),
        52..=53 => Op::RemoveDisk("cache"),
        54..=56 => Op::Relabel(which()),
        57..=59 => Op::Disown(which()),
        60..=61 => Op::DeletePool(
            chance.one(&["Background", "Foreground", "Orphan"]).copied().unwrap_or("Background"),
        ),
        62 => first(chance),
        63..=67 => Op::Kill(which()),
        68..=71 if options.controllers > 1 => Op::Pause(which()),
        72..=73 => Op::Cut(which()),
        74..=78 => Op::Resume,
        79..=80 => Op::Jump(which(), chance.number(0..=60).cast_signed() - 30),
        81..=86 => Op::Behind(which(), which()),
        87..=90 => Op::Hold(which()),
        91..=94 => Op::Release,
        95..=96 => Op::Coalesce(which()),
        97..=98 => Op::Repeat(which()),
        99..=101 => Op::Break(which(), chance.per_mille(500)),
        102..=103 => Op::Compact,
        104 => Op::Bookmark,
        105..=130 if options.apiservers > 0 => removal(chance),
        131..=134 if options.apiservers > 0 => Op::KillApiserver(which()),
        135..=136 if options.apiservers > 0 => Op::PauseApiserver(which()),
        137..=141 if options.webhook => webhook(chance),
        _ => scale(3),
    }
}

fn removal(chance: &Chance) -> Op {
    let count = if chance.per_mille(600) { 1 } else { chance.number(2..=4) };
    Op::Remove(Removal {
        targets: (0..count).map(|_| which(chance)).collect(),
        first: which(chance),
        pinned: chance.per_mille(400),
        dry_run: chance.per_mille(50),
    })
}

fn webhook(chance: &Chance) -> Op {
    let all = [Service::Works, Service::Works, Service::Down, Service::Hangs, Service::Denies];
    Op::Webhook(chance.one(&all).copied().unwrap_or_default())
}
