//! Machines that the controller may replace although the pool has no surplus: those whose hooks released
//! them, and in KubeVirt pools those that do not start, and those whose DataVolume templates have changed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::draining::is_released_by_owner;
use super::timeline::DesiredState;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedChange;

/// The values of `status.printableStatus` with which autohealing replaces a machine after a while.
const FAILED: [&str; 6] = [
    "CrashLoopBackOff",
    "ErrorUnschedulable",
    "DataVolumeError",
    "ErrorPvcNotFound",
    "ErrImagePull",
    "ImagePullBackOff",
];

/// The pools whose DataVolume templates have changed, by UID.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    templates: Vec<(String, Value)>,
    changed: BTreeSet<String>,
}

impl Replacements {
    /// Records a change of a pool; ignores other changes.
    pub(super) fn observe(&mut self, change: &RecordedChange) {
        if change.kind != TestedKind::Pool {
            return;
        }
        let pool = &change.object;
        let templates = pool.at("/spec/virtualMachineTemplate/spec/dataVolumeTemplates");
        match self.templates.iter().find(|(uid, _)| uid == pool.uid()) {
            None => self.templates.push((pool.uid().to_owned(), templates.clone())),
            Some((uid, first)) if first != templates => _ = self.changed.insert(uid.clone()),
            Some(_) => {}
        }
    }

    /// Whether the controller may replace this machine, according to one of the states that it may have read.
    pub(super) fn allows(&self, machine: &JsonObject, states: &[&DesiredState]) -> bool {
        let active = || states.iter().filter(|state| !state.paused);
        let failures = machine.number("/status/startFailure/consecutiveFailCount").unwrap_or_default();
        let is_failed = FAILED.contains(&machine.text("/status/printableStatus"));
        let heals = |state: &&DesiredState| {
            let threshold = state.healing.and_then(|threshold| i64::try_from(threshold).ok());
            threshold.is_some_and(|threshold| is_failed || failures >= threshold)
        };
        let is_released = active().next().is_some() && is_released_by_owner(machine);
        is_released
            || active().any(heals)
            || active().next().is_some() && self.changed.contains(machine.owner_uid())
    }
}
