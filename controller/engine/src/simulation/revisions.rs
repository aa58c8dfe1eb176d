//! Revisions on the API server: stored revisions, updates of machines, and their evaluation by the platform.

use std::collections::BTreeSet;

use super::api::{Api, BrokenInvariant, RequestRefusal, check_invariant};
use super::hooks::remove_mark;
use crate::ledger::VersionedFacts;
use crate::model::{DiskDraft, DiskRef, DiskSource, Machine, MachineActivity, ObjectId, Uid};
use crate::plan::Disruption;
use crate::revisions::RevisionId;

/// The revisions of the pool.
#[derive(Clone)]
pub(super) struct ModelRevisions {
    /// The stored revisions, oldest first.
    pub(super) stored: Vec<RevisionId>,
    /// Revisions that a late request deleted.
    pub(super) lost: BTreeSet<RevisionId>,
    /// Machines whose last update came from a late request.
    pub(super) late: BTreeSet<Uid>,
}

impl ModelRevisions {
    pub(super) fn new(first: &RevisionId) -> Self {
        Self { stored: vec![first.clone()], lost: BTreeSet::new(), late: BTreeSet::new() }
    }
}

/// An update of a machine.
pub(super) struct MachineUpdate<'a> {
    pub(super) base: Option<&'a RevisionId>,
    pub(super) to: &'a RevisionId,
    pub(super) disks: &'a [DiskDraft],
    pub(super) disruption: Disruption,
}

impl Api {
    /// A user changes the template.
    pub(super) fn revise(&mut self, to: &str) {
        let to = RevisionId::from(to);
        let stored = self.revisions.stored.contains(&to);
        self.edit_pool(|pool| (pool.revision.id, pool.revision.stored) = (to, stored));
        self.compare_templates();
    }

    /// Stores a revision. Returns whether it was new.
    pub(super) fn store(&mut self, revision: &RevisionId) -> bool {
        let fresh = !self.revisions.stored.contains(revision);
        if fresh {
            self.revisions.stored.push(revision.clone());
            self.revisions.lost.remove(revision);
        }
        self.pool.revision.stored |= self.pool.revision.id == *revision;
        self.compare_templates();
        fresh
    }

    /// Deletes a stored revision. Returns whether it existed. A revision that a machine refers to must never
    /// be deleted, unless this request or the update of that machine came late, or the machine came from a
    /// former leader.
    pub(super) fn prune(&mut self, revision: &RevisionId, late: bool) -> Result<bool, BrokenInvariant> {
        let names = |machine: &Machine| machine.revisions().any(|named| named == revision);
        // A deleted pool does not wait for what a former leader creates.
        let excused = |machine: &Machine| self.pool.deleting && self.is_from_former_leader(&machine.id.uid);
        let machine = self.owned_machines().find(|machine| {
            !machine.terminating
                && names(machine)
                && !excused(machine)
                && !self.revisions.late.contains(&machine.id.uid)
        });
        let surplus = self.pool_machines().count() > self.pool.desired;
        check_invariant(machine.is_none() || surplus || late, || {
            format!("revision {revision} is deleted, and {} names it", machine.expect("found").id)
        })?;
        let before = self.revisions.stored.len();
        self.revisions.stored.retain(|stored| stored != revision);
        self.pool.revision.stored &= self.pool.revision.id != *revision;
        if late {
            self.revisions.lost.insert(revision.clone());
        }
        self.compare_templates();
        Ok(self.revisions.stored.len() < before)
    }

