//! A platform on which machines have instances, finalizers and storage of their own, as on KubeVirt: the
//! controller restarts the instances, and a machine that leaves keeps its storage for the next one with its
//! name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::api::{Api, BrokenInvariant, RequestBasis, RequestRefusal, check_invariant};
use super::hooks::remove_mark;
use crate::ledger::VersionedFacts;
use crate::model::{
    Finalizer, Instance, Machine, MachineActivity, Membership, ObjectId, Owner, Pool, Preservation, Restarts,
    StatusContent, TemplateParts, Uid,
};
use crate::plan::DeleteReason;
use crate::protection::Protection;
use crate::revisions::{Fingerprint, LiveParts, RevisionId};
use crate::selector::Selector;

/// What distinguishes the templates of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateDifference {
    /// A change needs other instances.
    Instances,
    /// A change needs other storage, and therefore other machines.
    Storage,
}

/// The storage of the machines.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelStorage {
    /// The machine that owns the storage of each name; `None` if it is preserved.
    pub(super) owners: BTreeMap<Arc<str>, Option<Uid>>,
    /// Machines that a user has returned to the pool, and the positions in the log of machines at which that
    /// happened.
    pub(super) returned: Vec<usize>,
    /// What distinguishes the templates; `None` on a platform without instances.
    changes: Option<TemplateDifference>,
}

/// Whether the platform can complete the deletion of the machine.
pub(super) fn can_finish(machine: &Machine) -> bool {
    machine.terminating && !machine.has_finalizer
}

/// Makes the pool one whose machines have instances.
pub(super) fn enable_instances(pool: &mut Pool, changes: TemplateDifference) {
    pool.disks.clear();
    pool.finalizer = Finalizer::Missing;
    pool.membership = Membership::Selector(Selector::default());
    pool.preservation = Preservation::UnlessChanged;
    pool.status_content = StatusContent::FailureAndPause;
    pool.rollout.restarts = Restarts::ByController;
    pool.revision.template_parts =
        [(pool.revision.id.clone(), parts_of_revision(&pool.revision.id, changes))].into();
}

/// The parts of the template of a revision.
fn parts_of_revision(revision: &RevisionId, changes: TemplateDifference) -> TemplateParts {
    let varying = Fingerprint::of(&json!({ "revision": revision.as_str() }));
    let fixed = Fingerprint::of(&json!({}));
    let (instance, storage) = match changes {
        TemplateDifference::Instances => (varying, fixed),
        TemplateDifference::Storage => (fixed, varying),
    };
    TemplateParts { instance, live: LiveParts::default(), storage }
}

impl Api {
    /// Whether machines of the pool have instances.
    pub(super) fn has_instances(&self) -> bool {
        self.pool.finalizer != Finalizer::Unused
    }

    /// Whether the machine is marked.
    pub(super) fn is_restarting(&self, id: &ObjectId) -> bool {
        self.machines.find(id).is_ok_and(|machine| machine.is_restarting())
    }

    /// Sets what distinguishes the templates.
    pub(super) fn set_changes(&mut self, changes: TemplateDifference) {
        self.storage.changes = Some(changes);
    }

    /// The controller compares the templates of the current and of the stored revisions.
    pub(super) fn compare_templates(&mut self) {
        let Some(changes) = self.storage.changes else { return };
        let known = self.revisions.stored.iter().chain([&self.pool.revision.id]);
        self.pool.revision.template_parts =
            known.map(|id| (id.clone(), parts_of_revision(id, changes))).collect();
    }

    /// Adds or removes the finalizer of the pool.
    pub(super) fn set_pool_finalizer(&mut self, finalizer: Finalizer) -> Result<(), BrokenInvariant> {
        if finalizer == Finalizer::Missing {
            let held = self
                .owned_machines()
                .find(|machine| machine.has_finalizer && !self.is_from_former_leader(&machine.id.uid));
            check_invariant(held.is_none(), || {
                format!("I9: the pool is gone, and {} keeps its finalizer", held.expect("found").id)
            })?;
        }
        self.pool.finalizer = finalizer;
        Ok(())
    }

    /// Adds the finalizer to a machine that was just read, or read at the version `read`. The API server
    /// rejects new finalizers of objects that are being deleted.
    pub(super) fn add_finalizer(
        &mut self,
        id: &ObjectId,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        if machine.terminating || !machine.belongs_to(&self.pool.id) {
            return Err(RequestRefusal::Conflict);
        }
        self.change(id, |machine| machine.has_finalizer = true)
    }

