//! Selects the trials and runs them: several at a time, each with its own pool.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::Context;
use futures::future::try_join_all;
use futures::{StreamExt, stream};
use vmpool_e2e::choke::{Moment, View};
use vmpool_e2e::error::chain;
use vmpool_e2e::harness;
use vmpool_e2e::world::World;

use crate::story::{Story, all_disks};
use crate::trial::{Outcome, Plain, Point, Trial, WATCHED, disturb, tell};
use crate::troupe::{Successor, Troupe};

/// Number of pools that are prepared at the same time. Their trials run one after another.
const BATCH: usize = 6;

/// Number of concurrent worlds. They mostly wait.
const WORLDS: usize = 10;

/// Which trials run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One crash and one view for each scenario, always the same.
    Sample,
    /// Every crash and every view.
    Everything,
}

impl Extent {
    /// The extent from the environment.
    pub(crate) fn chosen() -> Self {
        if std::env::var("VMPOOL_FAULTS").is_ok_and(|extent| extent == "all") {
            Self::Everything
        } else {
            Self::Sample
        }
    }
}

/// The results of all trials.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Crashes that happened.
    pub(crate) points: usize,
    /// Views that were applied.
    pub(crate) views: usize,
    /// Crashes whose write never came.
    pub(crate) late: usize,
    /// Violations with the names of their trials.
    pub(crate) violations: Vec<String>,
}

impl Tally {
    fn count(&mut self, trial: &Trial, outcome: Outcome) {
        match (trial, outcome) {
            (Trial::Crash(..), Outcome::Happened) => self.points += 1,
            (Trial::Crash(..), Outcome::TooLate) => self.late += 1,
            (Trial::View(..), _) => self.views += 1,
        }
    }

    fn add(mut self, other: Self) -> Self {
        self.points += other.points;
        self.views += other.views;
        self.late += other.late;
        self.violations.extend(other.violations);
        self
    }
}

/// Runs all trials of the extent. If `VMPOOL_ONLY` is set, only those whose name contains its words.
pub(crate) async fn explore(extent: Extent) -> Tally {
    let begun = Instant::now();
    let jobs: Vec<(Story, Successor)> = match extent {
        Extent::Sample => Story::ALL.into_iter().zip(Successor::BOTH.into_iter().cycle()).collect(),
        Extent::Everything => Story::ALL
            .into_iter()
            .flat_map(|story| Successor::BOTH.map(|successor| (story, successor)))
            .collect(),
    };
    let jobs = jobs.into_iter().map(|(story, successor)| Explorer { story, successor, extent }.explore());
    let tally = stream::iter(jobs)
        .buffer_unordered(WORLDS)
        .fold(Tally::default(), async |all, some| all.add(some))
        .await;
    let Tally { points, views, late, violations } = &tally;
    for violation in violations {
        println!("{violation}\n");
    }
    println!(
        "crashes: {points} points, {views} views, {} violations, in {:.0?} ({late} points were too late to happen)",
        violations.len(),
        begun.elapsed()
    );
    tally
}

/// The trials of one scenario with one kind of successor.
struct Explorer {
    story: Story,
    successor: Successor,
    extent: Extent,
}

impl Explorer {
    async fn explore(self) -> Tally {
        let mut tally = Tally::default();
        let mut plain = None;
        let mut left = VecDeque::new();
        loop {
            let result = self.batch(&mut plain, &mut left, &mut tally).await;
            if let Err(violation) = result {
                let name = format!("{}, {}", self.story.name(), self.successor.name());
                tally.violations.push(format!("{name}: {violation}"));
                if plain.is_none() {
                    // There is no reference run to compare with.
                    return tally;
                }
            }
            if left.is_empty() {
                return tally;
            }
        }
    }

    /// Runs some of the remaining trials in a new world, so that a violation does not affect other trials.
    async fn batch(
        &self,
        plain: &mut Option<Plain>,
        left: &mut VecDeque<Trial>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let installation = harness::choked().await.map_err(|error| chain(&error))?;
        let name = format!("{} {}", self.story.name(), self.successor.name());
        let world = World::start(&name, installation, 0).await.map_err(|error| chain(&error))?;
        let mut current = "without faults".to_owned();
        let tried = self.try_some(&world, &mut current, (plain, left), tally).await;
        let ended = match tried {
            Ok(()) => {
                "at the end".clone_into(&mut current);
                self.end(&world).await
            }
            Err(error) => Err(error),
        };
        ended.map_err(|error| {
            world.cluster().keep_directory();
            format!("{current}: {}\n{}", chain(error.as_ref()), world.report())
        })
    }

