//! How a changed template reaches the machines that exist.
//!
//! ```text
//!  lags --Update--> written, not evaluated --platform looked--> evaluated --no restart waits--> Advance --> in effect
//!                                                                    \--restart waits: for approval, or under way--/
//! ```
//!
//! The pool writes a revision and then only watches: whether a change is hot or needs a restart, and when that happens,
//! is the platform's decision. What the pool decides is how many machines it does that to at once. A machine that runs
//! is written to only if, with it, no more than the budget allows would be unavailable. One that does not run costs
//! nothing, so these go first. Nor does one that another controller made and that needs nothing but our markers: whether
//! that is so shows when it is read, and one that needs more then waits for a place.
//!
//! A machine that refuses a revision is tried again after all others. When the refusing ones are half the budget, and at
//! least two, the rollout stops: only they are tried again, in turn and at the pace of failures, and the first that accepts lets
//! the others follow.

mod attempts;
mod devices;
mod state;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::allocation::FreeDisks;
use super::{Action, Disruption, Observed, Plan, Stage};
use crate::model::{Activity, Machine, Uid};
use crate::revision::RevisionId;

pub use attempts::{EVALUATION_AGE, RolloutAttempts, UpdateOutcome};
pub(super) use devices::recognised;
pub(crate) use state::{RolloutProgress, RolloutState};

pub(super) fn plan(observed: &Observed<'_>, free_disks: &mut FreeDisks<'_>, plan: &mut Plan) {
    let pool = observed.pool;
    if let Some(left) = observed.memory.rollout_attempts.next_overdue(observed.uptime) {
        plan.look_again(left);
    }
    if !pool.flaws.is_empty() {
        return;
    }
    let (mut outdated, mut unrecorded) = (Vec::new(), Vec::new());
    for member in observed.members().filter(|member| !member.terminating) {
        match RolloutState::of(pool, member) {
            RolloutState::Outdated => outdated.push(member),
            RolloutState::Unrecorded => unrecorded.push(member),
            RolloutState::Current | RolloutState::InProgress | RolloutState::Stranded => {}
        }
    }
    if outdated.is_empty() && unrecorded.is_empty() {
        return;
    }
    let leaving: BTreeSet<Uid> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Delete { member, .. } => Some(member.uid.clone()),
            _ => None,
        })
        .collect();
    outdated.retain(|member| !leaving.contains(&member.id.uid));
    unrecorded.retain(|member| !leaving.contains(&member.id.uid));
    advance(observed, unrecorded, plan);
    if !outdated.is_empty() {
        update(observed, free_disks, outdated, plan);
    }
}

/// Says on those in which the revision has come into effect that it has.
fn advance(observed: &Observed<'_>, mut unrecorded: Vec<&Arc<Machine>>, plan: &mut Plan) {
    if unrecorded.is_empty() {
        return;
    }
    plan.wants.record_revision = true;
    let width = match observed.memory.recording_revisions.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::RecordRevision, left),
    };
    if first(&mut unrecorded, width, |a, b| a.id.cmp(&b.id)) {
        plan.look_again(Duration::ZERO);
    }
    let to = &observed.pool.revision;
    plan.actions.extend(
        unrecorded
            .into_iter()
            .map(|member| Action::RecordRevision { member: member.id.clone(), to: to.clone() }),
    );
}

