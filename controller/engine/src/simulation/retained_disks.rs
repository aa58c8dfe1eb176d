//! Retained disks on the API server: writes of the controller and of the platform, the actual mounts, and the
//! invariants I3, I4 and I10.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, BrokenInvariant, PoolHistoryEntry, RequestBasis, RequestRefusal, check_invariant};
use crate::ledger::VersionedFacts;
use crate::model::{
    Disk, DiskAnnotations, DiskDraft, DiskSource, DiskState, Lifetime, Machine, ObjectId, Owner,
    PoolDiskTemplate, Uid,
};
use crate::plan::DiskDeleteReason;

/// State besides the objects that the invariants of disks need.
#[derive(Clone, Default)]
pub(super) struct RetainedDisks {
    /// The machine that mounts a disk. The status of the disk can be outdated.
    pub(super) mounts: BTreeMap<Arc<str>, Uid>,
    /// When a machine of the pool last used a disk.
    pub(super) last_used: BTreeMap<Uid, Duration>,
    /// Since when a machine refers to a disk.
    pub(super) references: BTreeMap<(Uid, Arc<str>), Duration>,
    /// The maximum number of machines at the same time.
    pub(super) most_machines: usize,
    /// Number of disks that may exceed the number of machines, because a disk was lost to the pool.
    pub(super) excused: usize,
    /// Whether the platform rejects expansions.
    pub(super) refuses_growth: bool,
}

impl Api {
    /// The disk template of this name, if its disks are retained.
    pub(super) fn retained_template(&self, name: &str) -> Option<&PoolDiskTemplate> {
        let is =
            |template: &&PoolDiskTemplate| *template.name == *name && template.lifetime == Lifetime::Retained;
        self.pool.disks.iter().find(is)
    }

    /// Whether the pool has a template with retained disks.
    pub(super) fn retains_disks(&self) -> bool {
        self.pool.disks.iter().any(|template| template.lifetime == Lifetime::Retained)
    }

    /// The disks that the pool owns.
    pub(super) fn retained_disks(&self) -> impl Iterator<Item = &Arc<Disk>> {
        let ours = |disk: &&Arc<Disk>| disk.belongs_to(&self.pool.id) && !disk.terminating;
        self.disks.objects.values().map(|seen| &seen.facts).filter(ours)
    }

    fn users(&self, disk: &str) -> impl Iterator<Item = &Machine> {
        let machines = self.machines.objects.values().map(|seen| &*seen.facts);
        machines.filter(move |machine| {
            machine.disks.iter().any(|device| *device.disk == *disk)
                || machine.lingering.iter().any(|lingering| **lingering == *disk)
        })
    }

    /// Whether a machine refers to the disk.
    pub(super) fn is_referred_to(&self, disk: &str) -> bool {
        self.users(disk).next().is_some()
    }

    /// Records the current users of disks. Call it after every step.
    pub(super) fn record_disk_use(&mut self) {
        let now = self.now;
        let mut used = Vec::new();
        for disk in self.retained_disks() {
            let name = &disk.id.name;
            let claimer = disk.annotations.claimed_by.as_ref();
            let claimed = claimer.is_some_and(|name| self.machines.objects.contains_key(name));
            let users: Vec<Uid> = self.users(name).map(|machine| machine.id.uid.clone()).collect();
            // The controller cannot see a use by a foreign machine between two passes.
            let ours =
                users.iter().chain(self.retained.mounts.get(name)).any(|uid| self.is_pool_machine(uid));
            used.push((disk.id.clone(), users, claimed || ours));
        }
        for (disk, users, ours) in used {
            for user in users {
                self.retained.references.entry((user, disk.name.clone())).or_insert(now);
            }
            if ours {
                self.retained.last_used.insert(disk.uid, now);
            }
        }
    }

    /// Records the number of machines after a create.
    pub(super) fn record_machine_count(&mut self) {
        self.retained.most_machines = self.retained.most_machines.max(self.owned_machines().count());
    }

