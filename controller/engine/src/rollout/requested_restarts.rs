//! Requested restarts of instances that the cache does not show yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Uid;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::Machine;

/// How long the controller waits for a requested restart before it requests it again.
const REPEAT_AFTER: Duration = Duration::from_mins(10);

/// The instances whose restart the controller requested, and until when the request may still begin to take
/// effect. Their machines use disruption budget, also while the cache still shows a running instance.
#[derive(Clone, Debug, Default)]
pub struct RequestedRestarts(BTreeMap<Uid, Duration>);

impl RequestedRestarts {
    /// Records that a restart of this instance was requested.
    pub fn request(&mut self, instance: &Uid, uptime: Duration) {
        self.0.insert(instance.clone(), uptime + REPEAT_AFTER);
    }

    /// Records that a request was sent, and that its response is unknown. If no request is carried out after
    /// [`REQUEST_TIMEOUT`], it was lost. To repeat it is harmless: it names the instance.
    pub fn request_unconfirmed(&mut self, instance: &Uid, uptime: Duration) {
        self.0.insert(instance.clone(), uptime + REQUEST_TIMEOUT);
    }

    /// Drops the instances that are gone.
    pub fn observe<'a>(&mut self, machines: impl Iterator<Item = &'a Arc<Machine>>) {
        if self.0.is_empty() {
            return;
        }
        let mut left = BTreeMap::new();
        for instance in machines.filter_map(|machine| machine.instance.as_ref()) {
            left.extend(self.0.remove_entry(&instance.id.uid));
        }
        self.0 = left;
    }

    /// Whether a restart of this instance was requested and may still begin.
    pub(crate) fn is_requested(&self, instance: &Uid, uptime: Duration) -> bool {
        self.0.get(instance).is_some_and(|until| uptime < *until)
    }

    /// Time until the first of these restarts may be requested again.
    pub(super) fn next_expiry(&self, uptime: Duration) -> Option<Duration> {
        self.0.values().filter_map(|until| until.checked_sub(uptime)).min()
    }
}
