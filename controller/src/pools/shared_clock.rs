//! The clock of the API server, with a lock: what all pools of a process share.

use std::sync::Arc;

use parking_lot::Mutex;
use vmpool_engine::server_clock::ServerClock;

/// The clock of the API server, as the last answered create of a machine or a disk shows it.
///
/// It belongs to the process and not to a leadership: a leader whose wall clock jumps ahead loses its lease,
/// and can become the leader again.
#[derive(Clone, Debug, Default)]
pub struct SharedServerClock(Arc<Mutex<Option<ServerClock>>>);

impl SharedServerClock {
    /// The clock; `None` before the first answered create.
    pub(crate) fn get(&self) -> Option<ServerClock> {
        *self.0.lock()
    }

    /// Records what an answered create shows.
    pub(crate) fn observe(&self, clock: ServerClock) {
        *self.0.lock() = Some(clock);
    }
}
