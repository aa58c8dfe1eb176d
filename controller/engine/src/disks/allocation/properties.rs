//! Properties of retained disks in random worlds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use proptest::prelude::*;

use crate::Plan;
use crate::model::{Disk, DiskAnnotations, DiskSource, DiskState, MachineActivity, StoredTime};
use crate::plan::PoolAction;
use crate::testing::{
    PoolWorld, RETAINED, numbered_machine_name, observation_time, retained_disk, seconds_ago,
};

/// A world that a failing test can print.
struct Shown(PoolWorld);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#?}\n{:#?}\n{:#?}\n{:?}", self.0.pool, self.0.machines, self.0.disks, self.0.others)
    }
}

fn any_stored_time() -> impl Strategy<Value = Option<StoredTime>> {
    // Few different ages, so that equal ages are common. Some ages are in the future.
    prop_oneof![
        2 => Just(None),
        5 => (-2i64..5).prop_map(|ages| Some(seconds_ago(50 * ages))),
        1 => Just(Some(StoredTime::Unreadable)),
    ]
}

const STATES: [DiskState; 5] =
    [DiskState::Ready, DiskState::Pending, DiskState::Changing, DiskState::Failed, DiskState::Lost];

fn any_disk() -> impl Strategy<Value = Disk> {
    (
        prop::sample::select(&STATES[..]),
        (any_stored_time(), any_stored_time(), prop::option::weighted(0.3, 0u64..9)),
        (prop::option::weighted(0.2, 0u64..9), prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        (prop::option::of(1u64..4), prop::sample::select(&[RETAINED, RETAINED, RETAINED, "gone"][..])),
    )
        .prop_map(
            |(
                state,
                (free_since, collecting_since, claimer),
                (mounter, used, terminating),
                (size, template),
            )| {
                let of = |number: Option<u64>| number.map(|number| numbered_machine_name(number).into());
                Disk {
                    state,
                    annotations: DiskAnnotations { claimed_by: of(claimer), free_since, collecting_since },
                    mounted_by: of(mounter),
                    used_otherwise: used,
                    terminating,
                    size,
                    template: Some(template.into()),
                    ..retained_disk("")
                }
            },
        )
}

/// The state of a machine and the disk that it refers to.
type Sketch = (usize, bool, bool, bool);

fn retained_disk_world(
    disks: Vec<Disk>,
    machines: &[Sketch],
    desired: usize,
    keep: usize,
    ttl: Option<u64>,
    lent: usize,
) -> PoolWorld {
    let mut world = PoolWorld::desiring(desired).keeping(|template| {
        (template.keep_free, template.ttl, template.size) = (keep, ttl.map(Duration::from_secs), Some(2));
    });
    let count = disks.len();
    let called = |at: usize| format!("web-data-{at}");
    for (at, disk) in disks.into_iter().enumerate() {
        let id = retained_disk(&called(at)).id;
        world = world.disk(&called(at), |_| Some(Disk { id, ..disk }));
    }
    for (number, (disk, runs, terminating, lingers)) in (0..).zip(machines) {
        let machine = numbered_machine_name(number);
        world = world.with_machine(&machine, i64::try_from(number / 2).expect("small"));
        if *disk < count {
            world = world.holding(&machine, &called(*disk));
        }
        world = world.edit(&machine, |machine| {
            machine.activity = if *runs { MachineActivity::Running } else { MachineActivity::NotRunning };
            machine.terminating = *terminating;
            if *lingers {
                machine.lingering.push(called(disk + 1).into());
            }
        });
    }
    if lent < count {
        world.others.insert(called(lent).into(), vec!["a-stranger".into()]);
    }
    world.memory(|memory| memory.next_number = machines.len() as u64).block(0, 64)
}

prop_compose! {
    fn any_world()(
        disks in prop::collection::vec(any_disk(), 0..9),
        machines in prop::collection::vec(
            (0usize..9, any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1)), 0..6
        ),
        desired in 0usize..9,
        keep in 0usize..3,
        ttl in prop::option::of(prop::sample::select(&[10u64, 60, 120][..])),
        lent in 0usize..40,
    ) -> Shown {
        Shown(retained_disk_world(disks, &machines, desired, keep, ttl, lent))
    }
}

/// The free disks that a plan allocates.
fn allocated_disk_names(plan: &Plan) -> Vec<&str> {
    let drafts = plan.actions.iter().flat_map(|action| match action {
        PoolAction::Create { draft } => &draft.disks[..],
        PoolAction::Update { disks, .. } => &disks[..],
        PoolAction::Repoint { to, .. } => std::slice::from_ref(to),
        _ => &[],
    });
    drafts.filter(|disk| matches!(disk.source, DiskSource::Free(_))).map(|disk| &*disk.name).collect()
}

fn is_used(world: &PoolWorld, disk: &str) -> bool {
    let refers = world.machines.iter().any(|machine| {
        machine.disks.iter().any(|device| *device.disk == *disk)
            || machine.lingering.iter().any(|lingering| **lingering == *disk)
    });
    let known = &world.disks[disk];
    refers || world.others.contains_key(disk) || known.used_otherwise || known.mounted_by.is_some()
}

fn action_texts(plan: &Plan) -> BTreeSet<String> {
    plan.actions.iter().map(|action| format!("{action:?}")).collect()
}

