//! Problems that the platform reports of machines that are not ready and do not become ready by themselves,
//! for example an object that does not exist, or a guest that was shut down.

use std::sync::Arc;

use super::text::{join_message_parts, list_some_names};
use crate::condition::{ConditionType, StatusCondition};
use crate::ids::ObjectId;
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// Why a machine is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartProblem {
    /// Name of the machine.
    pub machine: Arc<str>,
    /// A sentence with the machine, its disk if the problem is there, and the message of the platform.
    pub message: String,
    /// Number of other machines with a problem.
    pub others: usize,
}

impl StartProblem {
    /// The message, and the number of the other machines.
    pub(super) fn sentence(self) -> String {
        join_message_parts(std::iter::once(self.message).chain(describe_others(self.others)))
    }
}

/// Maximum number of machines that [`list_start_problems`] names.
const LISTED: usize = 3;

/// The number of further machines with a problem, if there are any.
fn describe_others(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 more machine is not ready".to_owned()),
        count => Some(format!("{count} more machines are not ready")),
    }
}

/// The problem of the first machine that has had one for [`PROBLEM_AGE`](crate::memory::PROBLEM_AGE), or
/// whose problem is published. A new leader does not know since when the machine has its problem. If a disk
/// of that machine has a problem as well, the disk is the cause.
pub fn first_start_problem(observed: &ObservedPool<'_>) -> Option<StartProblem> {
    let stuck = machines_with_problem(observed);
    let first = stuck.iter().min_by(|a, b| a.id.name.cmp(&b.id.name))?;
    let message = start_problem_message(observed, first)?;
    Some(StartProblem { machine: first.id.name.clone(), message, others: stuck.len() - 1 })
}

/// The problems of all such machines, in the order of their names, and the number of those beyond the first
/// three.
pub(super) fn list_start_problems(observed: &ObservedPool<'_>) -> Vec<String> {
    let mut stuck = machines_with_problem(observed);
    stuck.sort_unstable_by(|a, b| a.id.name.cmp(&b.id.name));
    let more = stuck.len().saturating_sub(LISTED);
    let mut problems: Vec<String> = stuck
        .into_iter()
        .take(LISTED)
        .filter_map(|machine| start_problem_message(observed, machine))
        .collect();
    problems.extend(describe_others(more));
    problems
}

/// The names of machines that are terminating or not ready, whatever the platform reports; `None` if there
/// are none.
pub(super) fn describe_unready_machines(observed: &ObservedPool<'_>) -> Option<String> {
    let machines = observed.pool_machines().filter(|machine| machine.terminating || !machine.runs());
    let names: Vec<&str> = machines.map(|machine| &*machine.id.name).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("machine {} is not ready", list_some_names(names))),
        _ => Some(format!("machines {} are not ready", list_some_names(names))),
    }
}

/// The first machine, by name, that has waited for its storage for
/// [`PROBLEM_AGE`](crate::memory::PROBLEM_AGE), or whose problem is published. Its storage tells what it
/// waits for.
pub fn machine_waiting_for_storage<'a>(observed: &ObservedPool<'a>) -> Option<&'a ObjectId> {
    let waiting = find_stuck_machines(observed, |machine| machine.waits_for_storage).into_iter();
    waiting.map(|machine| &machine.id).min_by(|a, b| a.name.cmp(&b.name))
}

/// The machines with a problem to report.
fn machines_with_problem<'a>(observed: &ObservedPool<'a>) -> Vec<&'a Arc<Machine>> {
    find_stuck_machines(observed, |machine| machine.problem.is_some())
}

/// The machines that `waits` holds for, and whose problem is old enough to report or already published.
pub(super) fn find_stuck_machines<'a>(
    observed: &ObservedPool<'a>,
    waits: impl Fn(&Machine) -> bool,
) -> Vec<&'a Arc<Machine>> {
    let shows_problems =
        |known: &&StatusCondition| known.is(ConditionType::Available) || known.is(ConditionType::Ready);
    let published: Vec<&StatusCondition> =
        observed.pool.published.conditions.iter().filter(shows_problems).collect();
    let is_published = |machine: &Machine| {
        let name = format!("machine {} ", machine.id.name);
        published.iter().any(|condition| condition.message.contains(&name))
    };
    let is_reported = |machine: &&Arc<Machine>| {
        !machine.terminating
            && waits(machine)
            && (observed.memory.has_problem(&machine.id.uid, observed.uptime) || is_published(machine))
    };
    observed.pool_machines().filter(is_reported).collect()
}

/// Why this machine is not ready.
fn start_problem_message(observed: &ObservedPool<'_>, machine: &Machine) -> Option<String> {
    let disk = machine.disks.iter().find_map(|device| {
        let disk = observed.disks.get(&device.disk)?;
        Some((&disk.id.name, disk.failure.as_ref()?))
    });
    let name = &machine.id.name;
    match (disk, &machine.problem) {
        (Some((disk, reported)), _) => {
            Some(format!("disk {disk} of machine {name} is not ready: {reported}"))
        }
        (None, Some(reported)) => Some(format!("machine {name} is not ready: {reported}")),
        (None, None) => None,
    }
}
