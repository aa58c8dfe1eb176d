//! What the models of all platforms share.

pub(crate) mod agenda;
pub(crate) mod outbox;

use crate::duration::Delay;
use jiff::Timestamp;
use serde::Serialize;

/// How the simulator behaves where no knob says otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between a machine's pod and `Running`; also how long a migration takes.
    pub start_delay: Delay,
    /// Between the wish to stop a machine and its stop.
    pub stop_delay: Delay,
    /// Between the start of a disk's provisioning, binding or growth and its end.
    pub provisioning_delay: Delay,
    /// Between a new generation of a machine and its evaluation.
    pub evaluation_delay: Delay,
    /// Between a change of a running machine's devices and its effect.
    pub hot_plug_delay: Delay,
    /// Nodes that machines run on, at least one.
    pub nodes: Vec<String>,
    /// Whether running machines have pods.
    pub pods: bool,
    /// Makes pod names differ from one run of the simulator to the next.
    pub seed: u64,
}

/// What must never happen to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Problem {
    /// Several machines have it open at the same time.
    DoubleMount,
    /// It was deleted while a machine that is to keep running has it open.
    DeletedWhileMounted,
}

/// A moment in which data of a disk is destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When.
    pub time: Timestamp,
    /// What happened.
    pub problem: Problem,
    /// Namespace of the disk.
    pub namespace: String,
    /// Name of the disk.
    pub disk: String,
    /// UIDs of the machines, the one that was there first in front.
    pub machines: Vec<String>,
}

/// When a delay that began at `since` ends; never for [`Delay::Never`].
pub(crate) fn ends(since: Timestamp, delay: Delay) -> Option<Timestamp> {
    match delay {
        Delay::After(delay) => since.checked_add(delay).ok(),
        Delay::Never => None,
    }
}
