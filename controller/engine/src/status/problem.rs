//! Problems that the platform reports of machines that do not start, for example an object that does not exist.

use std::sync::Arc;

use crate::model::Machine;
use crate::plan::observed::Observed;

/// Why a machine does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the machine.
    pub machine: Arc<str>,
    /// A sentence with the machine, its disk if the problem is there, and the message of the platform.
    pub message: String,
}

/// The problem of the first machine that has had one for [`PROBLEM_AGE`](crate::memory::PROBLEM_AGE). If a disk of that
/// machine has a problem as well, the disk is the cause.
pub fn problem(observed: &Observed<'_>) -> Option<Problem> {
    let waits = |machine: &&Arc<Machine>| {
        !machine.terminating
            && machine.problem.is_some()
            && observed.memory.has_problem(&machine.id.uid, observed.uptime)
    };
    let mut stuck = observed.pool_machines().filter(waits);
    let first = stuck.next()?;
    let (first, more) = stuck.fold((first, 0), |(first, more), machine| {
        (if machine.id.name < first.id.name { machine } else { first }, more + 1)
    });
    let disk = first.disks.iter().find_map(|device| {
        let disk = observed.disks.get(&device.disk)?;
        Some((&disk.id.name, disk.failure.as_ref()?))
    });
    let name = &first.id.name;
    let message = match (disk, &first.problem) {
        (Some((disk, reported)), _) => format!("disk {disk} of machine {name} is not ready: {reported}"),
        (None, Some(reported)) => format!("machine {name} does not start: {reported}"),
        (None, None) => return None,
    };
    let message = match more {
        0 => message,
        1 => format!("{message}; 1 more machine does not start"),
        _ => format!("{message}; {more} more machines do not start"),
    };
    Some(Problem { machine: name.clone(), message })
}
