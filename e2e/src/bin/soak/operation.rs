//! Operations of users.

use std::collections::BTreeSet;
use std::fmt;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION as KUBEVIRT;
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::world::{PoolDeletion, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::RecordedState;
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::{Error, Result};

use crate::design::{MAX_REPLICAS, SoakPoolConfig};
use crate::platform::soak_platform;

/// One operation of a user. Machines and disks are selected when it is performed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UserOperation {
    /// Changes `replicas` through the scale subresource.
    Scale(u64),
    /// Changes `replicas` in the object, possibly at the same time as another user.
    EditReplicas(u64),
    /// Requests a targeted removal of this number of machines.
    Remove(u64),
    /// Changes a template field that needs a restart.
    Cores(u64),
    /// Changes a template field that needs no restart.
    Label(u64),
    /// Expands the retained disks, or those of the first template.
    Grow(u64),
    /// Adds a disk template.
    AddDisk,
    /// Removes the added disk template.
    RemoveDisk,
    /// Pauses rollouts.
    Pause,
    /// Resumes rollouts.
    Unpause,
    /// Sets `maxUnavailable`.
    Budget(u64),
    /// Returns to the revision before the last change, or changes the strategy; or back.
    OtherRollout,
    /// Restarts a machine.
    Restart,
    /// Deletes a machine.
    DeleteMachine,
    /// Deletes a free disk.
    DeleteDisk,
    /// Removes the controller's labels from a machine.
    Relabel,
    /// Removes a machine's owner reference.
    Disown,
    /// Deletes the pool.
    DeletePool(PoolDeletion),
    /// Creates a deleted pool again.
    Create(u64),
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationResult {
    /// It succeeded.
    Done,
    /// It was refused.
    Refused,
    /// The outcome is unknown.
    Unconfirmed,
    /// There was no object for it.
    NoTarget,
}

impl UserOperation {
    /// A random operation.
    pub(crate) fn random(random: &SeededRandom) -> Self {
        match random.number(0..=99) {
            0..=23 => Self::Scale(random.number(0..=MAX_REPLICAS)),
            24..=29 => Self::EditReplicas(random.number(0..=MAX_REPLICAS)),
            30..=40 => Self::Remove(random.number(1..=3)),
            41..=47 => Self::Cores(random.number(1..=4)),
            48..=52 => Self::Label(random.number(0..=9)),
            53..=54 => Self::Grow(random.number(1..=8)),
            55..=57 => Self::AddDisk,
            58..=60 => Self::RemoveDisk,
            61..=62 => Self::Pause,
            63..=66 => Self::Unpause,
            67..=68 => Self::Budget(random.number(1..=3)),
            69..=70 => Self::OtherRollout,
            71..=75 => Self::Restart,
            76..=82 => Self::DeleteMachine,
            83..=85 => Self::DeleteDisk,
            86..=88 => Self::Relabel,
            89..=90 => Self::Disown,
            91 => Self::DeletePool(PoolDeletion::Background),
            92 => Self::DeletePool(PoolDeletion::Foreground),
            93 => Self::DeletePool(PoolDeletion::Orphan),
            _ => Self::Create(random.number(0..=MAX_REPLICAS)),
        }
    }

    /// Performs the operation on a pool.
    pub(crate) async fn perform(
        self,
        world: &ScenarioWorld,
        design: &SoakPoolConfig,
        random: &SeededRandom,
    ) -> OperationResult {
        let spelling = soak_platform(world.platform());
        let state = world.recorder().state();
        let pool = state.named(TestedKind::Pool, design.name);
        if let Self::Create(replicas) = self {
            return match pool {
                None => answer(
                    world.post(TestedKind::Pool, &spelling.object(world, design, signed(replicas))).await,
                ),
                Some(_) => OperationResult::NoTarget,
            };
        }
        let Some(pool) = pool else { return OperationResult::NoTarget };
        let machines = state.machines_of_pool(pool.uid());
        let machine = || random.one(&machines).copied();
        match self {
            Self::Scale(replicas) => {
                let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
                let api = world.api(TestedKind::Pool);
                let scaled = api.patch_scale(design.name, &PatchParams::default(), &patch).await;
                answer(scaled.map_err(Error::api("scaling")))
            }
            Self::EditReplicas(replicas) => edit(world, design, json!({ "replicas": replicas })).await,
            Self::Remove(count) => {
                let targets = [TargetReference::Name, TargetReference::NameAndUid];
                let target = random.one(&targets).copied().unwrap_or(TargetReference::Name);
                request_targeted_removal(world, design, &machines, count, target, random).await
            }
            Self::Cores(cores) => edit(world, design, spelling.cores(cores)).await,
            Self::Label(value) => {
                let labels = json!({ "metadata": { "labels": { "tier": value.to_string() } } });
                edit(world, design, json!({ "virtualMachineTemplate": labels })).await
            }
            Self::Grow(times) => edit_if(world, design, spelling.disk_size(pool, times * 64)).await,
            Self::AddDisk => edit_if(world, design, spelling.with_disk(pool)).await,
            Self::RemoveDisk => edit_if(world, design, spelling.without_disk(pool)).await,
            Self::Pause => edit(world, design, spelling.paused(true)).await,
            Self::Unpause => edit(world, design, spelling.paused(false)).await,
            Self::Budget(count) => edit(world, design, spelling.disruption_budget(count)).await,
            Self::OtherRollout => edit(world, design, spelling.other_rollout(pool)).await,
            Self::Restart => restart(world, machine()).await,
            Self::DeleteMachine => delete_as_user(world, TestedKind::Machine, machine()).await,
            Self::DeleteDisk => {
                let references = referenced_disks(&state);
                let free: Vec<&JsonObject> = state
                    .all(TestedKind::Disk)
                    .filter(|disk| spelling.is_free(disk) && !references.contains(disk.name()))
                    .collect();
                delete_as_user(world, TestedKind::Disk, random.one(&free).copied()).await
            }
            Self::Relabel => meddle(world, machine(), json!({ "labels": spelling.relabeled() })).await,
            Self::Disown => meddle(world, machine(), json!({ "ownerReferences": null })).await,
            Self::DeletePool(how) => delete_pool(world, pool, how).await,
            Self::Create(_) => OperationResult::NoTarget,
        }
    }
}

impl fmt::Display for UserOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Names of the disks that machines refer to.
pub(crate) fn referenced_disks(state: &RecordedState) -> BTreeSet<&str> {
    state.all(TestedKind::Machine).flat_map(JsonObject::disk_references).collect()
}

/// A random pool.
pub(crate) fn any_pool(world: &ScenarioWorld, random: &SeededRandom) -> &'static SoakPoolConfig {
    let pools = soak_platform(world.platform()).pools();
    random.one(pools).unwrap_or(&pools[0])
}

