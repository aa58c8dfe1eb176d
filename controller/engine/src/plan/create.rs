//! Who is missing, and what the new ones are called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::allocation::{FreeDisks, Recipient};
use super::disks::disk_name;
use super::{Action, Blocker, Observed, Plan, Repairs, Stage, invalid_spec, record};
use crate::backoff::MAX_BATCH;
use crate::ledger::{REQUEST_TIMEOUT, UnconfirmedCreate};
use crate::model::{DiskDraft, DiskTemplate, Draft, Lifetime, Naming};
use crate::names::{MIN_BLOCK, NameBlock, Namer};

pub(super) fn plan(observed: &Observed<'_>, free_disks: &mut FreeDisks<'_>, disks: Repairs, plan: &mut Plan) {
    // A machine that somebody is about to remove by name is not replaced, although it is gone already.
    let held = record::hold_vanished(observed, plan);
    let members = observed.members().count() + held;
    let (repeated, unwanted) = split_unconfirmed(observed, members);
    for unconfirmed in unwanted {
        plan.blockers.push(Blocker::UnconfirmedCreate { name: unconfirmed.name.clone() });
        plan.look_again((unconfirmed.since + REQUEST_TIMEOUT).saturating_sub(observed.uptime));
    }
    // A create without an answer counts as a member: it may exist.
    let missing = observed.pool.desired.saturating_sub(members + observed.unconfirmed_creates.len());
    if missing == 0 && repeated.is_empty() {
        return;
    }
    plan.wants.create = true;
    if let Some(failure) = invalid_spec(observed.pool) {
        plan.blockers.push(Blocker::UserAction(failure.message));
        return;
    }
    // A machine and its disks are one unit: what members lack comes before further members.
    match disks {
        Repairs::Complete => {}
        Repairs::Truncated => return,
        Repairs::Paused(left) => return plan.pause(Stage::Create, left),
    }
    let width = match observed.memory.creating.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Create, left),
    };
    let fresh = missing.min(width.saturating_sub(repeated.len()));
    let numbers = match observed.pool.naming {
        Naming::Random => scattered(observed, free_disks, plan, fresh, missing),
        Naming::Ordinal => ordinal(observed, fresh),
    };
    let others = plan.actions.len();
    for unconfirmed in repeated.iter().take(width) {
        let disks = repeated_disks(observed, free_disks, unconfirmed);
        plan.actions.push(create(observed, unconfirmed.name.clone(), unconfirmed.number, disks));
    }
    for (name, number) in numbers {
        match disks_for(observed, free_disks, Recipient { name: &name, number }) {
            Ok(disks) => plan.actions.push(create(observed, name, number, disks)),
            Err(blocker) => plan.blockers.push(blocker),
        }
    }
    if fresh < missing && plan.actions.len() > others {
        // The rest comes with the next pass, which nobody has to wake. If all of these wait, so does the rest: the next
        // pass would find the same, and the one after it.
        plan.look_again(Duration::ZERO);
    }
}

fn create(observed: &Observed<'_>, name: Arc<str>, number: u64, disks: Vec<DiskDraft>) -> Action {
    Action::Create { draft: Draft { name, number, revision: observed.pool.revision.clone(), disks } }
}

/// The lost answers that are settled by repeating the same create, and those that nobody wants any more.
fn split_unconfirmed<'a>(
    observed: &'a Observed<'_>,
    members: usize,
) -> (&'a [UnconfirmedCreate], &'a [UnconfirmedCreate]) {
    let wanted = observed.pool.desired.saturating_sub(members).min(observed.unconfirmed_creates.len());
    observed.unconfirmed_creates.split_at(wanted)
}

