//! One fault in a scenario.

use std::time::Duration;

use anyhow::{Context, ensure};
use vmpool_e2e::crash::Controllers;
use vmpool_e2e::world::condition::PoolView as ConditionView;
use vmpool_e2e::world::{DEADLINE, PoolHandle, ScenarioWorld};
use vmpool_installation::fault_proxy::{DropPoint, RequestLine, WatchFault};
use vmpool_test_cluster::error::Error;
use vmpool_test_cluster::poll;

use crate::scenario::{CrashScenario, Prepared, is_counted_write};
use crate::write_counts::{HistoryPosition, WriteCounts};

/// How long a scenario may make no progress because of incomplete watches, before they are released. Most
/// need no release.
const STALL: Duration = Duration::from_secs(2);

/// The watched resources.
pub(crate) const WATCHED: [&str; 4] =
    ["virtualmachinepools", "virtualmachines", "virtualdisks", "virtualmachineblockdeviceattachments"];

/// The fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControllerFault {
    /// The controller is killed at a write.
    Crash(Point, DropPoint),
    /// Its watches of these resources have this fault.
    WatchFault(&'static [&'static str], WatchFault),
}

/// A write in a scenario: method, resource, and its index among the writes with both. The index among all
/// writes would vary, because the number of status writes depends on the timing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    /// Method and resource, such as `PATCH virtualmachinepools/status`.
    pub(crate) what: String,
    /// The number of such writes before it.
    pub(crate) number: usize,
}

impl Point {
    /// All writes of a scenario.
    pub(crate) fn all(writes: &[RequestLine]) -> Vec<Self> {
        let mut seen: Vec<Self> = Vec::new();
        for what in writes.iter().map(method_and_resource) {
            let number = seen.iter().filter(|point| point.what == what).count();
            seen.push(Self { what, number });
        }
        seen
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.number)
    }
}

impl ControllerFault {
    /// The name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Crash(point, drop_point) => {
                format!("killed {} {point}", format!("{drop_point:?}").to_lowercase())
            }
            Self::WatchFault(resources, fault) if resources.len() == WATCHED.len() => {
                format!("all are {fault:?}")
            }
            Self::WatchFault(resources, fault) => format!("{} are {fault:?}", resources.join(", ")),
        }
    }
}

/// Method and resource, including the subresource.
fn method_and_resource(request: &RequestLine) -> String {
    let path = request.path.split('?').next().unwrap_or_default();
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
    let (resource, subresource) = (parts.next().unwrap_or_default(), parts.nth(1));
    let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
    format!("{} {resource}{subresource}", request.method)
}

/// A scenario without faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultFreeRun {
    /// Its writes, in order.
    pub(crate) writes: Vec<RequestLine>,
    /// Its effective writes, without the status.
    pub(crate) write_counts: WriteCounts,
}

/// The result of a trial without a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultOutcome {
    /// The fault occurred.
    Happened,
    /// The scenario ended before the fault. It has fewer writes if the status changes faster.
    TooLate,
}

/// Runs a scenario without faults.
pub(crate) async fn run_without_faults(
    world: &ScenarioWorld,
    controllers: &Controllers,
    scenario: CrashScenario,
    prepared: &Prepared<'_>,
) -> anyhow::Result<FaultFreeRun> {
    controllers.until_quiet().await?;
    let mark = HistoryPosition::now(world).await?;
    controllers.clear_requests();
    let pool = scenario.begin(prepared).await?;
    pool.until_within(scenario.end(prepared), 2 * DEADLINE).await?;
    controllers.until_quiet().await?;
    let writes = controllers.writes();
    scenario.finish(prepared, &pool).await?;
    no_writes_without_effect(&mark, world).await?;
    Ok(FaultFreeRun { writes, write_counts: mark.write_counts(world)? })
}

