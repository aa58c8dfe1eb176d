//! Worlds for the tests of this crate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{
    Activity, Disk, DiskRef, DiskTemplate, Lifetime, Naming, ObjectId, Pool, Published, Removal, Replica, Uid,
};
use crate::numbers::{Block, Namer};
use crate::plan::Action;
use crate::plan::{Observed, Taken};
use crate::removal::Record;
use crate::revision::RevisionId;
use crate::{Memory, Plan};

pub(crate) const POOL_UID: &str = "pool-uid";

/// The uptime of a world that nothing has happened to.
const UPTIME: Duration = Duration::from_secs(100);

/// A pool with one disk per machine, and what exists around it.
pub(crate) struct World {
    pub(crate) pool: Pool,
    pub(crate) machines: Vec<Arc<Replica>>,
    pub(crate) disks: BTreeMap<Arc<str>, Arc<Disk>>,
    pub(crate) memory: Memory,
    pub(crate) foreign_names: BTreeSet<String>,
    pub(crate) uptime: Duration,
}

impl World {
    pub(crate) fn desiring(desired: usize) -> Self {
        let pool = Pool {
            id: ObjectId::new("web", POOL_UID),
            namespace: "team".into(),
            generation: 1,
            deleting: false,
            desired,
            removal: Removal::NewestFirst,
            naming: Naming::Scattered,
            revision: RevisionId::from("r1"),
            disks: vec![DiskTemplate { name: "root".into(), lifetime: Lifetime::Machine }],
            block: None,
            record: Record::default(),
            published: Published::default(),
            flaws: Vec::new(),
        };
        let mut memory = Memory::default();
        memory.meet(&pool, UPTIME);
        Self {
            pool,
            machines: Vec::new(),
            disks: BTreeMap::new(),
            memory,
            foreign_names: BTreeSet::new(),
            uptime: UPTIME,
        }
    }

    /// Adds a running member with its disk; `age` is its creation time in seconds.
    pub(crate) fn member(mut self, name: &str, age: i64) -> Self {
        let replica = member(name, age);
        for disk in &replica.disks {
            self.disks.insert(disk.disk.clone(), Arc::new(own_disk(&disk.disk, &replica)));
        }
        self.machines.push(Arc::new(replica));
        self
    }

    pub(crate) fn edit(mut self, name: &str, edit: impl FnOnce(&mut Replica)) -> Self {
        let machine =
            self.machines.iter_mut().find(|machine| &*machine.id.name == name).expect("no such machine");
        edit(Arc::make_mut(machine));
        self
    }

    /// Adds `count` running members that were created one second after the other, with names of the pool's own.
    pub(crate) fn members(mut self, count: u64) -> Self {
        for number in 0..count {
            self = self.member(&name(number), i64::try_from(number).expect("small"));
        }
        self.memory.next_number = self.memory.next_number.max(count);
        self.block(0, count.max(64))
    }

    /// Opens a block of numbers.
    pub(crate) fn block(mut self, first: u64, end: u64) -> Self {
        self.pool.block = Some(Block { first, end });
        self.memory.meet(&self.pool, self.uptime);
        self
    }

    /// Sends creates of these numbers that get no answer, at the world's uptime.
    pub(crate) fn unanswered(mut self, numbers: impl IntoIterator<Item = u64>) -> Self {
        for number in numbers {
            self.memory.machines.unanswered(&name(number).into(), number, self.uptime);
            self.memory.next_number = self.memory.next_number.max(number + 1);
        }
        self
    }

    pub(crate) fn pool(mut self, edit: impl FnOnce(&mut Pool)) -> Self {
        edit(&mut self.pool);
        self
    }

    pub(crate) fn memory(mut self, edit: impl FnOnce(&mut Memory)) -> Self {
        edit(&mut self.memory);
        self
    }

    /// Lets a request reserve machines, at the world's uptime; they need not exist.
    pub(crate) fn reserved(mut self, request: &str, names: &[&str]) -> Self {
        let targets: Vec<ObjectId> = names.iter().map(|name| target(name)).collect();
        self.pool.record.reserve(request, &targets).expect("there is room");
        self.memory.meet(&self.pool, self.uptime);
        self
    }

    /// Lets a request name machines, and lowers the count by what that says.
    pub(crate) fn named(self, request: &str, names: &[&str]) -> Self {
        let mut world = self.reserved(request, names);
        world.pool.desired -= world.pool.record.accept(request);
        world.memory.meet(&world.pool, world.uptime);
        world
    }

    /// Lets somebody else have a machine or a disk of this name.
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

    pub(crate) fn observed(&self) -> Observed<'_> {
        let mut machines = self.machines.clone();
        self.memory.machines.overlay(&mut machines);
        Observed {
            now: Timestamp::from_second(1_000_000).expect("in range"),
            uptime: self.uptime,
            pool: &self.pool,
            machines,
            disks: self.disks.clone().into_iter().collect(),
            unanswered: self.memory.machines.lost_answers(),
            memory: &self.memory,
            taken: self,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        crate::plan(&self.observed())
    }
}

impl Taken for World {
    fn machine(&self, name: &str) -> bool {
        self.foreign_names.contains(name) || self.machines.iter().any(|machine| &*machine.id.name == name)
    }
    fn disk(&self, name: &str) -> bool {
        self.foreign_names.contains(name) || self.disks.contains_key(name)
    }
}

/// The name that the pool gives to the machine with this number.
pub(crate) fn name(number: u64) -> String {
    Namer::new(&"web".into(), &Uid::from(POOL_UID)).name(number)
}

/// The machines that a plan creates.
pub(crate) fn created(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::Create { draft } => Some(&*draft.name),
            _ => None,
        })
        .collect()
}

/// The machines that a plan deletes.
pub(crate) fn deleted(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::Delete { member, .. } => Some(&*member.name),
            _ => None,
        })
        .collect()
}

/// The id of the machine of this name in a world.
pub(crate) fn target(name: &str) -> ObjectId {
    ObjectId::new(name, &format!("uid-of-{name}"))
}

pub(crate) fn member(name: &str, age: i64) -> Replica {
    Replica {
        id: target(name),
        created: Timestamp::from_second(age).expect("in range"),
        terminating: false,
        owner: Some(Uid::from(POOL_UID)),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        pool_label: Some("web".into()),
        revision: Some(RevisionId::from("r1")),
        activity: Activity::Running,
        restart_pending: false,
        disks: vec![DiskRef {
            template: Some("root".into()),
            disk: format!("{name}-root").into(),
            position: 0,
        }],
    }
}

pub(crate) fn own_disk(name: &str, member: &Replica) -> Disk {
    Disk {
        id: ObjectId::new(name, &format!("uid-of-{name}")),
        terminating: false,
        owner: Some(member.id.clone()),
        pool_uid_label: Some(Uid::from(POOL_UID)),
    }
}
