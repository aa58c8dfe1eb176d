//! Test fixtures: a pool with its machines and disks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::test_runner::Config;

use crate::model::{
    CurrentRevision, Disk, DiskAnnotations, DiskRef, Lifetime, Machine, MachineActivity, ObjectId, Owner,
    Pool, PoolDiskTemplate, PoolSpec, StoredTime, Uid,
};
use crate::plan::{NamesInUse, ObservedPool, PlanSettings, PoolAction, PoolSnapshot};
use crate::revisions::RevisionId;
use crate::scale_up::names::{NameBlock, Namer};
use crate::server_clock::ServerClock;
use crate::{PassMemory, Plan};

pub(crate) const POOL_UID: &str = "pool-uid";

/// The initial uptime of a world.
const UPTIME: Duration = Duration::from_secs(100);

/// The disk template with retained disks, in worlds that have one.
pub(crate) const RETAINED: &str = "data";

/// Configuration for properties over sequences of events: twice the number of cases, because many sequences
/// are trivial. `PROPTEST_CASES` changes both numbers.
pub(crate) fn sequence_config() -> Config {
    let usual = Config::default();
    Config { cases: 2 * usual.cases, ..usual }
}

/// The time at which all worlds are observed.
pub(crate) fn observation_time() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("in range")
}

/// The time this number of seconds before [`observation_time`]; after it if negative.
pub(crate) fn seconds_ago(seconds: i64) -> StoredTime {
    StoredTime::At(observation_time() - jiff::SignedDuration::from_secs(seconds))
}

/// A pool with one ephemeral disk per machine, and the other objects of its namespace.
pub(crate) struct PoolWorld {
    pub(crate) pool: Pool,
    pub(crate) machines: Vec<Arc<Machine>>,
    pub(crate) disks: BTreeMap<Arc<str>, Arc<Disk>>,
    /// Other users of the pool's disks.
    pub(crate) others: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The stored revisions.
    pub(crate) stored: Vec<RevisionId>,
    pub(crate) memory: PassMemory,
    pub(crate) foreign_names: BTreeSet<String>,
    /// Disks that the platform deleted in order to restore them, and when they were gone.
    pub(crate) replaced: BTreeMap<Arc<str>, Duration>,
    pub(crate) uptime: Duration,
    pub(crate) server_clock: Option<ServerClock>,
}

impl PoolWorld {
    pub(crate) fn desiring(desired: usize) -> Self {
        let spec = PoolSpec {
            desired,
            disks: vec![PoolDiskTemplate::new("root", Lifetime::Ephemeral)],
            ..PoolSpec::new(ObjectId::new("web", POOL_UID), "team")
        };
        let revision = CurrentRevision::of_template(RevisionId::from("r1"), true);
        let pool = Pool { spec, revision };
        let mut memory = PassMemory::default();
        memory.observe(&pool, UPTIME);
        Self {
            pool,
            machines: Vec::new(),
            disks: BTreeMap::new(),
            others: BTreeMap::new(),
            stored: vec![RevisionId::from("r1")],
            memory,
            foreign_names: BTreeSet::new(),
            replaced: BTreeMap::new(),
            uptime: UPTIME,
            server_clock: None,
        }
    }

    /// Adds a running machine with its disk; `age` is its creation time in seconds.
    pub(crate) fn with_machine(mut self, name: &str, age: i64) -> Self {
        let machine = running_machine(name, age);
        for disk in &machine.disks {
            self.disks.insert(disk.disk.clone(), Arc::new(own_disk(&disk.disk, &machine)));
        }
        self.machines.push(Arc::new(machine));
        self
    }

    pub(crate) fn edit(mut self, name: &str, edit: impl FnOnce(&mut Machine)) -> Self {
        let machine =
            self.machines.iter_mut().find(|machine| &*machine.id.name == name).expect("no such machine");
        edit(Arc::make_mut(machine));
        self
    }

