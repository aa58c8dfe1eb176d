use vmpool_api::conditions::autoscaler::reason;

use super::InactiveReason;

#[test]
fn each_reason_of_an_inactive_autoscaler_is_a_label_value() {
    let inactive = [
        reason::INVALID_SPEC,
        reason::POOL_NOT_FOUND,
        reason::POOL_NOT_SERVED,
        reason::PAUSED,
        reason::POOL_PAUSED,
        reason::POOL_DELETING,
        reason::CONFLICT,
        reason::FAILED_SCALE,
    ];
    let known: Vec<&str> = InactiveReason::ALL.iter().map(|known| known.as_str()).collect();
    assert_eq!(known, inactive);
}
