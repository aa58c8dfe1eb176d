//! State of objects that the objects do not show.

use super::{instance::GuestSize, machine::Rerun, objects::InstancePhase};
use crate::{duration::Delay, objects::NamespacedKey};
use jiff::Timestamp;
use std::{collections::HashMap, sync::Arc};

/// State of a machine that its object does not show.
#[derive(Debug, Default)]
pub(super) struct MachineMemory {
    /// When the machine was first seen.
    pub(super) first_seen: Option<Timestamp>,
    /// What the run strategy `RerunOnFailure` does next; `None` until the machine's status was read.
    pub(super) rerun: Option<Rerun>,
    /// The value of the knob `fail-start`, and how many starts failed because of it.
    pub(super) failed_starts: (u64, u64),
    /// How many more writes of the status the knob `status-writes` wants.
    pub(super) status_writes_left: u64,
}

/// State of an instance that its object does not show.
#[derive(Debug, Default)]
pub(super) struct InstanceMemory {
    /// The run; `None` until the instance's status was read.
    pub(super) guest: Option<Guest>,
}

/// One run of a guest.
#[derive(Clone, Debug, Default)]
pub(super) struct Guest {
    /// Phase, which the status follows.
    pub(super) phase: InstancePhase,
    /// When the phase began, as far as this run of the simulator knows.
    pub(super) since: Timestamp,
    /// Phases that began since the status was read, and when.
    pub(super) passed: Vec<(InstancePhase, Timestamp)>,
    /// The launcher Pod, once it was requested.
    pub(super) pod: Option<NamespacedKey>,
    /// Node of the guest.
    pub(super) node: String,
    /// Claims that the launcher has open.
    pub(super) mounted: Vec<NamespacedKey>,
    /// Claims in it that were deleted while they were open.
    pub(super) lost: Vec<NamespacedKey>,
    /// CPU topology and memory since the guest runs.
    pub(super) size: Option<GuestSize>,
    /// Since when the guest lacks what the spec of its instance has.
    pub(super) resizing: Option<Timestamp>,
    /// When the guest was told to shut down.
    pub(super) stopping: Option<Timestamp>,
    /// Whether nothing of a deleted instance runs.
    pub(super) ended: bool,
    /// The value of the knob `shutdown` that took effect already.
    pub(super) shut_down: Option<Delay>,
}

/// State of a DataVolume that its object does not show.
#[derive(Debug, Default)]
pub(super) struct DataVolumeMemory {
    /// Its phase, which the status follows, and when it began; `None` until the status was read.
    pub(super) stage: Option<(String, Timestamp)>,
    /// Whether the simulator deletes it because its copy succeeded.
    pub(super) collected: bool,
    /// When the next download may begin.
    pub(super) next_fetch: Option<Timestamp>,
}

/// State of a VolumeSnapshot that its object does not show.
#[derive(Debug, Default)]
pub(super) struct SnapshotMemory {
    /// When the driver began to copy.
    pub(super) since: Option<Timestamp>,
}

/// State of a claim that its object does not show.
#[derive(Debug, Default)]
pub(super) struct ClaimMemory {
    /// Whether it was bound before. If a volume controller changes that, the simulator does not bind it
    /// again.
    pub(super) bound: bool,
}

/// State of a Pod that its object does not show, or that exists before the object.
#[derive(Debug, Default)]
pub(super) struct PodMemory {
    /// The instance and its UID.
    pub(super) owner: Option<(NamespacedKey, Arc<str>)>,
}

/// All open claims.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// UIDs of the instances whose launchers have a claim open, oldest first.
    pub(super) open: HashMap<NamespacedKey, Vec<Arc<str>>>,
    /// Claims still open in launchers whose instances are gone.
    pub(super) abandoned: HashMap<Arc<str>, Vec<NamespacedKey>>,
    /// Disks that were deleted while they were open, with the instances that have them open.
    pub(super) suspects: HashMap<NamespacedKey, Vec<SuspectedViolation>>,
}

#[cfg(test)]
impl Mounts {
    /// How many launchers have a claim of the tests' namespace open.
    pub(super) fn holders(&self, claim: &str) -> usize {
        self.open.get(&NamespacedKey::new("ns", claim)).map_or(0, Vec::len)
    }
}

/// A deletion that may be a violation.
#[derive(Debug)]
pub(super) struct SuspectedViolation {
    pub(super) deleted: Timestamp,
    pub(super) instance: NamespacedKey,
    pub(super) uid: Arc<str>,
}
