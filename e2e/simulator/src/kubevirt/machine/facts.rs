//! The facts on which a pass over a machine decides.

use super::{disks::Disks, run::Decision};
use crate::kubevirt::{
    objects::{InstanceView, MachineView},
    sizing::{Blocked, Template},
};
use std::sync::Arc;

/// The instance that has the name of a machine.
#[derive(Clone, Debug)]
pub(in crate::kubevirt) enum Instance {
    /// There is none.
    None,
    /// The machine controls it.
    Own(Arc<InstanceView>),
    /// The machine does not control it.
    Foreign,
}

impl Instance {
    /// The instance of the machine.
    pub(in crate::kubevirt) fn own(&self) -> Option<&InstanceView> {
        match self {
            Self::Own(view) => Some(view),
            Self::None | Self::Foreign => None,
        }
    }
}

/// All facts on which one pass over a machine decides.
pub(in crate::kubevirt) struct Facts {
    pub(in crate::kubevirt) machine: Arc<MachineView>,
    pub(in crate::kubevirt) instance: Instance,
    pub(in crate::kubevirt) disks: Disks,
    pub(in crate::kubevirt) decision: Decision,
    /// What the machine starts.
    pub(in crate::kubevirt) template: Result<Template, Blocked>,
    /// Fields of the running instance that differ from the machine's and that only a restart changes.
    pub(in crate::kubevirt) restart_required: bool,
    /// Whether the backoff after failed starts has ended.
    pub(in crate::kubevirt) backoff_over: bool,
}

impl Facts {
    /// Whether a machine that is to run can be started now.
    pub(in crate::kubevirt) fn may_start(&self) -> bool {
        self.template.is_ok()
            && self.disks.allow_start()
            && self.backoff_over
            && matches!(self.instance, Instance::None)
    }

    /// Whether the machine is to run.
    pub(in crate::kubevirt) fn is_to_run(&self) -> bool {
        match self.decision {
            Decision::Start => true,
            Decision::Keep => self.instance.own().is_some_and(|instance| !instance.status.phase.is_final()),
            Decision::Stop => false,
        }
    }
}
