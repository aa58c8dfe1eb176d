//! The status as data. Its JSON form is stable.

use jiff::Timestamp;
use serde::Serialize;
use vmpool_engine::Machine;

use crate::leader::LeaderState;
use crate::observation::UnobservedSpec;
use crate::shown::{ShownCondition, ShownEvent, ShownProtection};

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolOverview {
    pub(super) platform: &'static str,
    pub(super) namespace: String,
    pub(super) pool: String,
    /// The state in one word.
    pub(super) state: String,
    /// The spec, if state and conditions are not about it.
    pub(super) unobserved: Option<UnobservedSpec>,
    /// The leader, if it does not work or has not observed the spec, and the user may read the lease.
    pub(super) leader: Option<LeaderState>,
    /// The counters that the controller has published, if they differ from those of `machines`.
    pub(super) published: Option<PublishedCounters>,
    /// Desired number of machines.
    pub(super) desired: usize,
    /// Existing machines: those of `machines` that the pool has not released.
    pub(super) replicas: usize,
    /// Machines of these that run.
    pub(super) ready: usize,
    /// Machines with the current revision.
    pub(super) updated: usize,
    /// Machines that need a restart to apply the current revision.
    pub(super) restart_pending: usize,
    /// Machines that drain.
    pub(super) draining: usize,
    /// Standby machines, which no other number contains.
    pub(super) standby: usize,
    /// Those of them that the controller can start.
    pub(super) ready_standby: usize,
    /// Machines with disks from earlier content of their source, as the controller published it.
    pub(super) image_outdated: usize,
    /// The current revision.
    pub(super) revision: String,
    /// Whether the pool or its rollout is paused.
    pub(super) paused: bool,
    pub(super) machines: Vec<MachineOverview>,
    /// Disks of the pool that no machine refers to.
    pub(super) free_disks: Vec<DiskOverview>,
    pub(super) conditions: Vec<ShownCondition>,
    /// What the pool waits for.
    pub(super) blocked: Vec<String>,
    pub(super) events: Vec<ShownEvent>,
    /// The last changes of the pool, the oldest one first.
    pub(super) activity: Vec<ActivityStatus>,
    /// What could not be read, and why.
    pub(super) unreadable: Vec<String>,
}

/// Counters in the status of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PublishedCounters {
    pub(super) replicas: usize,
    pub(super) ready: usize,
}

/// A machine.
#[expect(clippy::struct_excessive_bools, reason = "independent facts: any of them may come with any other")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachineOverview {
    pub(super) name: String,
    /// The state in the words of the platform.
    pub(super) state: String,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    /// Whether the pool has released it. It is no machine of the pool any more.
    pub(super) released: bool,
    /// The revision that is in effect.
    pub(super) revision: Option<String>,
    /// Whether that is the current one.
    pub(super) current: bool,
    pub(super) restart_pending: bool,
    pub(super) created: Option<Timestamp>,
    pub(super) node: Option<String>,
    pub(super) addresses: Vec<String>,
    pub(super) disks: Vec<DiskOverview>,
    /// Why it does not start.
    pub(super) problem: Option<String>,
    pub(super) protection: Option<ProtectionStatus>,
    pub(super) drain: Option<DrainStatus>,
    pub(super) recycling: Option<RecyclingStatus>,
    /// The phase of a standby machine.
    pub(super) standby: Option<&'static str>,
}

/// The protection of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ProtectionStatus {
    /// When it ends; `None` if the annotation cannot be read.
    pub(super) until: Option<Timestamp>,
    /// Which user or program protects the machine, or holds the claim.
    pub(super) by: Option<String>,
    pub(super) reason: Option<String>,
    /// Whether it is a claim.
    pub(super) claimed: bool,
    /// The id of the claim.
    pub(super) id: Option<String>,
}

impl From<ShownProtection> for ProtectionStatus {
    fn from(ShownProtection { until, by, reason, claim }: ShownProtection) -> Self {
        Self { until, by, reason, claimed: claim.is_some(), id: claim }
    }
}

/// The drain of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DrainStatus {
    /// The step that follows.
    pub(super) step: &'static str,
    /// When the step follows although hooks are not released.
    pub(super) deadline: Option<Timestamp>,
    /// The hooks that are not released.
    pub(super) hooks: Vec<String>,
}

impl DrainStatus {
    /// The drain of the machine; `None` if it is not draining.
    pub(super) fn of(machine: &Machine) -> Option<Self> {
        let draining = machine.draining.as_deref()?;
        let mark = draining.mark.as_ref()?;
        let hooks = draining.unreleased(&mark.id).map(ToString::to_string).collect();
        Some(Self { step: mark.reason.step(), deadline: Some(mark.deadline), hooks })
    }
}

/// What is known about the replacement of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RecyclingStatus {
    /// When a user requested the replacement; `None` without a request for this machine.
    pub(super) requested: Option<Timestamp>,
    /// How often the machine was claimed.
    pub(super) claims: u32,
}

impl RecyclingStatus {
    /// What is known about the machine; `None` if nothing is.
    pub(super) fn of(machine: &Machine) -> Option<Self> {
        let known = machine.recycling.as_deref()?;
        let requested = known.requested.filter(|requested| *requested > machine.created);
        let status = Self { requested, claims: known.claims };
        (status != Self::default()).then_some(status)
    }
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiskOverview {
    pub(super) name: String,
    pub(super) template: Option<String>,
    pub(super) state: String,
    pub(super) created: Option<Timestamp>,
    /// Size in bytes.
    pub(super) size: Option<u64>,
    /// Since when no machine uses it.
    pub(super) free_since: Option<Timestamp>,
    /// Why it is not ready.
    pub(super) problem: Option<String>,
}

/// A change of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ActivityStatus {
    pub(super) time: Timestamp,
    pub(super) reason: String,
    /// The user or the client that caused it, if known.
    pub(super) actor: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}
