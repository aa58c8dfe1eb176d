//! Disks of machines: those that do not exist, that belong to another owner, that cannot be used, or that are
//! too small.
//!
//! The planner iterates over the disk maps and devices of the machines and not over the disks, because a disk
//! that was never created has no object. Users may have edited both ([`edited`]). A machine of another
//! controller has no disk map before its first update. Its disks are recognized by their owners, labels and
//! names, so that it is repaired while the rollout is paused, too.

use super::allocation::FreeDisks;
use super::disk_size::disk_expansion;
use crate::failure::FailureReason;
use crate::ids::ObjectId;
use crate::membership::adoption;
use crate::model::{Disk, DiskDraft, DiskRef, DiskRestore, Lifetime, Machine, Owner, PoolDiskTemplate};
use crate::plan::action::PoolAction;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::{Plan, Repairs};

mod edited;
mod failed;
mod restored;

use std::sync::Arc;

/// The result of checking the disks of all machines.
pub(crate) struct DiskCheckResult {
    /// Whether the plan contains all necessary repairs.
    pub(crate) repairs: Repairs,
    /// Expansions of ephemeral disks.
    pub(crate) growth: Vec<PoolAction>,
}

/// A device of a machine whose disk is not as it should be.
struct DeviceToRepair<'a> {
    machine: &'a Machine,
    device: &'a DiskRef,
    /// Name of the disk template that it fills.
    name: &'a Arc<str>,
    template: Option<&'a PoolDiskTemplate>,
    disk: Option<&'a Disk>,
}

/// Plans the repairs.
pub(crate) fn plan_disk_repairs(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    plan: &mut Plan,
) -> DiskCheckResult {
    let (mut growth, mut odd, mut strays) = (Vec::new(), Vec::new(), Vec::new());
    for machine in observed.owned_machines().filter(|machine| !machine.terminating) {
        let mapped = machine.disks.iter().filter_map(|device| Some((device, device.template.as_ref()?)));
        let recognised = adoption::recognized_devices(observed, machine);
        let recognised: Vec<_> = recognised.map(|(device, template)| (device, &template.name)).collect();
        let is_known = |device: &DiskRef| recognised.iter().any(|(known, _)| known.disk == device.disk);
        let unknown = machine.disks.iter().filter(|device| device.template.is_none() && !is_known(device));
        strays.extend(unknown.map(|device| (&**machine, device)));
        for (device, name) in mapped.chain(recognised.iter().copied()) {
            let template = observed.pool.disks.iter().find(|known| known.name == *name);
            let disk = observed.disks.get(&device.disk).map(|disk| &**disk);
            match (template, disk) {
                (Some(template), Some(disk))
                    if disk.is_of_machine(&machine.id) && !failed::disk_prevents_start(machine, disk) =>
                {
                    growth.extend(disk_expansion(template, disk));
                }
                _ => odd.push(DeviceToRepair { machine, device, name, template, disk }),
            }
        }
    }
    odd.retain(|odd| {
        !odd.disk.is_some_and(|disk| is_usable_pool_disk(observed, free_disks, odd.machine, disk))
    });
    // Sorted, so that the allocation of disks does not depend on the order of the input.
    odd.sort_unstable_by_key(|odd| (&odd.machine.id.name, odd.device.position));
    let mut repairs = Vec::new();
    let mut looks = Vec::new();
    let mut note = |free_disks: &mut FreeDisks<'_>,
                    machine: &Machine,
                    repair: Option<Result<PoolAction, Blocker>>| match repair {
        Some(Ok(action)) => {
            free_disks.mark_repaired(&machine.id.name);
            repairs.push(action);
        }
        Some(Err(blocker)) => {
            if let Blocker::UserAction(message) = &blocker {
                plan.report_failure(FailureReason::DiskFailure, message);
            }
            plan.blockers.push(blocker);
        }
        None => {}
    };
    let mut failures = Vec::new();
    for odd in odd {
        if let Some(disk) = odd.disk.filter(|disk| failed::disk_prevents_start(odd.machine, disk)) {
            failures.extend(failed::failure_message(odd.machine, disk));
        }
        let repair = match (odd.template, odd.disk) {
            (Some(template), Some(disk)) if disk.is_of_machine(&odd.machine.id) => {
                match failed::plan_disk_replacement(observed, odd.machine, odd.device, template, disk) {
                    failed::DiskReplacement::Now(action) => Some(Ok(action)),
                    failed::DiskReplacement::After(left) => {
                        looks.push(left);
                        None
                    }
                    failed::DiskReplacement::Never => None,
                }
            }
            (Some(_), None) if odd.machine.restoring => {
                Some(Err(restored::await_disk(odd.machine, odd.device)))
            }
            (Some(_), None) if let Some(left) = restored::time_left(observed, &odd.device.disk) => {
                looks.push(left);
                Some(Err(restored::await_disk(odd.machine, odd.device)))
            }
            _ => repair_template_device(observed, free_disks, &odd),
        };
        note(free_disks, odd.machine, repair);
    }
    strays.sort_unstable_by_key(|(machine, device)| (&machine.id.name, device.position));
    let machines = edited::MachineIndex::default();
    for (machine, device) in strays {
        // One repair of a machine at a time, because a repair can change the positions of the other devices.
        if !free_disks.is_repaired(&machine.id.name) {
            let repair = edited::repair_edited_device(observed, &machines, free_disks, machine, device);
            note(free_disks, machine, repair);
        }
    }
    for machine in
        observed.owned_machines().filter(|machine| !(machine.terminating || machine.detached.is_empty()))
    {
        if !free_disks.is_repaired(&machine.id.name) {
            let repair = edited::correct_disk_map(observed, free_disks, machine);
            note(free_disks, machine, repair.map(Ok));
        }
    }
    for left in looks {
        plan.requeue_in(left);
    }
    failures.extend(failed::replaced_disk_failures(observed, free_disks, &machines));
    if let Some(failure) = failures.into_iter().min() {
        plan.report_failure(FailureReason::DiskFailure, &failure);
    }
    DiskCheckResult { repairs: plan.repair(observed, repairs), growth }
}

