//! State of one pool that the controller keeps between passes. The controller remains correct if this state
//! is lost at any time.

mod per_stage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use self::per_stage::PerStage;
use crate::backoff::Backoff;
use crate::condition::{ConditionType, StatusCondition};
use crate::failure::{FailureReason, PoolFailure};
use crate::healing::start_failures::StartFailures;
use crate::healing::unready::UnreadyMachines;
use crate::ids::{ObjectId, Uid};
use crate::image_refresh::ContentClock;
use crate::ledger::{Ledger, REQUEST_TIMEOUT};
use crate::membership::losses::Losses;
use crate::model::{Disk, Machine, Pool};
use crate::plan::action::{ApplyStage, WantedWrites};
use crate::plan::blocker::Blocker;
use crate::progress::{PoolDistance, ProgressClock};
use crate::revisions::RevisionId;
use crate::rollout::attempts::RolloutAttempts;
use crate::rollout::overridden::OverriddenFields;
use crate::rollout::requested_restarts::RequestedRestarts;

/// Number of consecutive rejections of machines with a disk after which the controller finds out whether the
/// machine is accepted with another disk.
pub const SUSPICIONS: u32 = 3;

/// How long the controller creates no machine whose storage would be that of another machine.
const CONFLICT_AGE: Duration = Duration::from_secs(30);
/// How long the controller does not allocate a disk that was the reason for a rejected machine.
pub const REFUSAL_AGE: Duration = Duration::from_mins(10);

/// How long a machine may have a problem before the pool reports it. Every machine waits for its disks at
/// first.
pub const PROBLEM_AGE: Duration = Duration::from_secs(10);

/// Time after the last successful create of a machine at which the controller no longer expects that the API
/// server accepts many more.
pub const CREATE_AGE: Duration = Duration::from_secs(30);

/// The memory of one pool. It is stored by UID, so a new pool with the name of an old one starts with an
/// empty memory.
#[derive(Clone, Debug, Default)]
pub struct PassMemory {
    /// Pending writes of machines.
    pub machines: Ledger<Machine>,
    /// Pending writes of disks.
    pub disks: Ledger<Disk>,
    /// The next machine number to use. It never decreases.
    pub next_number: u64,
    /// The uptime of the first pass. A request of the former leader cannot have an effect [`REQUEST_TIMEOUT`]
    /// later.
    first_pass: Option<Duration>,
    /// Backoff of live reads that a plan depends on.
    pub reading: Backoff,
    /// Backoffs of the writes of each stage.
    backoffs: PerStage<Backoff>,
    /// Results of updating machines.
    pub rollout_attempts: RolloutAttempts,
    /// Machines that were deleted because they did not start.
    healed: BTreeSet<Uid>,
    /// Names whose machine cannot be created, because storage of other machines has the names of its storage:
    /// since when, and the message.
    storage_conflicts: BTreeMap<Arc<str>, (Duration, String)>,
    /// Number of such machines since the pool was created. The status stores it for the next leader.
    healed_machines: u64,
    /// Machines that do not start.
    pub start_failures: StartFailures,
    /// Machines that are not ready.
    pub(crate) unready: UnreadyMachines,
    /// Machines that the pool created and that did not stay in it.
    pub machine_losses: Losses,
    /// The same for disks.
    pub disk_losses: Losses,
    /// Machines in which fields of the template are not in effect.
    pub overridden: OverriddenFields,
    /// Activated machines whose start was requested.
    started: BTreeSet<Uid>,
    /// Requested restarts of instances.
    pub restarts: RequestedRestarts,
    /// The generation of the pool that the backoffs belong to.
    pub generation: i64,
    /// The revision that the backoff of updating machines belongs to.
    revision: Option<RevisionId>,
    /// Machines with an unconfirmed deletion, and its uptime. The API server may still carry it out.
    unconfirmed_deletes: BTreeMap<Uid, Duration>,
    /// Requests that have reservations, and the uptime when the controller first saw them. The age of a
    /// reservation is measured only from that time.
    reservations: BTreeMap<Arc<str>, Duration>,
    /// Names of objects whose last write was rejected. The controller writes to them after all others.
    refused: BTreeSet<Arc<str>>,
    /// Disks that are neither free nor in use yet, and since when the plan waits for them.
    awaited: BTreeMap<Arc<str>, Duration>,
    /// Disks that were the reason for a rejected machine, and when.
    refused_disks: BTreeMap<Arc<str>, Duration>,
    /// Number of consecutive rejections of machines with this disk.
    suspected_disks: BTreeMap<Arc<str>, u32>,
    /// Machines that the platform reports a problem of, and since when.
    problems: BTreeMap<Uid, Duration>,
    /// Standby machines that warm up, and since when this leader knows them.
    warming: BTreeMap<Uid, Duration>,
    /// The blocked steps of the last plan, without those in backoff, which the backoffs show.
    pub(crate) blockers: Vec<Blocker>,
    /// Uptime of the last successful create of a machine.
    created: Option<Duration>,
    /// Since when the pool has made no progress.
    progress: ProgressClock,
    /// Since when the sources of the disks have led to their content.
    pub contents: ContentClock,
}

