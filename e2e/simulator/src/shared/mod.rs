//! Parts of the models of all platforms.

pub(crate) mod agenda;
mod events;
pub(crate) mod outbox;

pub use events::{ModelAction, ModelEvent, ModelWriteOutcome};

use crate::{duration::Delay, knobs::NO_ADDRESS};
use jiff::Timestamp;
use serde::Serialize;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The behavior of the simulator without knobs.
#[derive(Clone, Debug)]
pub struct SimulatorSettings {
    /// Time from the creation of a machine's Pod to `Running`; also the duration of a migration.
    pub start_delay: Delay,
    /// Time from the request to stop a machine to its stop.
    pub stop_delay: Delay,
    /// Duration of a disk's provisioning, binding or expansion.
    pub provisioning_delay: Delay,
    /// Time from a new generation of a machine to its evaluation.
    pub evaluation_delay: Delay,
    /// Time from a change of a running machine's devices to its effect.
    pub hot_plug_delay: Delay,
    /// The nodes on which machines run; at least one.
    pub nodes: Vec<String>,
    /// Whether running machines have Pods.
    pub pods: bool,
    /// Makes the names of Pods differ between runs of the simulator.
    pub seed: u64,
}

/// A forbidden state of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DiskViolationKind {
    /// Several machines use it at the same time.
    DoubleMount,
    /// It was deleted while a machine that continues to run uses it.
    DeletedWhileMounted,
}

/// An event that would destroy data of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskViolation {
    /// The time.
    pub time: Timestamp,
    /// The kind of violation.
    pub problem: DiskViolationKind,
    /// Namespace of the disk.
    pub namespace: String,
    /// Name of the disk.
    pub disk: String,
    /// UIDs of the machines, in the order in which they began to use the disk.
    pub machines: Vec<String>,
}

/// The address of a guest: the one of its knob, or by default one that follows from the UID of its machine or
/// instance. Two guests can have the same default, which is improbable.
pub(crate) fn guest_address(knob: Option<String>, uid: &str) -> Option<String> {
    let address = knob.unwrap_or_else(|| default_address(uid));
    (address != NO_ADDRESS).then_some(address)
}

fn default_address(uid: &str) -> String {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    let [first, second, third, ..] = hasher.finish().to_be_bytes();
    // Services have addresses in the lower half.
    format!("10.{}.{second}.{}", first | 128, third.clamp(1, 254))
}

/// The end of a delay that began at `since`; `None` for [`Delay::Never`].
pub(crate) fn delay_end(since: Timestamp, delay: Delay) -> Option<Timestamp> {
    match delay {
        Delay::After(delay) => since.checked_add(delay).ok(),
        Delay::Never => None,
    }
}
