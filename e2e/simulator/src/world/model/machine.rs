//! A machine in the model.

use super::device::Device;
use crate::{
    duration::Delay,
    objects::{DvpMachineView, NamespacedKey, RunPolicy, SimulatedDvpMachineSpec},
    shared::outbox::Outbox,
};
use jiff::Timestamp;
use std::sync::Arc;

/// A machine in the model.
#[derive(Debug)]
pub(crate) struct SimulatedMachine {
    pub(crate) view: DvpMachineView,
    pub(crate) outbox: Outbox,
    /// When the current generation was first observed.
    pub(crate) changed_at: Timestamp,
    /// The last evaluated generation and spec.
    pub(crate) evaluated: Option<(i64, Arc<SimulatedDvpMachineSpec>)>,
    pub(crate) power: Power,
    /// The last start or stop by an operation or by the guest.
    pub(crate) manual_state: ManualState,
    pub(crate) devices: Vec<Device>,
    /// Disks in whose lists of users it is registered.
    pub(crate) listed: Vec<NamespacedKey>,
    /// Disks that its guest uses.
    pub(crate) mounted: Vec<NamespacedKey>,
    /// Requests of operations that are not started yet.
    pub(crate) requests: Requests,
    /// How often it was started and migrated since the simulator first observed it.
    pub(crate) boots: u32,
    pub(crate) migrations: u32,
    /// The value of the knob `shutdown` that was already applied.
    pub(crate) shutdown_applied: Option<Delay>,
    pub(crate) next_bump: Option<Timestamp>,
    /// Whether its state was restored from its object.
    pub(crate) restored: bool,
}

/// Requests of operations.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) restart: bool,
    pub(crate) migrate: bool,
    /// Whether it does not wait for the guest.
    pub(crate) force: bool,
}

/// The last start or stop of a machine that its run policy takes into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManualState {
    Untouched,
    Started,
    Stopped,
}

/// One run of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    /// Its Pod, unless the simulator creates no Pods.
    pub(crate) pod: Option<NamespacedKey>,
    pub(crate) node: String,
    /// The spec with which it was started.
    pub(crate) spec: Arc<SimulatedDvpMachineSpec>,
}

/// The state of a machine on the hypervisor.
#[derive(Clone, Debug)]
pub(crate) enum Power {
    Off,
    /// Waits for its Pod, then (with a time) for its guest.
    Booting {
        boot: Boot,
        live_since: Option<Timestamp>,
    },
    On {
        boot: Boot,
        since: Timestamp,
    },
    /// Waits for the Pod on the other node, then (with a time) for the migration.
    Migrating {
        boot: Boot,
        target: Boot,
        live_since: Option<Timestamp>,
    },
    Crashed {
        boot: Boot,
    },
    Stopping {
        since: Timestamp,
    },
}

impl Power {
    /// All Pods that should exist.
    pub(crate) fn boots(&self) -> impl Iterator<Item = &Boot> {
        let (first, second) = match self {
            Self::Booting { boot, .. } | Self::On { boot, .. } | Self::Crashed { boot } => (Some(boot), None),
            Self::Migrating { boot, target, .. } => (Some(boot), Some(target)),
            Self::Off | Self::Stopping { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The guest's run.
    pub(crate) fn boot(&self) -> Option<&Boot> {
        self.boots().next()
    }

    pub(crate) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}

impl SimulatedMachine {
    pub(crate) fn new(view: DvpMachineView, now: Timestamp) -> Self {
        Self {
            view,
            outbox: Outbox::new(now),
            changed_at: now,
            evaluated: None,
            power: Power::Off,
            manual_state: ManualState::Untouched,
            devices: Vec::new(),
            listed: Vec::new(),
            mounted: Vec::new(),
            requests: Requests::default(),
            boots: 0,
            migrations: 0,
            shutdown_applied: None,
            next_bump: None,
            restored: false,
        }
    }

    /// The order of machines when the simulator starts: running machines first, then by age.
    pub(crate) fn seniority(&self) -> (bool, i64) {
        let runs = self.view.status.block_device_refs.iter().any(|device| device.attached);
        (!runs, self.view.meta.created)
    }

    /// Whether it should run.
    pub(crate) fn wants_to_run(&self) -> bool {
        if self.view.meta.deleting {
            return false;
        }
        match self.spec().run_policy {
            RunPolicy::AlwaysOn => true,
            RunPolicy::AlwaysOff => false,
            RunPolicy::Manual => self.manual_state == ManualState::Started,
            RunPolicy::AlwaysOnUnlessStoppedManually => self.manual_state != ManualState::Stopped,
        }
    }

    /// The last evaluated spec. The first spec of a new machine is used for its disks before it is evaluated,
    /// so that a disk that is created together with its machine gets all its finalizers in one write.
    pub(crate) fn spec(&self) -> &Arc<SimulatedDvpMachineSpec> {
        self.evaluated.as_ref().map_or(&self.view.spec, |(_, spec)| spec)
    }

    /// Whether its disks are attached to it.
    pub(crate) fn holds_disks(&self) -> bool {
        !self.power.is_off() || self.wants_to_run()
    }
}
