//! A batch of creates: the names and the disks of the machines.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::MAX_BATCH;
use crate::disks::allocation::{FreeDisks, Recipient};
use crate::disks::disk_names::disk_name;
use crate::failure::FailureReason;
use crate::ledger::UnconfirmedCreate;
use crate::membership::losses::Rehearsal;
use crate::model::{DiskDraft, Draft, Lifetime, Naming, PoolDiskTemplate};
use crate::plan::action::PoolAction;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::scale_up::names::{MIN_BLOCK, NameBlock, Namer, ordinal_name};
use crate::scale_up::provisioning::ProvisioningRoom;
use crate::standby::StandbyPhase;

/// The machines of one kind to create.
pub(super) struct CreateBatch<'a> {
    /// Unconfirmed creates that are repeated.
    pub(super) repeated: &'a [&'a UnconfirmedCreate],
    /// Number of further machines that are missing.
    pub(super) missing: usize,
    /// What the limits on provisioning leave.
    pub(super) room: ProvisioningRoom,
    /// The largest number of creates of this pass.
    pub(super) width: usize,
    /// Whether creates are rehearsed first.
    pub(super) rehearsal: Rehearsal,
    /// The phase in which standby machines begin; `None` for active machines.
    pub(super) standby: Option<StandbyPhase>,
}

/// Plans as many creates as the limits allow.
pub(super) fn plan_batch(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    batch: &CreateBatch<'_>,
    plan: &mut Plan,
) {
    let CreateBatch { repeated, missing, room, width, .. } = *batch;
    let repeated = &repeated[..repeated.len().min(room.repeated)];
    let allowed = missing.min(room.fresh);
    let fresh = allowed.min(width.saturating_sub(repeated.len()));
    let numbers = match observed.pool.naming {
        Naming::Random => draw_random_names(observed, free_disks, plan, fresh, missing),
        Naming::Ordinal => draw_ordinal_names(observed, plan, fresh, missing),
    };
    let others = plan.actions.len();
    for unconfirmed in repeated.iter().take(width) {
        let disks = repeated_disks(observed, free_disks, unconfirmed);
        let (name, number) = (unconfirmed.name.clone(), unconfirmed.number);
        plan.actions.push(create_machine_action(observed, name, number, disks, batch));
    }
    for (name, number) in numbers {
        match disks_for(observed, free_disks, Recipient { name: &name, number }) {
            Ok(disks) => plan.actions.push(create_machine_action(observed, name, number, disks, batch)),
            Err(blocker) => plan.blockers.push(blocker),
        }
    }
    if fresh < allowed && plan.actions.len() > others {
        // The next pass, which starts at once, plans the rest. If all of these are blocked, the rest is
        // blocked as well, and an immediate pass would not change that.
        plan.requeue_in(Duration::ZERO);
    }
}

fn create_machine_action(
    observed: &ObservedPool<'_>,
    name: Arc<str>,
    number: u64,
    disks: Vec<DiskDraft>,
    batch: &CreateBatch<'_>,
) -> PoolAction {
    let revision = observed.pool.revision.id.clone();
    let CreateBatch { rehearsal, standby, .. } = *batch;
    PoolAction::Create { draft: Draft { name, number, revision, disks, rehearsal, standby } }
}

/// The numbers of the current name block that disks are allocated to, then the next numbers. If they exceed
/// the block, the plan opens a new one.
fn draw_random_names(
    observed: &ObservedPool<'_>,
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
    // In ascending order, because an allocation to a number that was skipped is no longer valid.
    let claimed: BTreeSet<u64> =
        free_disks.awaited_machines().into_iter().filter_map(|name| namer.number_of(name)).collect();
    let unclaimed = (next..).filter(|number| !claimed.contains(number));
    // A target of a removal existed, so no create of its name is under way. A new leader begins before its
    // number.
    let targets = observed.pool.record.entries().iter().map(|entry| &entry.target);
    let former: BTreeSet<&str> = targets.map(|target| &*target.name).collect();
    let drawn: Vec<(Arc<str>, u64)> = claimed
        .iter()
        .copied()
        .chain(unclaimed)
        .map(|number| (Arc::from(namer.name(number)), number))
        .filter(|(name, _)| !former.contains(&**name) && is_machine_name_free(observed, name))
        .take(fresh)
        .collect();
    let past = drawn.iter().map(|(_, number)| number + 1).fold(next, u64::max);
    if observed.pool.name_block.is_none_or(|block| past > block.end) {
        // Unconfirmed creates stay inside the new block, so that a late create still conflicts with its own
        // name.
        let first =
            observed.unconfirmed_creates.iter().map(|unconfirmed| unconfirmed.number).fold(next, u64::min);
        // As small as the batch allows, because a new leader starts at the beginning of the block again.
        let size = u64::try_from(missing.min(MAX_BATCH)).unwrap_or(u64::MAX).max(MIN_BLOCK);
        let end = past.max(next.saturating_add(size));
        plan.actions.push(PoolAction::OpenNameBlock { block: NameBlock { first, end } });
    }
    drawn
}