/// Whether a disk belongs to the pool, can be used, and stays with this machine.
fn is_usable_pool_disk(
    observed: &ObservedPool<'_>,
    free_disks: &FreeDisks<'_>,
    machine: &Machine,
    disk: &Disk,
) -> bool {
    let ours = disk.belongs_to(&observed.pool.id);
    ours && disk.is_usable() && !free_disks.must_detach(&machine.id.name, &disk.id.name)
}

fn repair_template_device(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    odd: &DeviceToRepair<'_>,
) -> Option<Result<PoolAction, Blocker>> {
    let DeviceToRepair { machine, device, name, template, disk } = *odd;
    match (template, disk) {
        (Some(template), Some(disk)) => {
            repair_misplaced_disk(observed, free_disks, machine, device, template, disk)
        }
        (Some(_), None) => Some(Ok(create_missing_disk(free_disks, machine, device, name))),
        (None, Some(_)) => None,
        (None, None) => report_orphaned_disk(observed, machine, device, name),
    }
}

/// Creates a disk that does not exist. If an existing disk is allocated to the machine, the machine gets that
/// disk: it was created by a client that did not know of the allocation.
fn create_missing_disk(
    free_disks: &mut FreeDisks<'_>,
    machine: &Machine,
    device: &DiskRef,
    template: &Arc<str>,
) -> PoolAction {
    let (machine, from) = (&machine.id, device.disk.clone());
    match free_disks.allocated_to(template, &machine.name) {
        Some(to) => PoolAction::Repoint { machine: machine.clone(), position: device.position, from, to },
        None => {
            PoolAction::CreateDisk { machine: machine.clone(), disk: DiskDraft::new(from, template.clone()) }
        }
    }
}

