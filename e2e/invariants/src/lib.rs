//! Invariants of the product, as pure functions of the recorded history.
//!
//! | invariant | check | needs |
//! | --- | --- | --- |
//! | I1 no machine is removed unless it is a target or surplus | [`removal`] | history |
//! | I2 machines never exceed what any reader could still see as desired | [`machine_count`] | history |
//! | I3 a disk is mounted by one machine at a time | the simulator records it; `World::check`  reads it | |
//! | I3 no two machines refer to one disk for long | [`shared_disks`] | state |
//! | I4 foreign objects are left alone, referenced disks are not deleted | [`foreign_objects`] | history, audit log |
//! | I5 an Explicit pool loses only targets of a targeted removal | [`removal`] | history |
//! | I6 a targeted removal takes effect exactly once, and affects no other machine | [`targeted_removal`], [`machine_count`], [`removal`] | history |
//! | I7 the controller never writes `spec.replicas` | [`replica_writes`] | history, audit log |
//! | I8 in a settled world the status is correct, and there are no writes | [`settled`] | state, audit log |
//! | I9 nothing remains after a pool is deleted | [`leftovers`] | history |
//! | I10 expired free disks are deleted, except those that are kept | [`disk_collection`] | state |

pub mod disk_collection;
pub mod foreign_objects;
pub mod leftovers;
pub mod machine_count;
pub mod object;
pub mod recorder;
pub mod removal;
pub mod replica_writes;
pub mod settled;
pub mod shared_disks;
pub mod targeted_removal;

mod removal_record;
mod timeline;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use vmpool_test_cluster::control_plane::AuditEntry;

use crate::object::Object;
use crate::recorder::History;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Its number, such as `I1`.
    pub invariant: &'static str,
    /// The violation, with the object's name and the revision of the store.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Actions of the scenario that the checks must take into account.
#[derive(Debug, Clone, Default)]
pub struct UserActions {
    /// UIDs of the objects that the scenario deleted.
    pub deleted: BTreeSet<String>,
    /// By UID, the number of targeted removals of the machine that may have had an effect: accepted, open and
    /// unconfirmed ones. Refused ones do not count.
    pub removal_requests: BTreeMap<String, usize>,
    /// Machines whose targeted removal was answered with a success: their names by UID.
    pub completed_removals: BTreeMap<String, String>,
    /// For each pool UID, the number of additional machines that a killed or paused leader may create with its open
    /// requests.
    pub in_flight: BTreeMap<String, usize>,
    /// Names of the machines in such requests: they may be created whenever the request arrives.
    pub late_creates: BTreeSet<String>,
    /// Foreign objects by UID, as the scenario last wrote them.
    pub foreign: BTreeMap<String, Object>,
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

    /// Records that a targeted removal of these machines was refused.
    pub fn removal_refused(&mut self, uids: &[String]) {
        for uid in uids {
            let left = self.removal_requests.get(uid).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                self.removal_requests.remove(uid);
            } else {
                self.removal_requests.insert(uid.clone(), left);
            }
        }
    }
}

/// All violations in the recorded history. I3 and I8 need more input and are checked separately.
pub fn violations(
    history: &History,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = removal::violations(history, actions);
    found.extend(machine_count::violations(history, actions));
    found.extend(targeted_removal::violations(history, actions));
    found.extend(foreign_objects::violations(history, actions, audit, controller_user));
    found.extend(replica_writes::violations(history, audit, controller_user));
    found
}
