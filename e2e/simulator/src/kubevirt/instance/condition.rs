//! Conditions of instances.

use crate::{kubevirt::objects::SimulatedKubeVirtCondition, objects::format_seconds};
use jiff::Timestamp;

pub(super) fn new_condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> SimulatedKubeVirtCondition {
    SimulatedKubeVirtCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_probe_time: None,
        last_heartbeat_time: None,
        last_transition_time: Some(format_seconds(now)),
    }
}