    /// Adds `count` running machines with names of the pool that were created one second after the other.
    pub(crate) fn with_machines(mut self, count: u64) -> Self {
        for number in 0..count {
            self = self.with_machine(&numbered_machine_name(number), i64::try_from(number).expect("small"));
        }
        self.memory.next_number = self.memory.next_number.max(count);
        self.block(0, count.max(64))
    }

    /// Sets the name block.
    pub(crate) fn block(mut self, first: u64, end: u64) -> Self {
        self.pool.name_block = Some(NameBlock { first, end });
        self.memory.observe(&self.pool, self.uptime);
        self
    }

    /// Adds unconfirmed creates of these numbers at the world's uptime.
    pub(crate) fn with_unconfirmed(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        for number in numbers {
            self.memory.machines.create_unconfirmed(
                &numbered_machine_name(number).into(),
                number,
                self.uptime,
            );
            self.memory.next_number = self.memory.next_number.max(number + 1);
        }
        self
    }

    pub(crate) fn pool(mut self, edit: impl FnOnce(&mut Pool)) -> Self {
        edit(&mut self.pool);
        self
    }

    pub(crate) fn memory(mut self, edit: impl FnOnce(&mut PassMemory)) -> Self {
        edit(&mut self.memory);
        self
    }

    /// Reserves machines for a request at the world's uptime. The machines need not exist.
    pub(crate) fn reserved(mut self, request: &str, names: &[&str]) -> Self {
        let targets: Vec<ObjectId> = names.iter().map(|name| fixture_id(name)).collect();
        self.pool.record.reserve(request, &targets).expect("there is room");
        self.memory.observe(&self.pool, self.uptime);
        self
    }

    /// Reserves and accepts machines for a request, and lowers the count.
    pub(crate) fn accepted(self, request: &str, names: &[&str]) -> Self {
        let mut world = self.reserved(request, names);
        world.pool.desired -= world.pool.record.accept(request);
        world.memory.observe(&world.pool, world.uptime);
        world
    }

    /// Adds a foreign machine or disk with this name.
    pub(crate) fn taken(mut self, name: &str) -> Self {
        self.foreign_names.insert(name.into());
        self
    }

    /// Changes, adds or removes a disk.
    pub(crate) fn disk(mut self, name: &str, edit: impl FnOnce(Option<Disk>) -> Option<Disk>) -> Self {
        let existing = self.disks.remove(name).map(Arc::unwrap_or_clone);
        if let Some(disk) = edit(existing) {
            self.disks.insert(name.into(), Arc::new(disk));
        }
        self
    }

    /// Adds a disk template with retained disks, after `edit`.
    pub(crate) fn keeping(mut self, edit: impl FnOnce(&mut PoolDiskTemplate)) -> Self {
        let mut template = PoolDiskTemplate::new(RETAINED, Lifetime::Retained);
        edit(&mut template);
        self.pool.disks.push(template);
        self
    }

    /// Gives a machine this retained disk, and creates it if it does not exist.
    pub(crate) fn holding(self, machine: &str, disk: &str) -> Self {
        let mounted_by = Some(machine.into());
        let made = |disk: &str| Some(Disk { mounted_by, ..retained_disk(disk) });
        self.disk(disk, |existing| existing.or_else(|| made(disk))).edit(machine, |machine| {
            let position = machine.disks.len();
            machine.disks.push(DiskRef { template: Some(RETAINED.into()), disk: disk.into(), position });
        })
    }

    /// Adds a retained disk that has been free for this number of seconds.
    pub(crate) fn free(self, disk: &str, seconds: i64) -> Self {
        let free_since = Some(seconds_ago(seconds));
        let made = Disk {
            annotations: DiskAnnotations { free_since, ..DiskAnnotations::default() },
            ..retained_disk(disk)
        };
        self.disk(disk, |_| Some(made))
    }

    /// Changes an existing disk.
    pub(crate) fn edit_disk(self, disk: &str, edit: impl FnOnce(&mut Disk)) -> Self {
        self.disk(disk, |existing| {
            let mut existing = existing.expect("no such disk");
            edit(&mut existing);
            Some(existing)
        })
    }

