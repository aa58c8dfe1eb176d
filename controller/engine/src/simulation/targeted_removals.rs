//! Targeted removals on the API server: the writes of clients, the controller's write of the removal record,
//! and the invariant I6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, PoolHistoryEntry, RequestBasis, RequestRefusal, check_invariant};
use crate::ledger::VersionedFacts;
use crate::model::{Machine, Naming, ObjectId, Uid};
use crate::scale_down::removal::{RESERVATION_AGE, RemovalRecordFull};
use crate::scale_up::names::{NameBlock, Namer};

/// State besides the removal record that the invariant needs.
#[derive(Clone, Default)]
pub(super) struct TargetedRemovals {
    /// The accepted targets, each with the version of the pool at which `replicas` was lowered.
    pub(super) accepted: BTreeMap<Uid, usize>,
    /// When each request reserved its targets.
    pub(super) reserved: BTreeMap<Arc<str>, Duration>,
    /// The version of the pool at which each request reserved its targets.
    pub(super) reserved_at: BTreeMap<Arc<str>, usize>,
    /// The targets of requests that verified all of them. From then on, the controller must not replace them.
    pub(super) verified: BTreeMap<Arc<str>, Vec<ObjectId>>,
}

impl TargetedRemovals {
    /// Whether `replicas` was lowered for this machine.
    pub(super) fn is_accepted(&self, machine: &Uid) -> bool {
        self.accepted.contains_key(machine)
    }

    /// Whether it was already lowered at this version of the pool.
    pub(super) fn was_accepted_at(&self, machine: &Uid, version: usize) -> bool {
        self.accepted.get(machine).is_some_and(|since| *since <= version)
    }
}

impl Api {
    fn write_pool(&mut self) {
        self.history.push(PoolHistoryEntry::of(&self.pool));
    }

    /// Number of deleted machines that a request has verified and may still accept, and that a create of
    /// `name` must not replace. A former machine of that name does not count if it was reserved after the
    /// create was planned: the name belongs to one create, so this one repeats it.
    pub(super) fn held(&self, name: &str, basis: RequestBasis) -> usize {
        let machines: BTreeSet<&Uid> = self.pool_machines().map(|machine| &machine.id.uid).collect();
        let record = &self.pool.record;
        let mut pending = BTreeSet::new();
        for (request, targets) in &self.removals.verified {
            let later = self.removals.reserved_at[request] > basis.planned;
            let held = targets.iter().filter(|target| record.holds(request, &target.uid));
            pending.extend(held.filter(|target| !(later && *target.name == *name)).map(|target| &target.uid));
        }
        pending.retain(|target| !self.removals.is_accepted(target) && !machines.contains(target));
        pending.len()
    }

    pub(super) fn reserve(
        &mut self,
        request: &Arc<str>,
        targets: &[ObjectId],
    ) -> Result<(), RemovalRecordFull> {
        self.pool.record.reserve(request, targets)?;
        self.removals.reserved.insert(request.clone(), self.now);
        self.write_pool();
        self.removals.reserved_at.insert(request.clone(), self.history.len() - 1);
        Ok(())
    }

    /// Reads the targets live. Returns whether all of them belong to the pool or are already accepted.
    pub(super) fn verify(&mut self, request: &Arc<str>, targets: &[ObjectId]) -> bool {
        let known = targets.iter().all(|target| {
            let found = self.machines.find(target).ok();
            self.pool.record.is_accepted(&target.uid)
                || found.is_some_and(|machine| machine.belongs_to(&self.pool.id) && machine.standby.is_none())
        });
        if known {
            self.removals.verified.insert(request.clone(), targets.to_vec());
        }
        known
    }

    pub(super) fn withdraw(&mut self, request: &Arc<str>) {
        self.pool.record.withdraw(request);
        self.removals.verified.remove(request);
        self.write_pool();
    }

