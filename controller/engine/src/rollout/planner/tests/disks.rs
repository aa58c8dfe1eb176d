//! The disks of a machine after a revision was written to it.

use super::*;
use crate::rollout::attempts::UpdateOutcome;

const OURS: &str = crate::testing::POOL_UID;

fn draft(world: &PoolWorld) -> Vec<DiskDraft> {
    let plan = world.plan();
    let disks = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Update { disks, .. } => Some(disks.clone()),
        _ => None,
    });
    let all: Vec<_> = disks.collect();
    assert_eq!(all.len(), 1, "{plan:?}");
    all.into_iter().next().unwrap()
}

/// `template=disk (source)`.
fn shown(drafts: &[DiskDraft]) -> Vec<String> {
    let mut shown: Vec<_> = drafts
        .iter()
        .map(|draft| {
            let source = match &draft.source {
                DiskSource::New => "new",
                DiskSource::Free(_) => "free",
                DiskSource::Existing(_) => "held",
            };
            format!(
                "{}={} ({source})",
                draft.template,
                draft.name.replace(&numbered_machine_name(0), "web-x")
            )
        })
        .collect();
    shown.sort();
    shown
}

fn adding(template: &str, lifetime: Lifetime) -> PoolWorld {
    outdated(1).pool(|pool| pool.disks.push(PoolDiskTemplate::new(template, lifetime)))
}

/// A disk that the pool owns and that is free.
fn free(world: PoolWorld, disk: &str, template: &str) -> PoolWorld {
    world.disk(disk, |_| {
        let mut free = own_disk(disk, &running_machine("any", 0));
        free.owner = Some(pool_owner("web", OURS));
        free.template = Some(template.into());
        free.mounted_by = None;
        Some(free)
    })
}

/// A machine with a second disk of this template at the end of its list.
fn having(world: PoolWorld, template: Option<&str>, disk: &str) -> PoolWorld {
    let device = DiskRef { template: template.map(Arc::from), disk: disk.into(), position: 1 };
    let world = with(world, 0, |machine| machine.disks.push(device));
    let owner = (*world.machines[0]).clone();
    world.disk(disk, |_| {
        Some(crate::model::Disk { template: template.map(Arc::from), ..own_disk(disk, &owner) })
    })
}

#[test]
fn what_it_has_stays() {
    assert_eq!(shown(&draft(&outdated(1))), ["root=web-x-root (held)"]);
}

#[test]
fn a_template_that_was_added_gets_a_disk() {
    let world = adding("data", Lifetime::Ephemeral);
    assert_eq!(shown(&draft(&world)), ["data=web-x-data (new)", "root=web-x-root (held)"]);
    let foreign = format!("{}-data", numbered_machine_name(0));
    assert_eq!(shown(&draft(&world.taken(&foreign))), ["data=web-x-data-2 (new)", "root=web-x-root (held)"]);
}

#[test]
fn an_added_template_gets_free_disks_and_two_machines_get_two() {
    let world = free(adding("data", Lifetime::Retained), "web-data-aaaaaa", "data");
    assert_eq!(shown(&draft(&world)), ["data=web-data-aaaaaa (free)", "root=web-x-root (held)"]);

    let two = outdated(2).pool(|pool| {
        pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Retained));
        pool.rollout.budget = DisruptionBudget::Machines(2);
    });
    let plan = free(two, "web-data-aaaaaa", "data").plan();
    let sources = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Update { disks, .. } => disks.iter().find(|disk| &*disk.template == "data"),
        _ => None,
    });
    let sources: Vec<_> = sources.map(|disk| matches!(disk.source, DiskSource::Free(_))).collect();
    assert_eq!(sources, [true, false]);
}