    /// Creates a retained disk. There must never be more retained disks of a template than the pool ever had
    /// or requested machines.
    pub(super) fn create_retained(
        &mut self,
        draft: &DiskDraft,
        late: bool,
    ) -> Result<VersionedFacts<Disk>, BrokenInvariant> {
        let size = self.retained_template(&draft.template).and_then(|template| template.size);
        let owner = Owner::pool(&self.pool.id);
        let seen = self.put_disk_as(&draft.name, Some(owner), |disk| {
            disk.template = Some(draft.template.clone());
            (disk.state, disk.size) = (DiskState::Pending, size);
        });
        self.retained.excused += usize::from(late);
        let gone = |disk: &Disk| {
            let mounts = disk.mounted_by.as_ref();
            mounts.is_some_and(|machine| !self.machines.objects.contains_key(machine))
        };
        let broken = |disk: &Disk| matches!(disk.state, DiskState::Failed | DiskState::Lost);
        let of_template =
            self.retained_disks().filter(|disk| disk.template.as_ref() == Some(&draft.template));
        let lent = |disk: &Disk| self.users(&disk.id.name).any(|machine| !machine.belongs_to(&self.pool.id));
        let disks = of_template.filter(|disk| !broken(disk) && !gone(disk) && !lent(disk)).count();
        let wanted = self.history.iter().map(PoolHistoryEntry::desired).max().unwrap_or_default();
        let bound = self.retained.most_machines.max(wanted) + self.retained.excused;
        check_invariant(disks <= bound, || {
            format!("{disks} disks for at most {bound} machines: {} is one too many", draft.name)
        })?;
        Ok(seen)
    }

    /// Writes the annotations of a disk at the version that the sender knew.
    pub(super) fn annotate_disk(
        &mut self,
        id: &ObjectId,
        version: u64,
        annotations: &DiskAnnotations,
    ) -> Result<Result<VersionedFacts<Disk>, RequestRefusal>, BrokenInvariant> {
        let disk = match self.guarded(id, version)? {
            Ok(disk) => disk,
            Err(refusal) => return Ok(Err(refusal)),
        };
        check_invariant(disk.annotations != *annotations, || format!("a mark on {id} that changes nothing"))?;
        if let Some(claimer) = &annotations.claimed_by
            && disk.annotations.claimed_by.as_ref() != Some(claimer)
        {
            let mounted = self.retained.mounts.get(&id.name);
            // A late request of a former leader is not prevented but repaired.
            let by_machine =
                mounted.is_some_and(|uid| self.is_pool_machine(uid) && !self.is_from_former_leader(uid));
            check_invariant(!by_machine, || format!("I3: {id} is claimed for {claimer} and mounted"))?;
        }
        let version = self.next_version();
        Ok(Ok(self.disks.put(Disk { annotations: annotations.clone(), ..disk }, version)))
    }