    /// Removes the finalizer of a machine that is being deleted, or whose pool is. I4: its storage stays,
    /// unless the machine was deleted to replace it, or the pool is deleted.
    pub(super) fn remove_finalizer(
        &mut self,
        id: &ObjectId,
        preserve: bool,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.machines.find(id) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // The controller reads the machine first. What it reads about the storage decides.
        if !machine.terminating && !self.pool.deleting {
            return Ok(Err(RequestRefusal::Conflict));
        }
        let preserve = preserve && !machine.discards_storage;
        let discarded = machine.discards_storage || self.pool.deleting;
        check_invariant(preserve || discarded, || format!("I4: the storage of {id} is deleted with it"))?;
        if preserve
            && let Some(owner) = self.storage.owners.get_mut(&id.name)
            && owner.as_ref() == Some(&id.uid)
        {
            *owner = None;
        }
        Ok(self.change(id, |machine| machine.has_finalizer = false))
    }

    /// A new machine uses the preserved storage of its name, or gets new storage. Storage of another machine
    /// is never used: the controller creates no machine while it exists.
    pub(super) fn use_storage(&mut self, id: &ObjectId) {
        let owner = self.storage.owners.entry(id.name.clone()).or_default();
        if owner.is_none() {
            *owner = Some(id.uid.clone());
        }
    }

    /// The garbage collector deletes the storage of a machine that is gone.
    pub(super) fn discard_storage(&mut self, id: &ObjectId) {
        if self.storage.owners.get(&id.name).is_some_and(|owner| owner.as_ref() == Some(&id.uid)) {
            self.storage.owners.remove(&id.name);
        }
    }

    /// The first write of a restart: it marks the machine, at the version that was read. `None` if the
    /// machine is marked.
    pub(super) fn mark_restarting(
        &mut self,
        id: &ObjectId,
        instance: &Uid,
        revision: &RevisionId,
        read: Option<u64>,
    ) -> Result<Option<VersionedFacts<Machine>>, RequestRefusal> {
        let machine = self.restartable(id, instance)?;
        if machine.is_restarting() {
            return Ok(None);
        }
        self.as_read(id, read)?;
        let now = self.timestamp();
        if machine.is_protected(now) || machine.must_drain(now, self.pool.drain_timeout) {
            return Err(RequestRefusal::Conflict);
        }
        let mut protection = machine.protection.map(Arc::unwrap_or_clone).unwrap_or_default();
        protection.restarting = Some(revision.clone());
        self.change(id, |machine| machine.protection = Some(Arc::new(protection))).map(Some)
    }

    /// The second write of a restart: the platform then stops the instance. I12: the machine is marked, so
    /// that it was not protected before.
    pub(super) fn delete_instance(
        &mut self,
        id: &ObjectId,
        instance: &Uid,
    ) -> Result<Result<(), RequestRefusal>, BrokenInvariant> {
        let found = self.machines.objects.get(&id.name).and_then(|seen| seen.facts.instance.clone());
        let Some(found) = found.filter(|found| found.id.uid == *instance && !found.terminating) else {
            return Ok(Err(RequestRefusal::NotFound));
        };
        let machine = self.machines.objects[&id.name].facts.clone();
        check_invariant(machine.is_restarting() || machine.terminating, || {
            format!("I12: the instance of {id} is deleted, and the machine is not marked")
        })?;
        let stopping = Instance { terminating: true, ready: false, ..(*found).clone() };
        let id = machine.id.clone();
        self.edit_machine(&id, |machine| {
            machine.instance = Some(Arc::new(stopping));
            machine.activity = MachineActivity::Stopping;
        });
        Ok(Ok(()))
    }

    /// Removes the mark of a machine.
    pub(super) fn end_restart(
        &mut self,
        id: &ObjectId,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        let marked =
            machine.protection.filter(|known| known.restarting.is_some()).ok_or(RequestRefusal::Conflict)?;
        let left = Protection { restarting: None, ..(*marked).clone() };
        let protection = (left != Protection::default()).then(|| Arc::new(left));
        self.change(id, |machine| {
            machine.protection = protection;
            remove_mark(machine);
        })
    }

