//! Problems that the platform reports of machines that do not start, for example an object that does not
//! exist.

use std::sync::Arc;

use crate::condition::{ConditionType, StatusCondition};
use crate::ids::ObjectId;
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// Why a machine does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartProblem {
    /// Name of the machine.
    pub machine: Arc<str>,
    /// A sentence with the machine, its disk if the problem is there, and the message of the platform.
    pub message: String,
    /// Number of other machines that do not start.
    pub others: usize,
}

impl StartProblem {
    /// The message, and the number of the other machines.
    pub(super) fn sentence(self) -> String {
        match self.others {
            0 => self.message,
            1 => format!("{}; 1 more machine does not start", self.message),
            others => format!("{}; {others} more machines do not start", self.message),
        }
    }
}

/// Maximum number of machines that [`list_start_problems`] names.
const LISTED: usize = 5;

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
/// five.
pub(super) fn list_start_problems(observed: &ObservedPool<'_>) -> Vec<String> {
    let mut stuck = machines_with_problem(observed);
    stuck.sort_unstable_by(|a, b| a.id.name.cmp(&b.id.name));
    let more = stuck.len().saturating_sub(LISTED);
    let mut problems: Vec<String> = stuck
        .into_iter()
        .take(LISTED)
        .filter_map(|machine| start_problem_message(observed, machine))
        .collect();
    match more {
        0 => {}
        1 => problems.push("1 more machine does not start".to_owned()),
        more => problems.push(format!("{more} more machines do not start")),
    }
    problems
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
fn find_stuck_machines<'a>(
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

/// Why this machine does not start.
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
        (None, Some(reported)) => Some(format!("machine {name} does not start: {reported}")),
        (None, None) => None,
    }
}
