//! Pools of any size with their objects, built from public types only. The benchmark and the test of the
//! cost's growth share them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vmpool_engine::model::{
    CurrentRevision, DiskAnnotations, DiskRef, Lifetime, MachineActivity, Owner, PoolDiskTemplate,
    PublishedStatus, StoredTime,
};
use vmpool_engine::plan::{NamesInUse, PlanSettings, PoolSnapshot};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::scale_up::names::{MIN_BLOCK, NameBlock, Namer};
use vmpool_engine::{
    ComputedStatus, Disk, Machine, ObjectId, ObservedPool, PassMemory, Plan, Pool, PoolSpec, Uid,
    compute_status, plan_pass,
};

const POOL_UID: &str = "6b1e3f0a-5d8c-4f7e-9a21-3c4d5e6f7081";

/// Number of machines by which a pool grows or shrinks.
pub(crate) const STEP: usize = 10;

/// One of this number of disks is missing.
pub(crate) const ONE_IN: usize = 100;

/// The work of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassWorkload {
    /// Nothing: all desired machines run, and no others exist.
    Settled,
    /// [`STEP`] machines are missing.
    Grow,
    /// [`STEP`] machines are surplus.
    Shrink,
    /// One disk of [`ONE_IN`] is missing.
    LostDisks,
    /// Nothing. Every machine has the [`RETAINED`] disks in addition, and one disk for [`ONE_IN`] machines is
    /// free.
    KeptDisks,
}

/// Templates of the retained disks of a machine, in the case with retained disks.
const RETAINED: [&str; 2] = ["cache", "layers"];

impl PassWorkload {
    /// All cases.
    pub(crate) const ALL: [Self; 5] =
        [Self::Settled, Self::Grow, Self::Shrink, Self::LostDisks, Self::KeptDisks];

    /// Name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Settled => "nothing to do",
            Self::Grow => "grow by 10",
            Self::Shrink => "shrink by 10",
            Self::LostDisks => "1 % of disks lost",
            Self::KeptDisks => "nothing, 3 disks each",
        }
    }

    /// Number of writes that a pass over this number of machines plans.
    fn writes(self, machines: usize) -> usize {
        match self {
            Self::Settled | Self::KeptDisks => 0,
            Self::Grow | Self::Shrink => STEP,
            Self::LostDisks => machines / ONE_IN,
        }
    }
}

/// A pool with one disk per machine, whose machines run.
pub(crate) struct BenchWorld {
    pool: Pool,
    machines: Vec<Arc<Machine>>,
    disks: BTreeMap<Arc<str>, Arc<Disk>>,
    pool_disks: Vec<Arc<Disk>>,
    memory: PassMemory,
    names: BTreeSet<Arc<str>>,
}

impl BenchWorld {
    /// A pool of `count` machines with the work of `case`.
    ///
    /// # Panics
    /// If a pass over the pool does not plan exactly the writes of the case, because the benchmark would then
    /// measure other work.
    pub(crate) fn new(count: usize, case: PassWorkload) -> Self {
        let namer = Namer::new(&"web".into(), &Uid::from(POOL_UID));
        let numbers = u64::try_from(count).expect("a pool of a benchmark");
        let templates: &[&str] = if case == PassWorkload::KeptDisks { &RETAINED } else { &[] };
        let machines: Vec<_> =
            (0..numbers).map(|number| Arc::new(machine(&namer.name(number), number, templates))).collect();
        let owned = |machine: &Arc<Machine>| {
            let disk = &machine.disks[0].disk;
            (disk.clone(), Arc::new(disk_of(machine, disk)))
        };
        let lost = |index: usize| case == PassWorkload::LostDisks && index.is_multiple_of(ONE_IN);
        let disks =
            machines.iter().enumerate().filter(|(index, _)| !lost(*index)).map(|(_, machine)| owned(machine));
        let used = machines.iter().flat_map(|machine| {
            let devices = machine.disks.iter().skip(1);
            devices.map(|device| retained_disk(&device.disk, device.template.as_deref(), Some(machine)))
        });
        let free = templates.iter().flat_map(|template| {
            (0..count / ONE_IN)
                .map(move |at| retained_disk(&format!("web-{template}-free{at}"), Some(template), None))
        });
        let pool_disks: Vec<Arc<Disk>> = used.chain(free).map(Arc::new).collect();
        let disks = disks.chain(pool_disks.iter().map(|disk| (disk.id.name.clone(), disk.clone())));
        let desired = match case {
            PassWorkload::Grow => count + STEP,
            PassWorkload::Shrink => count - STEP,
            PassWorkload::Settled | PassWorkload::LostDisks | PassWorkload::KeptDisks => count,
        };
        let disks = disks.collect();
        let names = machines.iter().map(|machine| machine.id.name.clone()).collect();
        let mut pool = pool(desired, NameBlock { first: 0, end: numbers + MIN_BLOCK });
        pool.disks.extend(templates.iter().map(|name| PoolDiskTemplate {
            keep_free: 1,
            ttl: Some(Duration::from_hours(1)),
            size: Some(1 << 30),
            ..PoolDiskTemplate::new(name, Lifetime::Retained)
        }));
        let mut memory = PassMemory::default();
        memory.next_number = numbers;
        memory.observe(&pool, Duration::from_secs(1000));
        let mut world = Self { pool, machines, disks, pool_disks, memory, names };
        // An existing pool has a status, and the comparison with it is part of the cost.
        let snapshot = world.snapshot();
        let published = compute_status(&world.observed(&snapshot), None);
        world.pool.published = PublishedStatus {
            conditions: published.conditions,
            summary: Some(published.summary),
            desired_revision: None,
            activity: published.activity,
        };
        let (planned, _) = run_engine_pass(&world.observed(&snapshot));
        assert_eq!(planned.actions.len(), case.writes(count), "{case:?} over {count} machines");
        world
    }

