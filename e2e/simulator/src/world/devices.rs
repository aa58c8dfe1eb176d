//! A machine's devices: which it lists, which its guest sees, and which it may use.

use super::{
    World, ends,
    machine::{Machine, Power},
};
use crate::objects::{DeviceKind, DeviceRef, DeviceStatus, Key, Kind};
use jiff::Timestamp;

/// The platform attaches no more devices than this.
const MOST_DEVICES: usize = 16;

/// One device of a machine.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) reference: DeviceRef,
    /// The attachment object that asked for it.
    pub(super) attachment: Option<String>,
    pub(super) plug: Plug,
}

/// Whether the guest sees a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plug {
    /// It does not; the machine is off or boots.
    Out,
    /// It will, this is when it was asked for.
    GoingIn(Timestamp),
    /// It does, since it booted.
    Cold,
    /// It does, since it was added while running.
    Hot,
    /// It will not much longer, this is when it was asked for.
    GoingOut(Timestamp),
}

impl Device {
    fn new(reference: DeviceRef, attachment: Option<String>, plug: Plug) -> Self {
        Self { reference, attachment, plug }
    }

    /// A device as an earlier run of the simulator left it.
    pub(super) fn from_status(status: &DeviceStatus) -> Self {
        let plug = match (status.attached, status.hotplugged) {
            (false, _) => Plug::Out,
            (true, Some(true)) => Plug::Hot,
            (true, _) => Plug::Cold,
        };
        let reference =
            DeviceRef { kind: status.kind, name: status.name.clone(), boot_order: status.boot_order };
        Self::new(reference, status.virtual_machine_block_device_attachment_name.clone(), plug)
    }

    pub(super) fn attach_cold(&mut self) {
        if self.plug == Plug::Out {
            self.plug = Plug::Cold;
        }
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.plug, Plug::Cold | Plug::Hot | Plug::GoingOut(_))
    }

    /// The disk behind it, if it is one.
    pub(super) fn disk(&self, machine: &Key) -> Option<Key> {
        (self.reference.kind == DeviceKind::VirtualDisk).then(|| machine.sibling(&self.reference.name))
    }
}

/// What the platform says about a machine's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assessment {
    /// All may be used.
    Ready,
    /// The machine may start, which will bind the rest.
    WaitsForFirstConsumer(String),
    /// Not yet, for this reason.
    NotReady(String),
    /// More than the platform can attach.
    TooMany(usize),
}

impl World {
    /// Brings the list of devices in line with spec and attachments; says when a plug is due.
    pub(super) fn sync_devices(
        &mut self,
        key: &Key,
        machine: &mut Machine,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let wanted = self.wanted_devices(key, machine);
        match &machine.power {
            Power::Off => {
                machine.devices = wanted
                    .into_iter()
                    .map(|(reference, attachment)| Device::new(reference, attachment, Plug::Out))
                    .collect();
                None
            }
            Power::On { boot, .. } if machine.evaluated.is_some() => {
                let boot_device = boot.spec.boot_device().cloned();
                self.replug(key, machine, &wanted, boot_device.as_ref(), now)
            }
            // In between, what the machine was started with stays as it is.
            Power::On { .. }
            | Power::Booting { .. }
            | Power::Migrating { .. }
            | Power::Crashed { .. }
            | Power::Stopping { .. } => None,
        }
    }

    fn wanted_devices(&self, key: &Key, machine: &Machine) -> Vec<(DeviceRef, Option<String>)> {
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

    /// Adds and removes devices of a running machine. The one that it booted from stays until a restart.
    fn replug(
        &mut self,
        key: &Key,
        machine: &mut Machine,
        wanted: &[(DeviceRef, Option<String>)],
        boot_device: Option<&DeviceRef>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for (reference, attachment) in wanted {
            match machine.devices.iter_mut().find(|device| device.reference.same(reference)) {
                Some(device) => {
                    device.reference.boot_order = reference.boot_order;
                    match device.plug {
                        Plug::GoingOut(_) => device.plug = Plug::Hot,
                        Plug::Out => device.plug = Plug::GoingIn(now),
                        Plug::GoingIn(_) | Plug::Cold | Plug::Hot => {}
                    }
                }
                None => machine.devices.push(Device::new(
                    reference.clone(),
                    attachment.clone(),
                    Plug::GoingIn(now),
                )),
            }
        }
        for device in &mut machine.devices {
            let is_wanted = wanted.iter().any(|(reference, _)| reference.same(&device.reference));
            let booted_from = boot_device.is_some_and(|boot| boot.same(&device.reference));
            if !is_wanted && !booted_from && !matches!(device.plug, Plug::GoingOut(_)) {
                device.plug = Plug::GoingOut(now);
            }
        }
        // A device that goes in is claimed before it is assessed.
        self.sync_users(key, machine);
        let mut next: Option<Timestamp> = None;
        let mut index = 0;
        while index < machine.devices.len() {
            let device = machine.devices[index].clone();
            let due = match device.plug {
                Plug::GoingIn(since) | Plug::GoingOut(since) => ends(since, self.settings.hot_plug_delay),
                Plug::Out | Plug::Cold | Plug::Hot => None,
            };
            let is_due = due.is_some_and(|at| at <= now);
            match device.plug {
                Plug::GoingOut(_) if is_due => {
                    machine.devices.remove(index);
                    if let Some(disk) = device.disk(key) {
                        machine.mounted.retain(|mounted| *mounted != disk);
                        self.unmount(&machine.view.meta.uid, std::slice::from_ref(&disk));
                    }
                    self.mark_dependents_of_machine(key);
                    continue;
                }
                Plug::GoingIn(_) if is_due => {
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

    /// Opens a device to a running guest, if it may; a disk that waits for its first consumer gets it.
    fn plug_in(&mut self, key: &Key, machine: &mut Machine, device: &Device, now: Timestamp) -> bool {
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

    /// What the platform says about all devices that the guest does not see yet.
    pub(super) fn assess(&self, key: &Key, machine: &Machine) -> Assessment {
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

    fn assess_one(&self, key: &Key, machine: &Machine, device: &DeviceRef) -> Assessment {
        let kind = match device.kind {
            DeviceKind::VirtualDisk => return self.assess_disk(key, machine, &device.name),
            DeviceKind::VirtualImage => Kind::Image,
            DeviceKind::ClusterVirtualImage => Kind::ClusterImage,
        };
        match self.image(kind, &key.namespace, &device.name) {
            Some(image) if image.is_ready() => Assessment::Ready,
            Some(_) => Assessment::NotReady(format!("{:?} {} is not ready", device.kind, device.name)),
            None => Assessment::NotReady(format!("{:?} {} does not exist", device.kind, device.name)),
        }
    }

    fn assess_disk(&self, key: &Key, machine: &Machine, name: &str) -> Assessment {
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

    /// Whether the devices let a machine start.
    pub(super) fn may_start(&self, key: &Key, machine: &Machine) -> bool {
        matches!(self.assess(key, machine), Assessment::Ready | Assessment::WaitsForFirstConsumer(_))
    }
}
