//! `make faults`: random schedules against the real controller on the model.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use parking_lot::Mutex;
use vmpool_sim::exhaustive::stories;
use vmpool_sim::schedule::Schedule;

/// Breaks everything around the real controller, on a model of the API server, and tells what that broke.
#[derive(Debug, Parser)]
struct Options {
    /// How many random schedules.
    #[arg(long, env = "SEEDS", default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, env = "FIRST", default_value_t = 0)]
    first: u64,
    /// Side by side; 0 is one for each processor.
    #[arg(long, env = "JOBS", default_value_t = 0)]
    jobs: usize,
    /// Runs this one seed and prints all that happened.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// Every single fault at every place of eight short stories, in place of random schedules.
    #[arg(long, env = "EXHAUSTIVE")]
    exhaustive: bool,
}

/// How many violations are shrunk and told in full.
const TOLD: usize = 3;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        return alone(seed);
    }
    let begun = Instant::now();
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let schedules: Box<dyn Iterator<Item = (String, Schedule)> + Send> = if options.exhaustive {
        Box::new(disturbed()?.into_iter())
    } else {
        let seeds = options.first..options.first + options.seeds;
        Box::new(seeds.map(|seed| (format!("seed {seed}"), Schedule::random(seed))))
    };
    let (schedules, count) = (Mutex::new(schedules), AtomicU64::new(0));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let Some((name, schedule)) = schedules.lock().next() else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let verdict = schedule.run();
                    if !verdict.wrong.is_empty() {
                        println!("{name}: {}", verdict.wrong.join("; "));
                        found.lock().push((name, schedule));
                    }
                }
            });
        }
    });
    let found = found.into_inner();
    for (name, schedule) in found.iter().take(TOLD) {
        let least = schedule.shrunk();
        println!("\n{name}, shrunk to {} of {} steps:", least.steps.len(), schedule.steps.len());
        println!("{}", least.run().transcript.join("\n"));
    }
    let (count, violations) = (count.into_inner(), found.len());
    println!("faults: {count} schedules, {violations} violations, in {:.1?}", begun.elapsed());
    anyhow::ensure!(violations == 0, "run one of them again with SEED=<seed>");
    Ok(())
}

/// One seed, and all that happened.
fn alone(seed: u64) -> anyhow::Result<()> {
    let schedule = Schedule::random(seed);
    println!("{schedule:?}");
    let verdict = schedule.run();
    println!("{}", verdict.transcript.join("\n"));
    println!("seed {seed}: {} writes, wrong: {:#?}", verdict.writes, verdict.wrong);
    anyhow::ensure!(verdict.wrong.is_empty(), "seed {seed} broke something");
    Ok(())
}

/// All stories with all single faults.
fn disturbed() -> anyhow::Result<Vec<(String, Schedule)>> {
    let mut all = Vec::new();
    for story in stories() {
        let plain = story.plain().run();
        anyhow::ensure!(plain.wrong.is_empty(), "{}, undisturbed: {:?}", story.name, plain.wrong);
        println!("{}: {} writes of the controller", story.name, plain.writes);
        all.extend(story.disturbed(plain.writes));
    }
    Ok(all)
}