    /// Deletes a disk at the version that the sender knew. I4: no use began before the mark, and no machine
    /// of the pool refers to it. I10: its time to live has passed.
    pub(super) fn delete_disk(
        &mut self,
        id: &ObjectId,
        version: u64,
        reason: DiskDeleteReason,
    ) -> Result<Result<VersionedFacts<Disk>, RequestRefusal>, BrokenInvariant> {
        let disk = match self.guarded(id, version)? {
            Ok(disk) => disk,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(crate::model::StoredTime::At(marked)) = disk.annotations.collecting_since else {
            return Err(format!("I4: {id} is deleted and was not marked"));
        };
        let marked =
            Duration::from_nanos(u64::try_from(marked.as_nanosecond()).expect("after the beginning"));
        let user = self.users(&id.name).find(|machine| {
            let since = self.retained.references.get(&(machine.id.uid.clone(), id.name.clone()));
            self.is_pool_machine(&machine.id.uid) || since.is_none_or(|since| *since <= marked)
        });
        check_invariant(user.is_none(), || {
            format!("I4: {id} is deleted, and {} has it", user.expect("found").id)
        })?;
        let mounted = self.retained.mounts.get(&id.name).is_some_and(|uid| self.is_pool_machine(uid));
        check_invariant(!mounted, || format!("I4: {id} is deleted while it is mounted"))?;
        if reason == DiskDeleteReason::Expired {
            // The plan may have used a template with a shorter time to live.
            let ttl = disk.template.as_ref().and_then(|name| self.shortest_ttl(name));
            let idle =
                self.now.saturating_sub(self.retained.last_used.get(&id.uid).copied().unwrap_or_default());
            check_invariant(ttl.is_some_and(|ttl| idle > ttl), || {
                format!("I10: {id} is deleted after {idle:?}")
            })?;
        }
        let version = self.next_version();
        Ok(Ok(self.disks.put(Disk { terminating: true, ..disk }, version)))
    }

    /// The shortest time to live that the template ever had.
    fn shortest_ttl(&self, template: &str) -> Option<Duration> {
        let of = |disks: &Vec<PoolDiskTemplate>| disks.iter().find(|known| *known.name == *template)?.ttl;
        self.templates_ever.iter().filter_map(of).min()
    }

    /// The disk at the version that the sender knew. The controller must write only to disks that the pool
    /// owns.
    fn guarded(&self, id: &ObjectId, version: u64) -> Result<Result<Disk, RequestRefusal>, BrokenInvariant> {
        let disk = match self.disks.find(id) {
            Ok(disk) => disk,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if self.disks.objects[&id.name].version != version {
            return Ok(Err(RequestRefusal::Conflict));
        }
        let ours = disk.belongs_to(&self.pool.id);
        check_invariant(ours, || format!("I4: {id} is written to and is not the pool's"))?;
        Ok(Ok(disk))
    }

    /// Expands a disk. The platform rejects a smaller size, which a late request may contain.
    pub(super) fn grow(&mut self, id: &ObjectId, to: u64) -> Result<VersionedFacts<Disk>, RequestRefusal> {
        let disk = self.disks.find(id)?;
        let shrinks = disk.size.is_some_and(|size| size > to);
        if self.retained.refuses_growth || shrinks || disk.state != DiskState::Ready {
            return Err(RequestRefusal::Invalid);
        }
        let version = self.next_version();
        Ok(self.disks.put(Disk { size: Some(to), ..disk }, version))
    }

    /// A machine of the current leader must be the only user of its disks, and the disks must be allocated to
    /// it.
    pub(super) fn check_disks(
        &self,
        draft: &crate::model::Draft,
        basis: RequestBasis,
    ) -> Result<(), BrokenInvariant> {
        if !basis.current {
            return Ok(());
        }
        for wanted in &draft.disks {
            let Some(seen) = self.disks.objects.get(&wanted.name) else { continue };
            if wanted.source == DiskSource::New || self.retained_template(&wanted.template).is_none() {
                continue;
            }
            let other = self.users(&wanted.name).find(|machine| {
                self.is_pool_machine(&machine.id.uid)
                    && machine.id.name != draft.name
                    && !self.is_from_former_leader(&machine.id.uid)
            });
            check_invariant(other.is_none(), || {
                format!("I3: {} gets {}, which {} has", draft.name, wanted.name, other.expect("found").id)
            })?;
            let claimed = seen.facts.annotations.claimed_by.as_ref() == Some(&draft.name);
            check_invariant(claimed, || format!("{} gets {} without a claim", draft.name, wanted.name))?;
        }
        Ok(())
    }

    /// A released machine becomes the owner of its disks.
    pub(super) fn give_disks_away(&mut self, machine: &ObjectId, shared: &[Arc<str>]) {
        let Ok(facts) = self.machines.find(machine) else { return };
        for device in facts.disks {
            let Some(seen) = self.disks.objects.get(&device.disk) else { continue };
            let ours = seen.facts.belongs_to(&self.pool.id);
            if ours && !shared.contains(&device.disk) {
                let disk = Disk { owner: Some(Owner::machine(machine)), ..(*seen.facts).clone() };
                let version = self.next_version();
                self.disks.put(disk, version);
            }
        }
    }

    /// After convergence, every machine mounts its retained disks as the only user. Free disks have their
    /// annotation and the size of their template, and there are no more of them than `keep`.
    pub(super) fn retained_disks_are_settled(&self) -> Result<(), BrokenInvariant> {
        for template in self.pool.disks.iter().filter(|template| template.lifetime == Lifetime::Retained) {
            for machine in self.pool_machines() {
                let device =
                    machine.disks.iter().find(|device| device.template.as_ref() == Some(&template.name));
                let disk =
                    device.and_then(|device| self.disks.objects.get(&device.disk)).map(|seen| &seen.facts);
                let disk = disk.filter(|disk| disk.belongs_to(&self.pool.id)).ok_or_else(|| {
                    format!("{} has no disk of {} that is the pool's", machine.id, template.name)
                })?;
                let mounts = self.retained.mounts.get(&disk.id.name) == Some(&machine.id.uid);
                check_invariant(mounts, || format!("I3: {} does not run on {}", machine.id, disk.id))?;
                let annotations = &disk.annotations;
                check_invariant(
                    annotations.free_since.is_none() && annotations.collecting_since.is_none(),
                    || format!("{} is in use and says {annotations:?}", disk.id),
                )?;
            }
            let of_template =
                self.retained_disks().filter(|disk| disk.template.as_ref() == Some(&template.name));
            let (mut free, mut all) = (0, 0);
            for disk in of_template {
                all += 1;
                let broken = matches!(disk.state, DiskState::Failed | DiskState::Lost);
                check_invariant(broken || disk.size.or(disk.capacity) >= template.size, || {
                    format!("{} is too small", disk.id)
                })?;
                if !self.is_referred_to(&disk.id.name) {
                    free += 1;
                    let annotations = &disk.annotations;
                    check_invariant(
                        annotations.free_since.is_some() && annotations.claimed_by.is_none(),
                        || format!("{} is free and has annotations {annotations:?}", disk.id),
                    )?;
                }
            }
            check_invariant(template.ttl.is_none() || free <= template.keep_free, || {
                format!(
                    "I10: {free} of {all} disks of {} are free and {} are kept",
                    template.name, template.keep_free
                )
            })?;
        }
        Ok(())
    }
}
