//! The model of a pool in a replay.

use std::collections::VecDeque;

use crate::demand::Demand;

/// A pool of machines that claims hold, second by second.
#[derive(Default)]
pub(super) struct ReplayedPool {
    pub(super) replicas: u32,
    /// The seconds at which starting machines are ready.
    starting: VecDeque<u64>,
    free: u32,
    /// The seconds at which busy machines are free again.
    busy: Vec<u64>,
    /// The seconds at which waiting claims were made, and how long they hold a machine.
    waiting: VecDeque<WaitingJob>,
    /// How long each claim waited that has had a machine, in seconds.
    pub(super) waits: Vec<u64>,
}

/// A claim without a machine.
struct WaitingJob {
    made: u64,
    duration: u64,
}

impl ReplayedPool {
    /// A claim is made.
    pub(super) fn claim(&mut self, second: u64, duration: u64) {
        self.waiting.push_back(WaitingJob { made: second, duration });
    }

    /// What happens until this second.
    pub(super) fn advance(&mut self, second: u64) {
        while self.starting.pop_front_if(|ready| *ready <= second).is_some() {
            self.free += 1;
        }
        let before = self.busy.len();
        self.busy.retain(|end| *end > second);
        self.free += count_as_u32(before - self.busy.len());
        // Busy machines stayed beyond the replicas, and leave now.
        self.remove_surplus();
        while self.free > 0
            && let Some(job) = self.waiting.pop_front()
        {
            self.free -= 1;
            self.busy.push(second + job.duration);
            self.waits.push(second - job.made);
        }
    }

    /// Sets the replicas. A machine that is missing starts, and surplus ones leave.
    pub(super) fn scale(&mut self, replicas: u32, ready: u64) {
        self.replicas = replicas;
        while self.machines() < replicas {
            self.starting.push_back(ready);
        }
        self.remove_surplus();
    }

    /// Machines that start leave first, then free ones. Busy machines stay.
    fn remove_surplus(&mut self) {
        while self.machines() > self.replicas && self.starting.pop_back().is_some() {}
        self.free -= self.machines().saturating_sub(self.replicas).min(self.free);
    }

    /// Number of machines.
    pub(super) fn machines(&self) -> u32 {
        self.free + count_as_u32(self.starting.len()) + count_as_u32(self.busy.len())
    }

    /// Number of machines that can be claimed.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn demand(&self) -> Demand {
        Demand { busy: count_as_u32(self.busy.len()), waiting: count_as_u32(self.waiting.len()) }
    }
}

fn count_as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
