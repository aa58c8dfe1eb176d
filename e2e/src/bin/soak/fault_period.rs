//! Storms: random operations and faults, one after another and in parallel.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use vmpool_api::labels;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_invariants::object::TestedKind;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::{Error, Result};

use crate::fault::{ControlPlaneOutage, FaultRepair, SoakFault};
use crate::operation::{UserOperation, any_pool};
use crate::tally::SoakTally;

/// Interval at which the invariants are checked during a storm.
const CHECK: Duration = Duration::from_secs(6);

/// Longest pause between two operations, in milliseconds.
const PAUSE: u64 = 400;

/// Of 1000 steps, this many inject a fault.
const FAULTS: u64 = 180;

/// Time between two outages, in seconds.
const BETWEEN_OUTAGES: std::ops::RangeInclusive<u64> = 12..=35;

/// A period of operations and faults.
pub(crate) struct FaultPeriod<'w> {
    world: &'w ScenarioWorld,
    random: &'w SeededRandom,
    /// The pending repairs: time, affected component, repair.
    mends: Vec<(Instant, String, FaultRepair<'w>)>,
    next_outage: Instant,
    checked: Instant,
    /// Pools that were orphaned, by UID.
    orphaned: BTreeSet<String>,
}

impl<'w> FaultPeriod<'w> {
    /// A storm before its first step.
    pub(crate) fn new(world: &'w ScenarioWorld, random: &'w SeededRandom) -> Self {
        let now = Instant::now();
        let next_outage = now + Duration::from_secs(random.number(BETWEEN_OUTAGES));
        Self { world, random, mends: Vec::new(), next_outage, checked: now, orphaned: BTreeSet::new() }
    }

    /// Runs the storm, and repairs all faults at the end.
    ///
    /// # Errors
    /// [`Error::Violations`], and errors of the harness.
    pub(crate) async fn run_and_repair(&mut self, duration: Duration, tally: &mut SoakTally) -> Result<()> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.mend(Some(Instant::now()), tally).await?;
            if Instant::now() > self.next_outage {
                self.outage(tally).await?;
            } else if self.random.per_mille(FAULTS) {
                self.fault(tally).await?;
            } else {
                self.operate(tally).await;
            }
            self.respect_orphans();
            if self.checked.elapsed() > CHECK {
                self.world.check().await?;
                self.checked = Instant::now();
            }
            tokio::time::sleep(self.random.delay(PAUSE)).await;
        }
        self.mend(None, tally).await?;
        self.world.check().await
    }

    async fn operate(&mut self, tally: &mut SoakTally) {
        let (operation, design) = (UserOperation::random(self.random), any_pool(self.world, self.random));
        let uid = self
            .world
            .recorder()
            .state()
            .named(TestedKind::Pool, design.name)
            .map(|pool| pool.uid().to_owned());
        let answer = operation.perform(self.world, design, self.random).await;
        if let (UserOperation::DeletePool(vmpool_e2e::world::PoolDeletion::Orphan), Some(uid)) =
            (operation, uid)
        {
            self.orphaned.insert(uid);
        }
        tally.operation(format_args!("{} {operation}", design.name), answer);
    }

    async fn fault(&mut self, tally: &mut SoakTally) -> Result<()> {
        let fault = SoakFault::random(self.world.platform(), self.random);
        let victim = fault.victim();
        if self.mends.iter().any(|(_, other, _)| *other == victim) {
            return Ok(());
        }
        if let Some((lasts, mend)) = fault.happen(self.world, self.random).await? {
            tally.fault(format_args!("{fault:?} for {lasts:?}"));
            self.mends.push((Instant::now() + lasts, victim, mend));
        }
        Ok(())
    }

    /// Runs an outage of the control plane while operations continue.
    async fn outage(&mut self, tally: &mut SoakTally) -> Result<()> {
        // Paused processes resume first: their effects could not be distinguished from those of the outage,
        // and repairs need a working API server.
        self.mend(None, tally).await?;
        let outage = ControlPlaneOutage::random(self.random);
        tally.fault(format_args!("{outage:?}"));
        let count = self.random.number(1..=4);
        for _ in 0..count {
            self.operate(tally).await;
        }
        let world = self.world;
        let random = self.random;
        let users = async {
            for _ in 0..count {
                tokio::time::sleep(Duration::from_millis(random.number(50..=1500))).await;
                self.operate(tally).await;
            }
        };
        let (passed, ()) = futures::join!(outage.pass(world, random), users);
        passed?;
        tally.note("-- the outage has ended");
        self.next_outage = Instant::now() + Duration::from_secs(self.random.number(BETWEEN_OUTAGES));
        Ok(())
    }

    /// Repairs the faults whose time is over, or all faults if `now` is `None`.
    async fn mend(&mut self, now: Option<Instant>, tally: &mut SoakTally) -> Result<()> {
        let is_due = |due: Instant| now.is_none_or(|now| due <= now);
        let (due, later) = std::mem::take(&mut self.mends).into_iter().partition(|(due, ..)| is_due(*due));
        self.mends = later;
        let due: Vec<(Instant, String, FaultRepair<'w>)> = due;
        for (_, victim, mend) in due {
            mend.perform(self.world).await?;
            tally.note(format_args!("-- {victim}: mended"));
        }
        Ok(())
    }

    /// Exempts the machines of a pool that was deleted with orphaning from the checks (I4).
    fn respect_orphans(&mut self) {
        let state = self.world.recorder().state();
        let gone = |uid: &String| state.get(TestedKind::Pool, uid).is_none();
        for uid in self.orphaned.iter().filter(|uid| gone(uid)) {
            for kind in [TestedKind::Machine, TestedKind::Disk] {
                let left = state.all(kind).filter(|object| object.label(labels::POOL_UID) == Some(uid));
                for object in left.filter(|object| object.owner_uid().is_empty() && !object.is_terminating())
                {
                    let known = self.world.user_actions().foreign.contains_key(object.uid());
                    if !known {
                        self.world.treat_as_foreign(object);
                    }
                }
            }
        }
    }
}

/// The violations in an error; any other error is returned.
pub(crate) fn violations_from_error(error: Error) -> Result<Vec<String>> {
    match error {
        Error::Violations { violations } => Ok(violations),
        other => Err(other),
    }
}