    /// The objects that a pass reads.
    pub(crate) fn snapshot(&self) -> PoolSnapshot {
        PoolSnapshot {
            now: Timestamp::from_second(1_900_000_000).expect("in range"),
            uptime: Duration::from_secs(1000),
            server_clock: None,
            machines: self.machines.clone(),
            disks: self.disks.clone().into_iter().collect(),
            pool_disks: self.pool_disks.clone(),
            other_users: [].into(),
            replaced_disks: [].into(),
            unconfirmed_creates: Vec::new(),
        }
    }

    /// The input of a pass with this snapshot.
    pub(crate) fn observed<'a>(&'a self, snapshot: &'a PoolSnapshot) -> ObservedPool<'a> {
        ObservedPool::new(snapshot, &self.pool, &[], PlanSettings::default(), &self.memory, self)
    }
}

impl NamesInUse for BenchWorld {
    fn has_machine(&self, name: &str) -> bool {
        self.names.contains(name)
    }
    fn has_disk(&self, name: &str) -> bool {
        self.disks.contains_key(name)
    }
}

/// The engine's part of one pass.
pub(crate) fn run_engine_pass(observed: &ObservedPool<'_>) -> (Plan, ComputedStatus) {
    (plan_pass(observed), compute_status(observed, observed.memory.failure().as_ref()))
}

fn pool(desired: usize, block: NameBlock) -> Pool {
    let spec = PoolSpec {
        desired,
        disks: vec![PoolDiskTemplate::new("root", Lifetime::Ephemeral)],
        name_block: Some(block),
        ..PoolSpec::new(ObjectId::new("web", POOL_UID), "team")
    };
    Pool { spec, revision: CurrentRevision::of_template(RevisionId::from("5d8c4f7e9a"), true) }
}

fn machine(name: &str, number: u64, pool_disks: &[&str]) -> Machine {
    /// Machines that are created in the same second.
    const PER_SECOND: u64 = 100;
    let second = 1_800_000_000 + i64::try_from(number / PER_SECOND).expect("small");
    let root = ("root", format!("{name}-root"));
    let pool_disks = pool_disks.iter().map(|template| (*template, format!("web-{template}-{number:06}")));
    let devices = std::iter::once(root).chain(pool_disks).enumerate().map(|(position, (template, disk))| {
        DiskRef { template: Some(template.into()), disk: disk.into(), position }
    });
    Machine {
        created: Timestamp::from_second(second).expect("in range"),
        owner: Some(Arc::new(Owner::pool(&ObjectId::new("web", POOL_UID)))),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        pool_label: Some("web".into()),
        revision: Some(RevisionId::from("5d8c4f7e9a")),
        written: Some(RevisionId::from("5d8c4f7e9a")),
        evaluated: true,
        activity: MachineActivity::Running,
        disks: devices.collect(),
        boot_disk: Some(format!("{name}-root").into()),
        devices_ready: true,
        problem: None,
        ..Machine::blank(ObjectId::new(name, &format!("3c4d5e6f-{number:012}")))
    }
}

fn disk_of(machine: &Machine, name: &str) -> Disk {
    Disk {
        owner: Some(Owner::machine(&machine.id)),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        template: Some("root".into()),
        mounted_by: Some(machine.id.name.clone()),
        ..Disk::blank(ObjectId::new(name, &format!("disk-{}", machine.id.uid)))
    }
}

/// A disk that the pool owns: a disk of a machine, or a free one.
fn retained_disk(name: &str, template: Option<&str>, machine: Option<&Arc<Machine>>) -> Disk {
    /// The time since which a disk is free, recent enough that the disk stays.
    const FREE_SINCE: i64 = 1_899_999_000;
    let at = Timestamp::from_second(FREE_SINCE).expect("in range");
    let annotations = match machine {
        Some(machine) => {
            DiskAnnotations { claimed_by: Some(machine.id.name.clone()), ..DiskAnnotations::default() }
        }
        None => DiskAnnotations { free_since: Some(StoredTime::At(at)), ..DiskAnnotations::default() },
    };
    Disk {
        owner: Some(Owner::pool(&ObjectId::new("web", POOL_UID))),
        pool_uid_label: Some(Uid::from(POOL_UID)),
        template: template.map(Arc::from),
        size: Some(1 << 30),
        capacity: Some(1 << 30),
        mounted_by: machine.map(|machine| machine.id.name.clone()),
        annotations,
        ..Disk::blank(ObjectId::new(name, &format!("disk-{name}")))
    }
}