/// A disk that does not exist and cannot be created, because its template was removed. The next update of the
/// machine detaches it. If the machine is already updated, the plan reports it.
fn report_orphaned_disk(
    observed: &ObservedPool<'_>,
    machine: &Machine,
    device: &DiskRef,
    template: &str,
) -> Option<Result<PoolAction, Blocker>> {
    (machine.written.as_ref() == Some(&observed.pool.revision.id)).then(|| {
        Err(Blocker::UserAction(format!(
            "machine {} refers to disk {}, which does not exist, and the pool has no disk template {template} to \
             create it from: restore the disk template, or delete the machine",
            machine.id, device.disk
        )))
    })
}

/// The repair of a disk that exists and that the machine does not own.
fn repair_misplaced_disk(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Machine,
    device: &DiskRef,
    template: &PoolDiskTemplate,
    disk: &Disk,
) -> Option<Result<PoolAction, Blocker>> {
    let repoint = |to| {
        let from = device.disk.clone();
        Some(Ok(PoolAction::Repoint { machine: machine.id.clone(), position: device.position, from, to }))
    };
    let pool = &observed.pool.id;
    match &disk.owner {
        // Regardless of the current template, a retained disk stays with its machine.
        Some(owner) if owner.is_pool(pool) => {
            let broken = !disk.is_usable() && !disk.terminating && !machine.runs();
            if broken && template.lifetime == Lifetime::Retained {
                return repoint(free_disks.replace_broken(&template.name, &machine.id.name)?);
            }
            if free_disks.must_detach(&machine.id.name, &device.disk) {
                return match free_disks.replacement(template, machine) {
                    Ok(to) => repoint(to),
                    Err(blocker) => Some(Err(blocker)),
                };
            }
            None
        }
        // A deleted machine or pool of the same name owns it, and the garbage collector will delete it.
        Some(owner) if is_predecessor(owner, pool, machine, template) => {
            Some(Err(Blocker::TerminatingDisk { machine: machine.id.clone(), disk: device.disk.clone() }))
        }
        None if disk.restore == DiskRestore::Created
            && !disk.terminating
            && disk.pool_uid_label.as_ref().is_none_or(|label| *label == pool.uid)
            && !free_disks.must_detach(&machine.id.name, &device.disk) =>
        {
            Some(restored::adopt_disk(machine, template, disk))
        }
        // It belonged to the machine, as the pool's label shows. The client that removed the owner did not
        // intend to remove the data.
        None if disk.pool_uid_label.as_ref() == Some(&pool.uid) => Some(Err(Blocker::UserAction(format!(
            "disk {} of machine {} has lost its owner reference, and the controller does not change it: restore \
             the owner reference, or delete the machine",
            device.disk, machine.id
        )))),
        // It belonged to the pool when the machine got it, and a running machine keeps its disks. An
        // ephemeral disk with another owner never belonged to the machine: another object had the name first,
        // and the machine must not use it.
        _ if template.lifetime == Lifetime::Retained && machine.runs() => {
            Some(Err(Blocker::UserAction(format!(
                "machine {} runs on disk {}, which belongs to another owner: stop the machine, so that the \
                 controller can replace the disk, or delete the machine",
                machine.id, device.disk
            ))))
        }
        _ => match free_disks.replacement(template, machine) {
            Ok(to) => repoint(to),
            Err(blocker) => Some(Err(blocker)),
        },
    }
}

/// Whether the owner of a disk is an earlier machine of the same name or, for a retained disk, an earlier
/// pool.
fn is_predecessor(owner: &Owner, pool: &ObjectId, machine: &Machine, template: &PoolDiskTemplate) -> bool {
    let of_machine = || owner.as_machine().is_some_and(|owner| owner.name == machine.id.name);
    let of_pool = || owner.as_pool().is_some_and(|owner| owner.name == pool.name);
    of_machine() || template.lifetime == Lifetime::Retained && of_pool()
}

#[cfg(test)]
mod tests;