    /// Lowers `replicas` by the targets for which it was not lowered yet. I6: exactly once. `None` if a
    /// reservation was dropped.
    pub(super) fn accept(
        &mut self,
        request: &str,
        targets: &[ObjectId],
    ) -> Result<Option<usize>, BrokenInvariant> {
        if !targets.iter().all(|target| self.pool.record.holds(request, &target.uid)) {
            return Ok(None);
        }
        let uids: BTreeSet<&Uid> = targets.iter().map(|target| &target.uid).collect();
        let fresh: Vec<Uid> =
            uids.into_iter().filter(|uid| !self.removals.is_accepted(uid)).cloned().collect();
        let count = self.pool.record.accept(request);
        check_invariant(count == fresh.len(), || {
            format!("I6: {request} lowers the count by {count} for {} machines: {fresh:?}", fresh.len())
        })?;
        self.pool.desired = self.pool.desired.saturating_sub(count);
        self.pool.generation += 1;
        self.write_pool();
        let version = self.history.len() - 1;
        self.removals.accepted.extend(fresh.into_iter().map(|uid| (uid, version)));
        Ok(Some(count))
    }

    /// The client of a targeted removal deletes a target.
    pub(super) fn delete_named(&mut self, id: &ObjectId) -> Result<&'static str, BrokenInvariant> {
        check_invariant(self.removals.is_accepted(&id.uid), || {
            format!("I5: {id} was deleted and not accepted")
        })?;
        Ok(match self.machines.find(id) {
            Err(_) => "was gone already",
            Ok(machine) if machine.terminating => "was leaving already",
            Ok(machine) if machine.draining.is_some() => "is left to the controller",
            Ok(_) => {
                self.remove_by_hand(id, |machine| machine.terminating = true);
                "done"
            }
        })
    }

    /// Live reads of targets: those that do not belong to the pool, and the others.
    pub(super) fn confirm(&self, targets: &[ObjectId]) -> (BTreeSet<Uid>, Vec<VersionedFacts<Machine>>) {
        let (mut gone, mut here) = (BTreeSet::new(), Vec::new());
        for target in targets {
            match self.machines.objects.get(&target.name) {
                Some(seen) if seen.facts.id == *target && seen.facts.belongs_to(&self.pool.id) => {
                    here.push(seen.clone());
                }
                _ => drop(gone.insert(target.uid.clone())),
            }
        }
        (gone, here)
    }

    /// The controller's write of the removal record, and of the name block with it. I6: no entry is removed
    /// while its machine exists or while a new leader could use its name again, and no reservation before its
    /// timeout.
    pub(super) fn settle(
        &mut self,
        gone: &BTreeSet<Uid>,
        expired: &[Arc<str>],
        block: Option<NameBlock>,
        basis: RequestBasis,
    ) -> Result<Result<(), RequestRefusal>, BrokenInvariant> {
        if basis.pool + 1 != self.history.len() {
            return Ok(Err(RequestRefusal::Conflict));
        }
        let before = self.pool.record.clone();
        for request in expired {
            let age = self.now.saturating_sub(self.removals.reserved[request]);
            check_invariant(age >= RESERVATION_AGE, || format!("I6: {request} was dropped after {age:?}"))?;
            self.pool.record.withdraw(request);
        }
        self.pool.record.prune(gone);
        if let Some(block) = block {
            let old = self.pool.name_block.replace(block);
            let forward = old.is_some_and(|old| block.first > old.first && block.end == old.end);
            check_invariant(forward, || format!("block {block} follows {old:?} in a write of the record"))?;
        }
        let namer = Namer::new(&self.pool.id.name, &self.pool.id.uid);
        for target in before.accepted().filter(|target| !self.pool.record.is_accepted(&target.uid)) {
            let there = self.pool_machines().any(|machine| machine.id.uid == target.uid);
            check_invariant(!there, || format!("I6: {target} is still there, and its entry has left"))?;
            let number = namer.number_of(&target.name).zip(self.pool.name_block);
            let returns = number.is_some_and(|(number, block)| block.first <= number && number < block.end);
            check_invariant(self.pool.naming == Naming::Ordinal || !returns, || {
                format!("I6: the name of {target} can return, and its entry has left")
            })?;
        }
        check_invariant(self.pool.record != before, || "a write on the record that changes nothing".into())?;
        self.write_pool();
        Ok(Ok(()))
    }

    /// I6 after convergence: accepted targets are gone, and the record is empty.
    pub(super) fn names_are_settled(&self) -> Result<(), BrokenInvariant> {
        let left = self.pool_machines().find(|machine| self.removals.is_accepted(&machine.id.uid));
        check_invariant(left.is_none(), || {
            format!("I6: {} was to be removed and stays", left.expect("found").id)
        })?;
        check_invariant(self.pool.record.is_empty(), || format!("the record keeps {}", self.pool.record))
    }
}
