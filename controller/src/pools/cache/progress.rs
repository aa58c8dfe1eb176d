//! Up to which time a cache is known to be complete.
//!
//! A watch does not report its delay. But it reports changes in order: if it has shown a write of the
//! controller, it has also shown all changes before that write was sent.

use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of writes to track. A later write proves more, so the earliest ones are dropped first.
const WAITING: usize = 1024;

#[derive(Default)]
pub(super) struct CacheProgress {
    /// The newest version that the watch has shown since the last list.
    shown: u64,
    /// The uptime up to which the cache is known to be complete.
    proven: Option<Duration>,
    /// The uptimes of writes that the watch has not shown yet, by version.
    waiting: BTreeMap<u64, Duration>,
}

impl CacheProgress {
    /// Records that the watch has shown this version and therefore all earlier ones.
    pub(super) fn show(&mut self, version: u64) {
        self.shown = self.shown.max(version);
        while let Some(write) = self.waiting.first_entry().filter(|write| *write.key() <= self.shown) {
            self.proven = self.proven.max(Some(write.remove()));
        }
    }

    /// Records a write that was sent at this uptime and confirmed with this version.
    pub(super) fn wrote(&mut self, version: u64, sent: Duration) {
        if version <= self.shown {
            self.proven = self.proven.max(Some(sent));
            return;
        }
        if self.waiting.len() == WAITING {
            self.waiting.pop_first();
        }
        self.waiting.insert(version, sent);
    }

    /// Records that a list has replaced the content. The first deletion by count after a change of leaders
    /// depends on nothing but such a list, so it is no proof: the controller counts live instead.
    pub(super) fn listed(&mut self) {
        // If etcd was restored, versions may have restarted at a lower value. Only the watch from now on
        // counts.
        self.shown = 0;
    }

    pub(super) fn proven(&self) -> Option<Duration> {
        self.proven
    }
}
