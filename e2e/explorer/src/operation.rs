//! Operations of users and operators, and faults that do not belong to a single request.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use vmpool_model::{PatchKind, Verb, WatchDelay, WatchEnd};

use crate::admission_policy::{self, AdmissionPolicyEffect};
use crate::attempt::MachineToRemove;
use crate::edits;
use crate::instance::SimulatedProgram;
use crate::manifest::POOL;
use crate::operation_autoscaler::AutoscalerOperation;
use crate::operation_health::HealthOperation;
use crate::operation_image::ImageOperation;
use crate::operation_kubevirt::KubeVirtOperation;
use crate::operation_protection::ProtectionOperation;
use crate::operation_recycling::RecyclingOperation;
use crate::operation_standby::StandbyOperation;
use crate::operation_tenant::TenantOperation;
use crate::requests::{choose_object, delete_selected_object, patch_machine, patch_pool_spec};
use crate::webhook::WebhookState;
use crate::world::{NAMESPACE, SimulatedWorld};

/// One step. Numbers select an object or a process among those that exist at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleOperation {
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
    /// A client takes all machines away from the pool.
    TakeMachines,
    /// An administrator creates an admission policy, or deletes it.
    SetPolicy(AdmissionPolicyEffect),
    /// A client requests a targeted removal.
    RemoveTargets(RemovalOperation),
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
    /// Webhooks of other owners delay each write by this number of seconds. The write takes effect, also if
    /// its sender has given up by then.
    SlowAdmission(u64),
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
    /// An operation that only pools of KubeVirt have.
    KubeVirt(KubeVirtOperation),
    /// An operation about protection and claims.
    Protection(ProtectionOperation),
    /// An operation about healing and lost nodes.
    Health(HealthOperation),
    /// An operation about the replacement of machines.
    Recycling(RecyclingOperation),
    /// An operation about standby machines.
    Standby(StandbyOperation),
    /// An operation about autoscalers.
    Autoscaler(AutoscalerOperation),
    /// An operation about disk images and wrappers.
    Image(ImageOperation),
    /// An operation of a tenant of another namespace.
    Tenant(TenantOperation),
}

/// A targeted removal.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovalOperation {
    /// Indexes of the machines.
    pub targets: Vec<usize>,
    /// The replica that receives the first attempt.
    pub first: usize,
    /// Whether the request also contains the UIDs.
    pub pinned: bool,
    /// Whether the request also removes protected machines.
    pub forced: bool,
    /// Whether the request is a dry run.
    pub dry_run: bool,
}

impl ScheduleOperation {
    /// Whether the operation needs replicas of the aggregated API.
    pub fn uses_api(&self) -> bool {
        match self {
            // An autoscaler removes machines of Explicit pools by name.
            Self::RemoveTargets(_)
            | Self::KillApiserver(_)
            | Self::PauseApiserver(_)
            | Self::Autoscaler(_) => true,
            Self::Protection(operation) => operation.uses_api(),
            _ => false,
        }
    }

