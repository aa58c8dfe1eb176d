//! A machine's devices: those in its spec, those attached to its guest, and whether they can be used.

use super::model::{Device, DvpModel, Plug, Power, SimulatedMachine};
use crate::{
    objects::{DeviceKind, DvpObjectKind, NamespacedKey, SimulatedDeviceRef},
    shared::delay_end,
};
use jiff::Timestamp;

/// Maximum number of devices of a machine.
const MOST_DEVICES: usize = 16;

/// The platform's assessment of a machine's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assessment {
    /// All devices can be used.
    Ready,
    /// The machine can start, which binds the other disks.
    WaitsForFirstConsumer(String),
    /// Not ready, for this reason.
    NotReady(String),
    /// There are more devices than the platform can attach.
    TooMany(usize),
}

impl DvpModel {
    /// Updates the list of devices from the spec and the attachments. Returns when the next device is
    /// attached or detached.
    pub(super) fn sync_devices(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let wanted = self.wanted_devices(key, machine);
        match &machine.power {
            Power::Off => {
                machine.devices = wanted
                    .into_iter()
                    .map(|(reference, attachment)| Device::new(reference, attachment, Plug::Detached))
                    .collect();
                None
            }
            Power::On { boot, .. } if machine.evaluated.is_some() => {
                let boot_device = boot.spec.boot_device().cloned();
                self.replug(key, machine, &wanted, boot_device.as_ref(), now)
            }
            // In other phases, the devices with which the machine was started do not change.
            Power::On { .. }
            | Power::Booting { .. }
            | Power::Migrating { .. }
            | Power::Crashed { .. }
            | Power::Stopping { .. } => None,
        }
    }

    fn wanted_devices(
        &self,
        key: &NamespacedKey,
        machine: &SimulatedMachine,
    ) -> Vec<(SimulatedDeviceRef, Option<String>)> {
        let mut wanted: Vec<_> =
            machine.spec().block_device_refs.iter().cloned().map(|device| (device, None)).collect();
        for attachment in self.attachments_of.get(key).into_iter().flatten() {
            let Some(view) = self.attachments.get(attachment).map(|a| &a.view) else { continue };
            if let Some(device) = view.device.clone().filter(|_| !view.meta.deleting)
                && !wanted.iter().any(|(other, _)| other.same(&device))
            {
                wanted.push((device, Some(attachment.name.to_string())));
            }
        }
        wanted
    }

    /// Adds and removes devices of a running machine. The boot device does not change until a restart.
    fn replug(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        wanted: &[(SimulatedDeviceRef, Option<String>)],
        boot_device: Option<&SimulatedDeviceRef>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for (reference, attachment) in wanted {
            match machine.devices.iter_mut().find(|device| device.reference.same(reference)) {
                Some(device) => {
                    device.reference.boot_order = reference.boot_order;
                    match device.plug {
                        Plug::Detaching(_) => device.plug = Plug::Hot,
                        Plug::Detached => device.plug = Plug::Attaching(now),
                        Plug::Attaching(_) | Plug::Cold | Plug::Hot => {}
                    }
                }
                None => machine.devices.push(Device::new(
                    reference.clone(),
                    attachment.clone(),
                    Plug::Attaching(now),
                )),
            }
        }
        for device in &mut machine.devices {
            let is_wanted = wanted.iter().any(|(reference, _)| reference.same(&device.reference));
            let booted_from = boot_device.is_some_and(|boot| boot.same(&device.reference));
            if !is_wanted && !booted_from && !matches!(device.plug, Plug::Detaching(_)) {
                device.plug = Plug::Detaching(now);
            }
        }
        // A device that is attached is claimed before it is assessed.
        self.sync_users(key, machine);
        let mut next: Option<Timestamp> = None;
        let mut index = 0;
        while index < machine.devices.len() {
            let device = machine.devices[index].clone();
            let due = match device.plug {
                Plug::Attaching(since) | Plug::Detaching(since) => {
                    delay_end(since, self.settings.hot_plug_delay)
                }
                Plug::Detached | Plug::Cold | Plug::Hot => None,
            };
            let is_due = due.is_some_and(|at| at <= now);
            match device.plug {
                Plug::Detaching(_) if is_due => {
                    machine.devices.remove(index);
                    if let Some(disk) = device.disk(key) {
                        machine.mounted.retain(|mounted| *mounted != disk);
                        self.unmount(&machine.view.meta.uid, std::slice::from_ref(&disk));
                    }
                    self.mark_dependents_of_machine(key);
                    continue;
                }
                Plug::Attaching(_) if is_due => {
                    if self.plug_in(key, machine, &device, now) {
                        machine.devices[index].plug = Plug::Hot;
                        self.mark_dependents_of_machine(key);
                    }
                }
                _ => next = [next, due].into_iter().flatten().min(),
            }
            index += 1;
        }
        next
    }

