use rstest::rstest;

use super::*;
use crate::compute_status;
use crate::condition::StatusCondition;
use crate::model::MachineActivity;
use crate::plan::START_TIMEOUT;
use crate::scale_up::class_slots::ClassSlots;
use crate::scale_up::provisioning_limit::ProvisioningLimit;
use crate::testing::PoolWorld;

/// The time of the observation in seconds, without the minutes that the machine is old.
fn created_minutes_ago(minutes: i64) -> i64 {
    1_000_000 - 60 * minutes
}

/// A pool of one machine that has not been ready, with a limit of one.
fn limited_pool(desired: usize, minutes: i64) -> PoolWorld {
    let mut world = PoolWorld::desiring(desired)
        .pool(|pool| pool.max_provisioning = Some(ProvisioningLimit::Machines(1)))
        .with_machine("web-1", created_minutes_ago(minutes))
        .edit("web-1", |machine| machine.activity = MachineActivity::NotRunning);
    // The leader has observed the machine from the beginning.
    world.uptime += START_TIMEOUT * 2;
    world
}

fn condition_after_plan(world: &mut PoolWorld, kind: ConditionType) -> Option<StatusCondition> {
    let plan = world.plan();
    world.memory.record_blockers(&plan.blockers);
    let snapshot = world.snapshot();
    let status = compute_status(&world.observed(&snapshot), None);
    status.conditions.into_iter().find(|condition| condition.is(kind))
}

#[rstest]
#[case::a_machine_is_missing(2, true)]
#[case::all_exist(1, false)]
fn a_limit_is_shown_while_it_delays_creates(#[case] desired: usize, #[case] expected: bool) {
    let shown = condition_after_plan(&mut limited_pool(desired, 1), ConditionType::ProvisioningLimited);
    assert_eq!(shown.is_some(), expected);
    if let Some(shown) = shown {
        assert_eq!((&*shown.status, &*shown.reason), ("True", "MaxProvisioningReached"));
        assert!(shown.message.contains("to 1, and 1 has not"), "{}", shown.message);
    }
}

#[test]
fn the_conditions_for_waiting_clients_name_the_limit() {
    let shown = condition_after_plan(&mut limited_pool(2, 1), ConditionType::Ready).unwrap();
    assert!(shown.message.contains("maxProvisioning"), "{}", shown.message);
}

#[test]
fn the_limit_of_a_storage_class_is_shown_with_its_name() {
    let world = limited_pool(2, 1).pool(|pool| pool.max_provisioning = None);
    let (snapshot, slots) = (
        world.snapshot(),
        ClassSlots { free: 0, class: "fast".into(), limit: 4, provisioning: 4, next: START_TIMEOUT },
    );
    let observed = ObservedPool { class_slots: Some(slots), ..world.observed(&snapshot) };
    let plan = crate::plan_pass(&observed);
    let mut memory = world.memory.clone();
    memory.record_blockers(&plan.blockers);
    let status = compute_status(&ObservedPool { memory: &memory, ..world.observed(&snapshot) }, None);
    let shown = status.conditions.iter().find(|shown| shown.is(ConditionType::ProvisioningLimited)).unwrap();
    assert_eq!(shown.reason, "StorageClassLimitReached");
    assert!(shown.message.contains("storage class fast to 4 over all pools"), "{}", shown.message);
}

#[rstest]
#[case::young(29, None)]
#[case::old(30, Some("machine web-1 has not been ready in the 30 minutes"))]
fn machines_past_the_start_timeout_are_named(#[case] minutes: i64, #[case] expected: Option<&str>) {
    let shown = condition_after_plan(&mut limited_pool(1, minutes), ConditionType::StartOverdue);
    let message = shown.map(|shown| shown.message);
    assert_eq!(message.is_some(), expected.is_some());
    assert!(message.is_none_or(|message| message.starts_with(expected.unwrap_or_default())));
}

#[test]
fn without_a_limit_no_overdue_machine_is_named() {
    let mut world = limited_pool(1, 40).pool(|pool| pool.max_provisioning = None);
    assert_eq!(condition_after_plan(&mut world, ConditionType::StartOverdue), None);
}

#[rstest]
#[case(START_TIMEOUT, "30 minutes")]
#[case(Duration::from_mins(1), "minute")]
#[case(Duration::from_secs(90), "90 seconds")]
fn a_timeout_is_described_in_its_largest_unit(#[case] timeout: Duration, #[case] text: &str) {
    assert_eq!(describe_timeout(timeout), text);
}