    /// Performs the operation.
    pub async fn perform(&self, world: &mut SimulatedWorld) {
        match self {
            Self::CreatePool(replicas, policy, disks) => {
                let pool = edits::pool_for_world(world, *replicas, policy, disks);
                world.create("virtualmachinepools", pool).await;
            }
            Self::Scale(replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                let call =
                    world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "scale", patch);
                _ = world.do_as_user(&call).await;
            }
            Self::SetCores(cores) => patch_pool_spec(world, edits::spec_with_cores(world, *cores)).await,
            Self::SetScaleDownPolicy(policy) => {
                patch_pool_spec(world, edits::scale_down_policy_spec(world, policy)).await;
            }
            Self::AddDiskTemplate(name, reclaim) => {
                if let Some(spec) = edits::add_disk(world, name, reclaim) {
                    patch_pool_spec(world, spec).await;
                }
            }
            Self::RemoveDiskTemplate(name) => {
                if let Some(spec) = edits::remove_disk(world, name) {
                    patch_pool_spec(world, spec).await;
                }
            }
            Self::DeleteMachine(which) => {
                delete_selected_object(world, world.resources().machines, *which).await;
            }
            Self::DeleteDisk(which) => {
                world.some_may_not_run = true;
                let disks = world.resources().disks;
                world.deleted_disks.extend(choose_object(world, disks, *which).map(|(name, _)| name));
                delete_selected_object(world, disks, *which).await;
            }
            Self::TakeMachines => admission_policy::detach_all_machines(world).await,
            Self::SetPolicy(policy) => admission_policy::set_policy(world, *policy),
            Self::RemoveLabels(which) => {
                world.user_actions.taken += 1;
                patch_machine(world, *which, edits::without_labels(world.platform())).await;
            }
            Self::RemoveOwner(which) => {
                world.user_actions.taken += 1;
                patch_machine(world, *which, json!({ "metadata": { "ownerReferences": null } })).await;
            }
            Self::DeletePool(policy) => {
                let body = json!({ "propagationPolicy": policy });
                let call = world.call(Verb::Delete, "virtualmachinepools", POOL, "", body);
                _ = world.do_as_user(&call).await;
            }
            Self::RemoveTargets(removal) => remove(world, removal),
            Self::KillController(which) => world.kill(SimulatedProgram::Controller, *which),
            Self::KillApiserver(which) => world.kill(SimulatedProgram::Apiserver, *which),
            Self::PauseController(which) => world.pause(SimulatedProgram::Controller, *which),
            Self::PauseLeader => world.pause_leader(),
            Self::PauseApiserver(which) => world.pause(SimulatedProgram::Apiserver, *which),
            Self::DisconnectController(which) => world.disconnect(*which),
            Self::Resume => world.resume(),
            Self::SetWebhook(service) => *world.webhook.lock() = *service,
            Self::SlowAdmission(seconds) => {
                world.injector.lock().admission = Duration::from_secs(*seconds);
            }
            Self::StepWallClock(which, seconds) => world.jump(*which, SignedDuration::from_secs(*seconds)),
            Self::DelayWatch(which, events) => {
                delay_controller_watch(world, *which, WatchDelay::Behind(*events));
            }
            Self::HoldWatch(which) => delay_controller_watch(world, *which, WatchDelay::Held),
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
            Self::KubeVirt(operation) => operation.perform(world).await,
            Self::Protection(operation) => operation.perform(world).await,
            Self::Health(operation) => operation.perform(world).await,
            Self::Recycling(operation) => operation.perform(world).await,
            Self::Standby(operation) => operation.perform(world).await,
            Self::Autoscaler(operation) => operation.perform(world).await,
            Self::Image(operation) => operation.perform(world).await,
            Self::Tenant(operation) => operation.perform(world).await,
        }
    }
}

/// Requests the removal of the selected machines of the pool, if it has any.
fn remove(world: &mut SimulatedWorld, removal: &RemovalOperation) {
    let Some(pool) = world.server.get(world.resources().pools, NAMESPACE, POOL) else { return };
    let machines = world.server.all(world.resources().machines);
    let candidates: Vec<MachineToRemove> = machines
        .iter()
        // A machine of the tenant can name the pool as its owner.
        .filter(|machine| machine["metadata"]["namespace"] == NAMESPACE)
        .filter(|machine| machine["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"])
        .filter_map(|machine| {
            let text = |field: &str| machine["metadata"][field].as_str().map(str::to_owned);
            text("name").zip(text("uid")).map(|(name, uid)| MachineToRemove { name, uid })
        })
        .collect();
    let mut targets: Vec<MachineToRemove> = Vec::new();
    for which in &removal.targets {
        let target = which.checked_rem(candidates.len()).map(|which| &candidates[which]);
        targets.extend(target.filter(|target| !targets.contains(target)).cloned());
    }
    if !targets.is_empty() {
        world.start_removal(targets, removal);
    }
}

/// Applies `act` to the watches of each controller on a resource.
fn each(world: &SimulatedWorld, which: usize, act: impl Fn(&SimulatedWorld, &str, &str)) {
    let watched = world.resources().watched;
    for sender in world.controllers() {
        act(world, &sender, watched[which % watched.len()]);
    }
}

fn delay_controller_watch(world: &SimulatedWorld, which: usize, pace: WatchDelay) {
    each(world, which, |world, sender, resource| world.server.delay_watches(sender, resource, pace));
}
