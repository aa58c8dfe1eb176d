//! Reads stored objects.

use crate::kubevirt::objects::{
    ClaimView, DataVolumeView, InstanceView, LauncherView, MachineView, Object, StoredClaim,
    StoredDataVolume, StoredInstance, StoredLauncher, StoredMachine,
};

pub(super) fn machine(stored: StoredMachine) -> Object {
    Object::Machine(Box::new(MachineView::read(stored)))
}

pub(super) fn instance(stored: StoredInstance) -> Object {
    Object::Instance(Box::new(InstanceView::read(stored)))
}

pub(super) fn data_volume(stored: StoredDataVolume) -> Object {
    Object::DataVolume(Box::new(DataVolumeView::read(stored)))
}

pub(super) fn claim(stored: StoredClaim) -> Object {
    Object::Claim(Box::new(ClaimView::read(stored)))
}

pub(super) fn pod(stored: StoredLauncher) -> Option<Object> {
    LauncherView::read(stored).map(|view| Object::Pod(Box::new(view)))
}