impl PassMemory {
    /// Updates the memory with the current pool. Numbers below the current name block count as used, new
    /// reservations get their time, and a change of the spec resets all backoffs.
    pub fn observe(&mut self, pool: &Pool, uptime: Duration) {
        let published = pool.published.summary.as_ref().map_or(0, |summary| summary.healed);
        self.healed_machines = self.healed_machines.max(published);
        self.first_pass.get_or_insert(uptime);
        self.next_number = self.next_number.max(recorded_number(pool));
        self.contents.observe(&pool.disk_contents, uptime);
        if !(self.reservations.is_empty() && pool.record.is_empty()) {
            let requests = pool.record.requests();
            self.reservations.retain(|request, _| requests.contains(request));
            for request in requests {
                self.reservations.entry(request.clone()).or_insert(uptime);
            }
        }
        if self.revision.as_ref() != Some(&pool.revision.id) {
            self.revision = Some(pool.revision.id.clone());
            self.progress.reset();
            self.backoff_mut(ApplyStage::Update).reset();
            self.backoff_mut(ApplyStage::Restart).reset();
        }
        let is_new = self.generation == 0;
        if self.generation != pool.generation {
            self.generation = pool.generation;
            self.progress.reset();
            self.backoffs.values_mut().for_each(Backoff::reset);
            self.refused.clear();
            self.storage_conflicts.clear();
            self.machine_losses.retry();
            self.disk_losses.retry();
        }
        if is_new {
            self.restore_losses(pool, uptime);
            self.overridden.restore(pool);
        }
    }

    /// How long this leader has observed the pool.
    pub(crate) fn led_for(&self, uptime: Duration) -> Duration {
        self.first_pass.map_or(Duration::ZERO, |first| uptime.saturating_sub(first))
    }

    /// The time until no create of the former leader can have an effect any more; `None` if that is so.
    pub(crate) fn former_creates_left(&self, uptime: Duration) -> Option<Duration> {
        REQUEST_TIMEOUT.checked_sub(self.led_for(uptime)).filter(|left| !left.is_zero())
    }

    /// A new leader continues where the former one stopped, as the conditions of the pool show it for the
    /// present spec. Otherwise each leader would lose the first objects again.
    fn restore_losses(&mut self, pool: &Pool, uptime: Duration) {
        let published = |kind: ConditionType| {
            let of_kind = |condition: &&StatusCondition| condition.is(kind) && condition.status == "True";
            let mut conditions = pool.published.conditions.iter();
            let found = conditions.find(of_kind)?;
            found.observed_generation.is_none_or(|known| known == pool.generation).then_some(found)
        };
        let Some(failure) = published(ConditionType::ReplicaFailure) else { return };
        // A pool without this condition counts as one that lost its first objects: the new leader tries again
        // with one of them.
        let is_stopped = published(ConditionType::Stalled).is_some();
        for (losses, reason, limit) in [
            (&mut self.machine_losses, FailureReason::MachineLost, pool.machine_loss_limit()),
            (&mut self.disk_losses, FailureReason::DiskLost, pool.disk_loss_limit()),
        ] {
            if failure.reason == reason.as_str() {
                losses.restore(is_stopped, limit, &failure.message, uptime);
            }
        }
    }

