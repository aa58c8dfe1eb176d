//! The facts on which a pass over a machine decides.

use super::{disks::MachineDiskState, run::InstanceDecision};
use crate::kubevirt::{
    objects::{InstanceView, KubeVirtMachineView},
    sizing::{SizedTemplate, StartBlocker},
};
use std::sync::Arc;

/// The instance that has the name of a machine.
#[derive(Clone, Debug)]
pub(crate) enum MachineInstance {
    /// There is none.
    None,
    /// The machine controls it.
    Own(Arc<InstanceView>),
    /// The machine does not control it.
    Foreign,
}

impl MachineInstance {
    /// The instance of the machine.
    pub(crate) fn own(&self) -> Option<&InstanceView> {
        match self {
            Self::Own(view) => Some(view),
            Self::None | Self::Foreign => None,
        }
    }
}

/// All facts on which one pass over a machine decides.
pub(crate) struct MachinePassFacts {
    pub(crate) machine: Arc<KubeVirtMachineView>,
    pub(crate) instance: MachineInstance,
    pub(crate) disks: MachineDiskState,
    pub(crate) decision: InstanceDecision,
    /// What the machine starts.
    pub(crate) template: Result<SizedTemplate, StartBlocker>,
    /// Fields of the running instance that differ from the machine's and that only a restart changes.
    pub(crate) restart_required: bool,
    /// Whether the backoff after failed starts has ended.
    pub(crate) backoff_over: bool,
}

impl MachinePassFacts {
    /// Whether a machine that is to run can be started now.
    pub(crate) fn may_start(&self) -> bool {
        self.template.is_ok()
            && self.disks.allow_start()
            && self.backoff_over
            && matches!(self.instance, MachineInstance::None)
    }

    /// Whether the machine is to run.
    pub(crate) fn is_to_run(&self) -> bool {
        match self.decision {
            InstanceDecision::Start => true,
            InstanceDecision::Keep => {
                self.instance.own().is_some_and(|instance| !instance.status.phase.is_final())
            }
            InstanceDecision::Stop => false,
        }
    }
}
