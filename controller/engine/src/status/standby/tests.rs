use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::compute_status;
use crate::model::MachineActivity;
use crate::standby::{StandbyPhase, StandbySettings};
use crate::testing::PoolWorld;

#[rstest]
#[case::stopped(StandbyPhase::Stopped, true, false)]
#[case::warming(StandbyPhase::Warming, false, false)]
#[case::started(StandbyPhase::Stopped, false, true)]
fn a_standby_machine_that_a_client_started_is_named(
    #[case] phase: StandbyPhase,
    #[case] kept_off: bool,
    #[case] expected: bool,
) {
    let settings = StandbySettings { replicas: 1, ..StandbySettings::NONE };
    let world = PoolWorld::desiring(0)
        .pool(|pool| pool.standby = Some(settings))
        .with_machine("web-1", 1)
        .edit("web-1", |machine| {
            machine.activity = if kept_off { MachineActivity::Stopped } else { MachineActivity::Running };
            machine.standby = Some(Arc::new(StandbyState { phase, ready_since: None, kept_off }));
        });
    let snapshot = world.snapshot();
    let status = compute_status(&world.observed(&snapshot), None);
    let shown = status.conditions.iter().find(|shown| shown.is(ConditionType::StandbyStarted));
    assert_eq!(shown.is_some(), expected);
    if let Some(shown) = shown {
        assert!(shown.message.starts_with("standby machine web-1 was started"), "{}", shown.message);
        assert_eq!(status.summary.standby.ready, 0);
    }
}
