//! The API server model: stored objects, and the invariants that it checks at every committed write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::admission_policy::{ModelAdmissionPolicy, TakenObjects};
use super::images::ModelImages;
use super::instances::ModelStorage;
use super::retained_disks::RetainedDisks;
use super::revisions::ModelRevisions;
use super::standby::StartOperations;
use super::targeted_removals::TargetedRemovals;
use crate::ledger::{LedgerFacts, VersionedFacts};
use crate::model::{
    Disk, DiskDraft, DiskRef, Draft, Finalizer, Machine, MachineActivity, Naming, ObjectId, Owner, Pool,
    PoolDiskTemplate, ScaleDownPolicy, Uid,
};
use crate::protection::ProtectionEnd;
use crate::recycling::RecyclePolicy;
use crate::scale_up::names::NameBlock;

/// The description of a broken invariant.
pub(super) type BrokenInvariant = String;

/// Why the server rejected a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestRefusal {
    AlreadyExists,
    Conflict,
    NotFound,
    QuotaExceeded,
    Invalid,
    /// No refusal: the object was stored, and does not belong to the pool.
    Lost,
}

/// The state that a request is based on: what its sender had seen and planned with.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestBasis {
    /// Number of watch events of machines that the sender had seen.
    pub(super) seen: usize,
    /// Number of changes of the pool that it had read. For a create, those that the sender of the oldest
    /// unconfirmed create had read.
    pub(super) pool: usize,
    /// Number of changes of the pool that the plan of this request had read.
    pub(super) planned: usize,
    /// Whether the sender is the current leader.
    pub(super) current: bool,
    /// Number of standby machines whose activation was unconfirmed in the plan.
    pub(super) activating: usize,
}

/// One state of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolHistoryEntry {
    desired: usize,
    scale_down_policy: ScaleDownPolicy,
    name_block: Option<NameBlock>,
    /// How many machines may provision at the same time; `None` without a limit.
    provisioning_limit: Option<usize>,
    /// How many machines may be unhealthy; `None` without healing.
    max_unhealthy: Option<usize>,
    /// When the controller replaces machines.
    recycle: RecyclePolicy,
    /// The desired number of standby machines.
    standby: usize,
    /// What a machine records of its disks, and whether the controller replaces machines with another record.
    images: ModelImages,
}

impl PoolHistoryEntry {
    pub(super) fn of(pool: &Pool) -> Self {
        Self {
            desired: pool.desired,
            scale_down_policy: pool.scale_down_policy,
            name_block: pool.name_block,
            provisioning_limit: pool.max_provisioning.map(|limit| limit.of(pool.desired)),
            max_unhealthy: pool.healing.map(|healing| healing.ceiling(pool.desired)),
            recycle: pool.recycle,
            standby: pool.standby.map_or(0, |standby| standby.replicas),
            images: ModelImages::of(pool),
        }
    }

    /// When the controller replaces machines.
    pub(super) fn recycle(&self) -> RecyclePolicy {
        self.recycle
    }

    /// The images of the pool.
    pub(super) fn images(&self) -> &ModelImages {
        &self.images
    }

    /// How many machines may provision at the same time; `None` without a limit.
    pub(super) fn provisioning_limit(&self) -> Option<usize> {
        self.provisioning_limit
    }

    /// How many machines may be unhealthy; `None` without healing.
    pub(super) fn max_unhealthy(&self) -> Option<usize> {
        self.max_unhealthy
    }

    /// The desired number of machines.
    pub(super) fn desired(&self) -> usize {
        self.desired
    }

    /// The desired number of standby machines.
    pub(super) fn standby(&self) -> usize {
        self.standby
    }

    /// Which machines a scale-down deletes.
    pub(super) fn scale_down_policy(&self) -> ScaleDownPolicy {
        self.scale_down_policy
    }

