//! Worlds for the tests of this crate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{
    Activity, Disk, DiskRef, DiskTemplate, Lifetime, Naming, ObjectId, Pool, Published, Removal, Replica, Uid,
};
use crate::plan::{Observed, Taken};
use crate::revision::RevisionId;
use crate::{Memory, Plan};

pub(crate) const POOL_UID: &str = "pool-uid";

/// A pool with one disk per machine, and what exists around it.
pub(crate) struct World {
    pub(crate) pool: Pool,
    pub(crate) machines: Vec<Arc<Replica>>,
    pub(crate) disks: HashMap<Arc<str>, Arc<Disk>>,
    pub(crate) memory: Memory,
    pub(crate) foreign_names: HashSet<String>,
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
            published: Published::default(),
            flaws: Vec::new(),
        };
        let mut memory = Memory::default();
        memory.meet(&pool);
        Self {
            pool,
            machines: Vec::new(),
            disks: HashMap::new(),
            memory,
            foreign_names: HashSet::new(),
            uptime: Duration::from_secs(100),
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
        let machine = self.machines.iter_mut().find(|machine| &*machine.id.name == name).expect("no such machine");
        edit(Arc::make_mut(machine));
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
            disks: self.disks.clone(),
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

pub(crate) fn member(name: &str, age: i64) -> Replica {
    Replica {
        id: ObjectId::new(name, &format!("uid-of-{name}")),
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
