//! A device of a machine in the model.

use crate::objects::{DeviceKind, DeviceStatus, NamespacedKey, SimulatedDeviceRef};
use jiff::Timestamp;

/// One device of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) reference: SimulatedDeviceRef,
    /// The attachment object that requested it.
    pub(crate) attachment: Option<String>,
    pub(crate) plug: Plug,
}

/// Whether a device is attached to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plug {
    /// Not attached; the machine is off or boots.
    Detached,
    /// Will be attached; requested at this time.
    Attaching(Timestamp),
    /// Attached since the boot.
    Cold,
    /// Hot-plugged.
    Hot,
    /// Will be detached; requested at this time.
    Detaching(Timestamp),
}

impl Device {
    pub(crate) fn new(reference: SimulatedDeviceRef, attachment: Option<String>, plug: Plug) -> Self {
        Self { reference, attachment, plug }
    }

    /// A device in the state that an earlier run of the simulator has written.
    pub(crate) fn from_status(status: &DeviceStatus) -> Self {
        let plug = match (status.attached, status.hotplugged) {
            (false, _) => Plug::Detached,
            (true, Some(true)) => Plug::Hot,
            (true, _) => Plug::Cold,
        };
        let reference = SimulatedDeviceRef {
            kind: status.kind,
            name: status.name.clone(),
            boot_order: status.boot_order,
        };
        Self::new(reference, status.virtual_machine_block_device_attachment_name.clone(), plug)
    }

    pub(crate) fn attach_cold(&mut self) {
        if self.plug == Plug::Detached {
            self.plug = Plug::Cold;
        }
    }

    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.plug, Plug::Cold | Plug::Hot | Plug::Detaching(_))
    }

    /// The name of the disk, if the device is a disk.
    pub(crate) fn disk(&self, machine: &NamespacedKey) -> Option<NamespacedKey> {
        (self.reference.kind == DeviceKind::VirtualDisk).then(|| machine.sibling(&self.reference.name))
    }
}