    /// Attaches a device to a running guest, if it can be used. A disk that waits for its first consumer is
    /// bound.
    fn plug_in(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        device: &Device,
        now: Timestamp,
    ) -> bool {
        let ready = match self.assess_one(key, machine, &device.reference) {
            Assessment::Ready => true,
            Assessment::WaitsForFirstConsumer(_) => false,
            Assessment::NotReady(_) | Assessment::TooMany(_) => return false,
        };
        if let Some(disk) = device.disk(key)
            && !machine.mounted.contains(&disk)
        {
            self.mount(&machine.view.meta.uid, &disk, now);
            machine.mounted.push(disk);
        }
        ready
    }

    /// The platform's assessment of all devices that are not attached yet.
    pub(super) fn assess(&self, key: &NamespacedKey, machine: &SimulatedMachine) -> Assessment {
        if machine.devices.len() > MOST_DEVICES {
            return Assessment::TooMany(machine.devices.len());
        }
        let mut worst = Assessment::Ready;
        for device in machine.devices.iter().filter(|device| !device.is_attached()) {
            match (self.assess_one(key, machine, &device.reference), &worst) {
                (waits @ Assessment::WaitsForFirstConsumer(_), Assessment::Ready) => worst = waits,
                (Assessment::Ready | Assessment::WaitsForFirstConsumer(_), _) => {}
                (not_ready, _) => return not_ready,
            }
        }
        worst
    }

    fn assess_one(
        &self,
        key: &NamespacedKey,
        machine: &SimulatedMachine,
        device: &SimulatedDeviceRef,
    ) -> Assessment {
        let kind = match device.kind {
            DeviceKind::VirtualDisk => return self.assess_disk(key, machine, &device.name),
            DeviceKind::VirtualImage => DvpObjectKind::Image,
            DeviceKind::ClusterVirtualImage => DvpObjectKind::ClusterImage,
        };
        match self.image(kind, &key.namespace, &device.name) {
            Some(image) if image.is_ready() => Assessment::Ready,
            Some(_) => Assessment::NotReady(format!("{:?} {} is not ready", device.kind, device.name)),
            None => Assessment::NotReady(format!("{:?} {} does not exist", device.kind, device.name)),
        }
    }

    fn assess_disk(&self, key: &NamespacedKey, machine: &SimulatedMachine, name: &str) -> Assessment {
        let Some(disk) = self.disks.get(&key.sibling(name)) else {
            return Assessment::NotReady(format!("VirtualDisk {name} does not exist"));
        };
        if disk.view.meta.deleting {
            return Assessment::NotReady(format!("VirtualDisk {name} is being deleted"));
        }
        let held_by_other = disk.holder.as_ref().filter(|holder| holder.uid != machine.view.meta.uid);
        if let Some(holder) = held_by_other
            && !self.knobs_of(machine).is(|k| k.ignore_mounts)
        {
            return Assessment::NotReady(format!("VirtualDisk {name} is in use by {}", holder.name));
        }
        if disk.is_usable() {
            Assessment::Ready
        } else if disk.waits_for_consumer() {
            Assessment::WaitsForFirstConsumer(format!("VirtualDisk {name} waits for its first consumer"))
        } else {
            Assessment::NotReady(format!("VirtualDisk {name} is not ready"))
        }
    }

    /// Whether a machine can start with its devices.
    pub(super) fn may_start(&self, key: &NamespacedKey, machine: &SimulatedMachine) -> bool {
        matches!(self.assess(key, machine), Assessment::Ready | Assessment::WaitsForFirstConsumer(_))
    }
}
