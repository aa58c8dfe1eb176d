//! `make faults`: random fault schedules for the project's programs on the API server model.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use parking_lot::Mutex;
use vmpool_explorer::exhaustive::all_scenarios;
use vmpool_explorer::schedule::Schedule;
use vmpool_invariants::platform::TestedPlatform;

/// Runs the project's programs on a model of the API server with injected faults, and checks the invariants.
#[derive(Debug, Parser)]
struct Options {
    /// The platform of the pools: dvp or kubevirt.
    #[arg(long, env = "PLATFORM", default_value_t)]
    platform: TestedPlatform,
    /// Number of random schedules.
    #[arg(long, env = "SEEDS", default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, env = "FIRST", default_value_t = 0)]
    first: u64,
    /// Schedules to run in parallel; 0 means one per CPU.
    #[arg(long, env = "JOBS", default_value_t = 0)]
    jobs: usize,
    /// Runs only this seed and prints the transcript.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// Runs every single fault at every position of short scenarios, instead of random schedules.
    #[arg(long, env = "EXHAUSTIVE")]
    exhaustive: bool,
    /// With `--exhaustive`: runs only schedules whose name contains this text.
    #[arg(long, env = "ONLY", default_value = "")]
    only: String,
}

/// Prints the progress after this number of schedules.
const PROGRESS: u64 = 1000;
/// Maximum number of violations that are shrunk and printed in full.
const MAX_PRINTED: usize = 3;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(seed) = options.seed {
        return alone(options.platform, seed);
    }
    let begun = Instant::now();
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let schedules: Box<dyn Iterator<Item = (String, Schedule)> + Send> = if options.exhaustive {
        let all = with_faults(options.platform)?.into_iter();
        Box::new(all.filter(|(name, _)| name.contains(&options.only)))
    } else {
        let seeds = options.first..options.first + options.seeds;
        Box::new(seeds.map(|seed| (format!("seed {seed}"), Schedule::random(options.platform, seed))))
    };
    let schedules = Mutex::new(schedules);
    let (count, former_leader_resumed) = (AtomicU64::new(0), AtomicU64::new(0));
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let Some((name, schedule)) = schedules.lock().next() else { return };
                    let verdict = schedule.run();
                    let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(PROGRESS) {
                        eprintln!("{done} schedules");
                    }
                    former_leader_resumed
                        .fetch_add(u64::from(verdict.former_leader_resumed), Ordering::Relaxed);
                    if !verdict.violations.is_empty() {
                        println!("violation: {name}: {}", verdict.violations.join("; "));
                        found.lock().push((name, schedule));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, schedule) in found.iter().take(MAX_PRINTED) {
        let smallest = schedule.shrink();
        println!("\n{name}, shrunk to {} of {} steps:", smallest.steps.len(), schedule.steps.len());
        print(&smallest);
    }
    let (count, former_leader_resumed, violations) =
        (count.into_inner(), former_leader_resumed.into_inner(), found.len());
    println!("{former_leader_resumed} of them with a replaced leader that resumed");
    println!("faults: {count} schedules, {violations} violations, in {:.1?}", begun.elapsed());
    anyhow::ensure!(violations == 0, "run one of them again with SEED=<seed>");
    Ok(())
}

/// Prints a schedule, its transcript and its violations.
fn print(schedule: &Schedule) -> bool {
    println!("{schedule:?}");
    let verdict = schedule.run_with_transcript();
    println!("{}", verdict.transcript.join("\n"));
    println!("{} writes, {} reads, wrong: {:#?}", verdict.writes, verdict.reads, verdict.violations);
    verdict.violations.is_empty()
}

/// Runs one seed and prints the transcript.
fn alone(platform: TestedPlatform, seed: u64) -> anyhow::Result<()> {
    anyhow::ensure!(print(&Schedule::random(platform, seed)), "seed {seed} violates an invariant");
    Ok(())
}

/// Every scenario with every single fault.
fn with_faults(platform: TestedPlatform) -> anyhow::Result<Vec<(String, Schedule)>> {
    let mut all = Vec::new();
    for scenario in all_scenarios(platform) {
        let (before, plain) = (scenario.before().run(), scenario.plain().run());
        anyhow::ensure!(
            plain.violations.is_empty(),
            "{}, without faults: {:?}",
            scenario.name,
            plain.violations
        );
        let with_faults = scenario.with_faults(&before, &plain);
        let (writes, reads) =
            (plain.writes.saturating_sub(before.writes), plain.reads.saturating_sub(before.reads));
        println!("{}: {writes} writes, {reads} reads, {} schedules", scenario.name, with_faults.len());
        all.extend(with_faults);
    }
    Ok(all)
}
