use super::*;
use crate::model::{Naming, StorageTemplate};
use crate::testing::{another_pool, running_machine};

/// A pool of one machine with the storage `boot-0` and `logs-0`; both volumes are in the machine.
fn with_storage() -> PoolWorld {
    let template =
        |name: &str, volume: &str| StorageTemplate { name: name.into(), volume: Some(volume.into()) };
    let mut machine = running_machine("web-0", 0);
    machine.disks.clear();
    machine.volumes = ["os".into(), "var-log".into()].into();
    let mut world = PoolWorld::desiring(1).pool(|pool| {
        pool.disks.clear();
        pool.naming = Naming::Ordinal;
        pool.status_content = StatusContent::FailureAndPause;
        pool.storage_templates = vec![template("boot", "os"), template("logs", "var-log")];
    });
    world.machines.push(machine.into());
    world
}

fn without_logs(world: PoolWorld) -> PoolWorld {
    world.edit("web-0", |machine| machine.volumes = ["os".into(), "of-the-user".into()].into())
}

#[test]
fn a_volume_that_a_user_removed_is_reported_with_its_storage() {
    assert_eq!(condition(&shown(&with_storage()), ConditionType::DiskDetached), None);
    let text = condition(&shown(&without_logs(with_storage())), ConditionType::DiskDetached)
        .expect("it is reported");
    assert!(
        text.starts_with(
            "True DiskDetachedByHand: volume var-log was removed from machine web-0 by hand: the controller neither adds \
             it again nor deletes storage logs-0 while the machine exists; "
        ),
        "{text}"
    );
    assert!(!text.contains("boot-0"), "{text}");
}

#[test]
fn a_removed_volume_is_reported_also_after_a_change_of_the_count() {
    // The current revision has another name and the same template.
    let world = without_logs(with_storage()).pool(|pool| {
        let written = std::mem::replace(&mut pool.revision.id, "newer".into());
        pool.revision.same_template = vec![written];
    });
    assert!(condition(&shown(&world), ConditionType::DiskDetached).is_some());
}

#[rstest]
#[case::the_template_does_not_use_the_storage(
    without_logs(with_storage()).pool(|pool| pool.storage_templates[1].volume = None)
)]
#[case::the_machine_has_an_earlier_template(
    without_logs(with_storage()).edit("web-0", |machine| machine.written = Some("r0".into()))
)]
#[case::the_machine_is_being_deleted(
    without_logs(with_storage()).edit("web-0", |machine| machine.terminating = true)
)]
#[case::the_machine_belongs_to_another_pool(
    without_logs(with_storage()).edit("web-0", |machine| machine.owner = Some(another_pool()))
)]
fn a_missing_volume_that_no_user_removed_is_not_reported(#[case] world: PoolWorld) {
    assert_eq!(condition(&shown(&world), ConditionType::DiskDetached), None);
}