/// Restarts a machine as a user does. With KubeVirt, the platform starts the guest again when its instance is
/// gone.
async fn restart(world: &ScenarioWorld, machine: Option<&JsonObject>) -> OperationResult {
    let Some(machine) = machine else { return OperationResult::NoTarget };
    if world.platform() == TestedPlatform::Dvp {
        return request_machine_operation(world, "Restart", machine).await;
    }
    let path = format!(
        "/apis/{KUBEVIRT}/namespaces/{}/virtualmachineinstances/{}",
        world.namespace(),
        machine.name()
    );
    let request = http::Request::delete(path).body(b"{}".to_vec());
    let Ok(request) = request else { return OperationResult::Unconfirmed };
    let deleted = world.client().request::<Value>(request).await;
    answer(deleted.map_err(Error::api("restarting")))
}

/// Requests the platform to start, stop or restart a machine, and does not wait for it.
pub(crate) async fn request_machine_operation(
    world: &ScenarioWorld,
    operation: &str,
    machine: &JsonObject,
) -> OperationResult {
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": TestedKind::Operation.name(),
        "metadata": { "generateName": format!("{}-", machine.name()), "namespace": world.namespace() },
        "spec": { "type": operation, "virtualMachineName": machine.name() },
    });
    answer(world.post(TestedKind::Operation, &object).await)
}

