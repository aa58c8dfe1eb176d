//! One fault in a scenario.

use std::time::Duration;

use anyhow::{Context, ensure};
use vmpool_e2e::choke::{Asked, Moment, View};
use vmpool_e2e::error::Error;
use vmpool_e2e::poll;
use vmpool_e2e::world::condition::View as Seen;
use vmpool_e2e::world::{DEADLINE, Pool, World};

use crate::ledger::{Ledger, Mark};
use crate::story::{Prepared, Story, work};
use crate::troupe::Troupe;

/// How long a scenario may make no progress because of incomplete watches, before they are released. Most need no
/// release.
const STALL: Duration = Duration::from_secs(2);

/// The watched resources.
pub(crate) const WATCHED: [&str; 4] =
    ["virtualmachinepools", "virtualmachines", "virtualdisks", "virtualmachineblockdeviceattachments"];

/// The fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The controller is killed at a write.
    Crash(Point, Moment),
    /// Its watches of these resources have this view.
    View(&'static [&'static str], View),
}

/// A write in a scenario: method, resource, and its index among the writes with both. The index among all writes would
/// vary, because the number of status writes depends on the timing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    /// Method and resource, such as `PATCH virtualmachinepools/status`.
    pub(crate) what: String,
    /// The number of such writes before it.
    pub(crate) number: usize,
}

impl Point {
    /// All writes of a scenario.
    pub(crate) fn all(writes: &[Asked]) -> Vec<Self> {
        let mut seen: Vec<Self> = Vec::new();
        for what in writes.iter().map(short) {
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

impl Trial {
    /// The name in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Crash(point, moment) => format!("dies {} {point}", format!("{moment:?}").to_lowercase()),
            Self::View(resources, view) if resources.len() == WATCHED.len() => format!("all are {view:?}"),
            Self::View(resources, view) => format!("{} are {view:?}", resources.join(", ")),
        }
    }
}

/// Method and resource, including the subresource.
fn short(asked: &Asked) -> String {
    let path = asked.path.split('?').next().unwrap_or_default();
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
    let (resource, subresource) = (parts.next().unwrap_or_default(), parts.nth(1));
    let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
    format!("{} {resource}{subresource}", asked.method)
}

/// A scenario without faults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plain {
    /// Its writes, in order.
    pub(crate) writes: Vec<Asked>,
    /// Its effective writes, without the status.
    pub(crate) ledger: Ledger,
}

/// The result of a trial without a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The fault occurred.
    Happened,
    /// The scenario ended before the fault. It has fewer writes if the status changes faster.
    TooLate,
}

/// Runs a scenario without faults.
pub(crate) async fn tell(
    world: &World,
    troupe: &Troupe,
    story: Story,
    prepared: &Prepared<'_>,
) -> anyhow::Result<Plain> {
    troupe.rests().await?;
    let mark = Mark::now(world).await?;
    troupe.forget();
    let pool = story.begin(prepared).await?;
    pool.until_within(story.end(prepared), 2 * DEADLINE).await?;
    troupe.rests().await?;
    let writes = troupe.writes();
    story.finish(prepared, &pool).await?;
    thrifty(&mark, world).await?;
    Ok(Plain { writes, ledger: mark.ledger(world)? })
}

