//! Which machine a claim gets: pure functions of a list of machines.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::value::RawValue;
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_engine::{Machine, ParsedPool, Uid};
use vmpool_platforms::removal::StoredMachine;

use super::current::UpToDateMachines;

/// A pool and its machines, as one list showed them.
pub(super) struct ClaimSnapshot {
    pub(super) pool: ParsedPool,
    /// The object of the pool.
    pub(super) object: Box<RawValue>,
    pub(super) machines: Vec<StoredMachine>,
    pub(super) now: Timestamp,
}

/// The claims with an id, as far as one user is concerned.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MatchingClaims {
    /// The claim of the user. It has the smallest UID, so that all callers agree on one.
    pub(super) users_claim: Option<StoredMachine>,
    /// Further claims of the user with this id, which are given back.
    pub(super) surplus: Vec<StoredMachine>,
    /// Whether another user holds a claim with this id.
    pub(super) is_held_by_another: bool,
}

impl ClaimSnapshot {
    /// Finds the claims with this id.
    pub(super) fn find(&self, user: &str, id: &str) -> MatchingClaims {
        let mut found = MatchingClaims::default();
        for stored in self.live() {
            let protection = stored.machine.protection.as_ref();
            let claim = protection.and_then(|protection| protection.claim_of(self.pool.id.uid.as_str()));
            let Some(claim) = claim.filter(|claim| claim.id == id) else { continue };
            if claim.user == user {
                found.surplus.push(stored.clone());
            } else {
                // A claim that has ended no longer occupies its id.
                found.is_held_by_another |= stored.machine.is_protected(self.now);
            }
        }
        found.surplus.sort_by(|a, b| a.machine.id.uid.cmp(&b.machine.id.uid));
        if !found.surplus.is_empty() {
            found.users_claim = Some(found.surplus.remove(0));
        }
        found
    }

    /// Whether the claim of this machine still holds, or can be made again without taking the machine from
    /// another client.
    pub(super) fn can_renew(&self, stored: &StoredMachine) -> bool {
        let is_target = self.targets().contains(&stored.machine.id.uid);
        !is_target
            && (stored.machine.is_protected(self.now) || self.is_free(&stored.machine, &BTreeSet::new()))
    }

    /// The machines that can be claimed, the first one first: those whose guest has the current template,
    /// then the oldest.
    pub(super) fn candidates(&self, current: &UpToDateMachines) -> Vec<StoredMachine> {
        let targets = self.targets();
        let free = self.live().filter(|stored| self.is_free(&stored.machine, &targets));
        let mut free: Vec<StoredMachine> = free.cloned().collect();
        free.sort_by(|a, b| compare_claim_candidates(current, &a.machine, &b.machine));
        free
    }

    /// Whether the list contains an active machine of this name.
    pub(super) fn lists_active(&self, name: &str) -> bool {
        self.live().any(|stored| *stored.machine.id.name == *name)
    }

    /// The live active machines. A claim concerns no standby machine.
    fn live(&self) -> impl Iterator<Item = &StoredMachine> {
        let is_live = |machine: &Machine| {
            machine.belongs_to(&self.pool.id) && !machine.terminating && machine.standby.is_none()
        };
        self.machines.iter().filter(move |stored| is_live(&stored.machine))
    }

    fn is_free(&self, machine: &Machine, targets: &BTreeSet<Uid>) -> bool {
        self.pool.may_claim(machine, self.now) && !targets.contains(&machine.id.uid)
    }

    fn targets(&self) -> BTreeSet<Uid> {
        removal_record_targets(&self.pool.record)
    }
}

/// The targets of all removals in a record, reserved or accepted.
pub(super) fn removal_record_targets(record: &RemovalRecord) -> BTreeSet<Uid> {
    record.reserved().chain(record.accepted()).map(|target| target.uid.clone()).collect()
}

fn compare_claim_candidates(current: &UpToDateMachines, a: &Machine, b: &Machine) -> Ordering {
    let key = |machine: &Machine| (!current.has(machine), machine.created);
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}
