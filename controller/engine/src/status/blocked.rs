//! The blocked steps of the last plan, as the conditions report them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::text::list_some_names;
use crate::draining::DrainReason;
use crate::model::Machine;
use crate::plan::observed::ObservedPool;
use crate::plan::{ApplyStage, Blocker};

/// Maximum number of waiting machines in one message.
const LISTED: usize = 3;

/// The blocked steps.
pub(super) struct BlockedSteps {
    /// Those of creates and deletions, without backoff.
    count: Vec<String>,
    /// Those of existing machines.
    pub(super) machines: Vec<String>,
}

impl BlockedSteps {
    pub(super) fn of(observed: &ObservedPool<'_>) -> Self {
        let blockers = &observed.memory.blockers;
        if blockers.is_empty() {
            return Self { count: Vec::new(), machines: Vec::new() };
        }
        let (mut reserved, mut unconfirmed) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting: Vec<(&Arc<str>, String)> = Vec::new();
        // Draining machines, by the step that follows.
        let (mut leaving, mut updating) = (Vec::new(), Vec::new());
        for blocker in blockers {
            match blocker {
                Blocker::Reservation { machine } => drop(reserved.insert(&**machine)),
                Blocker::UnconfirmedCreate { name } => drop(unconfirmed.insert(&**name)),
                Blocker::TerminatingDisk { machine, .. } | Blocker::RestoringDisk { machine, .. } => {
                    waiting.push((&machine.name, blocker.to_string()));
                }
                Blocker::PendingDisk { machine, .. } => waiting.push((machine, blocker.to_string())),
                Blocker::Drain { machine, reason, .. } => {
                    let of_step = match reason {
                        DrainReason::Rollout | DrainReason::Recycling => &mut updating,
                        DrainReason::ScaleDown | DrainReason::TargetedRemoval => &mut leaving,
                    };
                    of_step.push((machine, blocker.to_string()));
                }
                // Conditions of their own report these.
                Blocker::UserAction(_)
                | Blocker::Backoff { .. }
                | Blocker::Protection { .. }
                | Blocker::TooManyUnhealthy { .. }
                | Blocker::Provisioning(_) => {}
            }
        }
        let existing = existing_waiting_machines(observed, &waiting);
        let (of_machines, of_creates) =
            waiting.into_iter().partition(|(machine, _)| existing.contains(*machine));
        let mut count: Vec<String> = Vec::new();
        count.extend(describe_reservations(reserved.into_iter().collect()));
        count.extend(unconfirmed_creates(unconfirmed.into_iter().collect()));
        count.extend(summarize_waiting_machines(of_creates, "wait for disks"));
        count.extend(summarize_waiting_machines(leaving, "drain"));
        let mut machines = summarize_waiting_machines(of_machines, "wait for disks");
        machines.extend(summarize_waiting_machines(updating, "drain"));
        Self { count, machines }
    }

    /// Why the number of machines is not the desired one yet.
    pub(super) fn count(&self, observed: &ObservedPool<'_>, machines: usize) -> Vec<String> {
        let (memory, desired) = (observed.memory, observed.pool.desired);
        let mut parts = self.count.clone();
        if machines < desired && memory.backoff(ApplyStage::Repair).cause().is_some() {
            parts
                .push("the controller creates no machine until it has repaired the existing ones".to_owned());
        }
        if machines < desired && memory.backoff(ApplyStage::Create).cause().is_some() {
            parts.push("creating machines is in backoff after a failure".to_owned());
        }
        if memory.backoff(ApplyStage::Remove).cause().is_some() {
            parts.push("deleting machines is in backoff after a failure".to_owned());
        }
        parts
    }
}

/// The names of those waiting machines that exist.
fn existing_waiting_machines(
    observed: &ObservedPool<'_>,
    waiting: &[(&Arc<str>, String)],
) -> BTreeSet<Arc<str>> {
    let names: BTreeSet<&Arc<str>> = waiting.iter().map(|(machine, _)| *machine).collect();
    let is_waiting = |machine: &&Arc<Machine>| names.contains(&machine.id.name);
    observed.pool_machines().filter(is_waiting).map(|machine| machine.id.name.clone()).collect()
}

fn describe_reservations(machines: Vec<&str>) -> Option<String> {
    let subject = match machines.len() {
        0 => return None,
        1 => format!("machine {} is reserved by a targeted removal", list_some_names(machines)),
        _ => format!("machines {} are reserved by targeted removals", list_some_names(machines)),
    };
    Some(format!(
        "{subject}, so no machine is created or deleted instead until the removal completes or expires"
    ))
}

fn unconfirmed_creates(machines: Vec<&str>) -> Option<String> {
    match machines.len() {
        0 => None,
        1 => Some(format!(
            "the create of machine {} is unconfirmed, and the API server may still carry it out",
            list_some_names(machines)
        )),
        _ => Some(format!(
            "the creates of machines {} are unconfirmed, and the API server may still carry them out",
            list_some_names(machines)
        )),
    }
}

/// Some of these sentences in the order of the machines, and the number of the other machines, which do
/// `what`.
fn summarize_waiting_machines(mut waiting: Vec<(&Arc<str>, String)>, what: &str) -> Vec<String> {
    waiting.sort_unstable();
    let more = waiting.len().saturating_sub(LISTED);
    let mut sentences: Vec<String> = waiting.into_iter().take(LISTED).map(|(_, sentence)| sentence).collect();
    if more > 0 {
        sentences.push(format!("and {more} more {what}"));
    }
    sentences
}
