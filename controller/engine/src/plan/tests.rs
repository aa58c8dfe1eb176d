use proptest::prelude::*;
use rstest::rstest;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::backoff::MAX_BATCH;
use crate::membership::losses::Rehearsal;
use crate::model::ObjectId;
use crate::model::{
    DiskAnnotations, DiskDraft, Draft, Lifetime, Machine, MachineActivity, Naming, PoolDiskTemplate,
    ScaleDownPolicy, Uid,
};
use crate::scale_up::names::NameBlock;
use crate::testing::{PoolWorld, another_pool, created_machines, deleted_machines, numbered_machine_name};

#[rstest]
#[case::with_missing_machines(PoolWorld::desiring(3).with_machines(1))]
#[case::with_a_surplus(PoolWorld::desiring(0).with_machines(2))]
#[case::with_machines_to_repair(
    PoolWorld::desiring(1).with_machines(1).edit(&numbered_machine_name(0), |machine| machine.pool_label = None)
)]
#[case::with_a_lost_answer(PoolWorld::desiring(0).block(0, 64).with_unconfirmed([0]))]
fn a_pool_on_its_way_out_is_left_to_the_garbage_collector(#[case] world: PoolWorld) {
    assert_ne!(world.plan(), Plan::default());
    assert_eq!(world.pool(|pool| pool.deleting = true).plan(), Plan::default());
}

#[test]
fn the_stages_come_in_their_order() {
    let world = PoolWorld::desiring(4)
        .with_machines(3)
        .edit(&numbered_machine_name(0), |machine| machine.pool_label = None)
        .disk(&format!("{}-root", numbered_machine_name(1)), |_| None)
        .pool(|pool| pool.name_block = None);
    let stages: Vec<ApplyStage> = world.plan().actions.iter().map(PoolAction::stage).collect();
    assert_eq!(stages, [ApplyStage::Relabel, ApplyStage::Repair, ApplyStage::Prepare, ApplyStage::Create]);
    assert!(
        ApplyStage::Repair < ApplyStage::Remove
            && ApplyStage::Remove < ApplyStage::Prepare
            && ApplyStage::Prepare < ApplyStage::Create
            && ApplyStage::Create < ApplyStage::CleanUp
    );
}

#[rstest]
#[case::creating(PoolWorld::desiring(1), true)]
#[case::deleting(PoolWorld::desiring(0).with_machines(1), true)]
#[case::settling(PoolWorld::desiring(1).accepted("r", &["web-gone"]), true)]
#[case::repairing(PoolWorld::desiring(1).with_machines(1).edit(&numbered_machine_name(0), |machine| machine.pool_label = None), false)]
#[case::deleting_a_disk(
    PoolWorld::desiring(0).keeping(|template| template.ttl = Some(Duration::from_secs(1))).free("web-data-1", 60)
        .edit_disk("web-data-1", |disk| disk.annotations.collecting_since = Some(crate::testing::seconds_ago(50))),
    true
)]
#[case::marking_a_disk(
    PoolWorld::desiring(0).keeping(|template| template.ttl = Some(Duration::from_secs(1))).free("web-data-1", 60), false
)]
#[case::settled(PoolWorld::desiring(1).with_machines(1), false)]
fn a_plan_knows_whether_it_rests_on_the_count(#[case] world: PoolWorld, #[case] expected: bool) {
    assert_eq!(world.plan().needs_live_pool(), expected);
}

