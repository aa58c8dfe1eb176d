//! What must hold whatever happens, as pure functions over what was recorded.
//!
//! | invariant | check | needs |
//! | --- | --- | --- |
//! | I1 no machine leaves unless named or surplus | [`removal`] | history |
//! | I2 members never exceed what any reader could still see as desired | [`growth`] | history |
//! | I3 a disk is mounted by one machine at a time | the simulator records it; `World::check`  reads it | |
//! | I3 no two machines refer to one disk for long | [`shared`] | state |
//! | I4 foreign objects are left alone, referenced disks are not deleted | [`foreign`] | history, audit log |
//! | I5 an Explicit pool loses only named machines | [`removal`] | history |
//! | I6 a removal by name takes effect exactly once, and touches nobody else | [`addressed`], [`growth`], [`removal`] | history |
//! | I7 the controller never writes `spec.replicas` | [`writes`] | history, audit log |
//! | I8 a settled world is told truthfully and costs no writes | [`settled`] | state, audit log |
//! | I9 nothing is left after a pool is deleted | [`leftovers`] | history |
//! | I10 free disks that are too old end, but for those that are kept | [`collection`] | state |

pub mod addressed;
pub mod collection;
pub mod foreign;
pub mod growth;
pub mod leftovers;
pub mod removal;
pub mod settled;
pub mod shared;
pub mod writes;

mod record;
mod timeline;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::cluster::AuditEntry;
use crate::object::Object;
use crate::recorder::History;

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Its number, such as `I1`.
    pub invariant: &'static str,
    /// What broke it, with the object's name and the revision of the store.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// What the scenario itself did, which the checks must not hold against the controller.
#[derive(Debug, Clone, Default)]
pub struct Grounds {
    /// UIDs of the objects that the scenario deleted by name.
    pub named: BTreeSet<String>,
    /// By UID, how many requests to remove this machine by name may have had an effect: those that were accepted, those
    /// under way, and those that got no answer. One that was refused is not among them.
    pub asked: BTreeMap<String, usize>,
    /// Machines whose removal by name was answered with a success: their names by UID.
    pub removed: BTreeMap<String, String>,
    /// For each pool UID, how many members more a killed or paused leader may add: its requests in flight.
    pub in_flight: BTreeMap<String, usize>,
    /// Names of the machines whose creation is such a request: they may join whenever it arrives.
    pub late: BTreeSet<String>,
    /// Objects by UID that are none of the pool's business, as the scenario left them last.
    pub foreign: BTreeMap<String, Object>,
}

impl Grounds {
    /// Whether the scenario named this machine in one way or another.
    pub fn is_named(&self, uid: &str) -> bool {
        self.named.contains(uid) || self.asked.contains_key(uid)
    }

    /// A request to remove these machines by name is about to be sent.
    pub fn ask(&mut self, uids: &[String]) {
        for uid in uids {
            *self.asked.entry(uid.clone()).or_default() += 1;
        }
    }

    /// A request to remove these machines by name was refused.
    pub fn refused(&mut self, uids: &[String]) {
        for uid in uids {
            let left = self.asked.get(uid).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                self.asked.remove(uid);
            } else {
                self.asked.insert(uid.clone(), left);
            }
        }
    }
}

/// Every violation in what was recorded so far. I3 and I8 need more than a recording and are checked apart.
pub fn violations(
    history: &History,
    grounds: &Grounds,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let mut found = removal::violations(history, grounds);
    found.extend(growth::violations(history, grounds));
    found.extend(addressed::violations(history, grounds));
    found.extend(foreign::violations(history, grounds, audit, controller_user));
    found.extend(writes::violations(history, audit, controller_user));
    found
}
