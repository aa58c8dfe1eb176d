//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::{annotations, labels};
use vmpool_engine::Machine;
use vmpool_engine::limits;
use vmpool_engine::model::{Activity, DetachedDisk, DiskRef};
use vmpool_engine::protection::Protection;
use vmpool_engine::revision::RevisionId;

use super::super::objects::{DeviceRef, MachineObject, MachineStatus, PoolObject};
use super::{annotation, created, id, label, message, pool_uid};
use crate::{intern, shared_owner_of};

pub(in super::super) fn machine(object: &MachineObject) -> Machine {
    let metadata = &object.metadata;
    let status = &object.status;
    let devices = &object.spec.block_device_refs;
    let map = disk_map(metadata);
    let disks = disks(&map, devices);
    let holds = |kind: &str| status.conditions.iter().any(|condition| condition.holds(kind));
    Machine {
        created: created(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: shared_owner_of::<PoolObject, MachineObject>(metadata),
        pool_uid_label: label(metadata, labels::POOL_UID).map(pool_uid),
        pool_label: label(metadata, labels::POOL).map(intern),
        revision: label(metadata, labels::TEMPLATE_HASH).map(revision),
        written: annotation(metadata, annotations::PATCHED_TEMPLATE_HASH).map(revision),
        // If the condition is absent, the platform has not reported it yet.
        evaluated: status
            .observed_generation
            .is_some_and(|seen| seen >= metadata.generation.unwrap_or_default()),
        activity: read_activity(&status.phase),
        been_ready: (status.stats.phases_transitions.iter())
            .any(|transition| read_activity(&transition.phase) == Activity::Running),
        restart_pending: holds("AwaitingRestartToApplyConfiguration"),
        restarts_itself: object.spec.disruptions.restart_approval_mode == "Automatic",
        boot_disk: boot_disk(devices, &disks),
        lingering: lingering(&status.block_device_refs, &disks),
        devices_ready: holds("BlockDevicesReady"),
        problem: problem(status),
        restoring: status
            .conditions
            .iter()
            .any(|condition| condition.holds("Maintenance") && condition.reason == "RestoreInProgress"),
        detached: detached(&map, &disks),
        protection: Protection::read(metadata.annotations.as_ref()),
        disks,
        ..Machine::blank(id(metadata))
    }
}

fn read_activity(phase: &str) -> Activity {
    match phase {
        // The guest keeps running during a migration.
        "Running" | "Migrating" => Activity::Running,
        "Stopped" => Activity::Stopped,
        "Stopping" => Activity::Stopping,
        _ => Activity::NotRunning,
    }
}

/// The first message of a condition that keeps the machine from starting: the class first, then the devices and the other
/// objects that the machine needs, and then the result of starting it.
fn problem(status: &MachineStatus) -> Option<Arc<str>> {
    if !matches!(status.phase.as_str(), "" | "Pending") {
        return None;
    }
    let order = |kind: &str| match kind {
        "VirtualMachineClassReady" => Some(0),
        "Running" => Some(2),
        // The agent of a guest that does not run is never ready.
        "AgentReady" => None,
        kind if kind.ends_with("Ready") => Some(1),
        _ => None,
    };
    let broken = status.conditions.iter().filter(|condition| condition.explains());
    let ordered = broken.filter_map(|condition| Some((order(&condition.kind)?, condition)));
    let (_, first) = ordered.min_by_key(|(order, _)| *order)?;
    Some(message(&first.message))
}

/// An identity that is longer than any revision equals none.
fn revision(text: &str) -> RevisionId {
    intern(limits::clip(text)).into()
}

fn disks(map: &BTreeMap<String, String>, devices: &[DeviceRef]) -> Vec<DiskRef> {
    let template = |disk: &str| {
        map.iter().find(|(_, filling)| **filling == disk).map(|(template, _)| intern(limits::clip(template)))
    };
    let disks = devices.iter().enumerate().filter_map(|(position, device)| {
        let disk = device.disk()?;
        Some(DiskRef { template: template(disk), disk: disk.into(), position })
    });
    disks.collect()
}

/// The disks that the disk map names and no device refers to.
fn detached(map: &BTreeMap<String, String>, disks: &[DiskRef]) -> Vec<DetachedDisk> {
    let attached = |disk: &str| disks.iter().any(|device| *device.disk == *disk);
    let detached = map.iter().filter(|(_, disk)| !disk.is_empty() && !attached(disk));
    let detached = detached
        .map(|(template, disk)| DetachedDisk { template: intern(template), disk: disk.as_str().into() });
    detached.collect()
}

/// The disk map of the machine, from its annotation. If it cannot be read, it is empty, and the disks of the machine
/// are not repaired.
fn disk_map(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    annotation(metadata, annotations::DISKS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The device with the smallest boot order, or else the first device, if that is a disk.
fn boot_disk(devices: &[DeviceRef], disks: &[DiskRef]) -> Option<Arc<str>> {
    let ordered =
        devices.iter().enumerate().filter_map(|(position, device)| Some((device.boot_order?, position)));
    let position = ordered.min().map_or(0, |(_, position)| position);
    disks.iter().find(|disk| disk.position == position).map(|disk| disk.disk.clone())
}

/// Disks that are in the status and not in the spec, each once.
fn lingering(shown: &[DeviceRef], disks: &[DiskRef]) -> Vec<Arc<str>> {
    let mut lingering: Vec<Arc<str>> = Vec::new();
    for disk in shown.iter().filter_map(DeviceRef::disk) {
        if !disks.iter().any(|wanted| *wanted.disk == *disk)
            && !lingering.iter().any(|known| **known == *disk)
        {
            lingering.push(disk.into());
        }
    }
    lingering
}
