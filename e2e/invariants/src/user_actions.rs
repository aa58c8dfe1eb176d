//! The part of a scenario that the checks need.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::object::JsonObject;

/// Actions of the scenario that the checks must take into account.
#[derive(Debug, Clone, Default)]
pub struct UserActions {
    /// UIDs of the objects that the scenario deleted.
    pub deleted: BTreeSet<String>,
    /// UIDs of the machines that a user made members of a pool.
    pub returned: BTreeSet<String>,
    /// UIDs of the machines whose labels a user copied from another machine.
    pub relabeled: BTreeSet<String>,
    /// By UID, the number of targeted removals of the machine that may have had an effect: accepted, open and
    /// unconfirmed ones. Refused ones do not count.
    pub removal_requests: BTreeMap<String, usize>,
    /// UIDs of the machines among them that need not drain: of forced removals, and of releases of claims.
    pub undrained_removals: BTreeSet<String>,
    /// Machines whose targeted removal was answered with a success: their names by UID.
    pub completed_removals: BTreeMap<String, String>,
    /// For each pool UID, the number of additional machines that a killed or paused leader may create with
    /// its open requests.
    pub in_flight: BTreeMap<String, usize>,
    /// Names of the machines in such requests: they may be created whenever the request arrives.
    pub late_creates: BTreeSet<String>,
    /// Activations of standby machines that take effect long after they were sent: the UID of the machine and
    /// the version that the request requires, and when the first such request was sent.
    pub late_activations: BTreeMap<(String, u64), Timestamp>,
    /// Number of leaders after the first one.
    pub leaders: usize,
    /// Number of changes of admission policies that take created objects away from their pool.
    pub policies: usize,
    /// Number of machines that users took away from their pool.
    pub taken: usize,
    /// Names of the pools that a PoolAutoscaler scales: the controller may write their replicas.
    pub autoscaled: BTreeSet<String>,
    /// Whether pools can limit how many of their machines provision at the same time.
    pub limits_provisioning: bool,
    /// How far the clock of a controller was ahead of the API server's at most.
    pub clocks_ahead: SignedDuration,
    /// For how long a controller may not have known that a machine is not ready, or that it is protected: its
    /// watch was interrupted, or it became the leader later.
    pub unseen_for: SignedDuration,
    /// Foreign objects by UID, as the scenario last wrote them.
    pub foreign: BTreeMap<String, JsonObject>,
}

impl UserActions {
    /// Whether the scenario deleted this machine or requested its removal.
    pub fn is_removed_by_user(&self, uid: &str) -> bool {
        self.deleted.contains(uid) || self.removal_requests.contains_key(uid)
    }

    /// Records that a targeted removal of these machines is about to be sent.
    pub fn request_removal(&mut self, uids: &[String]) {
        for uid in uids {
            *self.removal_requests.entry(uid.clone()).or_default() += 1;
        }
    }

    /// Records that a removal that does not wait for hooks, forced or by the holder of a claim, is about to
    /// be sent.
    pub fn request_undrained_removal(&mut self, uids: &[String]) {
        self.request_removal(uids);
        self.undrained_removals.extend(uids.iter().cloned());
    }

    /// When the activation of this standby machine was sent, if it takes effect late; `None` if it does not.
    pub(crate) fn late_activation(&self, standby: &JsonObject) -> Option<Timestamp> {
        self.late_activations.get(&(standby.uid().to_owned(), standby.revision())).copied()
    }

    /// Records that a targeted removal of these machines was refused.
    pub fn removal_refused(&mut self, uids: &[String]) {
        for uid in uids {
            let left = self.removal_requests.get(uid).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                self.removal_requests.remove(uid);
                self.undrained_removals.remove(uid);
            } else {
                self.removal_requests.insert(uid.clone(), left);
            }
        }
    }
}