    async fn try_some(
        &self,
        world: &World,
        current: &mut String,
        (plain, left): (&mut Option<Plain>, &mut VecDeque<Trial>),
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let troupe = Troupe::start(world, self.successor).await?;
        let count = match (self.extent, &*plain) {
            (Extent::Sample, _) => 3,
            (Extent::Everything, None) => 1,
            (Extent::Everything, Some(_)) => left.len().min(BATCH),
        };
        let names = (0..count).map(|place| format!("p{place}"));
        let prepared = names.map(async |name| self.story.prepare(world, &name).await);
        let mut prepared = try_join_all(prepared).await.context("making pools ready")?.into_iter();
        if plain.is_none() {
            let first = prepared.next().context("there is a prepared pool")?;
            let told = tell(world, &troupe, self.story, &first).await?;
            tracing::info!(story = self.story.name(), writes = told.writes.len(), costs = %told.ledger, "plain");
            left.extend(self.trials(&told));
            *plain = Some(told);
        }
        let Some(plain) = plain else { return Ok(()) };
        for prepared in prepared {
            let Some(trial) = left.pop_front() else { break };
            *current = trial.name();
            let outcome = disturb((world, &troupe), self.story, &trial, &prepared, plain).await?;
            tally.count(&trial, outcome);
            tracing::info!(story = self.story.name(), trial = %current, ?outcome, "tried");
        }
        Ok(())
    }

    /// Waits until the world has settled, and deletes the pools without leftovers.
    async fn end(&self, world: &World) -> anyhow::Result<()> {
        world.settles().await?;
        world.clear().await?;
        let disks = all_disks(world).await?;
        anyhow::ensure!(disks == 0, "{disks} disks remain");
        world.stop_controllers().await?;
        world.delete_namespace().await?;
        Ok(())
    }

    fn trials(&self, plain: &Plain) -> Vec<Trial> {
        let trials = match self.extent {
            Extent::Sample => self.sample(),
            Extent::Everything => self.everything(plain),
        };
        let only = std::env::var("VMPOOL_ONLY").unwrap_or_default();
        let name =
            |trial: &Trial| format!("{}, {}: {}", self.story.name(), self.successor.name(), trial.name());
        trials.into_iter().filter(|trial| name(trial).contains(&only)).collect()
    }

    fn sample(&self) -> Vec<Trial> {
        let (what, number) = self.story.hinge();
        let hinge = Point { what: what.to_owned(), number };
        let (moment, view) = match self.story {
            Story::Up => (Moment::After, View::Behind(3)),
            Story::Down => (Moment::Before, View::Lost(2)),
            Story::Removal => (Moment::After, View::Silent),
            Story::Rollout => (Moment::After, View::Expired(1)),
            Story::TemplateRemoved => (Moment::Before, View::Behind(1)),
            Story::Collection => (Moment::After, View::Closed(1)),
            Story::Lost => (Moment::After, View::Refused),
            Story::Deleted => (Moment::Before, View::Lost(1)),
            Story::HandOut => (Moment::After, View::Behind(2)),
            Story::Growth => (Moment::Before, View::Twice),
        };
        vec![Trial::Crash(hinge, moment), Trial::View(&WATCHED, view)]
    }

    fn everything(&self, plain: &Plain) -> Vec<Trial> {
        let points = Point::all(&plain.writes).into_iter();
        let crashes = points.flat_map(|point| Moment::BOTH.map(|moment| Trial::Crash(point.clone(), moment)));
        // The views do not depend on the successor, so one kind is enough.
        let views = if self.successor == Successor::Restarted { views() } else { Vec::new() };
        crashes.chain(views).collect()
    }
}

/// Every view, of each resource and of all. No scenario attaches disks by hand, so the watch of attachments can only
/// break.
fn views() -> Vec<Trial> {
    const ALONE: [&[&str]; 4] = [
        &["virtualmachinepools"],
        &["virtualmachines"],
        &["virtualdisks"],
        &["virtualmachineblockdeviceattachments"],
    ];
    let breaking = [View::Closed(0), View::Expired(0), View::Refused];
    let lagging = [
        View::Behind(1),
        View::Behind(3),
        View::Behind(8),
        View::Silent,
        View::Twice,
        View::Closed(2),
        View::Expired(2),
        View::Lost(1),
        View::Lost(3),
    ];
    let everything: &'static [&'static str] = &WATCHED;
    let mut trials = Vec::new();
    for resources in ALONE.into_iter().chain([everything]) {
        trials.extend(breaking.map(|view| Trial::View(resources, view)));
        if resources != ALONE[3] {
            trials.extend(lagging.map(|view| Trial::View(resources, view)));
        }
    }
    trials.push(Trial::View(everything, View::Forgotten));
    trials
}