#[test]
fn the_disk_of_a_template_that_is_gone_is_left_out() {
    let world = having(outdated(1), Some("data"), "web-data");
    assert_eq!(shown(&draft(&world)), ["root=web-x-root (held)"]);
    let unused = world.pool(|pool| {
        pool.disks
            .push(PoolDiskTemplate { used: false, ..PoolDiskTemplate::new("data", Lifetime::Ephemeral) });
    });
    assert_eq!(shown(&draft(&unused)), ["root=web-x-root (held)"]);
}

#[test]
fn a_disk_that_a_user_added_is_not_the_pools_to_name() {
    let world = having(outdated(1), None, "somebodys");
    assert_eq!(shown(&draft(&world)), ["root=web-x-root (held)"]);
}

/// A machine that boots from a disk whose template was removed.
fn booting_from_what_is_gone(edit: impl FnOnce(&mut Machine)) -> PoolWorld {
    let world = having(outdated(1), Some("old"), "web-old");
    with(world, 0, |machine| {
        machine.boot_disk = Some("web-old".into());
        edit(machine);
    })
}

#[rstest]
#[case::a_running_one_keeps_it(|_: &mut Machine| {}, true)]
#[case::so_does_one_that_starts(idle, true)]
#[case::a_stopped_one_loses_it(stopped, false)]
fn the_boot_disk(#[case] edit: fn(&mut Machine), #[case] kept: bool) {
    let world = booting_from_what_is_gone(edit);
    let expected: &[&str] =
        if kept { &["old=web-old (held)", "root=web-x-root (held)"] } else { &["root=web-x-root (held)"] };
    assert_eq!(shown(&draft(&world)), expected);
}

#[test]
fn a_boot_disk_that_does_not_exist_is_not_kept() {
    let world = booting_from_what_is_gone(|_| {}).disk("web-old", |_| None);
    assert_eq!(shown(&draft(&world)), ["root=web-x-root (held)"]);
}

#[rstest]
#[case::keeps_its_boot_disk_and_is_unchanged(|_: &mut Machine| {}, &[])]
#[case::loses_it_once_it_is_stopped(stopped, &[0])]
#[case::loses_what_it_did_not_boot_from(|machine: &mut Machine| machine.boot_disk = None, &[0])]
fn one_that_has_the_revision_and_a_disk_of_an_old_template(
    #[case] edit: fn(&mut Machine),
    #[case] expected: &[u64],
) {
    let world = booting_from_what_is_gone(|machine| {
        (machine.written, machine.revision) = (Some("r2".into()), Some("r1".into()));
        edit(machine);
    });
    let plan = world.plan();
    assert_eq!(updated(&plan), expected);
    assert_eq!(advanced(&plan), [] as [u64; 0], "it is not what the template says");
}

/// A machine that another controller created: with unknown markers and without a disk map.
fn foreign(disks: &[&str]) -> PoolWorld {
    let world = outdated(1).pool(|pool| pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Retained)));
    let world = with(world, 0, |machine| {
        (machine.revision, machine.written) = (Some("5c8a1d2f".into()), Some("5c8a1d2f".into()));
        machine.disks = disks
            .iter()
            .enumerate()
            .map(|(position, disk)| DiskRef {
                template: None,
                disk: disk.replace("web-x", &numbered_machine_name(0)).into(),
                position,
            })
            .collect();
    });
    free(world, "web-data-bbbbbb", "data")
}

