//! What the volumes of one machine reported at the last read.

use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::Uid;

/// How long the result of a read is used.
const READ_AGE: Duration = Duration::from_secs(30);

/// The problem of the storage of one machine.
pub(crate) struct StorageProblem {
    /// The machine.
    pub(crate) machine: Uid,
    /// Uptime of the read.
    pub(crate) read_at: Duration,
    /// `None` if its volumes report no problem.
    pub(crate) message: Option<Arc<str>>,
}

impl StorageProblem {
    /// Whether it is that of this machine, and not too old to be used.
    pub(crate) fn is_current(&self, machine: &Uid, uptime: Duration) -> bool {
        self.machine == *machine && uptime.saturating_sub(self.read_at) < READ_AGE
    }
}
