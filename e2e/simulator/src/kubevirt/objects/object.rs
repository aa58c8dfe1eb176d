//! An object of any kind.

use super::{
    instance::InstanceView,
    launcher::LauncherView,
    machine::MachineView,
    volume::{ClaimView, DataVolumeView},
};

/// The last observed state of an object.
#[derive(Clone, Debug)]
pub enum Object {
    /// VirtualMachine.
    Machine(Box<MachineView>),
    /// VirtualMachineInstance.
    Instance(Box<InstanceView>),
    /// DataVolume.
    DataVolume(Box<DataVolumeView>),
    /// PersistentVolumeClaim.
    Claim(Box<ClaimView>),
    /// A launcher Pod.
    Pod(Box<LauncherView>),
}
