//! Up to when a cache shows what happened, as far as that can be known.
//!
//! A watch does not say how late it is. But it tells changes in their order: once it has told of a write of ours, it has told
//! of everything that happened before that write was sent.

use std::collections::BTreeMap;
use std::time::Duration;

/// How many writes are waited for. The later ones say more, so the earliest are forgotten first.
const WAITING: usize = 1024;

#[derive(Default)]
pub(super) struct Progress {
    /// The newest version that the watch has told of since the last list.
    shown: u64,
    /// Up to when everything is known to be there.
    proven: Option<Duration>,
    /// When the writes of ours were sent that the watch has not told of, by their versions.
    waiting: BTreeMap<u64, Duration>,
}

impl Progress {
    /// The watch has told of this version, and with it of all before.
    pub(super) fn show(&mut self, version: u64) {
        self.shown = self.shown.max(version);
        while let Some(write) = self.waiting.first_entry().filter(|write| *write.key() <= self.shown) {
            self.proven = self.proven.max(Some(write.remove()));
        }
    }

    /// A write of ours, sent at this uptime, was answered with this version.
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

    /// A list that began then has become the content.
    pub(super) fn listed(&mut self, began: Duration) {
        // Versions may have begun again at a lower one, if somebody restored the storage: the watch from here on counts.
        self.shown = 0;
        self.proven = self.proven.max(Some(began));
    }

    pub(super) fn proven(&self) -> Option<Duration> {
        self.proven
    }
}