    pub(crate) fn snapshot(&self) -> PoolSnapshot {
        let mut machines = self.machines.clone();
        self.memory.machines.overlay(&mut machines);
        PoolSnapshot {
            now: observation_time(),
            uptime: self.uptime,
            server_clock: self.server_clock,
            machines,
            disks: self.disks.clone().into_iter().collect(),
            pool_disks: self.disks.values().cloned().collect(),
            other_users: self.others.clone().into_iter().collect(),
            replaced_disks: self.replaced.clone(),
            unconfirmed_creates: self.memory.machines.unconfirmed_creates(),
        }
    }

    pub(crate) fn observed<'a>(&'a self, snapshot: &'a PoolSnapshot) -> ObservedPool<'a> {
        ObservedPool::new(snapshot, &self.pool, &self.stored, PlanSettings::default(), &self.memory, self)
    }

    pub(crate) fn plan(&self) -> Plan {
        crate::plan_pass(&self.observed(&self.snapshot()))
    }
}

impl NamesInUse for PoolWorld {
    fn has_machine(&self, name: &str) -> bool {
        self.foreign_names.contains(name) || self.machines.iter().any(|machine| &*machine.id.name == name)
    }
    fn has_disk(&self, name: &str) -> bool {
        self.foreign_names.contains(name) || self.disks.contains_key(name)
    }
}

/// The name that the pool gives to the machine with this number.
pub(crate) fn numbered_machine_name(number: u64) -> String {
    Namer::new(&"web".into(), &Uid::from(POOL_UID)).name(number)
}

/// The machines that a plan creates.
pub(crate) fn created_machines(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            PoolAction::Create { draft } => Some(&*draft.name),
            _ => None,
        })
        .collect()
}

/// The machines that a plan deletes.
pub(crate) fn deleted_machines(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            PoolAction::Delete { machine, .. } => Some(&*machine.name),
            _ => None,
        })
        .collect()
}

/// The identity of the machine or disk with this name.
pub(crate) fn fixture_id(name: &str) -> ObjectId {
    ObjectId::new(name, &format!("uid-of-{name}"))
}

pub(crate) fn running_machine(name: &str, age: i64) -> Machine {
    Machine {
        created: Timestamp::from_second(age).expect("in range"),
        owner: Some(Arc::new(Owner::pool(&ObjectId::new("web", POOL_UID)))),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        pool_label: Some("web".into()),
        revision: Some(RevisionId::from("r1")),
        written: Some(RevisionId::from("r1")),
        evaluated: true,
        activity: MachineActivity::Running,
        disks: vec![DiskRef {
            template: Some("root".into()),
            disk: format!("{name}-root").into(),
            position: 0,
        }],
        boot_disk: Some(format!("{name}-root").into()),
        devices_ready: true,
        ..Machine::blank(fixture_id(name))
    }
}

/// A pool with this name and UID as the owner of a disk.
pub(crate) fn pool_owner(name: &str, uid: &str) -> Owner {
    Owner::pool(&ObjectId::new(name, uid))
}

/// Another pool as the owner of a machine.
pub(crate) fn another_pool() -> Arc<Owner> {
    Arc::new(Owner::pool(&ObjectId::new("another", "another")))
}

pub(crate) fn own_disk(name: &str, machine: &Machine) -> Disk {
    Disk {
        owner: Some(Owner::machine(&machine.id)),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        template: Some("root".into()),
        mounted_by: Some(machine.id.name.clone()),
        ..Disk::blank(fixture_id(name))
    }
}

/// An unused retained disk without annotations.
pub(crate) fn retained_disk(name: &str) -> Disk {
    Disk {
        owner: Some(Owner::pool(&ObjectId::new("web", POOL_UID))),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        template: Some(RETAINED.into()),
        ..Disk::blank(fixture_id(name))
    }
}