/// The numbers of the open block that hold claims on disks, then the next ones, and a new block where they go past its
/// end.
fn scattered(
    observed: &Observed<'_>,
    free_disks: &FreeDisks<'_>,
    plan: &mut Plan,
    fresh: usize,
    missing: usize,
) -> Vec<(Arc<str>, u64)> {
    if fresh == 0 {
        return Vec::new();
    }
    let namer = Namer::new(&observed.pool.id.name, &observed.pool.id.uid);
    let next = observed.memory.next_number;
    // In their order: a number that was passed over holds its claim no longer.
    let claimed: BTreeSet<u64> =
        free_disks.awaited_machines().into_iter().filter_map(|name| namer.number_of(name)).collect();
    let unclaimed = (next..).filter(|number| !claimed.contains(number));
    let drawn: Vec<(Arc<str>, u64)> = claimed
        .iter()
        .copied()
        .chain(unclaimed)
        .map(|number| (Arc::from(namer.name(number)), number))
        .filter(|(name, _)| is_free(observed, name))
        .take(fresh)
        .collect();
    let past = drawn.iter().map(|(_, number)| number + 1).fold(next, u64::max);
    if observed.pool.name_block.is_none_or(|block| past > block.end) {
        // Lost answers stay inside the open block: a late one must still meet its own name.
        let first =
            observed.unconfirmed_creates.iter().map(|unconfirmed| unconfirmed.number).fold(next, u64::min);
        // As small as a batch allows: a successor may use the names of the open block again.
        let size = u64::try_from(missing.min(MAX_BATCH)).unwrap_or(u64::MAX).max(MIN_BLOCK);
        let end = past.max(next.saturating_add(size));
        plan.actions.push(Action::OpenNameBlock { block: NameBlock { first, end } });
    }
    drawn
}

/// The smallest ordinals that no object has.
fn ordinal(observed: &Observed<'_>, fresh: usize) -> Vec<(Arc<str>, u64)> {
    let promised: BTreeSet<&str> = observed
        .machines
        .iter()
        .map(|machine| &*machine.id.name)
        .chain(observed.unconfirmed_creates.iter().map(|unconfirmed| &*unconfirmed.name))
        .collect();
    (0..)
        .map(|number| (Arc::from(format!("{}-{number}", observed.pool.id.name)), number))
        .filter(|(name, _): &(Arc<str>, u64)| !promised.contains(&**name) && is_free(observed, name))
        .take(fresh)
        .collect()
}

fn is_free(observed: &Observed<'_>, name: &str) -> bool {
    let own = templates(observed).filter(|template| template.lifetime == Lifetime::Ephemeral);
    !observed.taken.machine(name)
        && own.into_iter().all(|template| !observed.taken.disk(&disk_name(name, &template.name)))
}

/// The templates that a new machine has a disk of, in the order of the pool.
fn templates<'a>(observed: &'a Observed<'_>) -> impl Iterator<Item = &'a DiskTemplate> {
    observed.pool.disks.iter().filter(|template| template.used)
}

/// The disks of a new machine.
///
/// # Errors
/// One of them is about to become free. What the machine would have got besides is free again.
fn disks_for(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: Recipient<'_>,
) -> Result<Vec<DiskDraft>, Blocker> {
    let mut disks = Vec::new();
    for template in templates(observed) {
        match template.lifetime {
            Lifetime::Ephemeral => disks.push(own_disk(machine.name, template)),
            Lifetime::Retained => match free_disks.allocate(&template.name, machine) {
                Ok(disk) => disks.push(disk),
                Err(blocker) => {
                    free_disks.return_disks(disks);
                    return Err(blocker);
                }
            },
        }
    }
    Ok(disks)
}

/// The disks of a machine whose create got no answer: the same as the first time.
fn repeated_disks(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    unconfirmed: &UnconfirmedCreate,
) -> Vec<DiskDraft> {
    let machine = Recipient { name: &unconfirmed.name, number: unconfirmed.number };
    templates(observed)
        .map(|template| match template.lifetime {
            Lifetime::Ephemeral => own_disk(machine.name, template),
            Lifetime::Retained => free_disks.repeat(&template.name, machine),
        })
        .collect()
}

fn own_disk(machine: &str, template: &DiskTemplate) -> DiskDraft {
    DiskDraft::new(disk_name(machine, &template.name), template.name.clone())
}

#[cfg(test)]
mod tests;
