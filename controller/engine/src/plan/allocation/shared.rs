//! Disks that several members refer to: who keeps one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Observed;
use crate::model::{Activity, Disk, Machine};

/// The members that must let go of a disk, with the disk. One that runs, and of which nobody can tell whether it has
/// the disk mounted, is left alone until that shows.
pub(super) fn losers<'a>(
    observed: &'a Observed<'a>,
    held_twice: &BTreeMap<&'a str, &'a Arc<Disk>>,
) -> BTreeSet<(&'a str, &'a str)> {
    let mut holders: BTreeMap<&str, Vec<&'a Machine>> = BTreeMap::new();
    for member in observed.members().filter(|member| !member.terminating) {
        for device in &member.disks {
            if let Some((name, _)) = held_twice.get_key_value(&*device.disk) {
                holders.entry(name).or_default().push(member);
            }
        }
    }
    let mut losers = BTreeSet::new();
    for (name, members) in holders {
        let disk = held_twice[name];
        let Some(keeper) = members.iter().min_by_key(|member| keeping_order(disk, member)) else { continue };
        // Whoever mounts it may be no live member at all: then nobody else can have it mounted either.
        let runs_on_it = |member: &Machine| disk.mounted_by.is_none() && member.activity == Activity::Running;
        let leaving = members.iter().filter(|member| member.id != keeper.id && !runs_on_it(member));
        losers.extend(leaving.map(|member| (&*member.id.name, name)));
    }
    losers
}

/// The first keeps the disk: the machine that has it mounted; or else one that runs; or else one that has all its devices;
/// or else the one whose disk map names the disk, since the other one was edited by hand; or else the oldest; among twins
/// the smallest name, so that two passes never disagree.
fn keeping_order<'m>(disk: &Disk, member: &'m Machine) -> impl Ord + use<'m> {
    let mounts = disk.mounted_by.as_ref() == Some(&member.id.name);
    let runs = member.activity == Activity::Running;
    let mut devices = member.disks.iter();
    let is_mapped = devices.any(|device| device.disk == disk.id.name && device.template.is_some());
    (!mounts, !runs, !member.devices_ready, !is_mapped, member.created, &member.id.name)
}