#[rstest]
#[case(PoolAction::Relabel { machine: id() }, ApplyStage::Relabel, "FailedRepair")]
#[case(PoolAction::Release { machine: id(), shared: Vec::new() }, ApplyStage::Relabel, "FailedRepair")]
#[case(PoolAction::CreateDisk { machine: id(), disk: disk() }, ApplyStage::Repair, "DiskFailure")]
#[case(PoolAction::Repoint { machine: id(), position: 0, from: "a".into(), to: disk() }, ApplyStage::Repair, "DiskFailure")]
#[case(PoolAction::AdoptDisk { machine: id(), disk: id(), template: "t".into() }, ApplyStage::Repair, "DiskFailure")]
#[case(PoolAction::Detach { machine: id(), position: 0, disk: "a".into() }, ApplyStage::Repair, "DiskFailure")]
#[case(PoolAction::Delete { machine: id(), reason: DeleteReason::Surplus { rule: SurplusRule::Policy } }, ApplyStage::Remove, "FailedDelete")]
#[case(PoolAction::OpenNameBlock { block: NameBlock { first: 0, end: 1 } }, ApplyStage::Prepare, "FailedCreate")]
#[case(PoolAction::AnnotateDisk { disk: id(), annotations: DiskAnnotations::default(), absent: None }, ApplyStage::CollectDisks, "DiskFailure")]
#[case(PoolAction::DeleteDisk { disk: id(), reason: DiskDeleteReason::Expired }, ApplyStage::CollectDisks, "DiskFailure")]
#[case(PoolAction::ExpandDisk { disk: id(), to: 1 }, ApplyStage::ExpandDisks, "DiskFailure")]
#[case(PoolAction::PruneRecord { gone: vec![id()], expired: vec![], block: None }, ApplyStage::CleanUp, "FailedRepair")]
#[case(
    PoolAction::Create {
        draft: Draft {
            name: "a".into(),
            number: 0,
            revision: "r".into(),
            disks: vec![],
            rehearsal: Rehearsal::None,
            standby: None,
        },
    },
    ApplyStage::Create, "FailedCreate"
)]
fn every_action_has_a_stage_and_a_word_for_its_failure(
    #[case] action: PoolAction,
    #[case] stage: ApplyStage,
    #[case] reason: &str,
) {
    assert_eq!((action.stage(), action.failure_reason().as_str()), (stage, reason));
}

fn id() -> ObjectId {
    ObjectId::new("web-a", "a")
}

fn disk() -> DiskDraft {
    DiskDraft::new("web-a-root".into(), "root".into())
}

#[rstest]
#[case(
    Blocker::Backoff { stage: ApplyStage::Create, left: Duration::from_secs(2) },
    "stage Create is in backoff for 2s after a failure"
)]
#[case(
    Blocker::TerminatingDisk { machine: id(), disk: "d".into() },
    "machine web-a waits until disk d of an earlier machine is deleted"
)]
#[case(
    Blocker::RestoringDisk { machine: id(), disk: "d".into() },
    "machine web-a waits until the platform has restored disk d"
)]
#[case(Blocker::UserAction("use Delete".into()), "use Delete")]
#[case(
    Blocker::Reservation { machine: "web-a".into() },
    "machine web-a is reserved by a targeted removal: no machine is created or deleted in its place"
)]
#[case(
    Blocker::UnconfirmedCreate { name: "web-a".into() },
    "the create of machine web-a is unconfirmed, and the API server may still carry it out"
)]
fn a_blocker_reads_as_a_sentence(#[case] blocker: Blocker, #[case] text: &str) {
    assert_eq!(blocker.to_string(), text);
}

/// A machine of a random world.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent coins, which together make every kind of machine"
)]
struct Sketch {
    created: i64,
    running: bool,
    been_ready: bool,
    terminating: bool,
    foreign: bool,
    labelled: bool,
    disk: bool,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    // Few different ages, so that equal ages are common.
    (
        0i64..4,
        any::<(bool, bool)>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.9),
    )
        .prop_map(|(created, (running, been_ready), terminating, foreign, labelled, disk)| Sketch {
            created,
            running,
            been_ready,
            terminating,
            foreign,
            labelled,
            disk,
        })
}

const REMOVALS: [ScaleDownPolicy; 5] = [
    ScaleDownPolicy::NewestFirst,
    ScaleDownPolicy::OldestFirst,
    ScaleDownPolicy::LowestOrdinalFirst,
    ScaleDownPolicy::HighestOrdinalFirst,
    ScaleDownPolicy::Explicit,
];

