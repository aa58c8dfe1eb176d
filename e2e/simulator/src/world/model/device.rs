//! A device of a machine in the model.

use crate::objects::{DeviceKind, DeviceStatus, NamespacedKey, SimulatedDeviceRef};
use jiff::Timestamp;

/// One device of a machine.
#[derive(Clone, Debug)]
pub(in crate::world) struct Device {
    pub(in crate::world) reference: SimulatedDeviceRef,
    /// The attachment object that requested it.
    pub(in crate::world) attachment: Option<String>,
    pub(in crate::world) plug: Plug,
}

/// Whether a device is attached to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum Plug {
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
    pub(in crate::world) fn new(
        reference: SimulatedDeviceRef,
        attachment: Option<String>,
        plug: Plug,
    ) -> Self {
        Self { reference, attachment, plug }
    }

    /// A device in the state that an earlier run of the simulator has written.
    pub(in crate::world) fn from_status(status: &DeviceStatus) -> Self {
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

    pub(in crate::world) fn attach_cold(&mut self) {
        if self.plug == Plug::Detached {
            self.plug = Plug::Cold;
        }
    }

    pub(in crate::world) fn is_attached(&self) -> bool {
        matches!(self.plug, Plug::Cold | Plug::Hot | Plug::Detaching(_))
    }

    /// The name of the disk, if the device is a disk.
    pub(in crate::world) fn disk(&self, machine: &NamespacedKey) -> Option<NamespacedKey> {
        (self.reference.kind == DeviceKind::VirtualDisk).then(|| machine.sibling(&self.reference.name))
    }
}