#[test]
fn the_disks_of_a_machine_that_another_controller_made_are_known_by_their_names_owners_and_labels() {
    let world = foreign(&["web-x-root", "web-data-bbbbbb", "somebodys"]);
    assert_eq!(shown(&draft(&world)), ["data=web-data-bbbbbb (held)", "root=web-x-root (held)"]);
    // A missing disk is created with the name in the machine's spec before the machine is updated.
    let root = format!("{}-root", numbered_machine_name(0));
    let lost = foreign(&["web-x-root", "web-data-bbbbbb"]).disk(&root, |_| None);
    let plan = lost.plan();
    let [PoolAction::CreateDisk { disk, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!((&*disk.name, &*disk.template), (&*root, "root"));
}

#[test]
fn a_foreign_disk_fills_no_template() {
    let stranger = |disk: Option<crate::model::Disk>| {
        disk.map(|disk| crate::model::Disk { owner: Some(pool_owner("other", "other")), ..disk })
    };
    let own = format!("{}-root", numbered_machine_name(0));
    let world = foreign(&["web-x-root", "web-data-bbbbbb"]).disk(&own, stranger);
    let drafts = shown(&draft(&world.disk("web-data-bbbbbb", stranger)));
    assert!(drafts[0].starts_with("data=web-data-") && drafts[0].ends_with("(new)"), "{drafts:?}");
    assert!(!drafts[0].contains("bbbbbb"), "{drafts:?}");
    assert_eq!(drafts[1], "root=web-x-root-2 (new)");
}

#[test]
fn a_name_that_was_left_for_later_is_resolved_before_anything_else() {
    let world = foreign(&["root", "data"]);
    let drafts = shown(&draft(&world));
    // The disk of the machine already exists and no other machine uses it, but the disk map lacked it.
    assert_eq!(drafts[0], "data=web-data-bbbbbb (free)");
    assert!(drafts[1].starts_with("root=web-x-root"), "{drafts:?}");
    // The machine comes first, uses no budget, and is updated in a paused rollout too.
    let mut world =
        with(foreign(&["root", "data"]), 0, |machine| machine.activity = MachineActivity::Running)
            .with_machine(&numbered_machine_name(1), -5)
            .pool(|pool| {
                pool.desired = 2;
                pool.rollout.budget = DisruptionBudget::Machines(1);
            });
    assert_eq!(updated(&world.plan()), [0, 1]);
    world.pool.rollout.paused = true;
    assert_eq!(updated(&world.plan()), [0]);
    let uids: Vec<_> = [1, 2].map(|number| running_machine(&numbered_machine_name(number), 0).id.uid).into();
    world.pool.rollout.paused = false;
    for uid in uids {
        world.memory.rollout_attempts.record(&uid, &"r2".into(), UpdateOutcome::Refused, UPTIME);
    }
    assert_eq!(updated(&world.plan())[0], 0);
}

#[test]
fn a_machine_that_waits_for_a_disk_uses_no_other_disk() {
    let world = outdated(2).pool(|pool| {
        pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Retained));
        pool.disks.push(PoolDiskTemplate::new("logs", Lifetime::Retained));
        pool.rollout.budget = DisruptionBudget::Machines(2);
    });
    // One disk of each template exists. A deleted machine still has the disk for the logs mounted.
    let world = free(free(world, "web-data-cccccc", "data"), "web-logs-cccccc", "logs");
    let world = world.disk("web-logs-cccccc", |disk| {
        disk.map(|disk| crate::model::Disk { mounted_by: Some("web-gone".into()), ..disk })
    });
    let plan = world.plan();
    assert_eq!(updated(&plan), [1], "the first one waits");
    assert!(plan.blockers.iter().any(|blocker| blocker.to_string().contains("web-logs-cccccc")), "{plan:?}");
    let drafts = plan.actions.iter().find_map(|action| match action {
        PoolAction::Update { disks, .. } => Some(disks.clone()),
        _ => None,
    });
    let data = drafts.unwrap().into_iter().find(|disk| &*disk.template == "data").unwrap();
    assert_eq!(&*data.name, "web-data-cccccc", "what the first one was given is there for the second");
}

/// The create of the disk must come first, and it has just failed.
#[test]
fn a_machine_with_blocked_repairs_causes_no_immediate_pass() {
    let root = format!("{}-root", numbered_machine_name(0));
    let world = outdated(1).disk(&root, |_| None).memory(|memory| {
        let cause = PoolFailure { reason: FailureReason::DiskFailure, message: "no".into() };
        memory.backoff_mut(ApplyStage::Repair).failed(cause, Duration::from_secs(100), None, 0.0);
    });
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.requeue_after, Some(Duration::from_millis(250)));
}
