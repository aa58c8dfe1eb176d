//! Machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::enums::RunPolicy;
use vmpool_api::{annotations, labels};
use vmpool_engine::Machine;
use vmpool_engine::draining::Draining;
use vmpool_engine::image_refresh::read_disk_sources;
use vmpool_engine::limits;
use vmpool_engine::model::{DetachedDisk, DiskRef, MachineActivity, StartHealth};
use vmpool_engine::protection::Protection;
use vmpool_engine::recycling::RecycleFacts;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::standby::{STANDBY, StandbyPhase, StandbyState, read_activated_at};
use vmpool_platform::{intern_text, shared_owner_of};

use super::super::objects::{
    DvpDeviceRef, DvpMachineObject, DvpMachineStatus, DvpPoolObject, PlatformCondition,
};
use super::super::standby;
use super::{annotation_value, creation_time, label_value, object_id, pool_uid, truncated_message};

/// The phase of a machine whose guest is paused.
const PAUSE: &str = "Pause";

pub(crate) fn read_machine(object: &DvpMachineObject) -> Machine {
    let metadata = &object.metadata;
    let status = &object.status;
    let devices = &object.spec.block_device_refs;
    let map = disk_map(metadata);
    let disks = machine_disks(&map, devices);
    let activated = read_activated_at(metadata.annotations.as_ref());
    // Otherwise it would seem to be stopped on purpose, as long as its start fails, too.
    let is_starting = standby::is_starting(object, activated);
    let holds = |kind: &str| status.conditions.iter().any(|condition| condition.holds(kind));
    Machine {
        created: creation_time(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        terminating_since: metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0),
        owner: shared_owner_of::<DvpPoolObject, DvpMachineObject>(metadata),
        pool_uid_label: label_value(metadata, labels::POOL_UID).map(pool_uid),
        pool_label: label_value(metadata, labels::POOL).map(intern_text),
        revision: label_value(metadata, labels::TEMPLATE_HASH).map(interned_revision_id),
        written: annotation_value(metadata, annotations::PATCHED_TEMPLATE_HASH).map(interned_revision_id),
        // If the condition is absent, the platform has not reported it yet.
        evaluated: status
            .observed_generation
            .is_some_and(|seen| seen >= metadata.generation.unwrap_or_default()),
        activity: if is_starting { MachineActivity::NotRunning } else { read_activity(&status.phase) },
        been_ready: (status.stats.phases_transitions.iter())
            .any(|transition| read_activity(&transition.phase) == MachineActivity::Running),
        restart_pending: holds("AwaitingRestartToApplyConfiguration"),
        restarts_itself: object.spec.disruptions.restart_approval_mode == "Automatic",
        boot_disk: boot_disk(devices, &disks),
        lingering: lingering_disks(&status.block_device_refs, &disks),
        devices_ready: holds("BlockDevicesReady"),
        problem: not_ready_problem(&object.spec.run_policy, status),
        start_health: StartHealth { not_ready_since: not_ready_since(status), ..StartHealth::default() },
        unready_on_purpose: !is_starting && is_unready_on_purpose(&object.spec.run_policy, status),
        restoring: status
            .conditions
            .iter()
            .any(|condition| condition.holds("Maintenance") && condition.reason == "RestoreInProgress"),
        detached: detached_disks(&map, &disks),
        protection: Protection::read(metadata.annotations.as_ref()),
        draining: Draining::read(metadata.annotations.as_ref()),
        disk_sources: read_disk_sources(metadata.annotations.as_ref()).map(intern_text),
        recycling: RecycleFacts::read(metadata.annotations.as_ref()),
        standby: read_standby_state(object),
        activated,
        awaits_start: standby::awaits_start(object, activated),
        disks,
        ..Machine::blank(object_id(metadata))
    }
}

fn read_standby_state(object: &DvpMachineObject) -> Option<Arc<StandbyState>> {
    let phase = StandbyPhase::read(label_value(&object.metadata, STANDBY)?);
    let ready_since = standby::find_ready_since(&object.status);
    let kept_off = standby::is_kept_off(&object.spec.run_policy);
    Some(Arc::new(StandbyState { phase, ready_since, kept_off }))
}

fn read_activity(phase: &str) -> MachineActivity {
    match phase {
        // The guest keeps running during a migration.
        "Running" | "Migrating" => MachineActivity::Running,
        "Stopped" => MachineActivity::Stopped,
        "Stopping" => MachineActivity::Stopping,
        _ => MachineActivity::NotRunning,
    }
}

/// When the machine last stopped being ready, stopped or paused, as far as its last phases show it.
fn not_ready_since(status: &DvpMachineStatus) -> Option<Timestamp> {
    let is_unready = |phase: &str| read_activity(phase) == MachineActivity::NotRunning && phase != PAUSE;
    let transitions = status.stats.phases_transitions.iter().rev();
    let last = transitions.take_while(|transition| is_unready(&transition.phase));
    let since = last.filter_map(|transition| transition.timestamp).min();
    since.filter(|_| is_unready(&status.phase))
}

