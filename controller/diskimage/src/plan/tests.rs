//! The rules of an image, one table for each part of its life.

mod deletion;
mod expiry;
mod healing;
mod import;

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use super::*;
use crate::failure::Reason;
use crate::model::{Backing, Claim, DataTarget, DataVolume, Found, Transfer};
use crate::testing::{Case, at, claim, complete, snapshot, source, volume};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// Phase and reason of a plan.
fn state(plan: &Plan) -> (ImagePhase, Reason) {
    (plan.status.phase.unwrap(), plan.status.reason.unwrap())
}

fn events(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason).collect()
}

fn delete_volume() -> Action {
    Action::DeleteDataVolume { uid: "uid-volume".to_owned() }
}

fn delete_snapshot() -> Action {
    Action::DeleteSnapshot { uid: "uid-snapshot".to_owned() }
}
