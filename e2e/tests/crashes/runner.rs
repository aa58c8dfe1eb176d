//! Selects the trials and runs them: several at a time, each with its own pool.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Context;
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use vmpool_e2e::crash::{Controllers, Coverage, Successor, is_selected};
use vmpool_e2e::harness;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::fault_proxy::{DropPoint, WatchFault};
use vmpool_installation::programs::ControllerOptions;
use vmpool_test_cluster::error::error_with_causes;

use crate::controller_fault::{
    ControllerFault, FaultFreeRun, FaultOutcome, Point, WATCHED, run_with_fault, run_without_faults,
};
use crate::scenario::{CrashScenario, all_disks, is_counted_write};

/// Number of pools that are prepared at the same time. Their trials run one after another.
const BATCH: usize = 6;

/// Number of concurrent worlds. They mostly wait.
const WORLDS: usize = 10;

/// The results of all trials.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Crashes that happened.
    pub(crate) points: usize,
    /// Watch faults that were applied.
    pub(crate) watch_faults: usize,
    /// Crashes whose write never came.
    pub(crate) late: usize,
    /// Violations with the names of their trials.
    pub(crate) violations: Vec<String>,
}

impl Results {
    fn count(&mut self, trial: &ControllerFault, outcome: FaultOutcome) {
        match (trial, outcome) {
            (ControllerFault::Crash(..), FaultOutcome::Happened) => self.points += 1,
            (ControllerFault::Crash(..), FaultOutcome::TooLate) => self.late += 1,
            (ControllerFault::WatchFault(..), _) => self.watch_faults += 1,
        }
    }

    fn add(mut self, other: Self) -> Self {
        self.points += other.points;
        self.watch_faults += other.watch_faults;
        self.late += other.late;
        self.violations.extend(other.violations);
        self
    }
}

/// Runs all trials of the coverage. If `VMPOOL_ONLY` is set, only those whose name contains its words.
pub(crate) async fn run(coverage: Coverage) -> Results {
    let started = Instant::now();
    let jobs: Vec<(CrashScenario, Successor)> = match coverage {
        Coverage::Sample => CrashScenario::ALL.into_iter().zip(Successor::BOTH.into_iter().cycle()).collect(),
        Coverage::All => CrashScenario::ALL
            .into_iter()
            .flat_map(|scenario| Successor::BOTH.map(|successor| (scenario, successor)))
            .collect(),
    };
    let jobs =
        jobs.into_iter().map(|(scenario, successor)| ScenarioRunner { scenario, successor, coverage }.run());
    let results = stream::iter(jobs)
        .buffer_unordered(WORLDS)
        .fold(Results::default(), async |all, some| all.add(some))
        .await;
    let Results { points, watch_faults, late, violations } = &results;
    for violation in violations {
        println!("{violation}\n");
    }
    println!(
        "crashes: {points} points, {watch_faults} watch faults, {} violations, in {:.0?} ({late} points were too late to happen)",
        violations.len(),
        started.elapsed()
    );
    results
}

/// Starts controllers with a short lease, so that a successor takes over soon.
async fn start_controllers(world: &ScenarioWorld, successor: Successor) -> anyhow::Result<Controllers> {
    let mut proxied = Vec::new();
    for place in 0..successor.controllers() {
        let mut options = ControllerOptions::short_lease(world.namespace(), format!("controller-{place}"));
        options.extra = vec!["--request-deadline=1900ms".to_owned(), "--disk-collection-grace=1s".to_owned()];
        proxied.push(world.add_controller_with_proxy(options).await?);
    }
    Ok(Controllers::new(successor, proxied, is_counted_write))
}

/// The trials of one scenario with one kind of successor.
struct ScenarioRunner {
    scenario: CrashScenario,
    successor: Successor,
    coverage: Coverage,
}

impl ScenarioRunner {
    async fn run(self) -> Results {
        let mut results = Results::default();
        let mut fault_free = None;
        let mut remaining = VecDeque::new();
        loop {
            let result = self.batch(&mut fault_free, &mut remaining, &mut results).await;
            if let Err(violation) = result {
                let name = format!("{}, {}", self.scenario.name(), self.successor.name());
                results.violations.push(format!("{name}: {violation}"));
                if fault_free.is_none() {
                    // There is no reference run to compare with.
                    return results;
                }
            }
            if remaining.is_empty() {
                return results;
            }
        }
    }

    /// Runs some of the remaining trials in a new world, so that a violation does not affect other trials.
    async fn batch(
        &self,
        fault_free: &mut Option<FaultFreeRun>,
        remaining: &mut VecDeque<ControllerFault>,
        results: &mut Results,
    ) -> Result<(), String> {
        let installation = harness::with_fault_proxies().await.map_err(|error| error_with_causes(&error))?;
        let name = format!("{} {}", self.scenario.name(), self.successor.name());
        let world =
            ScenarioWorld::start(&name, installation, 0).await.map_err(|error| error_with_causes(&error))?;
        let mut current = "without faults".to_owned();
        let result = self.run_some(&world, &mut current, (fault_free, remaining), results).await;
        let ended = match result {
            Ok(()) => {
                "at the end".clone_into(&mut current);
                self.end(&world).await
            }
            Err(error) => Err(error),
        };
        ended.map_err(|error| {
            world.cluster().keep_directory();
            format!("{current}: {}\n{}", error_with_causes(error.as_ref()), world.report())
        })
    }