/// Runs a scenario with a fault. It must reach the same final state, without additional writes.
pub(crate) async fn disturb(
    (world, troupe): (&World, &Troupe),
    story: Story,
    trial: &Trial,
    prepared: &Prepared<'_>,
    plain: &Plain,
) -> anyhow::Result<Outcome> {
    troupe.rests().await?;
    let mark = Mark::now(world).await?;
    troupe.forget();
    let outcome = match trial {
        Trial::Crash(point, moment) => {
            let Point { what, number } = point.clone();
            troupe.doom(move |asked| work(asked) && short(asked) == what, number, *moment);
            let pool = story.begin(prepared).await?;
            let outcome = dies((world, troupe), story, prepared, &pool).await?;
            if story == Story::Deleted {
                // While no controller is running.
                story.finish(prepared, &pool).await?;
                troupe.go_on().await?;
            } else {
                troupe.go_on().await?;
                story.finish(prepared, &pool).await?;
            }
            outcome
        }
        Trial::View(resources, view) => {
            troupe.show(resources, *view);
            let pool = story.begin(prepared).await?;
            // The program itself detects a dead connection after 50 s.
            if *view != View::Forgotten {
                stalls(story, prepared, &pool).await?;
                troupe.release();
            }
            pool.until_within(story.end(prepared), 2 * DEADLINE).await?;
            troupe.release();
            listed(troupe, resources).await?;
            story.finish(prepared, &pool).await?;
            Outcome::Happened
        }
    };
    troupe.rests().await?;
    troupe.revive().await?;
    thrifty(&mark, world).await?;
    let ledger = mark.ledger(world)?;
    let excess = ledger.beyond(&plain.ledger, |what| allowed((story, trial), what));
    ensure!(excess.is_empty(), "{}; all writes: {ledger}", excess.join("; "));
    Ok(outcome)
}

/// Checks that writes on pools change something.
async fn thrifty(mark: &Mark, world: &World) -> anyhow::Result<()> {
    /// On a busy host, a status whose response was late may be written again.
    const LOST: usize = 1;
    let vain = mark.in_vain(world).await?;
    ensure!(vain <= LOST, "{vain} writes on the pool changed nothing");
    Ok(())
}

/// The number of additional writes that are allowed for a key.
///
/// A new leader does not know which names of its predecessor's range were used, so it reserves a new range. The
/// aggregated API or the controller deletes a target of a targeted removal, whichever is first.
fn allowed((story, trial): (Story, &Trial), what: &str) -> usize {
    let range = matches!(trial, Trial::Crash(..)) && what == "patch virtualmachinepools";
    let named = story == Story::Removal && what == "delete virtualmachines";
    usize::from(range || named)
}

/// Waits until the controller is killed, or the scenario ends.
async fn dies(
    (world, troupe): (&World, &Troupe),
    story: Story,
    prepared: &Prepared<'_>,
    pool: &Pool<'_>,
) -> anyhow::Result<Outcome> {
    let end = story.end(prepared);
    let what = || "the controller is killed or has finished".to_owned();
    let outcome = poll::until(what, DEADLINE, async || {
        if troupe.has_lost_one() {
            return Ok(Ok(Outcome::Happened));
        }
        if !end.holds(Seen { state: world.recorder().history().state(), uid: pool.uid() }) {
            return Ok(Err(format!("the controller was not killed, and not {end}")));
        }
        troupe.rests().await.map_err(|error| unexpected(&error))?;
        Ok(Ok(if troupe.has_lost_one() { Outcome::Happened } else { Outcome::TooLate }))
    });
    let outcome = outcome.await.context("waiting for the crash of the controller")?;
    troupe.spare();
    Ok(outcome)
}

/// Waits until every resource that must be listed again was listed.
async fn listed(troupe: &Troupe, resources: &[&str]) -> anyhow::Result<()> {
    let what = || "expired watches start again with a list".to_owned();
    poll::until(what, DEADLINE, async || {
        let unlisted = troupe.unlisted(resources);
        Ok(if unlisted.is_empty() { Ok(()) } else { Err(format!("no list of {}", unlisted.join(", "))) })
    })
    .await?;
    Ok(())
}

fn unexpected(error: &anyhow::Error) -> Error {
    Error::Unexpected { what: "the controllers have stopped writing".to_owned(), last: format!("{error:#}") }
}

/// Waits until the scenario has reached its final state or makes no progress.
async fn stalls(story: Story, prepared: &Prepared<'_>, pool: &Pool<'_>) -> anyhow::Result<()> {
    match pool.until_within(story.end(prepared), STALL).await {
        Ok(()) | Err(Error::Deadline { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