    /// Updates the memory with the machines of the pool: which change is not evaluated since when, and which
    /// machine has a problem since when.
    pub fn observe_machines<'a>(
        &mut self,
        machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
        uptime: Duration,
    ) {
        self.rollout_attempts.observe(machines.clone(), uptime);
        // Healing replaces no standby machine, and an activated one is new to it.
        let active = machines.clone().filter(|machine| machine.standby.is_none());
        self.start_failures.observe(active.clone(), uptime);
        self.unready.observe(active, uptime);
        self.overridden.observe(machines.clone(), self.generation);
        let mut problems = BTreeMap::new();
        let may_have_one = |machine: &&Arc<Machine>| {
            machine.problem.is_some() || machine.waits_for_storage || machine.has_pending_update()
        };
        for machine in machines.clone().filter(may_have_one).filter(|machine| !machine.terminating) {
            let since = self.problems.get(&machine.id.uid).copied().unwrap_or(uptime);
            problems.insert(machine.id.uid.clone(), since);
        }
        self.problems = problems;
        let is_warming = |machine: &&Arc<Machine>| machine.is_warming() && !machine.terminating;
        let since = |machine: &Arc<Machine>| self.warming.get(&machine.id.uid).copied().unwrap_or(uptime);
        let warming = machines.clone().filter(is_warming);
        self.warming = warming.map(|machine| (machine.id.uid.clone(), since(machine))).collect();
        if !self.started.is_empty() {
            let started = std::mem::take(&mut self.started);
            let present = machines.map(|machine| &machine.id.uid).filter(|uid| started.contains(*uid));
            self.started = present.cloned().collect();
        }
    }

    /// For how long this leader has known that this standby machine warms up.
    pub(crate) fn warming_for(&self, machine: &Uid, uptime: Duration) -> Duration {
        self.warming.get(machine).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since))
    }

    /// Forgets machines that were deleted because they did not start, and that do not exist any more.
    /// `existing` are all machines that the controller observes.
    pub fn forget_healed<'a>(&mut self, existing: impl Iterator<Item = &'a Arc<Machine>>) {
        if self.healed.is_empty() {
            return;
        }
        let healed = std::mem::take(&mut self.healed);
        let existing = existing.map(|machine| &machine.id.uid).filter(|uid| healed.contains(*uid));
        self.healed = existing.cloned().collect();
    }

    /// Whether the machine has had a problem for [`PROBLEM_AGE`].
    pub(crate) fn has_problem(&self, machine: &Uid, uptime: Duration) -> bool {
        self.problems.get(machine).is_some_and(|since| uptime.saturating_sub(*since) >= PROBLEM_AGE)
    }

    /// Time until the pool reports one more machine with a problem.
    pub(crate) fn next_problem(&self, uptime: Duration) -> Option<Duration> {
        let left = |since: &Duration| (*since + PROBLEM_AGE).checked_sub(uptime);
        self.problems.values().filter_map(left).filter(|left| !left.is_zero()).min()
    }

    /// Records the blocked steps of a plan, which the conditions of the pool report. Steps in backoff are
    /// omitted, because the backoffs contain them, and because their delays change with every pass.
    pub fn record_blockers(&mut self, blockers: &[Blocker]) {
        let lasting = |blocker: &&Blocker| !matches!(blocker, Blocker::Backoff { .. });
        self.blockers = blockers.iter().filter(lasting).cloned().collect();
    }

    /// Records how far the pool is from its spec; `None` if only a wait or nothing is left.
    pub fn record_distance(&mut self, distance: Option<PoolDistance>, uptime: Duration) {
        self.progress.observe(distance, uptime);
    }

    /// Since when the pool has made no progress.
    pub fn progress(&self) -> &ProgressClock {
        &self.progress
    }

    /// Records that the API server created a machine.
    pub fn machine_created(&mut self, uptime: Duration) {
        self.created = Some(uptime);
    }

    /// Whether creates must start slowly, because the API server has accepted none for [`CREATE_AGE`]: one
    /// create, and one more in parallel for each success. A full quota then costs few rejections.
    pub fn creates_start_slowly(&self, uptime: Duration) -> bool {
        self.created.is_none_or(|created| uptime.saturating_sub(created) >= CREATE_AGE)
    }

    /// Records an unconfirmed deletion. While the API server may still carry it out, the controller repeats
    /// the same deletion and deletes no other machine in its place.
    pub fn delete_unconfirmed(&mut self, machine: &Uid, uptime: Duration) {
        self.unconfirmed_deletes.retain(|_, since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT);
        self.unconfirmed_deletes.insert(machine.clone(), uptime);
    }

    /// Whether a deletion of this machine is unconfirmed and the API server may still carry it out.
    pub fn is_delete_unconfirmed(&self, machine: &Uid, uptime: Duration) -> bool {
        self.unconfirmed_deletes
            .get(machine)
            .is_some_and(|since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT)
    }

    /// The time until one more unconfirmed deletion cannot be carried out any more.
    pub(crate) fn next_delete_confirmed(&self, uptime: Duration) -> Option<Duration> {
        let left = |since: &Duration| (*since + REQUEST_TIMEOUT).checked_sub(uptime);
        self.unconfirmed_deletes.values().filter_map(left).filter(|left| !left.is_zero()).min()
    }

    /// How long the reservations of a request remain valid, if they are valid for `timeout`; `None` if the
    /// controller must drop them.
    pub fn reservation_left(&self, request: &str, timeout: Duration, uptime: Duration) -> Option<Duration> {
        let age =
            self.reservations.get(request).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since));
        timeout.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Records that a machine was deleted because it did not start, so that its storage is not preserved.
    pub fn heal(&mut self, machine: &ObjectId, uptime: Duration) {
        if self.healed.insert(machine.uid.clone()) {
            self.healed_machines = self.healed_machines.saturating_add(1);
        }
        self.start_failures.replaced(&machine.name, uptime);
    }

    /// Records that a machine was deleted because it was not ready for too long.
    pub fn replace_unready(&mut self, machine: &ObjectId, uptime: Duration) {
        self.start_failures.replaced(&machine.name, uptime);
    }

    /// How many machines were deleted because they did not start, since the pool was created.
    pub(crate) fn healed_machines(&self) -> u64 {
        self.healed_machines
    }

    /// Whether a machine was deleted because it did not start.
    pub(crate) fn is_healed(&self, machine: &Uid) -> bool {
        self.healed.contains(machine)
    }

    /// Records that the machine with this name cannot be created, because storage of another machine has the
    /// name of its storage. The controller creates none for 30 seconds.
    pub fn record_storage_conflict(&mut self, name: &Arc<str>, message: String, uptime: Duration) {
        self.storage_conflicts.retain(|_, (since, _)| uptime.saturating_sub(*since) < CONFLICT_AGE);
        self.storage_conflicts.insert(name.clone(), (uptime, message));
    }

    /// Whether no name has such a conflict.
    pub(crate) fn has_no_storage_conflicts(&self) -> bool {
        self.storage_conflicts.is_empty()
    }

    /// The conflict of the machine with this name, and how long the controller creates none; `None` if it
    /// may.
    pub(crate) fn storage_conflict(&self, name: &str, uptime: Duration) -> Option<(&str, Duration)> {
        let (since, message) = self.storage_conflicts.get(name)?;
        let left = CONFLICT_AGE.checked_sub(uptime.saturating_sub(*since)).filter(|left| !left.is_zero())?;
        Some((message, left))
    }

    /// Records whether the last write of the object with this name was rejected.
    pub fn record_result(&mut self, name: &Arc<str>, refused: bool) {
        if refused {
            self.refused.insert(name.clone());
        } else {
            self.refused.remove(name);
        }
    }

    /// Records that the start of an activated machine was requested.
    pub fn request_start(&mut self, machine: &Uid) {
        self.started.insert(machine.clone());
    }

    /// Whether the start of an activated machine was requested.
    pub(crate) fn is_start_requested(&self, machine: &Uid) -> bool {
        self.started.contains(machine)
    }

    /// Whether the last write of the object with this name was rejected. The controller tries such objects
    /// last, so that they do not delay others.
    pub fn was_refused(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// Whether no last write of an object was rejected.
    pub(crate) fn has_no_refusals(&self) -> bool {
        self.refused.is_empty()
    }

    /// Resets the backoffs of writes that the plan no longer contains.
    pub fn reset_unwanted(&mut self, wants: WantedWrites) {
        for stage in ApplyStage::ALL {
            let backoff = self.backoff_mut(stage);
            if !wants.has_writes(stage) && backoff.cause().is_some() {
                backoff.reset();
            }
        }
    }

    /// The backoff of the writes of a stage.
    pub fn backoff(&self, stage: ApplyStage) -> &Backoff {
        self.backoffs.get(stage)
    }

    /// The backoff of the writes of a stage, to record their results.
    pub fn backoff_mut(&mut self, stage: ApplyStage) -> &mut Backoff {
        self.backoffs.get_mut(stage)
    }

    /// The failures to report as one, the most severe first.
    pub fn failure(&self) -> Option<PoolFailure> {
        PoolFailure::combine(self.all_backoffs().filter_map(Backoff::cause))
    }

    /// Time until the first delay after a failure ends; `None` if there is no delay.
    pub fn remaining_backoff(&self, uptime: Duration) -> Option<Duration> {
        self.all_backoffs().filter_map(|backoff| backoff.batch_size(uptime).err()).min()
    }

    /// All backoffs, the most severe first.
    fn all_backoffs(&self) -> impl Iterator<Item = &Backoff> {
        const BY_SEVERITY: [ApplyStage; 13] = [
            ApplyStage::Create,
            ApplyStage::Activate,
            ApplyStage::Repair,
            ApplyStage::Remove,
            ApplyStage::Update,
            ApplyStage::Restart,
            ApplyStage::RecordRevision,
            ApplyStage::CollectDisks,
            ApplyStage::ExpandDisks,
            ApplyStage::Refill,
            ApplyStage::Standby,
            ApplyStage::Relabel,
            ApplyStage::CleanUp,
        ];
        let of_writes = BY_SEVERITY.into_iter().map(|stage| self.backoffs.get(stage));
        std::iter::once(&self.reading).chain(of_writes)
    }

    /// Records the disks that a plan waits for, and drops all others.
    pub fn await_disks(&mut self, awaited: &[Arc<str>], uptime: Duration) {
        self.awaited.retain(|disk, _| awaited.contains(disk));
        for disk in awaited {
            self.awaited.entry(disk.clone()).or_insert(uptime);
        }
    }

    /// How long plans have waited for a disk.
    pub fn awaited(&self, disk: &str, uptime: Duration) -> Duration {
        self.awaited.get(disk).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since))
    }

    /// Records that a machine was rejected because of a disk. The controller does not allocate the disk for
    /// [`REFUSAL_AGE`].
    pub fn refuse_disk(&mut self, disk: &Arc<str>, uptime: Duration) {
        self.refused_disks.retain(|_, since| uptime.saturating_sub(*since) < REFUSAL_AGE);
        self.refused_disks.insert(disk.clone(), uptime);
        self.suspected_disks.remove(disk);
    }

    /// Records that a machine with these disks was rejected. The platform does not say in a form for programs
    /// whether a disk was the reason.
    pub fn suspect_disks<'d>(&mut self, disks: impl IntoIterator<Item = &'d Arc<str>>) {
        for disk in disks {
            let times = self.suspected_disks.entry(disk.clone()).or_default();
            *times = times.saturating_add(1);
        }
    }

    /// The disks whose next rejection is one of [`SUSPICIONS`] in a row, or a further one. The controller
    /// then finds out whether the machine is accepted with other disks.
    pub fn suspected_disks(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_suspected = |(_, times): &(&Arc<str>, &u32)| **times + 1 >= SUSPICIONS;
        self.suspected_disks.iter().filter(is_suspected).map(|(disk, _)| disk)
    }

    /// Records that these disks are no reason for a rejection: the API server accepted a machine with them,
    /// or rejected it without them as well.
    pub fn accept_disks<'d>(&mut self, disks: impl IntoIterator<Item = &'d Arc<str>>) {
        if self.suspected_disks.is_empty() {
            return;
        }
        for disk in disks {
            self.suspected_disks.remove(disk);
        }
    }

    /// How long the controller must not allocate this disk because of a rejected machine; `None` if it may.
    pub fn disk_refusal(&self, disk: &str, uptime: Duration) -> Option<Duration> {
        let age = uptime.saturating_sub(*self.refused_disks.get(disk)?);
        REFUSAL_AGE.checked_sub(age).filter(|left| !left.is_zero())
    }
}

/// The number from which a new leader goes on: the number in the status, which every change of the machines
/// writes, or the beginning of the name block. Numbers behind the block were never used, whatever a client
/// writes into the status.
fn recorded_number(pool: &Pool) -> u64 {
    let Some(block) = pool.name_block else { return 0 };
    let published = pool.published.summary.as_ref().and_then(|summary| summary.next_number);
    published.unwrap_or_default().clamp(block.first, block.end)
}

#[cfg(test)]
mod tests;
