//! What a machine's run strategy and the requests in its status ask for.

use crate::kubevirt::objects::{
    InstancePhase, InstanceView, RunStrategy, SimulatedKubeVirtMachineStatus, SimulatedStartFailure,
    StateChangeRequest, find_condition,
};

/// What happens to a machine's instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceDecision {
    /// Create one.
    Start,
    /// Delete it.
    Stop,
    /// Leave it as it is, or absent.
    Keep,
}

/// What the run strategy `RerunOnFailure` does without an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    /// Start the machine for the first time.
    First,
    /// Start it again, because it failed.
    Again,
    /// Leave it stopped.
    Not,
}

impl Rerun {
    /// The state of a machine that an earlier run of the simulator served.
    pub(super) fn restore(status: &SimulatedKubeVirtMachineStatus) -> Self {
        match status.printable_status.as_deref() {
            None | Some("Provisioning" | "WaitingForVolumeBinding" | "Starting" | "DataVolumeError") => {
                Self::First
            }
            Some("CrashLoopBackOff") => Self::Again,
            // Its instance was refused.
            Some("Stopped") if find_condition(&status.conditions, "Failure").is_some() => Self::First,
            Some(_) => Self::Not,
        }
    }

    /// The state after the instance was seen in this form.
    #[must_use]
    pub(super) fn after(self, instance: Option<&InstanceView>) -> Self {
        match instance.map(|instance| instance.status.phase) {
            None => self,
            Some(InstancePhase::Failed) => Self::Again,
            Some(_) => Self::Not,
        }
    }
}

/// The first request, if it asks for this action. Later ones wait until it is done.
fn asks<'a>(requests: &'a [StateChangeRequest], action: &str) -> Option<&'a StateChangeRequest> {
    requests.first().filter(|request| request.action == action)
}

/// What happens to the instance of a machine that is not being deleted.
pub(super) fn decide_instance_action(
    strategy: RunStrategy,
    instance: Option<&InstanceView>,
    requests: &[StateChangeRequest],
    rerun: Rerun,
) -> InstanceDecision {
    let Some(instance) = instance else {
        let start = match strategy {
            RunStrategy::Always | RunStrategy::Once | RunStrategy::WaitAsReceiver => true,
            RunStrategy::Halted => false,
            RunStrategy::Manual => asks(requests, "Start").is_some(),
            RunStrategy::RerunOnFailure => rerun != Rerun::Not || asks(requests, "Start").is_some(),
        };
        return if start { InstanceDecision::Start } else { InstanceDecision::Keep };
    };
    if instance.meta.deleting() {
        return InstanceDecision::Keep;
    }
    let asked = asks(requests, "Stop").is_some_and(|request| concerns(request, instance));
    let stop = match strategy {
        RunStrategy::Halted => true,
        RunStrategy::Always | RunStrategy::WaitAsReceiver => instance.status.phase.is_final(),
        RunStrategy::RerunOnFailure => instance.status.phase == InstancePhase::Failed,
        RunStrategy::Manual | RunStrategy::Once => false,
    };
    if asked || stop { InstanceDecision::Stop } else { InstanceDecision::Keep }
}

/// Whether a request to stop is about this instance.
fn concerns(request: &StateChangeRequest, instance: &InstanceView) -> bool {
    request.uid.as_deref().is_none_or(|uid| *uid == *instance.meta.uid)
}

/// Whether the first request is done.
pub(super) fn is_done(request: &StateChangeRequest, instance: Option<&InstanceView>) -> bool {
    match (&*request.action, instance) {
        ("Stop", None) => true,
        ("Stop", Some(instance)) => !concerns(request, instance),
        ("Start", Some(instance)) => !instance.meta.deleting(),
        _ => false,
    }
}

/// Whether failed starts of a machine with this strategy are counted.
pub(super) fn counts_failures(strategy: RunStrategy) -> bool {
    matches!(strategy, RunStrategy::Always | RunStrategy::RerunOnFailure | RunStrategy::Once)
}

/// Whether the backoff after failed starts has ended.
pub(super) fn backoff_over(failure: Option<&SimulatedStartFailure>, now: jiff::Timestamp) -> bool {
    let retry_at = failure.and_then(|failure| failure.retry_after_timestamp.as_deref());
    retry_at.and_then(|at| at.parse::<jiff::Timestamp>().ok()).is_none_or(|at| at <= now)
}