/// Writes the revision to as many of those behind as the budget and the pace allow.
fn update(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    outdated: Vec<&Arc<Machine>>,
    plan: &mut Plan,
) {
    let (pool, attempts) = (observed.pool, &observed.memory.rollout_attempts);
    let progress = RolloutProgress::of(observed);
    let (outdated, mut waiting): (Vec<_>, Vec<_>) = outdated.into_iter().partition(|member| {
        devices::has_placeholder(observed, member)
            || !(pool.rollout.stands_still()
                || progress.stopped() && !attempts.refuses(&member.id.uid, &pool.revision))
    });
    waiting.retain(|member| takes_markers(observed, member));
    if outdated.is_empty() && waiting.is_empty() {
        return;
    }
    plan.wants.update = true;
    let width = match observed.memory.updating.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Update, left),
    };
    let mut remaining_budget = progress.remaining_budget();
    let (free, mut costly): (Vec<_>, Vec<_>) =
        outdated.into_iter().partition(|member| is_free(observed, member));
    // Which of those that run get a place is one question; who of all goes first is the next one.
    let order = |a: &&Arc<Machine>, b: &&Arc<Machine>| turn(observed, a, b);
    costly.sort_unstable_by(order);
    let (placed, left): (Vec<_>, Vec<_>) = costly.into_iter().partition(|member| {
        // It may hold a place already: because of an earlier write, for instance.
        if progress.uses_budget(observed, member) {
            return !progress.is_budget_exceeded();
        }
        let fits = remaining_budget > 0;
        remaining_budget -= usize::from(fits);
        fits
    });
    waiting.extend(left.into_iter().filter(|member| takes_markers(observed, member)));
    let marked: BTreeSet<&Uid> = waiting.iter().map(|member| &member.id.uid).collect();
    let mut chosen = [free, placed, waiting].concat();
    let more = first(&mut chosen, width, order);
    let others = plan.actions.len();
    for member in chosen {
        let disruption = match member.activity {
            _ if marked.contains(&member.id.uid) => Disruption::MetadataOnly,
            Activity::Running => Disruption::Budgeted,
            Activity::Stopped | Activity::NotRunning => Disruption::NotRunning,
        };
        write(observed, free_disks, member, disruption, plan);
    }
    if more && plan.actions.len() > others {
        // The rest comes with the next pass, which nobody has to wake. If all of these wait, so does the rest.
        plan.look_again(Duration::ZERO);
    }
    if let Some(left) = attempts.next_confirmed(observed.uptime) {
        plan.look_again(left);
    }
}

/// Whether a member that cannot be changed now may be one that needs nothing but our markers: another controller made it,
/// its disks are those of the revision, and nobody has seen yet that more differs. A pause holds these up as well.
fn takes_markers(observed: &Observed<'_>, member: &Machine) -> bool {
    let pool = observed.pool;
    !pool.rollout.stands_still()
        && state::is_anothers(observed, member)
        && !observed.memory.rollout_attempts.differs(&member.id.uid, &pool.revision)
        && devices::are_complete(observed, member)
}

fn write(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    member: &Arc<Machine>,
    disruption: Disruption,
    plan: &mut Plan,
) {
    // Its disks are to be put right: it comes once they are. A pass that does nothing about them waits itself.
    if free_disks.is_repaired(&member.id.name) {
        if !plan.actions.is_empty() {
            plan.look_again(Duration::ZERO);
        }
        return;
    }
    match devices::drafts(observed, free_disks, member) {
        Ok(disks) => plan.actions.push(Action::Update {
            member: member.id.clone(),
            base: base(observed, member),
            to: observed.pool.revision.clone(),
            disks,
            disruption,
        }),
        Err(blocker) => plan.blockers.push(blocker),
    }
}

/// The revision that says what of a member is the pool's: the one that was written last, or else the one in effect.
fn base(observed: &Observed<'_>, member: &Machine) -> Option<RevisionId> {
    member.written.as_ref().or(member.revision.as_ref()).filter(|id| observed.stored.contains(id)).cloned()
}

/// Whether writing to it takes no machine away: it does not run.
fn is_free(observed: &Observed<'_>, member: &Machine) -> bool {
    member.activity != Activity::Running || devices::has_placeholder(observed, member)
}

/// Who comes before whom: those with a reference that nobody resolved, which may be to somebody else's disk; those that
/// have not refused, or not for the longest time; those that do not run; the oldest.
fn turn(observed: &Observed<'_>, a: &Machine, b: &Machine) -> Ordering {
    let key = |member: &Machine| {
        (
            !devices::has_placeholder(observed, member),
            observed.memory.rollout_attempts.refused_at(&member.id.uid, &observed.pool.revision),
            member.activity == Activity::Running,
            member.created,
        )
    };
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}

/// Reduces `members` to the first `width` of them, in order; says whether any was left out. Only those that are chosen
/// are sorted, so that the pass stays linear.
fn first<'a>(
    members: &mut Vec<&'a Arc<Machine>>,
    width: usize,
    order: impl Fn(&&'a Arc<Machine>, &&'a Arc<Machine>) -> Ordering,
) -> bool {
    let more = width < members.len();
    if more {
        if width > 0 {
            members.select_nth_unstable_by(width, &order);
        }
        members.truncate(width);
    }
    members.sort_unstable_by(order);
    more
}

#[cfg(test)]
mod tests;
