//! One thing that goes wrong in a story.

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

/// How long a story may stand still because its controller sees too little, before that ends. Most go on by themselves.
const STALL: Duration = Duration::from_secs(2);

/// What is watched.
pub(crate) const WATCHED: [&str; 4] =
    ["virtualmachinepools", "virtualmachines", "virtualdisks", "virtualmachineblockdeviceattachments"];

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The controller dies around a write.
    Crash(Point, Moment),
    /// Its watches of these resources see this.
    View(&'static [&'static str], View),
}

/// One of the writes of a story: by method and resource, and its number among those, counted from 0. Its number among all
/// would not do, since the status is written more often in a world that moves slowly.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    /// Such as `PATCH virtualmachinepools/status`.
    pub(crate) what: String,
    /// How many of these come before.
    pub(crate) number: usize,
}

impl Point {
    /// All writes of a story.
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
    /// What it is called in reports.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Crash(point, moment) => format!("dies {} {point}", format!("{moment:?}").to_lowercase()),
            Self::View(resources, view) if resources.len() == WATCHED.len() => format!("all are {view:?}"),
            Self::View(resources, view) => format!("{} are {view:?}", resources.join(", ")),
        }
    }
}

/// Method and resource, subresource included.
fn short(asked: &Asked) -> String {
    let path = asked.path.split('?').next().unwrap_or_default();
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
    let (resource, subresource) = (parts.next().unwrap_or_default(), parts.nth(1));
    let subresource = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
    format!("{} {resource}{subresource}", asked.method)
}

/// A story in which nothing goes wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plain {
    /// Its writes, in their order.
    pub(crate) writes: Vec<Asked>,
    /// Those that had an effect, but for the status.
    pub(crate) ledger: Ledger,
}

/// How a trial ended that broke nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It happened.
    Happened,
    /// The story was over before: it has a write less when the status moves faster.
    TooLate,
}

/// Tells a story in which nothing goes wrong.
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

/// Tells a story in which this goes wrong. It has to end as it does without, with no more writes than it costs.
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
                // While nobody is there.
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
            // A connection that is forgotten is noticed by the program itself, after 50 s.
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
    ensure!(excess.is_empty(), "{}; all of it: {ledger}", excess.join("; "));
    Ok(outcome)
}

/// Writes on pools change something.
async fn thrifty(mark: &Mark, world: &World) -> anyhow::Result<()> {
    /// A status whose answer came too late, on a busy machine, is written again.
    const LOST: usize = 1;
    let vain = mark.in_vain(world).await?;
    ensure!(vain <= LOST, "{vain} writes on the pool changed nothing");
    Ok(())
}

/// What may come besides.
///
/// A leader that has names left over from its predecessor's range cannot know which of them were used, and reserves a
/// range of its own. A machine that is removed by name is deleted by the aggregated API or by the controller, whichever
/// comes first.
fn allowed((story, trial): (Story, &Trial), what: &str) -> usize {
    let range = matches!(trial, Trial::Crash(..)) && what == "patch virtualmachinepools";
    let named = story == Story::Removal && what == "delete virtualmachines";
    usize::from(range || named)
}

/// Waits for the death, or the end.
async fn dies(
    (world, troupe): (&World, &Troupe),
    story: Story,
    prepared: &Prepared<'_>,
    pool: &Pool<'_>,
) -> anyhow::Result<Outcome> {
    let end = story.end(prepared);
    let what = || "the controller dies or is done".to_owned();
    let outcome = poll::until(what, DEADLINE, async || {
        if troupe.has_lost_one() {
            return Ok(Ok(Outcome::Happened));
        }
        if !end.holds(Seen { state: world.recorder().history().state(), uid: pool.uid() }) {
            return Ok(Err(format!("no death, and not {end}")));
        }
        troupe.rests().await.map_err(|error| unexpected(&error))?;
        Ok(Ok(if troupe.has_lost_one() { Outcome::Happened } else { Outcome::TooLate }))
    });
    let outcome = outcome.await.context("waiting for the death of the controller")?;
    troupe.spare();
    Ok(outcome)
}

/// Waits until everything is listed that had to be.
async fn listed(troupe: &Troupe, resources: &[&str]) -> anyhow::Result<()> {
    let what = || "watches that are too old begin anew".to_owned();
    poll::until(what, DEADLINE, async || {
        let unlisted = troupe.unlisted(resources);
        Ok(if unlisted.is_empty() {
            Ok(())
        } else {
            Err(format!("nobody has listed {}", unlisted.join(", ")))
        })
    })
    .await?;
    Ok(())
}

fn unexpected(error: &anyhow::Error) -> Error {
    Error::Unexpected { what: "the controllers rest".to_owned(), last: format!("{error:#}") }
}

/// Waits until the story is at its end, or stands still.
async fn stalls(story: Story, prepared: &Prepared<'_>, pool: &Pool<'_>) -> anyhow::Result<()> {
    match pool.until_within(story.end(prepared), STALL).await {
        Ok(()) | Err(Error::Deadline { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
