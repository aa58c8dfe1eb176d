//! Where one member stands with the revision that it shall have, and how far all of them are.

use std::sync::Arc;

use super::Observed;
use crate::model::{Activity, DiskRef, Machine, Pool};
use crate::revision::RevisionId;

/// Where a live member stands with the pool's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RolloutState {
    /// It is to be written to.
    Outdated,
    /// It is written, and not in effect yet: the platform has not looked, or a restart waits.
    InProgress,
    /// It is written, and all that can be done to the machine as it is; it keeps a disk of a template that left the
    /// pool, because it booted from it.
    Stranded,
    /// It is in effect, and the member does not say so yet.
    Unrecorded,
    /// It is in effect.
    Current,
}

impl RolloutState {
    /// Where `member` stands.
    pub(crate) fn of(pool: &Pool, member: &Machine) -> Self {
        if member.written.as_ref() != Some(&pool.revision) {
            return Self::Outdated;
        }
        let mut leftovers = leftovers(pool, member).peekable();
        if leftovers.peek().is_some() {
            let kept = leftovers.all(|device| keeps(member, device));
            return match (kept, in_effect(member)) {
                (false, _) => Self::Outdated,
                (true, true) => Self::Stranded,
                (true, false) => Self::InProgress,
            };
        }
        let says_so = member.revision.as_ref() == Some(&pool.revision);
        match (says_so, in_effect(member)) {
            (true, true) => Self::Current,
            // One that does not run yet, made from this revision, has never had another one.
            (true, false) if member.activity != Activity::Running && !member.restart_pending => Self::Current,
            (false, true) => Self::Unrecorded,
            (_, false) => Self::InProgress,
        }
    }
}

/// Whether no revision that is known of the pool was ever written to the member: another controller made it.
pub(in crate::plan) fn is_anothers(observed: &Observed<'_>, member: &Machine) -> bool {
    let ours = |written: &RevisionId| *written == observed.pool.revision || observed.stored.contains(written);
    !member.written.as_ref().is_some_and(ours)
}

/// Whether what was last written is what the member is.
fn in_effect(member: &Machine) -> bool {
    member.evaluated && !member.restart_pending
}

/// The devices of a member that it got for templates which the revision does not have.
pub(super) fn leftovers<'a>(pool: &'a Pool, member: &'a Machine) -> impl Iterator<Item = &'a DiskRef> {
    let used = |index: usize, name: &Arc<str>| {
        // Mostly the devices are in the order of the templates.
        let is = |template: &crate::model::DiskTemplate| template.used && template.name == *name;
        pool.disks.get(index).is_some_and(is) || pool.disks.iter().any(is)
    };
    member.disks.iter().enumerate().filter_map(move |(index, device)| {
        let template = device.template.as_ref()?;
        (!used(index, template)).then_some(device)
    })
}

/// Whether a member keeps this device although its template is gone: nothing takes the disk away that a machine booted
/// from, unless it is stopped.
pub(super) fn keeps(member: &Machine, device: &DiskRef) -> bool {
    member.activity != Activity::Stopped && member.boot_disk.as_ref() == Some(&device.disk)
}

/// Whether an existing machine is unavailable, as far as the disruption budget goes. A stopped one is not: a user stopped
/// it on purpose.
pub(super) fn is_unavailable(member: &Machine) -> bool {
    match member.activity {
        Activity::Stopped => false,
        Activity::NotRunning => true,
        Activity::Running => !member.evaluated || (member.restart_pending && member.restarts_itself),
    }
}

/// How far a rollout is, and how much more it may disturb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutProgress {
    /// Machines that may be unavailable at once.
    pub(crate) budget: usize,
    /// Machines that are missing, terminating or unavailable, or that an unconfirmed update may make unavailable.
    pub(crate) unavailable: usize,
    /// Members that run and lack the revision.
    pub(crate) outdated: usize,
    /// Members that refuse the revision.
    pub(crate) refusing: usize,
}

impl RolloutProgress {
    /// Counts the machines. Unavailable is what is desired, less the available machines and those that were stopped on
    /// purpose: a machine that is missing or terminating serves its users no more than one that restarts.
    pub(crate) fn of(observed: &Observed<'_>) -> Self {
        let (pool, attempts) = (observed.pool, &observed.memory.rollout_attempts);
        let mut progress = Self { budget: pool.rollout.budget.of(pool.desired), ..Self::default() };
        let mut available_or_stopped = 0;
        for member in observed.members().filter(|member| !member.terminating) {
            available_or_stopped += usize::from(!progress.uses_budget(observed, member));
            let runs = member.activity == Activity::Running;
            progress.outdated +=
                usize::from(runs && RolloutState::of(pool, member) == RolloutState::Outdated);
            progress.refusing += usize::from(attempts.refuses(&member.id.uid, &pool.revision));
        }
        progress.unavailable = pool.desired.saturating_sub(available_or_stopped);
        progress
    }

    /// Whether the machine uses disruption budget, so that updating it uses no more.
    #[expect(clippy::unused_self, reason = "the count and the question must not drift apart")]
    pub(super) fn uses_budget(&self, observed: &Observed<'_>, member: &Machine) -> bool {
        is_unavailable(member)
            || observed.memory.rollout_attempts.is_unconfirmed(&member.id.uid, observed.uptime)
    }

    /// How many more machines may become unavailable.
    pub(crate) fn remaining_budget(&self) -> usize {
        self.budget.saturating_sub(self.unavailable)
    }

    /// Whether more machines are unavailable than may be.
    pub(super) fn is_budget_exceeded(&self) -> bool {
        self.unavailable > self.budget
    }

    /// Whether so many refuse the revision that it is brought to nobody else.
    pub(crate) fn stopped(&self) -> bool {
        self.refusing >= self.budget.div_ceil(2).max(2)
    }
}
