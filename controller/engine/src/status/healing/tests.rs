use super::*;
use crate::testing::PoolWorld;

fn blocked() -> PoolWorld {
    PoolWorld::desiring(4).memory(|memory| {
        memory.record_blockers(&[Blocker::TooManyUnhealthy { affected: 3, limit: 2 }]);
    })
}

#[test]
fn the_condition_says_how_many_machines_are_unhealthy_and_what_to_do() {
    let world = blocked();
    let condition = healing_blocked_condition(&world.observed(&world.snapshot())).unwrap();
    assert_eq!((condition.kind, condition.holds), (ConditionType::HealingBlocked, true));
    assert_eq!(condition.reason, ConditionReason::TooManyUnhealthy);
    assert_eq!(
        condition.message,
        "3 machines are unhealthy or being replaced, and maxUnhealthy allows 2: the controller replaces no further \
         machine; find the common cause, such as a node, the network or the image"
    );
}

#[test]
fn a_paused_pool_and_one_that_heals_have_no_condition() {
    for world in [blocked().pool(|pool| pool.paused = true), PoolWorld::desiring(4)] {
        assert_eq!(describe_blocked_healing(&world.observed(&world.snapshot())), None);
    }
}
