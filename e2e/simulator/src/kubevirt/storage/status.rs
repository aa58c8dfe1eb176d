//! The status of a DataVolume.

use crate::{
    kubevirt::{
        model::KubeVirtModel,
        objects::{
            DataVolumeView, KubeVirtObjectId, KubeVirtObjectKind, SimulatedDataVolumeStatus,
            SimulatedKubeVirtCondition, find_condition,
        },
    },
    objects::{NamespacedKey, format_seconds},
    shared::outbox::status_merge_patch,
};
use jiff::Timestamp;

impl KubeVirtModel {
    /// Writes the status of a DataVolume if it differs. Returns whether it is written already.
    pub(super) fn publish_data_volume(
        &mut self,
        key: &NamespacedKey,
        view: &DataVolumeView,
        phase: &str,
        now: Timestamp,
    ) -> bool {
        let stopped = match phase {
            "CloneScheduled" => {
                let missing =
                    self.missing_source(key, view).map(|why| ("CloneWithoutSource".to_owned(), Some(why)));
                missing.or_else(|| self.stopped(key, view)).filter(|(reason, _)| !reason.is_empty())
            }
            _ => self.stopped(key, view).filter(|(reason, _)| !reason.is_empty()),
        };
        let restarts = self.restarts(key, view);
        let bound = self.claims.view(key).is_some_and(|claim| claim.phase.as_deref() == Some("Bound"));
        let refused = self.creation_failure(&KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key));
        let over_quota = refused.filter(|why| why.contains("exceeded quota"));
        let desired = status(key, view, phase, &Copy { bound, over_quota, stopped, restarts }, now);
        match status_merge_patch(&view.status, &desired) {
            Some(status) => {
                self.patch_status(&KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, key), &status, now);
                false
            }
            None => true,
        }
    }
}

/// Facts of a copy that its phase does not show.
struct Copy {
    /// Whether the claim is bound.
    bound: bool,
    /// Why a quota refuses the claim.
    over_quota: Option<String>,
    /// Why the copy does not proceed: reason and message.
    stopped: Option<(String, Option<String>)>,
    /// How often the copy was restarted.
    restarts: Option<u64>,
}

fn status(
    key: &NamespacedKey,
    view: &DataVolumeView,
    phase: &str,
    copy: &Copy,
    now: Timestamp,
) -> SimulatedDataVolumeStatus {
    let copying = phase.ends_with("InProgress");
    let (running, reason, message) = match (phase, copy.stopped.clone()) {
        ("Succeeded", _) => (false, "Completed".to_owned(), None),
        ("Failed", _) => (false, "Error".to_owned(), None),
        (_, Some((reason, message))) if copying || phase == "CloneScheduled" => (false, reason, message),
        _ if copying => (true, "Pod is running".to_owned(), None),
        _ => (false, "Pending".to_owned(), None),
    };
    let say = |type_: &str, holds: bool, reason: &str, message: Option<String>| {
        let status = if holds { "True" } else { "False" };
        let known = find_condition(&view.status.conditions, type_).filter(|known| known.status == status);
        let same = known.filter(|known| known.reason.as_deref() == Some(reason) && known.message == message);
        SimulatedKubeVirtCondition {
            last_heartbeat_time: same
                .map_or_else(|| Some(format_seconds(now)), |known| known.last_heartbeat_time.clone()),
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message,
            last_probe_time: None,
            last_transition_time: known
                .map_or_else(|| Some(format_seconds(now)), |known| known.last_transition_time.clone()),
        }
    };
    let progress = match phase {
        "Succeeded" => "100.0%",
        _ if copying => "50.0%",
        _ => "N/A",
    };
    SimulatedDataVolumeStatus {
        phase: phase.to_owned(),
        progress: Some(progress.to_owned()),
        restart_count: copy.restarts,
        claim_name: (!matches!(phase, "" | "Pending")).then(|| key.name.to_string()),
        conditions: vec![
            match &copy.over_quota {
                Some(why) => say("Bound", false, "ErrExceededQuota", Some(why.clone())),
                None => say("Bound", copy.bound, if copy.bound { "Bound" } else { "Pending" }, None),
            },
            say(
                "Ready",
                phase == "Succeeded",
                if phase == "Succeeded" { "Ready" } else { "TransferRunning" },
                None,
            ),
            say("Running", running, &reason, message),
        ],
    }
}