/// Whether the machine is not ready on purpose. With `AlwaysOn`, the platform starts a stopped machine again.
fn is_unready_on_purpose(run_policy: &str, status: &DvpMachineStatus) -> bool {
    let is_busy = |condition: &PlatformCondition| {
        ["Snapshotting", "Maintenance", "Migrating"].iter().any(|kind| condition.holds(kind))
    };
    match status.phase.as_str() {
        PAUSE => true,
        "Stopped" => run_policy.parse().ok() != Some(RunPolicy::AlwaysOn),
        _ => status.conditions.iter().any(is_busy),
    }
}

/// Why a machine is not ready and does not become ready by itself.
fn not_ready_problem(run_policy: &str, status: &DvpMachineStatus) -> Option<Arc<str>> {
    match status.phase.as_str() {
        "" | "Pending" => start_problem(status),
        phase @ ("Degraded" | PAUSE) => {
            Some(running_message(status).unwrap_or_else(|| intern_text(&format!("its phase is {phase}"))))
        }
        "Stopped" => stop_problem(run_policy).map(intern_text),
        _ => None,
    }
}

/// What the platform reports of a guest that does not run.
fn running_message(status: &DvpMachineStatus) -> Option<Arc<str>> {
    let mut broken = status.conditions.iter().filter(|condition| condition.explains());
    let running = broken.find(|condition| condition.kind == "Running")?;
    Some(truncated_message(&running.message))
}

/// Why the platform does not start a stopped machine with this run policy; `None` if it does, or if this
/// version does not know the policy.
fn stop_problem(run_policy: &str) -> Option<&'static str> {
    let policy = if run_policy.is_empty() {
        // The default of the platform.
        RunPolicy::AlwaysOnUnlessStoppedManually
    } else {
        run_policy.parse().ok()?
    };
    match policy {
        RunPolicy::AlwaysOn => None,
        RunPolicy::AlwaysOff => {
            Some("it is stopped, and its runPolicy AlwaysOff keeps it off: set another runPolicy to start it")
        }
        RunPolicy::Manual => Some(
            "it is stopped, and with its runPolicy Manual only a VirtualMachineOperation starts it: start it, or delete \
             the machine",
        ),
        RunPolicy::AlwaysOnUnlessStoppedManually => Some(
            "it is stopped, and its runPolicy AlwaysOnUnlessStoppedManually does not start it again: start it with a \
             VirtualMachineOperation, or delete the machine",
        ),
    }
}

/// The first message of a condition that keeps the machine from starting: the class first, then the devices
/// and the other objects that the machine needs, and then the result of starting it.
fn start_problem(status: &DvpMachineStatus) -> Option<Arc<str>> {
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
    Some(truncated_message(&first.message))
}

/// An identity that is longer than any revision equals none.
fn interned_revision_id(text: &str) -> RevisionId {
    intern_text(limits::clip_name(text)).into()
}

fn machine_disks(map: &BTreeMap<String, String>, devices: &[DvpDeviceRef]) -> Vec<DiskRef> {
    let template = |disk: &str| {
        map.iter()
            .find(|(_, filling)| **filling == disk)
            .map(|(template, _)| intern_text(limits::clip_name(template)))
    };
    let disks = devices.iter().enumerate().filter_map(|(position, device)| {
        let disk = device.disk()?;
        Some(DiskRef { template: template(disk), disk: disk.into(), position })
    });
    disks.collect()
}

/// The disks that the disk map names and no device refers to.
fn detached_disks(map: &BTreeMap<String, String>, disks: &[DiskRef]) -> Vec<DetachedDisk> {
    let attached = |disk: &str| disks.iter().any(|device| *device.disk == *disk);
    let detached = map.iter().filter(|(_, disk)| !disk.is_empty() && !attached(disk));
    let detached = detached
        .map(|(template, disk)| DetachedDisk { template: intern_text(template), disk: disk.as_str().into() });
    detached.collect()
}

/// The disk map of the machine, from its annotation. If it cannot be read, it is empty, and the disks of the
/// machine are not repaired.
fn disk_map(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    annotation_value(metadata, annotations::DISKS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The device with the smallest boot order, or else the first device, if that is a disk.
fn boot_disk(devices: &[DvpDeviceRef], disks: &[DiskRef]) -> Option<Arc<str>> {
    let ordered =
        devices.iter().enumerate().filter_map(|(position, device)| Some((device.boot_order?, position)));
    let position = ordered.min().map_or(0, |(_, position)| position);
    disks.iter().find(|disk| disk.position == position).map(|disk| disk.disk.clone())
}

/// Disks that are in the status and not in the spec, each once.
fn lingering_disks(shown: &[DvpDeviceRef], disks: &[DiskRef]) -> Vec<Arc<str>> {
    let mut lingering: Vec<Arc<str>> = Vec::new();
    for disk in shown.iter().filter_map(DvpDeviceRef::disk) {
        if !disks.iter().any(|wanted| *wanted.disk == *disk)
            && !lingering.iter().any(|known| **known == *disk)
        {
            lingering.push(disk.into());
        }
    }
    lingering
}