fn world(
    sketches: &[Sketch],
    desired: usize,
    policy: ScaleDownPolicy,
    naming: Naming,
    lost: u64,
) -> PoolWorld {
    let numbered = (0..).zip(sketches).map(|(number, sketch): (u64, _)| match naming {
        Naming::Random => (numbered_machine_name(number), sketch),
        Naming::Ordinal => (format!("web-{number}"), sketch),
    });
    let world = numbered.fold(PoolWorld::desiring(desired), |world, (name, sketch)| {
        let created = crate::testing::observation_time().as_second() - 10 + sketch.created;
        let world = world.with_machine(&name, created).edit(&name, |machine| {
            machine.activity =
                if sketch.running { MachineActivity::Running } else { MachineActivity::NotRunning };
            machine.been_ready = sketch.been_ready;
            machine.terminating = sketch.terminating;
            if sketch.foreign {
                machine.owner = Some(another_pool());
            }
            if !sketch.labelled {
                machine.pool_label = None;
            }
        });
        if sketch.disk { world } else { world.disk(&format!("{name}-root"), |_| None) }
    });
    let count = sketches.len() as u64;
    let world = world.memory(|memory| memory.next_number = count).pool(|pool| {
        pool.scale_down_policy = policy;
        pool.naming = naming;
        pool.disks.push(PoolDiskTemplate::new("scratch", Lifetime::Ephemeral));
    });
    (count..count + lost).fold(world, |mut world, number| {
        let name = match naming {
            Naming::Random => numbered_machine_name(number),
            Naming::Ordinal => format!("web-{number}"),
        };
        world.memory.machines.create_unconfirmed(&name.into(), number, world.uptime);
        world.memory.next_number = number + 1;
        world
    })
}

prop_compose! {
    fn any_world()(
        sketches in prop::collection::vec(sketch(), 0..12),
        desired in 0usize..14,
        policy in prop::sample::select(&REMOVALS[..]),
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        lost in 0u64..4,
        names in prop::collection::vec((0usize..14, 0u8..3, any::<bool>()), 0..5),
    ) -> Shown {
        Shown(with_names(world(&sketches, desired, policy, naming, lost), &names))
    }
}

/// Adds up to three removal requests, some of them accepted, with targets some of which do not exist.
fn with_names(mut world: PoolWorld, names: &[(usize, u8, bool)]) -> PoolWorld {
    for (which, request, _) in names {
        let name =
            world.machines.get(*which).map_or_else(|| format!("web-gone-{which}"), |m| m.id.name.to_string());
        world = world.reserved(&format!("request {request}"), &[&name]);
    }
    for (_, request, accepted) in names {
        if *accepted {
            let fewer = world.pool.record.accept(&format!("request {request}"));
            world.pool.desired = world.pool.desired.saturating_sub(fewer);
        }
    }
    world
}

/// The number of targets that are only reserved and whose machines are not in the pool.
fn held(observed: &ObservedPool<'_>) -> usize {
    let is_pool_machine = |uid: &Uid| observed.pool_machines().any(|machine| machine.id.uid == *uid);
    observed.pool.record.reserved().filter(|target| !is_pool_machine(&target.uid)).count()
}

/// A world that a failing test can print.
struct Shown(PoolWorld);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:#?}\n{:#?}\n{:?}",
            self.0.pool,
            self.0.machines,
            self.0.memory.machines.unconfirmed_creates()
        )
    }
}

/// The actions of a plan, sorted.
fn set(plan: &Plan) -> Vec<String> {
    let mut actions: Vec<String> = plan.actions.iter().map(|action| format!("{action:?}")).collect();
    actions.sort();
    actions
}

