//! Disks that several machines refer to: which machine keeps each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Disk, Machine, MachineActivity};
use crate::plan::observed::ObservedPool;

/// The machines that must detach a disk, each with the disk. A running machine keeps the disk until it is
/// known whether the machine mounts it.
pub(super) fn required_detachments<'a>(
    observed: &'a ObservedPool<'a>,
    held_twice: &BTreeMap<&'a str, &'a Arc<Disk>>,
) -> BTreeSet<(&'a str, &'a str)> {
    let mut holders: BTreeMap<&str, Vec<&'a Machine>> = BTreeMap::new();
    for machine in observed.owned_machines().filter(|machine| !machine.terminating) {
        for device in &machine.disks {
            if let Some((name, _)) = held_twice.get_key_value(&*device.disk) {
                holders.entry(name).or_default().push(machine);
            }
        }
    }
    let mut losers = BTreeSet::new();
    for (name, machines) in holders {
        let disk = held_twice[name];
        let Some(keeper) = machines.iter().min_by_key(|machine| keeping_order(disk, machine)) else {
            continue;
        };
        // The machine that mounts the disk may be a terminating or foreign one. Then no other machine mounts
        // it.
        let runs_on_it =
            |machine: &Machine| disk.mounted_by.is_none() && machine.activity == MachineActivity::Running;
        let leaving = machines.iter().filter(|machine| machine.id != keeper.id && !runs_on_it(machine));
        losers.extend(leaving.map(|machine| (&*machine.id.name, name)));
    }
    losers
}

/// The first machine in this order keeps the disk: the one that mounts it, then a running one, then one with
/// all its devices, then one whose disk map names the disk (the other was edited by a user), then the oldest,
/// and then the smallest name, so that all passes agree.
fn keeping_order<'m>(disk: &Disk, machine: &'m Machine) -> impl Ord + use<'m> {
    let mounts = disk.mounted_by.as_ref() == Some(&machine.id.name);
    let runs = machine.activity == MachineActivity::Running;
    let mut devices = machine.disks.iter();
    let is_mapped = devices.any(|device| device.disk == disk.id.name && device.template.is_some());
    (!mounts, !runs, !machine.devices_ready, !is_mapped, machine.created, &machine.id.name)
}