/// The smallest ordinals that no object uses, without those whose storage belongs to another machine. No
/// greater ordinal replaces these. The ordinals whose last create was rejected come last, so that they delay
/// no other.
fn draw_ordinal_names(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    fresh: usize,
    missing: usize,
) -> Vec<(Arc<str>, u64)> {
    if fresh == 0 {
        return Vec::new();
    }
    let memory = observed.memory;
    if memory.has_no_storage_conflicts() && memory.has_no_refusals() {
        return free_ordinals(observed).take(fresh).collect();
    }
    let is_usable = |(name, _): &(Arc<str>, u64)| match memory.storage_conflict(name, observed.uptime) {
        Some((message, left)) => {
            plan.report_failure(FailureReason::FailedCreate, message);
            plan.requeue_in(left);
            false
        }
        None => true,
    };
    // Drawn one by one: `missing` can be as large as a user writes it.
    let (mut numbers, mut refused) = (Vec::new(), Vec::new());
    for drawn in free_ordinals(observed).take(missing).filter(is_usable) {
        let those = if memory.was_refused(&drawn.0) { &mut refused } else { &mut numbers };
        those.push(drawn);
        if numbers.len() == fresh {
            break;
        }
    }
    numbers.extend(refused);
    numbers.truncate(fresh);
    numbers
}

/// The ordinals that no object uses.
fn free_ordinals(observed: &ObservedPool<'_>) -> impl Iterator<Item = (Arc<str>, u64)> {
    let existing: BTreeSet<&str> = observed
        .machines
        .iter()
        .map(|machine| &*machine.id.name)
        .chain(observed.unconfirmed_creates.iter().map(|unconfirmed| &*unconfirmed.name))
        .collect();
    (0..).map(|number| (Arc::from(ordinal_name(&observed.pool.id.name, number)), number)).filter(
        move |(name, _): &(Arc<str>, u64)| {
            !existing.contains(&**name) && is_machine_name_free(observed, name)
        },
    )
}

fn is_machine_name_free(observed: &ObservedPool<'_>, name: &str) -> bool {
    let own = used_disk_templates(observed).filter(|template| template.lifetime == Lifetime::Ephemeral);
    !observed.names_in_use.has_machine(name)
        && own.into_iter().all(|template| !observed.names_in_use.has_disk(&disk_name(name, &template.name)))
}

/// The disk templates that a new machine gets a disk of, in the order of the pool.
fn used_disk_templates<'a>(observed: &'a ObservedPool<'_>) -> impl Iterator<Item = &'a PoolDiskTemplate> {
    observed.pool.disks.iter().filter(|template| template.used)
}

/// The disks of a new machine.
///
/// # Errors
/// A disk that will become free soon. The disks that were already allocated to the machine are free again.
fn disks_for(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: Recipient<'_>,
) -> Result<Vec<DiskDraft>, Blocker> {
    let mut disks = Vec::new();
    for template in used_disk_templates(observed) {
        match template.lifetime {
            Lifetime::Ephemeral => disks.push(ephemeral_disk_draft(machine.name, template)),
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

/// The disks of a machine with an unconfirmed create: the same as in the first attempt.
fn repeated_disks(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    unconfirmed: &UnconfirmedCreate,
) -> Vec<DiskDraft> {
    let machine = Recipient { name: &unconfirmed.name, number: unconfirmed.number };
    used_disk_templates(observed)
        .map(|template| match template.lifetime {
            Lifetime::Ephemeral => ephemeral_disk_draft(machine.name, template),
            Lifetime::Retained => free_disks.repeat(&template.name, machine),
        })
        .collect()
}

fn ephemeral_disk_draft(machine: &str, template: &PoolDiskTemplate) -> DiskDraft {
    DiskDraft::new(disk_name(machine, &template.name), template.name.clone())
}