    async fn run_some(
        &self,
        world: &ScenarioWorld,
        current: &mut String,
        (fault_free, remaining): (&mut Option<FaultFreeRun>, &mut VecDeque<ControllerFault>),
        results: &mut Results,
    ) -> anyhow::Result<()> {
        let controllers = start_controllers(world, self.successor).await?;
        let count = match (self.coverage, &*fault_free) {
            (Coverage::Sample, _) => 3,
            (Coverage::All, None) => 1,
            (Coverage::All, Some(_)) => remaining.len().min(BATCH),
        };
        let names = (0..count).map(|place| format!("p{place}"));
        let prepared = names.map(async |name| self.scenario.prepare(world, &name).await);
        let mut prepared = try_join_all(prepared).await.context("making pools ready")?.into_iter();
        if fault_free.is_none() {
            let first = prepared.next().context("there is a prepared pool")?;
            let run = run_without_faults(world, &controllers, self.scenario, &first).await?;
            tracing::info!(scenario = self.scenario.name(), writes = run.writes.len(), costs = %run.write_counts, "plain");
            remaining.extend(self.trials(&run));
            *fault_free = Some(run);
        }
        let Some(fault_free) = fault_free else { return Ok(()) };
        for prepared in prepared {
            let Some(trial) = remaining.pop_front() else { break };
            *current = trial.name();
            let outcome =
                run_with_fault((world, &controllers), self.scenario, &trial, &prepared, fault_free).await?;
            results.count(&trial, outcome);
            tracing::info!(scenario = self.scenario.name(), trial = %current, ?outcome, "tried");
        }
        Ok(())
    }

    /// Waits until the world has settled, and deletes the pools without leftovers.
    async fn end(&self, world: &ScenarioWorld) -> anyhow::Result<()> {
        world.settles().await?;
        world.clear().await?;
        let disks = all_disks(world).await?;
        anyhow::ensure!(disks == 0, "{disks} disks remain");
        world.stop_controllers().await?;
        world.delete_namespace().await?;
        Ok(())
    }

    fn trials(&self, fault_free: &FaultFreeRun) -> Vec<ControllerFault> {
        let trials = match self.coverage {
            Coverage::Sample => self.sample(),
            Coverage::All => self.all(fault_free),
        };
        let name = |trial: &ControllerFault| {
            format!("{}, {}: {}", self.scenario.name(), self.successor.name(), trial.name())
        };
        trials.into_iter().filter(|trial| is_selected(&name(trial))).collect()
    }

    fn sample(&self) -> Vec<ControllerFault> {
        let (what, number) = self.scenario.key_write();
        let key_write = Point { what: what.to_owned(), number };
        let (drop_point, fault) = match self.scenario {
            CrashScenario::ScaleUp => (DropPoint::After, WatchFault::Behind(3)),
            CrashScenario::ScaleDown => (DropPoint::Before, WatchFault::Lost(2)),
            CrashScenario::Removal => (DropPoint::After, WatchFault::Silent),
            CrashScenario::Rollout => (DropPoint::After, WatchFault::Expired(1)),
            CrashScenario::RemoveTemplate => (DropPoint::Before, WatchFault::Behind(1)),
            CrashScenario::CollectDisks => (DropPoint::After, WatchFault::Closed(1)),
            CrashScenario::LoseMachine => (DropPoint::After, WatchFault::Refused),
            CrashScenario::DeletePool => (DropPoint::Before, WatchFault::Lost(1)),
            CrashScenario::Allocate => (DropPoint::After, WatchFault::Behind(2)),
            CrashScenario::Expand => (DropPoint::Before, WatchFault::Duplicated),
        };
        vec![ControllerFault::Crash(key_write, drop_point), ControllerFault::WatchFault(&WATCHED, fault)]
    }

    fn all(&self, fault_free: &FaultFreeRun) -> Vec<ControllerFault> {
        let points = Point::all(&fault_free.writes).into_iter();
        let crashes = points.flat_map(|point| {
            DropPoint::BOTH.map(|drop_point| ControllerFault::Crash(point.clone(), drop_point))
        });
        // The watch faults do not depend on the successor, so one kind is enough.
        let watch_faults = if self.successor == Successor::Restarted { watch_faults() } else { Vec::new() };
        crashes.chain(watch_faults).collect()
    }
}

/// Every watch fault, of each resource and of all. No scenario attaches disks by hand, so the watch of
/// attachments can only break.
fn watch_faults() -> Vec<ControllerFault> {
    const ALONE: [&[&str]; 4] = [
        &["virtualmachinepools"],
        &["virtualmachines"],
        &["virtualdisks"],
        &["virtualmachineblockdeviceattachments"],
    ];
    let breaking = [WatchFault::Closed(0), WatchFault::Expired(0), WatchFault::Refused];
    let lagging = [
        WatchFault::Behind(1),
        WatchFault::Behind(3),
        WatchFault::Behind(8),
        WatchFault::Silent,
        WatchFault::Duplicated,
        WatchFault::Closed(2),
        WatchFault::Expired(2),
        WatchFault::Lost(1),
        WatchFault::Lost(3),
    ];
    let all: &'static [&'static str] = &WATCHED;
    let mut trials = Vec::new();
    for resources in ALONE.into_iter().chain([all]) {
        trials.extend(breaking.map(|fault| ControllerFault::WatchFault(resources, fault)));
        if resources != ALONE[3] {
            trials.extend(lagging.map(|fault| ControllerFault::WatchFault(resources, fault)));
        }
    }
    trials.push(ControllerFault::WatchFault(all, WatchFault::HalfOpen));
    trials
}