    /// The name block.
    pub(super) fn name_block(&self) -> Option<NameBlock> {
        self.name_block
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub(super) enum ModelWatchEvent<T> {
    Put(VersionedFacts<T>),
    Gone(ObjectId),
}

/// The objects of one resource, and all events.
#[derive(Clone)]
pub(super) struct ModelTable<T> {
    pub(super) objects: BTreeMap<Arc<str>, VersionedFacts<T>>,
    pub(super) log: Vec<ModelWatchEvent<T>>,
}

impl<T: LedgerFacts> ModelTable<T> {
    fn new() -> Self {
        Self { objects: BTreeMap::new(), log: Vec::new() }
    }

    pub(super) fn put(&mut self, facts: T, version: u64) -> VersionedFacts<T> {
        let seen = VersionedFacts { facts: Arc::new(facts), version };
        self.objects.insert(seen.facts.id().name.clone(), seen.clone());
        self.log.push(ModelWatchEvent::Put(seen.clone()));
        seen
    }

    pub(super) fn remove(&mut self, name: &str) {
        let gone = self.objects.remove(name).expect("only what exists is removed");
        self.log.push(ModelWatchEvent::Gone(gone.facts.id().clone()));
    }

    pub(super) fn find(&self, id: &ObjectId) -> Result<T, RequestRefusal> {
        let found = self.objects.get(&id.name).filter(|seen| seen.facts.id().uid == id.uid);
        found.map(|seen| (*seen.facts).clone()).ok_or(RequestRefusal::NotFound)
    }
}

/// The API server.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) now: Duration,
    pub(super) pool: Pool,
    /// All states of the fields of the pool that plans use. The last one is the current state, and the index
    /// is the version of the pool.
    pub(super) history: Vec<PoolHistoryEntry>,
    /// The state of targeted removals.
    pub(super) removals: TargetedRemovals,
    pub(super) machines: ModelTable<Machine>,
    pub(super) disks: ModelTable<Disk>,
    pub(super) quota: Option<usize>,
    /// The stored revisions.
    pub(super) revisions: ModelRevisions,
    /// The state of retained disks.
    pub(super) retained: RetainedDisks,
    /// The storage of machines, on a platform where it belongs to them.
    pub(super) storage: ModelStorage,
    /// All lists of disk templates that the pool ever had.
    pub(super) templates_ever: Vec<Vec<PoolDiskTemplate>>,
    version: u64,
    /// UIDs of all machines that the pool ever had.
    machines_ever: BTreeSet<Uid>,
    /// Positions in the machines' log where a former leader's create was committed.
    pub(super) former_leader_creates: Vec<usize>,
    /// The machines that these creates produced.
    pub(super) former_leader_machines: BTreeSet<Uid>,
    /// Names whose create was repeated without a response. An earlier attempt may show the name in the watch
    /// while the repetition is still under way.
    pub(super) repeated_creates: BTreeSet<Arc<str>>,
    /// What an admission policy does to created objects.
    pub(super) policy: ModelAdmissionPolicy,
    /// Objects that a policy or a client took away from the pool.
    pub(super) taken: TakenObjects,
    /// Whether the controller counts losses. The exhaustive exploration has no policies, and the time since
    /// each create would multiply its states.
    pub(super) counts_losses: bool,
    /// The operations that start activated machines.
    pub(super) start_operations: StartOperations,
    /// Positions at which a machine stopped being a live machine of the pool without a plan of the current
    /// leader.
    pub(super) others_removals: Vec<usize>,
}

impl Api {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            now: Duration::from_secs(1000),
            history: vec![PoolHistoryEntry::of(&pool)],
            templates_ever: vec![pool.disks.clone()],
            removals: TargetedRemovals::default(),
            machines: ModelTable::new(),
            disks: ModelTable::new(),
            quota: None,
            revisions: ModelRevisions::new(&pool.revision.id),
            retained: RetainedDisks::default(),
            storage: ModelStorage::default(),
            version: 0,
            machines_ever: BTreeSet::new(),
            former_leader_creates: Vec::new(),
            repeated_creates: BTreeSet::new(),
            former_leader_machines: BTreeSet::new(),
            policy: ModelAdmissionPolicy::default(),
            taken: TakenObjects::default(),
            counts_losses: true,
            start_operations: StartOperations::default(),
            others_removals: Vec::new(),
            pool,
        }
    }

    pub(super) fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.now
    }

    /// The active machines of the pool.
    pub(super) fn pool_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.owned_machines().filter(|machine| machine.standby.is_none())
    }

    /// The machines of the pool, with standby machines.
    pub(super) fn owned_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        let machines = self.machines.objects.values().map(|seen| &seen.facts);
        machines.filter(|machine| machine.belongs_to(&self.pool.id))
    }

    /// Whether a machine with this name ever existed.
    pub(super) fn existed(&self, name: &str) -> bool {
        self.machines
            .log
            .iter()
            .any(|event| matches!(event, ModelWatchEvent::Put(seen) if *seen.facts.id.name == *name))
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn change(
        &mut self,
        id: &ObjectId,
        edit: impl FnOnce(&mut Machine),
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let mut machine = self.machines.find(id)?;
        edit(&mut machine);
        // Without healing, the time would only multiply the states.
        if machine.terminating && machine.terminating_since.is_none() && self.pool.healing.is_some() {
            machine.terminating_since = Some(self.timestamp());
        }
        let version = self.next_version();
        Ok(self.machines.put(machine, version))
    }

    /// Creates a machine. I2: the number of machines never exceeds the largest `replicas` that could still be
    /// read at `basis`, except for requests that former leaders had in flight. I6: no machine takes the place
    /// of a target. One create cannot know of its target: a repeated create that was sent before the
    /// reservation, and whose first copy created the target. Rule 3 requires the repetition, because no read
    /// proves that the first copy has no effect.
    pub(super) fn create(
        &mut self,
        draft: &Draft,
        basis: RequestBasis,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        if self.machines.objects.contains_key(&draft.name) {
            return Ok(Err(RequestRefusal::AlreadyExists));
        }
        if self.quota.is_some_and(|quota| self.machines.objects.len() >= quota) {
            return Ok(Err(RequestRefusal::QuotaExceeded));
        }
        if basis.current && self.pool.naming == Naming::Random {
            // A name block of a former leader does not invalidate the block that was read.
            let mut blocks = self.history[basis.pool..].iter().filter_map(|pool| pool.name_block);
            let open = blocks.any(|block| block.first <= draft.number && draft.number < block.end);
            check_invariant(open, || {
                format!("{} has number {} outside every open block", draft.name, draft.number)
            })?;
        }
        self.check_disks(draft, basis)?;
        check_invariant(self.pool.finalizer != Finalizer::Missing || self.pool.deleting, || {
            format!("{} is created before the pool has the finalizer", draft.name)
        })?;
        let version = self.next_version();
        let uid = format!("{}#{version}", draft.name);
        let disks = draft.disks.iter().enumerate().map(|(position, disk)| DiskRef {
            template: Some(disk.template.clone()),
            disk: disk.name.clone(),
            position,
        });
        let mut machine = Machine {
            created: Timestamp::from_second(self.now.as_secs().cast_signed()).expect("in range"),
            owner: Some(Arc::new(Owner::pool(&self.pool.id))),
            pool_uid_label: Some(self.pool.id.uid.clone()),
            pool_label: Some(self.pool.id.name.clone()),
            revision: Some(draft.revision.clone()),
            written: Some(draft.revision.clone()),
            evaluated: true,
            disks: disks.collect(),
            boot_disk: draft.disks.first().map(|disk| disk.name.clone()),
            devices_ready: true,
            disk_sources: self.history[basis.pool].images.record.clone(),
            restarts_itself: !self.has_instances(),
            has_finalizer: self.has_instances(),
            ..Machine::blank(ObjectId::new(&draft.name, &uid))
        };
        if let Some(phase) = draft.standby {
            self.begin_standby(&mut machine, phase);
        }
        self.machines_ever.insert(machine.id.uid.clone());
        let machine = self.admit_machine(machine)?;
        let seen = self.machines.put(machine, version);
        self.record_machine_count();
        if self.has_instances() {
            self.use_storage(&seen.facts.id.clone());
        }
        if basis.current {
            match draft.standby {
                Some(_) => self.check_standby_count(basis, self.strays_since(basis))?,
                None => self.check_machine_count(&draft.name, basis)?,
            }
            self.check_provisioning(basis, self.strays_since(basis))?;
        } else {
            self.former_leader_creates.push(self.machines.log.len() - 1);
            self.former_leader_machines.insert(seen.facts.id.uid.clone());
        }
        Ok(Ok(seen))
    }

    /// Number of machines that no plan of the present leader could know: creates of former leaders, and
    /// machines that a user returned.
    fn strays_since(&self, basis: RequestBasis) -> usize {
        let strays = self.former_leader_creates.iter().filter(|position| **position >= basis.seen).count();
        strays + self.returned_since(basis)
    }

    /// I2 and I6, after the present leader created or activated this machine.
    pub(super) fn check_machine_count(&self, name: &str, basis: RequestBasis) -> Result<(), BrokenInvariant> {
        let largest = self.history[basis.pool..].iter().map(|pool| pool.desired).max();
        let bound = largest.unwrap_or_default() + self.strays_since(basis);
        let machines = self.pool_machines().count() - self.count_stuck(basis);
        check_invariant(machines <= bound, || {
            format!("I2: {machines} machines where at most {bound} were desired")
        })?;
        let held = self.held(name, basis);
        check_invariant(machines + held <= bound, || {
            format!("I6: {name} takes the place of one of {held} machines that are being removed")
        })
    }

    /// Deletes a target of a removal, or a surplus machine. I1 and I6: a surplus machine is deleted only
    /// while the live machines that are not targets exceed the planned count. I5: never in an Explicit pool.
    /// A plan cannot know what other clients removed meanwhile; a late request counts as one of them. I12: a
    /// machine that is not a target is deleted at the version `planned`, at which it was not protected. I19:
    /// at that version, no hook held it up.
    pub(super) fn delete(
        &mut self,
        id: &ObjectId,
        planned: Option<u64>,
        basis: RequestBasis,
        late: bool,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let PoolHistoryEntry { desired, scale_down_policy, .. } = self.history[basis.pool];
        let named = self.removals.is_accepted(&id.uid);
        check_invariant(named || scale_down_policy != ScaleDownPolicy::Explicit, || {
            format!("I5: {id} was deleted from an Explicit pool")
        })?;
        check_invariant(self.machines_ever.contains(&id.uid), || {
            format!("{id} was deleted and never was in the pool")
        })?;
        match self.machines.find(id) {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(machine) if machine.terminating => {
                return Ok(Ok(self.machines.objects[&id.name].clone()));
            }
            Ok(machine) => {
                if planned.is_some_and(|version| self.machines.objects[&id.name].version != version) {
                    return Ok(Err(RequestRefusal::Conflict));
                }
                let stopped_only = scale_down_policy == ScaleDownPolicy::StoppedOnly && planned.is_some();
                check_invariant(
                    named || !stopped_only || machine.activity == MachineActivity::Stopped,
                    || format!("I5: {id} was deleted although it is not stopped"),
                )?;
                check_invariant(named || machine.standby.is_none(), || {
                    format!("I17: the standby machine {id} was deleted as an active one")
                })?;
                check_invariant(named || !machine.is_protected(self.timestamp()), || {
                    format!("I12: {id} was deleted while it is protected")
                })?;
                self.check_drained(&machine)?;
            }
        }
        let live = self.pool_machines().filter(|machine| !machine.terminating);
        let live = live.filter(|machine| !self.removals.was_accepted_at(&machine.id.uid, basis.pool)).count();
        let unseen = self.others_removals.iter().filter(|position| **position >= basis.seen).count();
        if late || !basis.current {
            self.others_removals.push(self.machines.log.len());
        } else if !named {
            check_invariant(live + unseen > desired, || {
                format!("I1, I6: {id} was deleted while {live} live machines did not exceed {desired}")
            })?;
        }
        Ok(self.change(id, |machine| machine.terminating = true))
    }

    /// Creates a disk. It is always for a machine of the pool.
    pub(super) fn create_disk(
        &mut self,
        machine: &ObjectId,
        draft: &DiskDraft,
        late: bool,
    ) -> Result<Result<VersionedFacts<Disk>, RequestRefusal>, BrokenInvariant> {
        check_invariant(self.machines_ever.contains(&machine.uid), || {
            format!("disk {} was created for {machine}", draft.name)
        })?;
        if self.disks.objects.contains_key(&draft.name) {
            return Ok(Err(RequestRefusal::AlreadyExists));
        }
        if self.retained_template(&draft.template).is_some() {
            return self.create_retained(draft, late).map(Ok);
        }
        let owner = self.admit_disk(machine.clone())?;
        Ok(Ok(self.put_disk(&draft.name, owner.as_ref().map(Owner::machine))))
    }

    pub(super) fn put_disk(&mut self, name: &str, owner: Option<Owner>) -> VersionedFacts<Disk> {
        self.put_disk_as(name, owner, |_| {})
    }

    pub(super) fn put_disk_as(
        &mut self,
        name: &str,
        owner: Option<Owner>,
        edit: impl FnOnce(&mut Disk),
    ) -> VersionedFacts<Disk> {
        let version = self.next_version();
        let ours = |owner: &Owner| owner.is_pool(&self.pool.id) || self.machines_ever.contains(&owner.id.uid);
        let ours = owner.as_ref().is_some_and(ours);
        let pool_uid_label = ours.then(|| self.pool.id.uid.clone());
        let id = ObjectId::new(name, &format!("{name}#{version}"));
        let mut disk = Disk { owner, pool_uid_label, ..Disk::blank(id) };
        edit(&mut disk);
        self.disks.put(disk, version)
    }

    /// Whether this machine belongs or belonged to the pool.
    pub(super) fn is_pool_machine(&self, uid: &Uid) -> bool {
        self.machines_ever.contains(uid)
    }

    /// Whether a former leader created it.
    pub(super) fn is_from_former_leader(&self, uid: &Uid) -> bool {
        self.former_leader_machines.contains(uid)
    }

    /// Records a name block at the version of the pool that was read. Numbers never decrease.
    pub(super) fn open_block(
        &mut self,
        block: NameBlock,
        basis: RequestBasis,
    ) -> Result<Result<(), RequestRefusal>, BrokenInvariant> {
        if basis.pool + 1 != self.history.len() {
            return Ok(Err(RequestRefusal::Conflict));
        }
        if let Some(old) = self.pool.name_block {
            let forward = block.first >= old.first && block.first <= block.end && block.end > old.end;
            check_invariant(forward, || format!("block {block} follows {old}"))?;
        }
        self.pool.name_block = Some(block);
        self.history.push(PoolHistoryEntry::of(&self.pool));
        Ok(Ok(()))
    }

    pub(super) fn relabel(&mut self, id: &ObjectId) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let (name, uid) = (self.pool.id.name.clone(), self.pool.id.uid.clone());
        self.change(id, |machine| {
            machine.pool_label = Some(name);
            machine.pool_uid_label = Some(uid);
        })
    }

    pub(super) fn release(
        &mut self,
        id: &ObjectId,
        shared: &[Arc<str>],
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        check_invariant(self.machines_ever.contains(&id.uid), || {
            format!("{id} was released and never was in the pool")
        })?;
        self.give_disks_away(id, shared);
        let has_instances = self.has_instances();
        // The controller reads the machine first: a user may have given it back.
        if has_instances && self.machines.find(id).is_ok_and(|machine| machine.owner.is_some()) {
            return Ok(Err(RequestRefusal::Conflict));
        }
        Ok(self.change(id, |machine| {
            machine.has_finalizer &= !has_instances;
            machine.pool_label = None;
            machine.pool_uid_label = None;
        }))
    }

    /// The controller replaces a time that is not valid. It reads the machine first, so that no version is
    /// lost.
    pub(super) fn shorten_protection(
        &mut self,
        id: &ObjectId,
        until: Timestamp,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let (now, maximum) = (self.timestamp(), self.pool.max_protection);
        let machine = self.machines.find(id)?;
        let protection = machine.protection.filter(|known| known.shortened(now, maximum).is_some());
        let mut protection = Arc::unwrap_or_clone(protection.ok_or(RequestRefusal::Conflict)?);
        protection.until = Some(ProtectionEnd::At(until));
        self.change(id, |machine| machine.protection = Some(Arc::new(protection)))
    }

    pub(super) fn repoint(
        &mut self,
        id: &ObjectId,
        position: usize,
        from: &str,
        to: &DiskDraft,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.machines.find(id)?;
        let index = machine.disks.iter().position(|disk| disk.position == position && *disk.disk == *from);
        let index = index.ok_or(RequestRefusal::Conflict)?;
        self.change(id, |machine| {
            machine.disks[index].disk = to.name.clone();
            machine.disks[index].template = Some(to.template.clone());
            machine.detached.retain(|detached| detached.template != to.template);
        })
    }

    pub(super) fn detach(
        &mut self,
        id: &ObjectId,
        position: usize,
        disk: &str,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.machines.find(id)?;
        let index =
            machine.disks.iter().position(|device| device.position == position && *device.disk == *disk);
        let index = index.ok_or(RequestRefusal::Conflict)?;
        self.change(id, |machine| drop(machine.disks.remove(index)))
    }
}

pub(super) fn check_invariant(
    holds: bool,
    broken: impl FnOnce() -> BrokenInvariant,
) -> Result<(), BrokenInvariant> {
    if holds { Ok(()) } else { Err(broken()) }
}