    /// Writes a revision to a machine that was just read, or read at the version `read`.
    pub(super) fn update(
        &mut self,
        id: &ObjectId,
        write: &MachineUpdate<'_>,
        read: Option<u64>,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.as_read(id, read) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let MachineUpdate { base, to, disks, disruption } = *write;
        let is_other = |written: &RevisionId| {
            base != Some(written) && (written == to || self.revisions.stored.contains(written))
        };
        let changed = machine.written.as_ref().is_some_and(is_other);
        let gone = machine.terminating || !machine.belongs_to(&self.pool.id);
        let unfit = match disruption {
            Disruption::Budgeted => false,
            Disruption::NotRunning => machine.activity == MachineActivity::Running,
            // Every revision here changes the spec.
            Disruption::MetadataOnly => true,
            Disruption::ForApproval => machine.restarts_itself,
        };
        // The controller reads the machine, and a late request requires the version that was read.
        let protected = machine.is_protected(self.timestamp());
        let unfit =
            unfit || machine.activity != MachineActivity::Stopped && protected && machine.restarts_itself;
        let stops_guest = disruption == Disruption::Budgeted
            && self.pool.may_restart_for_update(&machine)
            && machine.runs();
        let drains = stops_guest && machine.must_drain(self.timestamp(), self.pool.drain_timeout);
        let unfit = unfit || drains;
        if changed || gone || unfit {
            return Ok(Err(RequestRefusal::Conflict));
        }
        let stored = self.revisions.stored.contains(to);
        let excused = read.is_some() || self.revisions.lost.contains(to);
        check_invariant(stored || excused, || format!("{id} gets revision {to}, which is not stored"))?;
        self.check_held(id, disks)?;
        let device = |(position, disk): (usize, &DiskDraft)| DiskRef {
            template: Some(disk.template.clone()),
            disk: disk.name.clone(),
            position,
        };
        if read.is_some() {
            self.revisions.late.insert(id.uid.clone());
        } else {
            self.revisions.late.remove(&id.uid);
        }
        let is_evaluated = self.has_instances();
        let devices: Vec<DiskRef> = disks.iter().enumerate().map(device).collect();
        let seen = self.change(id, |machine| {
            machine.written = Some(to.clone());
            machine.evaluated = is_evaluated;
            machine.disks = devices;
        });
        Ok(seen)
    }

    /// I3: a machine that gets a disk of the pool is its only user.
    fn check_held(&self, id: &ObjectId, disks: &[DiskDraft]) -> Result<(), BrokenInvariant> {
        for disk in disks.iter().filter(|disk| disk.source != DiskSource::New) {
            let holder = self.retained.mounts.get(&disk.name);
            let other = holder.is_some_and(|holder| {
                *holder != id.uid && self.is_pool_machine(holder) && !self.is_from_former_leader(holder)
            });
            check_invariant(!other, || {
                format!("I3: {id} gets {}, which is mounted by another machine", disk.name)
            })?;
        }
        Ok(())
    }

    /// Records on a machine that the last written revision is in effect.
    pub(super) fn advance(
        &mut self,
        id: &ObjectId,
        to: &RevisionId,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        let in_effect = machine.written.as_ref() == Some(to) && machine.evaluated && !machine.restart_pending;
        if machine.terminating || !machine.belongs_to(&self.pool.id) || !in_effect {
            return Err(RequestRefusal::Conflict);
        }
        self.change(id, |machine| {
            machine.revision = Some(to.clone());
            remove_mark(machine);
        })
    }

    pub(super) fn as_read(&self, id: &ObjectId, read: Option<u64>) -> Result<Machine, RequestRefusal> {
        let machine = self.machines.find(id)?;
        let current = read.is_none_or(|version| self.machines.objects[&id.name].version == version);
        if current { Ok(machine) } else { Err(RequestRefusal::Conflict) }
    }

    /// The platform evaluates the spec of a machine. A running machine needs a restart.
    pub(super) fn evaluate(&mut self, id: &ObjectId) {
        self.edit_machine(id, |machine| {
            machine.evaluated = true;
            machine.restart_pending = machine.activity == MachineActivity::Running;
            machine.restarts_itself = true;
        });
    }

    /// The platform restarts a machine with a pending restart.
    pub(super) fn restart(&mut self, id: &ObjectId) {
        self.edit_machine(id, |machine| machine.restart_pending = false);
    }
}