    /// The controller records on an instance that it has the template of this revision.
    pub(super) fn record_on_instance(
        &mut self,
        id: &ObjectId,
        instance: &Uid,
        revision: &RevisionId,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.restartable(id, instance)?;
        let recorded = machine
            .instance
            .as_ref()
            .map(|found| Arc::new(Instance { revision: Some(revision.clone()), ..(**found).clone() }));
        self.change(id, |machine| machine.instance = recorded)
    }

    /// The machine of this instance, as apply reads it before a restart.
    fn restartable(&self, id: &ObjectId, instance: &Uid) -> Result<Machine, RequestRefusal> {
        let machine = self.machines.find(id)?;
        let same = machine.instance.as_ref().is_some_and(|found| found.id.uid == *instance);
        let fits = same && !machine.terminating && machine.belongs_to(&self.pool.id);
        if fits { Ok(machine) } else { Err(RequestRefusal::Conflict) }
    }

    /// The platform creates the instance of a machine, and the guest starts.
    pub(super) fn start_instance(&mut self, id: &ObjectId) {
        let version = self.next_version();
        let uid = format!("{}#{version}", id.name);
        self.edit_machine(id, |machine| {
            machine.instance = Some(Arc::new(Instance {
                id: ObjectId::new(&machine.id.name, &uid),
                machine: Some(machine.id.uid.clone()),
                terminating: false,
                revision: machine.written.clone(),
                live: LiveParts::default(),
                pending_update: None,
                ended: false,
                ready: true,
            }));
            machine.activity = MachineActivity::Running;
        });
    }

    /// The instance of a machine is gone.
    pub(super) fn end_instance(&mut self, id: &ObjectId) {
        self.edit_machine(id, |machine| {
            (machine.instance, machine.activity) = (None, MachineActivity::NotRunning);
        });
    }

    /// A user gives a detached machine back to the pool.
    pub(super) fn return_machine(&mut self, id: &ObjectId) {
        let pool = Arc::new(Owner::pool(&self.pool.id));
        self.edit_machine(id, |machine| machine.owner = Some(pool));
        self.storage.returned.push(self.machines.log.len() - 1);
    }

    /// Number of machines that a user returned after what the sender had seen.
    pub(super) fn returned_since(&self, basis: RequestBasis) -> usize {
        self.storage.returned.iter().filter(|position| **position >= basis.seen).count()
    }

    /// A machine that the controller deletes because of its storage. I1: the storage of its instance is not
    /// that of the template.
    pub(super) fn recreate(
        &mut self,
        id: &ObjectId,
        planned: Option<u64>,
        reason: DeleteReason,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.machines.find(id) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if machine.terminating
            || planned.is_some_and(|version| self.machines.objects[&id.name].version != version)
        {
            return Ok(Err(RequestRefusal::Conflict));
        }
        check_invariant(self.storage.changes == Some(TemplateDifference::Storage), || {
            format!("I1: {id} is deleted, and no template has other storage")
        })?;
        check_invariant(!machine.is_protected(self.timestamp()), || {
            format!("I12: {id} was deleted while it is protected")
        })?;
        self.check_drained(&machine)?;
        let discards = reason == DeleteReason::StorageChanged { preserved: false };
        self.others_removals.push(self.machines.log.len());
        Ok(self.change(id, |machine| {
            machine.terminating = true;
            machine.discards_storage = discards;
        }))
    }

    /// Every machine of a settled pool has the finalizer, its storage and an instance of the current
    /// revision, and no mark.
    pub(super) fn instances_are_settled(&self) -> Result<(), BrokenInvariant> {
        if !self.has_instances() {
            return Ok(());
        }
        for machine in self.pool_machines() {
            let id = &machine.id;
            check_invariant(machine.has_finalizer, || format!("{id} lacks the finalizer"))?;
            check_invariant(!machine.is_restarting(), || format!("{id} is still marked"))?;
            let instance = machine.instance.as_ref();
            let has_template =
                |found: &Arc<Instance>| found.revision.as_ref().is_some_and(|id| self.pool.is_current(id));
            check_invariant(instance.is_some_and(has_template), || {
                format!("{id} does not run with the template")
            })?;
            check_invariant(self.storage.owners.get(&id.name) == Some(&Some(id.uid.clone())), || {
                format!("{id} does not have the storage of its name")
            })?;
        }
        let free =
            self.machines.objects.values().map(|seen| &seen.facts).filter(|machine| machine.owner.is_none());
        for machine in free {
            check_invariant(!machine.has_finalizer, || {
                format!("{} has left the pool and keeps its finalizer", machine.id)
            })?;
        }
        Ok(())
    }
}
