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

mod devices;
mod standing;
mod trials;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::reuse::Shelf;
use super::{Action, Observed, Plan, Stage, Terms};
use crate::model::{Activity, Replica, Uid};
use crate::revision::RevisionId;

pub(super) use devices::recognised;
pub(crate) use standing::{Progress, Standing};
pub use trials::{Answer, EVALUATION_AGE, Trials};

pub(super) fn plan(observed: &Observed<'_>, shelf: &mut Shelf<'_>, plan: &mut Plan) {
    let pool = observed.pool;
    if let Some(left) = observed.memory.trials.next_overdue(observed.uptime) {
        plan.look_again(left);
    }
    if !pool.flaws.is_empty() {
        return;
    }
    let (mut behind, mut arrived) = (Vec::new(), Vec::new());
    for member in observed.members().filter(|member| !member.terminating) {
        match Standing::of(pool, member) {
            Standing::Behind => behind.push(member),
            Standing::Arrived => arrived.push(member),
            Standing::Settled | Standing::Unfinished | Standing::Stranded => {}
        }
    }
    if behind.is_empty() && arrived.is_empty() {
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
    behind.retain(|member| !leaving.contains(&member.id.uid));
    arrived.retain(|member| !leaving.contains(&member.id.uid));
    advance(observed, arrived, plan);
    if !behind.is_empty() {
        update(observed, shelf, behind, plan);
    }
}

/// Says on those in which the revision has come into effect that it has.
fn advance(observed: &Observed<'_>, mut arrived: Vec<&Arc<Replica>>, plan: &mut Plan) {
    if arrived.is_empty() {
        return;
    }
    plan.wants.advance = true;
    let width = match observed.memory.advancing.width(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Advance, left),
    };
    if first(&mut arrived, width, |a, b| a.id.cmp(&b.id)) {
        plan.look_again(Duration::ZERO);
    }
    let to = &observed.pool.revision;
    plan.actions.extend(
        arrived.into_iter().map(|member| Action::Advance { member: member.id.clone(), to: to.clone() }),
    );
}

/// Writes the revision to as many of those behind as the budget and the pace allow.
fn update(observed: &Observed<'_>, shelf: &mut Shelf<'_>, behind: Vec<&Arc<Replica>>, plan: &mut Plan) {
    let (pool, trials) = (observed.pool, &observed.memory.trials);
    let progress = Progress::of(observed);
    let (behind, mut waiting): (Vec<_>, Vec<_>) = behind.into_iter().partition(|member| {
        devices::has_placeholder(observed, member)
            || !(pool.rollout.stands_still()
                || progress.stopped() && !trials.refuses(&member.id.uid, &pool.revision))
    });
    waiting.retain(|member| takes_markers(observed, member));
    if behind.is_empty() && waiting.is_empty() {
        return;
    }
    plan.wants.update = true;
    let width = match observed.memory.updating.width(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Update, left),
    };
    let mut room = progress.room();
    let (free, mut costly): (Vec<_>, Vec<_>) =
        behind.into_iter().partition(|member| is_free(observed, member));
    // Which of those that run get a place is one question; who of all goes first is the next one.
    let order = |a: &&Arc<Replica>, b: &&Arc<Replica>| turn(observed, a, b);
    costly.sort_unstable_by(order);
    let (placed, left): (Vec<_>, Vec<_>) = costly.into_iter().partition(|member| {
        // It may hold a place already: because of an earlier write, for instance.
        if progress.holds_place(observed, member) {
            return !progress.exceeded();
        }
        let fits = room > 0;
        room -= usize::from(fits);
        fits
    });
    waiting.extend(left.into_iter().filter(|member| takes_markers(observed, member)));
    let marked: BTreeSet<&Uid> = waiting.iter().map(|member| &member.id.uid).collect();
    let mut chosen = [free, placed, waiting].concat();
    let more = first(&mut chosen, width, order);
    let others = plan.actions.len();
    for member in chosen {
        let terms = match member.activity {
            _ if marked.contains(&member.id.uid) => Terms::Markers,
            Activity::Running => Terms::Place,
            Activity::Stopped | Activity::NotRunning => Terms::Idle,
        };
        write(observed, shelf, member, terms, plan);
    }
    if more && plan.actions.len() > others {
        // The rest comes with the next pass, which nobody has to wake. If all of these wait, so does the rest.
        plan.look_again(Duration::ZERO);
    }
    if let Some(left) = trials.next_sure(observed.uptime) {
        plan.look_again(left);
    }
}

/// Whether a member that cannot be changed now may be one that needs nothing but our markers: another controller made it,
/// its disks are those of the revision, and nobody has seen yet that more differs. A pause holds these up as well.
fn takes_markers(observed: &Observed<'_>, member: &Replica) -> bool {
    let pool = observed.pool;
    !pool.rollout.stands_still()
        && standing::is_anothers(observed, member)
        && !observed.memory.trials.differs(&member.id.uid, &pool.revision)
        && devices::are_complete(observed, member)
}

fn write(
    observed: &Observed<'_>,
    shelf: &mut Shelf<'_>,
    member: &Arc<Replica>,
    terms: Terms,
    plan: &mut Plan,
) {
    // Its disks are to be put right: it comes once they are. A pass that does nothing about them waits itself.
    if shelf.is_repaired(&member.id.name) {
        if !plan.actions.is_empty() {
            plan.look_again(Duration::ZERO);
        }
        return;
    }
    match devices::drafts(observed, shelf, member) {
        Ok(disks) => plan.actions.push(Action::Update {
            member: member.id.clone(),
            base: base(observed, member),
            to: observed.pool.revision.clone(),
            disks,
            terms,
        }),
        Err(wait) => plan.waits.push(wait),
    }
}

/// The revision that says what of a member is the pool's: the one that was written last, or else the one in effect.
fn base(observed: &Observed<'_>, member: &Replica) -> Option<RevisionId> {
    member.written.as_ref().or(member.revision.as_ref()).filter(|id| observed.stored.contains(id)).cloned()
}

/// Whether writing to it takes no machine away: it does not run.
fn is_free(observed: &Observed<'_>, member: &Replica) -> bool {
    member.activity != Activity::Running || devices::has_placeholder(observed, member)
}

/// Who comes before whom: those with a reference that nobody resolved, which may be to somebody else's disk; those that
/// have not refused, or not for the longest time; those that do not run; the oldest.
fn turn(observed: &Observed<'_>, a: &Replica, b: &Replica) -> Ordering {
    let key = |member: &Replica| {
        (
            !devices::has_placeholder(observed, member),
            observed.memory.trials.refused_at(&member.id.uid, &observed.pool.revision),
            member.activity == Activity::Running,
            member.created,
        )
    };
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}

/// Reduces `members` to the first `width` of them, in order; says whether any was left out. Only those that are chosen
/// are sorted, so that the pass stays linear.
fn first<'a>(
    members: &mut Vec<&'a Arc<Replica>>,
    width: usize,
    order: impl Fn(&&'a Arc<Replica>, &&'a Arc<Replica>) -> Ordering,
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