/// Deletes an object as a user, and records that for the checks. A disk is deleted only while it is as the
/// user has seen it: a machine may have begun to use it.
pub(crate) async fn delete_as_user(
    world: &ScenarioWorld,
    kind: TestedKind,
    object: Option<&JsonObject>,
) -> OperationResult {
    let Some(object) = object else { return OperationResult::NoTarget };
    world.user_actions().deleted.insert(object.uid().to_owned());
    let uid = Some(object.uid().to_owned());
    let resource_version = (kind == TestedKind::Disk)
        .then(|| object.at("/metadata/resourceVersion").as_str().map(str::to_owned));
    let preconditions = Preconditions { uid, resource_version: resource_version.flatten() };
    let params = DeleteParams::background().preconditions(preconditions);
    answer(world.api(kind).delete(object.name(), &params).await.map_err(Error::api("deleting")))
}

/// How a targeted removal refers to its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetReference {
    /// By name alone. The request is refused if an earlier one removed another machine of this name: pools of
    /// `KubeVirt` use the ordinals of removed machines again.
    Name,
    /// By name and UID.
    NameAndUid,
}

/// Requests a targeted removal of this number of machines.
pub(crate) async fn request_targeted_removal(
    world: &ScenarioWorld,
    design: &SoakPoolConfig,
    machines: &[&JsonObject],
    count: u64,
    target: TargetReference,
    random: &SeededRandom,
) -> OperationResult {
    let Ok(pool) = world.existing(design.name).await else { return OperationResult::Unconfirmed };
    let mut left: Vec<&JsonObject> =
        machines.iter().copied().filter(|machine| !machine.is_terminating()).collect();
    let mut removal = pool.removal();
    let mut named = 0;
    while named < count
        && let Some(machine) = random.one(&left).copied()
    {
        left.retain(|other| other.uid() != machine.uid());
        removal = removal.target(machine);
        named += 1;
    }
    if named == 0 {
        return OperationResult::NoTarget;
    }
    if target == TargetReference::NameAndUid {
        removal = removal.pinned();
    }
    match removal.send_unchecked().await.code {
        200..=299 => OperationResult::Done,
        400..=499 => OperationResult::Refused,
        _ => OperationResult::Unconfirmed,
    }
}

async fn edit(world: &ScenarioWorld, design: &SoakPoolConfig, spec: Value) -> OperationResult {
    answer(world.patch(TestedKind::Pool, design.name, &json!({ "spec": spec })).await)
}

async fn edit_if(world: &ScenarioWorld, design: &SoakPoolConfig, spec: Option<Value>) -> OperationResult {
    match spec {
        Some(spec) => edit(world, design, spec).await,
        None => OperationResult::NoTarget,
    }
}

async fn meddle(world: &ScenarioWorld, machine: Option<&JsonObject>, metadata: Value) -> OperationResult {
    match machine {
        Some(machine) => {
            let patch = json!({ "metadata": metadata });
            answer(world.patch(TestedKind::Machine, machine.name(), &patch).await)
        }
        None => OperationResult::NoTarget,
    }
}

async fn delete_pool(world: &ScenarioWorld, pool: &JsonObject, how: PoolDeletion) -> OperationResult {
    let params = match how {
        PoolDeletion::Background => DeleteParams::background(),
        PoolDeletion::Foreground => DeleteParams::foreground(),
        PoolDeletion::Orphan => DeleteParams::orphan(),
    };
    answer(world.api(TestedKind::Pool).delete(pool.name(), &params).await.map_err(Error::api("deleting")))
}

/// Removes the added disk template, if there is one.
pub(crate) async fn remove_disk(
    world: &ScenarioWorld,
    design: &SoakPoolConfig,
    pool: &JsonObject,
) -> OperationResult {
    edit_if(world, design, soak_platform(world.platform()).without_disk(pool)).await
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn answer<T>(result: Result<T>) -> OperationResult {
    match result {
        Ok(_) => OperationResult::Done,
        Err(error) if error.status_code().is_some_and(|code| (400..500).contains(&code)) => {
            OperationResult::Refused
        }
        Err(_) => OperationResult::Unconfirmed,
    }
}
