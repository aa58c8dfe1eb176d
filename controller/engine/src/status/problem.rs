//! Problems that the platform reports of machines that do not start, for example an object that does not exist.

use std::sync::Arc;

use crate::condition::AVAILABLE;
use crate::model::Machine;
use crate::plan::observed::Observed;

/// Why a machine does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the machine.
    pub machine: Arc<str>,
    /// A sentence with the machine, its disk if the problem is there, and the message of the platform.
    pub message: String,
    /// Number of other machines that do not start.
    pub others: usize,
}

impl Problem {
    /// The message, and the number of the other machines.
    pub(super) fn sentence(self) -> String {
        match self.others {
            0 => self.message,
            1 => format!("{}; 1 more machine does not start", self.message),
            others => format!("{}; {others} more machines do not start", self.message),
        }
    }
}

/// The problem of the first machine that has had one for [`PROBLEM_AGE`](crate::memory::PROBLEM_AGE), or whose problem is
/// published. A new leader does not know since when the machine has its problem. If a disk of that machine has a problem
/// as well, the disk is the cause.
pub fn problem(observed: &Observed<'_>) -> Option<Problem> {
    let published = observed.pool.published.conditions.iter().find(|known| known.kind == AVAILABLE);
    let is_published = |machine: &Machine| {
        published
            .is_some_and(|condition| condition.message.contains(&format!("machine {} ", machine.id.name)))
    };
    let waits = |machine: &&Arc<Machine>| {
        !machine.terminating
            && machine.problem.is_some()
            && (observed.memory.has_problem(&machine.id.uid, observed.uptime) || is_published(machine))
    };
    let mut stuck = observed.pool_machines().filter(waits);
    let first = stuck.next()?;
    let (first, others) = stuck.fold((first, 0), |(first, others), machine| {
        (if machine.id.name < first.id.name { machine } else { first }, others + 1)
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
    Some(Problem { machine: name.clone(), message, others })
}