/// Applies all disk annotations of a plan.
fn apply_disk_annotations(mut world: PoolWorld, plan: &Plan) -> PoolWorld {
    for action in &plan.actions {
        if let PoolAction::AnnotateDisk { disk, annotations, .. } = action {
            world = world.edit_disk(&disk.name, |disk| disk.annotations = annotations.clone());
        }
    }
    world
}

proptest! {
    #[test]
    fn the_order_of_the_input_changes_nothing(Shown(mut world) in any_world(), seed in any::<u64>()) {
        let plan = world.plan();
        let key = |name: &str| {
            name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        world.machines.sort_by_key(|machine| key(&machine.id.name));
        let mut snapshot = world.snapshot();
        snapshot.pool_disks.sort_by_key(|disk| key(&disk.id.name));
        let shuffled = crate::plan_pass(&world.observed(&snapshot));
        prop_assert_eq!(action_texts(&shuffled), action_texts(&plan));
        prop_assert_eq!(shuffled.requeue_after, plan.requeue_after);
    }

    #[test]
    fn what_is_in_use_is_neither_handed_out_nor_deleted_nor_marked_for_it(Shown(world) in any_world()) {
        let plan = world.plan();
        for disk in allocated_disk_names(&plan) {
            prop_assert!(!is_used(&world, disk), "{disk}");
        }
        for action in &plan.actions {
            let ending = match action {
                PoolAction::DeleteDisk { disk, .. } => Some(disk),
                PoolAction::AnnotateDisk { disk, annotations, .. } if annotations.collecting_since.is_some() => Some(disk),
                _ => None,
            };
            prop_assert!(ending.is_none_or(|disk| !is_used(&world, &disk.name)), "{action:?}");
        }
    }

    #[test]
    fn a_disk_is_handed_out_once_and_nothing_else_is_planned_on_its_marks(Shown(world) in any_world()) {
        let plan = world.plan();
        let allocated = allocated_disk_names(&plan);
        let mut written: BTreeMap<&str, usize> = BTreeMap::new();
        for disk in allocated.iter().copied() {
            *written.entry(disk).or_default() += 1;
        }
        for action in &plan.actions {
            if let PoolAction::AnnotateDisk { disk, .. } | PoolAction::DeleteDisk { disk, .. } = action {
                *written.entry(&disk.name).or_default() += 1;
            }
        }
        prop_assert!(written.values().all(|count| *count == 1), "{written:?}");
    }

    #[test]
    fn a_machine_that_runs_on_a_disk_keeps_it(Shown(world) in any_world()) {
        for action in world.plan().actions {
            if let PoolAction::Repoint { machine, from, .. } = &action {
                let found = world.machines.iter().find(|known| known.id == *machine).expect("it is there");
                let mounts = world.disks[from].mounted_by.as_ref() == Some(&machine.name);
                prop_assert!(!(mounts && found.activity == MachineActivity::Running), "{action:?}");
            }
        }
    }

    #[test]
    fn what_is_deleted_was_marked_for_the_grace_and_is_not_among_the_newest_that_are_kept(
        Shown(world) in any_world(),
    ) {
        let plan = world.plan();
        let allocated = allocated_disk_names(&plan);
        for action in &plan.actions {
            let PoolAction::DeleteDisk { disk, reason: crate::plan::DiskDeleteReason::Expired } = action else { continue };
            let since = |disk: &Disk| match disk.annotations.free_since {
                Some(StoredTime::At(since)) => since,
                _ => observation_time(),
            };
            let ending = &world.disks[&disk.name];
            let Some(StoredTime::At(marked)) = ending.annotations.collecting_since else {
                panic!("{disk} was not marked");
            };
            prop_assert!(observation_time().duration_since(marked).as_secs() >= 30);
            let (ttl, keep) = (world.pool.disks[1].ttl.expect("it ends"), world.pool.disks[1].keep_free);
            prop_assert!(observation_time().duration_since(since(ending)) > jiff::SignedDuration::try_from(ttl).unwrap());
            let newer = world.disks.values().filter(|other| {
                let holds_data = !matches!(other.state, DiskState::Failed | DiskState::Lost);
                other.template.as_deref() == Some(RETAINED)
                    && holds_data
                    && !other.terminating
                    && other.annotations.claimed_by.is_none()
                    && !is_used(&world, &other.id.name)
                    && !allocated.contains(&&*other.id.name)
                    && (since(other), &ending.id.name) >= (since(ending), &other.id.name)
                    && other.id != ending.id
            });
            prop_assert!(newer.count() >= keep, "{disk} is among the newest {keep}");
        }
    }

    #[test]
    fn marks_come_to_an_end(Shown(world) in any_world()) {
        let mut world = world;
        // A disk that another machine was to get is annotated when it is no longer allocated. Each disk has
        // its claim removed, its `free-since` set and its deletion marked once, one after the other.
        let rounds = 3 * (world.disks.len() + 1);
        for _ in 0..rounds {
            let plan = world.plan();
            world.memory.await_disks(&plan.awaited, Duration::ZERO);
            world.uptime = Duration::from_secs(1000);
            world = apply_disk_annotations(world, &plan);
        }
        let plan = world.plan();
        let annotations = plan.actions.iter().filter(|action| matches!(action, PoolAction::AnnotateDisk { .. })).count();
        prop_assert_eq!(annotations, 0, "{:?}", plan);
    }
}
