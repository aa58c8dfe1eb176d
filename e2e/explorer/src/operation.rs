//! Operations of users and operators, and faults that do not belong to a single request.

use jiff::SignedDuration;
use serde_json::{Value, json};
use vmpool_api::labels;
use vmpool_model::{PatchKind, Verb, WatchDelay, WatchEnd};

use crate::instance::Program;
use crate::manifest::{DISKS, MACHINES, POOL, POOLS, WATCHED, disk, pool, templates};
use crate::removal_client::Target;
use crate::webhook::WebhookState;
use crate::world::{NAMESPACE, World};

/// One step. Numbers select an object or a process among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Creates the pool: number of replicas, scale-down policy, disk templates.
    CreatePool(i64, &'static str, Vec<(&'static str, Value)>),
    /// `kubectl scale`.
    Scale(i64),
    /// Changes the number of cores in the template.
    SetCores(i64),
    /// Changes the scale-down policy.
    SetScaleDownPolicy(&'static str),
    /// Adds a disk template.
    AddDiskTemplate(&'static str, Value),
    /// Removes a disk template.
    RemoveDiskTemplate(&'static str),
    /// A user deletes a machine.
    DeleteMachine(usize),
    /// A user deletes a disk.
    DeleteDisk(usize),
    /// A user removes the controller's labels from a machine.
    RemoveLabels(usize),
    /// A user removes a machine's owner reference.
    RemoveOwner(usize),
    /// A client requests a targeted removal.
    RemoveTargets(Removal),
    /// Deletes the pool with this propagation policy.
    DeletePool(&'static str),
    /// Kills a controller.
    KillController(usize),
    /// Kills a replica of the aggregated API.
    KillApiserver(usize),
    /// Pauses a controller.
    PauseController(usize),
    /// Pauses the leader.
    PauseLeader,
    /// Pauses a replica of the aggregated API.
    PauseApiserver(usize),
    /// Cuts a controller off from the API server.
    DisconnectController(usize),
    /// Resumes all processes and reconnects them.
    Resume,
    /// Sets the behavior of the webhook.
    SetWebhook(WebhookState),
    /// Moves the wall clock of a controller by this number of seconds.
    StepWallClock(usize, i64),
    /// Delays the watches of all controllers on a resource by this number of events.
    DelayWatch(usize, usize),
    /// Watches on the resource deliver no events.
    HoldWatch(usize),
    /// All watches catch up.
    ReleaseWatches,
    /// Watches on the resource deliver several changes as one event.
    CoalesceEvents(usize),
    /// Watches on the resource repeat the last event.
    RepeatEvent(usize),
    /// Closes the watch connections of the resource; with `true`, their resource version has expired.
    EndWatch(usize, bool),
    /// The API server model drops its history.
    CompactHistory,
    /// The API server model sends a bookmark to all watches.
    SendBookmarks,
}

/// A targeted removal.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// Indexes of the machines.
    pub targets: Vec<usize>,
    /// The replica that receives the first attempt.
    pub first: usize,
    /// Whether the request also contains the UIDs.
    pub pinned: bool,
    /// Whether the request is a dry run.
    pub dry_run: bool,
}

impl Operation {
    /// Whether the operation needs replicas of the aggregated API.
    pub fn uses_api(&self) -> bool {
        matches!(self, Self::RemoveTargets(_) | Self::KillApiserver(_) | Self::PauseApiserver(_))
    }

    /// Performs the operation.
    pub async fn perform(&self, world: &mut World) {
        match self {
            Self::CreatePool(replicas, policy, disks) => {
                world.create("virtualmachinepools", pool(*replicas, policy, disks)).await;
            }
            Self::Scale(replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                let call =
                    world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "scale", patch);
                _ = world.do_as_user(&call).await;
            }
            Self::SetCores(cores) => {
                edit(world, json!({ "virtualMachineTemplate": { "spec": { "cpu": { "cores": cores } } } }))
                    .await;
            }
            Self::SetScaleDownPolicy(policy) => edit(world, json!({ "scaleDownPolicy": policy })).await,
            Self::AddDiskTemplate(name, reclaim) => {
                let known = |disks: &[Value]| disks.iter().any(|disk| disk["name"] == *name);
                if let Some((mut devices, mut disks)) = disks_of(world).filter(|(_, disks)| !known(disks)) {
                    devices.push(json!({ "kind": "VirtualDisk", "name": name }));
                    disks.push(disk(name, reclaim));
                    edit(world, templates(&devices, &disks)).await;
                }
            }
            Self::RemoveDiskTemplate(name) => {
                if let Some((mut devices, mut disks)) = disks_of(world) {
                    devices.retain(|device| device["name"] != *name);
                    disks.retain(|disk| disk["name"] != *name);
                    if !disks.is_empty() {
                        edit(world, templates(&devices, &disks)).await;
                    }
                }
            }
            Self::DeleteMachine(which) => delete(world, MACHINES, *which).await,
            Self::DeleteDisk(which) => {
                world.disk_deleted = true;
                delete(world, DISKS, *which).await;
            }
            Self::RemoveLabels(which) => {
                patch_machine(world, *which, json!({ "labels": { labels::POOL_UID: null } })).await;
            }
            Self::RemoveOwner(which) => {
                patch_machine(world, *which, json!({ "ownerReferences": null })).await;
            }
            Self::DeletePool(policy) => {
                let body = json!({ "propagationPolicy": policy });
                let call = world.call(Verb::Delete, "virtualmachinepools", POOL, "", body);
                _ = world.do_as_user(&call).await;
            }
            Self::RemoveTargets(removal) => remove(world, removal),
            Self::KillController(which) => world.kill(Program::Controller, *which),
            Self::KillApiserver(which) => world.kill(Program::Apiserver, *which),
            Self::PauseController(which) => world.pause(Program::Controller, *which),
            Self::PauseLeader => world.pause_leader(),
            Self::PauseApiserver(which) => world.pause(Program::Apiserver, *which),
            Self::DisconnectController(which) => world.disconnect(*which),
            Self::Resume => world.resume(),
            Self::SetWebhook(service) => *world.webhook.lock() = *service,
            Self::StepWallClock(which, seconds) => world.jump(*which, SignedDuration::from_secs(*seconds)),
            Self::DelayWatch(which, events) => pace(world, *which, WatchDelay::Behind(*events)),
            Self::HoldWatch(which) => pace(world, *which, WatchDelay::Held),
            Self::ReleaseWatches => world.server.release(),
            Self::CoalesceEvents(which) => {
                each(world, *which, |world, sender, resource| world.server.coalesce(sender, resource));
            }
            Self::RepeatEvent(which) => {
                each(world, *which, |world, sender, resource| world.server.repeat(sender, resource));
            }
            Self::EndWatch(which, expire) => {
                let how = if *expire { WatchEnd::Expire } else { WatchEnd::Close };
                each(world, *which, |world, sender, resource| {
                    world.server.end_watches(sender, resource, how);
                });
            }
            Self::CompactHistory => world.server.compact(),
            Self::SendBookmarks => world.server.bookmark(),
        }
    }
}

/// The devices and the disk templates of the pool.
fn disks_of(world: &World) -> Option<(Vec<Value>, Vec<Value>)> {
    let pool = world.server.get(POOLS, NAMESPACE, POOL)?;
    let list = |pointer: &str| pool.pointer(pointer)?.as_array().cloned();
    list("/spec/virtualMachineTemplate/spec/blockDeviceRefs").zip(list("/spec/virtualDiskTemplates"))
}

async fn edit(world: &mut World, spec: Value) {
    let call =
        world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", json!({ "spec": spec }));
    _ = world.do_as_user(&call).await;
}

async fn patch_machine(world: &mut World, which: usize, metadata: Value) {
    let Some((name, _)) = choose(world, MACHINES, which) else { return };
    let call = world.call(
        Verb::Patch(PatchKind::Merge),
        "virtualmachines",
        &name,
        "",
        json!({ "metadata": metadata }),
    );
    _ = world.do_as_user(&call).await;
}

async fn delete(world: &mut World, resource: &str, which: usize) {
    let Some((name, uid)) = choose(world, resource, which) else { return };
    world.user_actions.deleted.insert(uid);
    let plural = resource.split('.').next().unwrap_or_default();
    let call = world.call(Verb::Delete, plural, &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}

/// Name and UID of the selected object.
fn choose(world: &World, resource: &str, which: usize) -> Option<(String, String)> {
    let all = world.server.all(resource);
    let object = all.get(which.checked_rem(all.len())?)?;
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    text("name").zip(text("uid"))
}

/// Requests the removal of the selected machines of the pool, if it has any.
fn remove(world: &mut World, removal: &Removal) {
    let Some(pool) = world.server.get(POOLS, NAMESPACE, POOL) else { return };
    let machines = world.server.all(MACHINES);
    let members: Vec<Target> = machines
        .iter()
        .filter(|machine| machine["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"])
        .filter_map(|machine| {
            let text = |field: &str| machine["metadata"][field].as_str().map(str::to_owned);
            text("name").zip(text("uid")).map(|(name, uid)| Target { name, uid })
        })
        .collect();
    let mut targets: Vec<Target> = Vec::new();
    for which in &removal.targets {
        let target = which.checked_rem(members.len()).map(|which| &members[which]);
        targets.extend(target.filter(|target| !targets.contains(target)).cloned());
    }
    if !targets.is_empty() {
        world.start_removal(targets, POOL, removal.first, removal.pinned, removal.dry_run);
    }
}

/// Applies `act` to the watches of each controller on a resource.
fn each(world: &World, which: usize, act: impl Fn(&World, &str, &str)) {
    for sender in world.controllers() {
        act(world, &sender, WATCHED[which % WATCHED.len()]);
    }
}

fn pace(world: &World, which: usize, pace: WatchDelay) {
    each(world, which, |world, sender, resource| world.server.delay_watches(sender, resource, pace));
}