/// Runs a scenario with a fault. It must reach the same final state, without additional writes.
pub(crate) async fn run_with_fault(
    (world, controllers): (&ScenarioWorld, &Controllers),
    scenario: CrashScenario,
    trial: &ControllerFault,
    prepared: &Prepared<'_>,
    fault_free: &FaultFreeRun,
) -> anyhow::Result<FaultOutcome> {
    controllers.until_quiet().await?;
    let mark = HistoryPosition::now(world).await?;
    controllers.clear_requests();
    let outcome = match trial {
        ControllerFault::Crash(point, drop_point) => {
            let Point { what, number } = point.clone();
            controllers.kill_at(
                move |request| is_counted_write(request) && method_and_resource(request) == what,
                number,
                *drop_point,
            );
            let pool = scenario.begin(prepared).await?;
            let outcome = until_killed((world, controllers), scenario, prepared, &pool).await?;
            if scenario == CrashScenario::DeletePool {
                // While no controller is running.
                scenario.finish(prepared, &pool).await?;
                controllers.start_successor().await?;
            } else {
                controllers.start_successor().await?;
                scenario.finish(prepared, &pool).await?;
            }
            outcome
        }
        ControllerFault::WatchFault(resources, fault) => {
            controllers.set_watch_fault(resources, *fault);
            let pool = scenario.begin(prepared).await?;
            // The program itself detects a dead connection after 50 s.
            if *fault != WatchFault::HalfOpen {
                until_stalled(scenario, prepared, &pool).await?;
                controllers.release();
            }
            pool.until_within(scenario.end(prepared), 2 * DEADLINE).await?;
            controllers.release();
            until_listed(controllers, resources).await?;
            scenario.finish(prepared, &pool).await?;
            FaultOutcome::Happened
        }
    };
    controllers.until_quiet().await?;
    controllers.restart_killed().await?;
    no_writes_without_effect(&mark, world).await?;
    let write_counts = mark.write_counts(world)?;
    let excess = write_counts.excess_over(&fault_free.write_counts, |what| allowed((scenario, trial), what));
    ensure!(excess.is_empty(), "{}; all writes: {write_counts}", excess.join("; "));
    Ok(outcome)
}

/// Checks that writes on pools change something.
async fn no_writes_without_effect(mark: &HistoryPosition, world: &ScenarioWorld) -> anyhow::Result<()> {
    /// On a busy host, a status whose response was late may be written again.
    const LOST: usize = 1;
    let without_effect = mark.writes_without_effect(world).await?;
    ensure!(without_effect <= LOST, "{without_effect} writes on the pool changed nothing");
    Ok(())
}

/// The number of additional writes that are allowed for a key.
///
/// A new leader does not know which names of its predecessor's range were used, so it reserves a new range.
/// The aggregated API or the controller deletes a target of a targeted removal, whichever is first.
fn allowed((scenario, trial): (CrashScenario, &ControllerFault), what: &str) -> usize {
    let range = matches!(trial, ControllerFault::Crash(..)) && what == "patch virtualmachinepools";
    let named = scenario == CrashScenario::Removal && what == "delete virtualmachines";
    usize::from(range || named)
}

/// Waits until the controller is killed, or the scenario ends.
async fn until_killed(
    (world, controllers): (&ScenarioWorld, &Controllers),
    scenario: CrashScenario,
    prepared: &Prepared<'_>,
    pool: &PoolHandle<'_>,
) -> anyhow::Result<FaultOutcome> {
    let end = scenario.end(prepared);
    let what = || "the controller is killed or has finished".to_owned();
    let outcome = poll::poll_until(what, DEADLINE, async || {
        if controllers.has_killed() {
            return Ok(Ok(FaultOutcome::Happened));
        }
        if !end.holds(ConditionView { state: world.recorder().history().state(), uid: pool.uid() }) {
            return Ok(Err(format!("the controller was not killed, and not {end}")));
        }
        controllers.until_quiet().await?;
        Ok(Ok(if controllers.has_killed() { FaultOutcome::Happened } else { FaultOutcome::TooLate }))
    });
    let outcome = outcome.await.context("waiting for the crash of the controller")?;
    controllers.remove_traps();
    Ok(outcome)
}

/// Waits until every resource that must be listed again was listed.
async fn until_listed(controllers: &Controllers, resources: &[&str]) -> anyhow::Result<()> {
    let what = || "expired watches start again with a list".to_owned();
    poll::poll_until(what, DEADLINE, async || {
        let unlisted = controllers.unlisted(resources);
        Ok(if unlisted.is_empty() { Ok(()) } else { Err(format!("no list of {}", unlisted.join(", "))) })
    })
    .await?;
    Ok(())
}

/// Waits until the scenario has reached its final state or makes no progress.
async fn until_stalled(
    scenario: CrashScenario,
    prepared: &Prepared<'_>,
    pool: &PoolHandle<'_>,
) -> anyhow::Result<()> {
    match pool.until_within(scenario.end(prepared), STALL).await {
        Ok(()) | Err(Error::Deadline { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
