//! Machines that the controller may replace although the pool has no surplus: those that it recycles, those
//! whose hooks released them, and in KubeVirt pools those that do not start, and those whose DataVolume
//! templates have changed.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::UserActions;
use super::draining::is_released_by_owner;
use super::recycle_limits::{RecycleLimits, is_replacement_requested};
use super::timeline::DesiredState;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::{RecordedChange, RecordedState};

/// Where a pool sets that it replaces machines whose images have other content.
const REFRESH: [&str; 2] = ["/spec/imageRefresh", "/metadata/annotations/vmpool.dev~1image-refresh"];

/// The values of `status.printableStatus` with which autohealing replaces a machine after a while.
const FAILED: [&str; 6] = [
    "CrashLoopBackOff",
    "ErrorUnschedulable",
    "DataVolumeError",
    "ErrorPvcNotFound",
    "ErrImagePull",
    "ImagePullBackOff",
];

/// The pools whose DataVolume templates have changed, and the limits of those that recycle machines, by UID.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    templates: Vec<(String, Value)>,
    changed: BTreeSet<String>,
    limits: Vec<(String, RecycleLimits)>,
    /// The pools that replace machines whose images have other content, by UID.
    refreshing: BTreeSet<String>,
}

/// The former state of a machine that is deleted with this change, and not by a user.
pub(super) fn find_removed_machine<'b>(
    before: &'b RecordedState,
    change: &RecordedChange,
    actions: &UserActions,
) -> Option<&'b JsonObject> {
    if change.kind != TestedKind::Machine || !(change.removed || change.object.is_terminating()) {
        return None;
    }
    let former = before.get(TestedKind::Machine, change.object.uid())?;
    (!former.is_terminating() && !actions.is_removed_by_user(former.uid())).then_some(former)
}

/// Whether a scale-down may delete a machine of the pool, according to one of the states.
pub(super) fn has_surplus(before: &RecordedState, pool: &str, states: &[&DesiredState]) -> bool {
    let live = || before.active_machines(pool).filter(|machine| !machine.is_terminating());
    states.iter().any(|state| live().count() > state.desired)
}

impl Replacements {
    /// Records a change of a pool; ignores other changes.
    pub(super) fn observe(&mut self, change: &RecordedChange) {
        if change.kind != TestedKind::Pool {
            return;
        }
        let pool = &change.object;
        if let Some(limits) = RecycleLimits::of(pool) {
            let limits = (pool.uid().to_owned(), limits);
            if !self.limits.contains(&limits) {
                self.limits.push(limits);
            }
        }
        if REFRESH.iter().any(|place| pool.at(place) == "Recreate") {
            self.refreshing.insert(pool.uid().to_owned());
        }
        let templates = pool.at("/spec/virtualMachineTemplate/spec/dataVolumeTemplates");
        match self.templates.iter().find(|(uid, _)| uid == pool.uid()) {
            None => self.templates.push((pool.uid().to_owned(), templates.clone())),
            Some((uid, first)) if first != templates => _ = self.changed.insert(uid.clone()),
            Some(_) => {}
        }
    }

    /// Whether the controller, whose clock shows at most `now`, may replace this machine, according to one of
    /// the states that it may have read.
    pub(super) fn allows(&self, machine: &JsonObject, states: &[&DesiredState], now: Timestamp) -> bool {
        let active = || states.iter().filter(|state| !state.paused);
        let failures = machine.number("/status/startFailure/consecutiveFailCount").unwrap_or_default();
        let is_failed = FAILED.contains(&machine.text("/status/printableStatus"));
        let heals = |state: &&DesiredState| {
            let threshold = state.healing.and_then(|threshold| i64::try_from(threshold).ok());
            threshold.is_some_and(|threshold| is_failed || failures >= threshold)
        };
        let is_changed = active().next().is_some() && self.changed.contains(machine.owner_uid());
        active().any(heals) || is_changed || self.recycles(machine, states, now)
    }

    /// Whether only a clock that is ahead of `now` allows the replacement.
    pub(super) fn is_early(
        &self,
        machine: &JsonObject,
        states: &[&DesiredState],
        now: Timestamp,
        ahead: SignedDuration,
    ) -> bool {
        !self.allows(machine, states, now) && self.allows(machine, states, now + ahead)
    }

    /// As [`Self::allows`], for a machine that serves well.
    pub(super) fn recycles(&self, machine: &JsonObject, states: &[&DesiredState], now: Timestamp) -> bool {
        let mut limits = self.limits.iter().filter(|(pool, _)| pool == machine.owner_uid());
        states.iter().any(|state| !state.paused)
            && (is_replacement_requested(machine)
                || is_released_by_owner(machine)
                || self.refreshing.contains(machine.owner_uid())
                || limits.any(|(_, limits)| limits.are_reached(machine, now)))
    }
}
