//! What the model remembers of objects, because the objects do not show it.

use super::{machine::Rerun, objects::Phase};
use crate::{duration::Delay, objects::Key};
use jiff::Timestamp;
use std::{collections::HashMap, sync::Arc};

/// What the model remembers of a machine.
#[derive(Debug, Default)]
pub(super) struct MachineMemory {
    /// When the machine was first seen.
    pub(super) first_seen: Option<Timestamp>,
    /// When its present generation was first seen, and which one that is.
    pub(super) changed: Option<(i64, Timestamp)>,
    /// What the run strategy `RerunOnFailure` does next; `None` until the machine's status was read.
    pub(super) rerun: Option<Rerun>,
    /// The value of the knob `fail-start`, and how many starts failed because of it.
    pub(super) failed_starts: (u64, u64),
}

/// What the model remembers of an instance.
#[derive(Debug, Default)]
pub(super) struct InstanceMemory {
    /// The run; `None` until the instance's status was read.
    pub(super) guest: Option<Guest>,
}

/// One run of a guest.
#[derive(Clone, Debug, Default)]
pub(super) struct Guest {
    /// Phase, which the status follows.
    pub(super) phase: Phase,
    /// When the phase began, as far as this run of the simulator knows.
    pub(super) since: Timestamp,
    /// Phases that began since the status was read, and when.
    pub(super) passed: Vec<(Phase, Timestamp)>,
    /// The launcher Pod, once it was asked for.
    pub(super) pod: Option<Key>,
    /// Node of the guest.
    pub(super) node: String,
    /// Claims that the launcher has open.
    pub(super) mounted: Vec<Key>,
    /// Claims in it that were deleted while they were open.
    pub(super) lost: Vec<Key>,
    /// When the guest was told to shut down.
    pub(super) stopping: Option<Timestamp>,
    /// Whether nothing of a deleted instance runs.
    pub(super) ended: bool,
    /// The value of the knob `shutdown` that took effect already.
    pub(super) shut_down: Option<Delay>,
}

/// What the model remembers of a DataVolume.
#[derive(Debug, Default)]
pub(super) struct DataVolumeMemory {
    /// Its phase, which the status follows, and when it began; `None` until the status was read.
    pub(super) stage: Option<(String, Timestamp)>,
    /// Whether the simulator deletes it because its copy succeeded.
    pub(super) collected: bool,
}

/// What the model remembers of a claim.
#[derive(Debug, Default)]
pub(super) struct ClaimMemory {
    /// Whether it was bound before: a volume controller may disagree, and the simulator does not insist.
    pub(super) bound: bool,
}

/// What the model remembers of a Pod, also before it exists.
#[derive(Debug, Default)]
pub(super) struct PodMemory {
    /// The instance and its UID.
    pub(super) owner: Option<(Key, Arc<str>)>,
}

/// All open claims.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// UIDs of the instances whose launchers have a claim open, the first one in front.
    pub(super) open: HashMap<Key, Vec<Arc<str>>>,
    /// Claims still open in launchers whose instances are gone.
    pub(super) abandoned: HashMap<Arc<str>, Vec<Key>>,
    /// Disks that were deleted while they were open, with the instances that have them open.
    pub(super) suspects: HashMap<Key, Vec<Suspect>>,
}

#[cfg(test)]
impl Mounts {
    /// How many launchers have a claim of the tests' namespace open.
    pub(super) fn holders(&self, claim: &str) -> usize {
        self.open.get(&Key::new("ns", claim)).map_or(0, Vec::len)
    }
}

/// A deletion that may be a violation.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) deleted: Timestamp,
    pub(super) instance: Key,
    pub(super) uid: Arc<str>,
}
