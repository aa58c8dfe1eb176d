//! The rules of an image, one table for each part of its life.

mod deletion;
mod expiry;
mod healing;
mod import;

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use super::*;
use crate::failure::DiskImageReason;
use crate::model::{BackingClaim, BackingDataVolume, BackingObjects, DataTarget, FoundObject, Transfer};
use crate::testing::{
    ImagePassCase, bound_claim, complete_backing, snapshot_data_source, snapshot_with_readiness, test_time,
    volume_with_transfer,
};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Phase and reason of a plan.
fn state(plan: &ImagePlan) -> (ImagePhase, DiskImageReason) {
    (plan.status.phase.unwrap(), plan.status.reason.unwrap())
}

fn events(plan: &ImagePlan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason).collect()
}

fn delete_volume() -> ImageAction {
    ImageAction::DeleteDataVolume { uid: "uid-volume".to_owned() }
}

fn delete_snapshot() -> ImageAction {
    ImageAction::DeleteSnapshot { uid: "uid-snapshot".to_owned() }
}