proptest! {
    #[test]
    fn a_settled_world_yields_an_empty_plan(
        mut sketches in prop::collection::vec(sketch(), 0..12),
        policy in prop::sample::select(&REMOVALS[..]),
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
    ) {
        for sketch in &mut sketches {
            sketch.disk = true;
            sketch.labelled = true;
        }
        let machines = sketches.iter().filter(|sketch| !sketch.foreign).count();
        prop_assert_eq!(world(&sketches, machines, policy, naming, 0).plan(), Plan::default());
    }

    #[test]
    fn the_order_of_the_input_changes_nothing(Shown(world) in any_world(), seed in any::<u64>()) {
        let plan = world.plan();
        let mut snapshot = world.snapshot();
        snapshot.machines.sort_by_key(|machine| {
            machine.id.name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        });
        let shuffled = crate::plan_pass(&world.observed(&snapshot));
        prop_assert_eq!(set(&shuffled), set(&plan));
        prop_assert_eq!(deleted_machines(&shuffled), deleted_machines(&plan));
        prop_assert_eq!(created_machines(&shuffled), created_machines(&plan));
    }

    #[test]
    fn a_pass_creates_no_more_than_is_missing(Shown(world) in any_world()) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let machines = observed.pool_machines().count() + held(&observed);
        let plan = crate::plan_pass(&observed);
        prop_assert!(created_machines(&plan).len() <= world.pool.desired.saturating_sub(machines));
        // With unconfirmed creates, machines never exceed the desired number, unless they already did.
        let repeated = created_machines(&plan)
            .iter()
            .filter(|name| observed.unconfirmed_creates.iter().any(|lost| *lost.name == ***name))
            .count();
        let possible = machines + observed.unconfirmed_creates.len() + created_machines(&plan).len() - repeated;
        prop_assert!(possible <= world.pool.desired.max(machines + observed.unconfirmed_creates.len()));
        prop_assert!(created_machines(&plan).len() <= MAX_BATCH);
    }

    #[test]
    fn a_pass_deletes_exactly_the_targets_and_the_surplus(
        Shown(world) in any_world(),
    ) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let record = &world.pool.record;
        let live = observed.pool_machines().filter(|machine| !machine.terminating);
        let (named, others): (Vec<_>, Vec<_>) = live.partition(|machine| record.is_accepted(&machine.id.uid));
        let plan = crate::plan_pass(&observed);
        let chosen = |wanted: fn(&DeleteReason) -> bool| {
            let of = plan.actions.iter().filter_map(move |action| match action {
                PoolAction::Delete { machine, reason } if wanted(reason) => Some(machine.clone()),
                _ => None,
            });
            of.collect::<std::collections::BTreeSet<_>>()
        };
        prop_assert_eq!(chosen(|reason| *reason == DeleteReason::Targeted { forced: false }), named.iter().map(|machine| machine.id.clone()).collect());

        let surplus = others.len().saturating_sub(world.pool.desired);
        let surplus = if world.pool.scale_down_policy == ScaleDownPolicy::Explicit { 0 } else { surplus };
        let leaving = chosen(|reason| matches!(reason, DeleteReason::Surplus { .. }));
        prop_assert!(leaving.iter().all(|machine| !record.reserved().any(|target| target.uid == machine.uid)));
        // A reserved machine keeps its place, and no other machine is created for it.
        let waiting = plan.blockers.iter().filter(|blocker| {
            let live = |name: &str| others.iter().any(|machine| *machine.id.name == *name);
            matches!(blocker, Blocker::Reservation { machine } if live(machine))
        });
        prop_assert_eq!(leaving.len() + waiting.count(), surplus);
    }

    /// Reserved machines are neither deleted nor replaced by others.
    #[test]
    fn no_machine_that_has_been_ready_leaves_while_another_stays(Shown(world) in any_world()) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let plan = crate::plan_pass(&observed);
        let leaves = |machine: &Machine| plan.actions.iter().any(|action| {
            matches!(action, PoolAction::Delete { machine: id, reason: DeleteReason::Surplus { .. } } if *id == machine.id)
        });
        let record = &world.pool.record;
        let is_named = |machine: &Machine| record.entries().iter().any(|entry| entry.target == machine.id);
        let candidates = || observed.pool_machines().filter(|machine| !machine.terminating && !is_named(machine));
        let is_new = |machine: &&Arc<Machine>| !observed.has_been_ready(machine);
        let (leaving, staying): (Vec<_>, Vec<_>) = candidates().partition(|machine| leaves(machine));
        if !world.pool.scale_down_policy.is_by_ordinal() {
            prop_assert!(leaving.iter().all(is_new) || !staying.iter().any(is_new));
        }
    }

    #[test]
    fn only_live_machines_are_deleted_and_never_twice(Shown(world) in any_world()) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let plan = crate::plan_pass(&observed);
        let victims = deleted_machines(&plan);
        for victim in &victims {
            prop_assert!(observed.pool_machines().any(|machine| *machine.id.name == **victim && !machine.terminating));
        }
        let distinct: std::collections::BTreeSet<_> = victims.iter().collect();
        prop_assert_eq!(distinct.len(), victims.len());
    }

    #[test]
    fn a_new_name_is_unused(Shown(world) in any_world()) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let plan = crate::plan_pass(&observed);
        let names = created_machines(&plan);
        for name in &names {
            prop_assert!(!observed.machines.iter().any(|machine| *machine.id.name == **name));
        }
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        prop_assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn a_surplus_and_a_lack_exclude_each_other(Shown(world) in any_world()) {
        let plan = world.plan();
        let surplus = |action: &PoolAction| matches!(action, PoolAction::Delete { reason: DeleteReason::Surplus { .. }, .. });
        prop_assert!(created_machines(&plan).is_empty() || !plan.actions.iter().any(surplus));
    }

    #[test]
    fn the_same_world_gives_the_same_plan(Shown(world) in any_world()) {
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        prop_assert_eq!(crate::plan_pass(&observed), crate::plan_pass(&observed));
    }
}
