//! The instance types and preferences that are being deleted and still needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_kit::observed_value::ValuePublisher;
use vmpool_kit::pause::pause_after;

use super::types::TypeKey;

/// The pause after the first failure.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two checks of an object.
const LONGEST_CHECK: Duration = Duration::from_secs(30);
/// The shortest delay of a check after a change of a machine or a pool, so that many changes cause one check.
pub(super) const CHECK_DELAY: Duration = Duration::from_secs(1);

/// The instance types and preferences that are being deleted and still needed.
pub(super) struct BlockedTypes {
    known: Mutex<BTreeMap<TypeKey, BlockedType>>,
    /// Whether there are any.
    any: ValuePublisher<bool>,
}

#[derive(Default)]
struct BlockedType {
    checks: u32,
    /// The machines and the pools that need it, as the last check found them.
    needed_by: BTreeSet<String>,
    /// Uptime of the last check, and the pause after it.
    last: (Duration, Duration),
    /// The checks that came before the end of that pause, because of a change, and that released nothing. The
    /// delay after a change doubles with each, so that a user whose machine changes all the time does not
    /// cause a list of the cluster each time.
    early_checks: u32,
}

impl Default for BlockedTypes {
    fn default() -> Self {
        Self { known: Mutex::default(), any: ValuePublisher::new(false) }
    }
}

impl BlockedTypes {
    pub(super) fn keys(&self) -> Vec<TypeKey> {
        self.known.lock().keys().cloned().collect()
    }

    /// The objects that one of these machines and pools needs, as the last checks found, with the delay of
    /// the next check.
    pub(super) fn needed_by(&self, changed: &[String]) -> Vec<(TypeKey, Duration)> {
        let known = self.known.lock();
        let concerned =
            known.iter().filter(|(_, blocked)| changed.iter().any(|name| blocked.needed_by.contains(name)));
        let delay = |blocked: &BlockedType| pause_after(blocked.early_checks, CHECK_DELAY, LONGEST_CHECK);
        concerned.map(|(key, blocked)| (key.clone(), delay(blocked))).collect()
    }

    /// Records what a check found. Returns the pause until the next check, and whether this is new.
    pub(super) fn note(&self, key: &TypeKey, needed_by: &[String], now: Duration) -> (Duration, bool) {
        let mut known = self.known.lock();
        let blocked = known.entry(key.clone()).or_default();
        let (last, pause) = blocked.last;
        if blocked.checks > 0 && now.saturating_sub(last) < pause {
            blocked.early_checks = blocked.early_checks.saturating_add(1);
        } else {
            blocked.early_checks = blocked.early_checks.saturating_sub(1);
        }
        let pause = pause_after(blocked.checks, FIRST_PAUSE, LONGEST_CHECK);
        blocked.checks = blocked.checks.saturating_add(1);
        blocked.last = (now, pause);
        let needed_by: BTreeSet<String> = needed_by.iter().cloned().collect();
        let is_new = blocked.needed_by != needed_by;
        blocked.needed_by = needed_by;
        self.any.publish(true);
        (pause, is_new)
    }

    /// An object needs no further check.
    pub(super) fn remove(&self, key: &TypeKey) {
        let mut known = self.known.lock();
        known.remove(key);
        self.any.publish(!known.is_empty());
    }

    /// Returns when there are any, or when there are none.
    pub(super) async fn until(&self, any: bool) {
        self.any.observe().wait_for(|now| *now == any).await;
    }
}
