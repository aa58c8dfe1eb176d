//! The status of a DataVolume.

use crate::{
    kubevirt::{
        model::World,
        objects::{Condition, DataVolumeStatus, DataVolumeView, Id, Kind, condition},
    },
    objects::{Key, seconds},
    shared::outbox::difference,
};
use jiff::Timestamp;

impl World {
    /// Writes the status of a DataVolume if it differs. Returns whether it is written already.
    pub(super) fn publish_data_volume(
        &mut self,
        key: &Key,
        view: &DataVolumeView,
        phase: &str,
        now: Timestamp,
    ) -> bool {
        let error = self.knobs_of_data_volume(key, view).get(|knobs| knobs.import_error.clone());
        let bound = self.claims.view(key).is_some_and(|claim| claim.phase.as_deref() == Some("Bound"));
        let desired = status(key, view, phase, (bound, error), now);
        match difference(&view.status, &desired) {
            Some(status) => {
                self.patch_status(&Id::new(Kind::DataVolume, key), &status, now);
                false
            }
            None => true,
        }
    }
}

fn status(
    key: &Key,
    view: &DataVolumeView,
    phase: &str,
    (bound, error): (bool, Option<String>),
    now: Timestamp,
) -> DataVolumeStatus {
    let copying = phase.ends_with("InProgress");
    let (running, reason) = match (phase, error) {
        ("Succeeded", _) => (false, "Completed".to_owned()),
        ("Failed", _) => (false, "Error".to_owned()),
        (_, Some(error)) if copying => (false, error),
        _ if copying => (true, "Pod is running".to_owned()),
        _ => (false, "Pending".to_owned()),
    };
    let say = |type_: &str, holds: bool, reason: &str| {
        let status = if holds { "True" } else { "False" };
        let known = condition(&view.status.conditions, type_).filter(|known| known.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: None,
            last_probe_time: None,
            last_transition_time: known
                .map_or_else(|| Some(seconds(now)), |known| known.last_transition_time.clone()),
        }
    };
    let progress = match phase {
        "Succeeded" => "100.0%",
        _ if copying => "50.0%",
        _ => "N/A",
    };
    DataVolumeStatus {
        phase: phase.to_owned(),
        progress: Some(progress.to_owned()),
        claim_name: (!matches!(phase, "" | "Pending")).then(|| key.name.to_string()),
        conditions: vec![
            say("Bound", bound, if bound { "Bound" } else { "Pending" }),
            say(
                "Ready",
                phase == "Succeeded",
                if phase == "Succeeded" { "Ready" } else { "TransferRunning" },
            ),
            say("Running", running, &reason),
        ],
    }
}
