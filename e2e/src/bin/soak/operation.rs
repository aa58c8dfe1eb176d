//! Operations of users.

use std::fmt;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use vmpool_api::{annotations, v1alpha2::API_VERSION};
use vmpool_e2e::world::{Deletion, World};
use vmpool_invariants::object::{Kind, Object};
use vmpool_runtime::testing::SeededRandom;
use vmpool_test_cluster::error::{Error, Result};

use crate::design::{Design, EXTRA, MOST, POOLS};

/// One operation of a user. Machines and disks are selected when it is performed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
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
    /// Returns to the revision before the last change, or to the template.
    Rollback,
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
    DeletePool(Deletion),
    /// Creates a deleted pool again.
    Create(u64),
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It succeeded.
    Done,
    /// It was refused.
    Refused,
    /// The outcome is unknown.
    Lost,
    /// There was no object for it.
    Idle,
}

impl Operation {
    /// A random operation.
    pub(crate) fn random(random: &SeededRandom) -> Self {
        match random.number(0..=99) {
            0..=23 => Self::Scale(random.number(0..=MOST)),
            24..=29 => Self::EditReplicas(random.number(0..=MOST)),
            30..=40 => Self::Remove(random.number(1..=3)),
            41..=47 => Self::Cores(random.number(1..=4)),
            48..=52 => Self::Label(random.number(0..=9)),
            53..=54 => Self::Grow(random.number(1..=8)),
            55..=57 => Self::AddDisk,
            58..=60 => Self::RemoveDisk,
            61..=62 => Self::Pause,
            63..=66 => Self::Unpause,
            67..=68 => Self::Budget(random.number(1..=3)),
            69..=70 => Self::Rollback,
            71..=75 => Self::Restart,
            76..=82 => Self::DeleteMachine,
            83..=85 => Self::DeleteDisk,
            86..=88 => Self::Relabel,
            89..=90 => Self::Disown,
            91 => Self::DeletePool(Deletion::Background),
            92 => Self::DeletePool(Deletion::Foreground),
            93 => Self::DeletePool(Deletion::Orphan),
            _ => Self::Create(random.number(0..=MOST)),
        }
    }

    /// Performs the operation on a pool.
    pub(crate) async fn perform(self, world: &World, design: &Design, random: &SeededRandom) -> Answer {
        let state = world.recorder().state();
        let pool = state.named(Kind::Pool, design.name);
        if let Self::Create(replicas) = self {
            return match pool {
                None => answer(world.post(Kind::Pool, &design.object(world, signed(replicas))).await),
                Some(_) => Answer::Idle,
            };
        }
        let Some(pool) = pool else { return Answer::Idle };
        let members = state.members(pool.uid());
        let member = || random.one(&members).copied();
        match self {
            Self::Scale(replicas) => {
                let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
                let api = world.api(Kind::Pool);
                let scaled = api.patch_scale(design.name, &PatchParams::default(), &patch).await;
                answer(scaled.map_err(Error::api("scaling")))
            }
            Self::EditReplicas(replicas) => edit(world, design, json!({ "replicas": replicas })).await,
            Self::Remove(count) => remove(world, design, &members, count, random).await,
            Self::Cores(cores) => {
                edit(world, design, template(&json!({ "spec": { "cpu": { "cores": cores } } }))).await
            }
            Self::Label(value) => {
                let labels = json!({ "metadata": { "labels": { "tier": value.to_string() } } });
                edit(world, design, template(&labels)).await
            }
            Self::Grow(times) => grow(world, pool, times * 64).await,
            Self::AddDisk => add_disk(world, pool).await,
            Self::RemoveDisk => remove_disk(world, pool).await,
            Self::Pause => edit(world, design, json!({ "rollout": { "paused": true } })).await,
            Self::Unpause => edit(world, design, json!({ "rollout": { "paused": null } })).await,
            Self::Budget(count) => {
                edit(world, design, json!({ "rollout": { "maxUnavailable": count } })).await
            }
            Self::Rollback => {
                let named = !pool.at("/spec/rollout/revision").is_null();
                let revision =
                    if named { Value::Null } else { pool.at("/status/desiredTemplateHash").clone() };
                edit(world, design, json!({ "rollout": { "revision": revision } })).await
            }
            Self::Restart => match member() {
                Some(machine) => operate(world, "Restart", machine).await,
                None => Answer::Idle,
            },
            Self::DeleteMachine => delete(world, Kind::Machine, member()).await,
            Self::DeleteDisk => {
                let free: Vec<&Object> =
                    state.owned_by(Kind::Disk, pool.uid()).filter(|disk| is_free(disk)).collect();
                delete(world, Kind::Disk, random.one(&free).copied()).await
            }
            Self::Relabel => {
                let label = vmpool_api::labels::POOL_UID;
                meddle(world, member(), json!({ "labels": { label: null } })).await
            }
            Self::Disown => meddle(world, member(), json!({ "ownerReferences": null })).await,
            Self::DeletePool(how) => delete_pool(world, pool, how).await,
            Self::Create(_) => Answer::Idle,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A random pool.
pub(crate) fn any_pool(random: &SeededRandom) -> &'static Design {
    random.one(&POOLS).unwrap_or(&POOLS[0])
}

/// Requests the platform to start, stop or restart a machine, and does not wait for it.
pub(crate) async fn operate(world: &World, operation: &str, machine: &Object) -> Answer {
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": Kind::Operation.name(),
        "metadata": { "generateName": format!("{}-", machine.name()), "namespace": world.namespace() },
        "spec": { "type": operation, "virtualMachineName": machine.name() },
    });
    answer(world.post(Kind::Operation, &object).await)
}

/// Deletes an object as a user, and records that for the checks.
pub(crate) async fn delete(world: &World, kind: Kind, object: Option<&Object>) -> Answer {
    let Some(object) = object else { return Answer::Idle };
    world.user_actions().deleted.insert(object.uid().to_owned());
    let uid = Some(object.uid().to_owned());
    let params = DeleteParams::background().preconditions(Preconditions { uid, ..Preconditions::default() });
    answer(world.api(kind).delete(object.name(), &params).await.map_err(Error::api("deleting")))
}

/// Requests a targeted removal of this number of machines.
pub(crate) async fn remove(
    world: &World,
    design: &Design,
    members: &[&Object],
    count: u64,
    random: &SeededRandom,
) -> Answer {
    let Ok(pool) = world.existing(design.name).await else { return Answer::Lost };
    let mut left: Vec<&Object> = members.iter().copied().filter(|member| !member.is_terminating()).collect();
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
        return Answer::Idle;
    }
    match removal.send_unchecked().await.code {
        200..=299 => Answer::Done,
        400..=499 => Answer::Refused,
        _ => Answer::Lost,
    }
}

async fn edit(world: &World, design: &Design, spec: Value) -> Answer {
    answer(world.patch(Kind::Pool, design.name, &json!({ "spec": spec })).await)
}

fn template(template: &Value) -> Value {
    json!({ "virtualMachineTemplate": template })
}

async fn meddle(world: &World, machine: Option<&Object>, metadata: Value) -> Answer {
    match machine {
        Some(machine) => {
            let patch = json!({ "metadata": metadata });
            answer(world.patch(Kind::Machine, machine.name(), &patch).await)
        }
        None => Answer::Idle,
    }
}

async fn delete_pool(world: &World, pool: &Object, how: Deletion) -> Answer {
    let params = match how {
        Deletion::Background => DeleteParams::background(),
        Deletion::Foreground => DeleteParams::foreground(),
        Deletion::Orphan => DeleteParams::orphan(),
    };
    answer(world.api(Kind::Pool).delete(pool.name(), &params).await.map_err(Error::api("deleting")))
}

/// The disk templates of a pool, and the devices of its machines.
fn disks_of(pool: &Object) -> (Vec<Value>, Vec<Value>) {
    let list = |pointer: &str| pool.at(pointer).as_array().cloned().unwrap_or_default();
    (list("/spec/virtualDiskTemplates"), list("/spec/virtualMachineTemplate/spec/blockDeviceRefs"))
}

async fn edit_disks(world: &World, pool: &Object, templates: Vec<Value>, devices: Vec<Value>) -> Answer {
    let spec = json!({
        "virtualDiskTemplates": templates, "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } } });
    answer(world.patch(Kind::Pool, pool.name(), &json!({ "spec": spec })).await)
}

async fn add_disk(world: &World, pool: &Object) -> Answer {
    let (mut templates, mut devices) = disks_of(pool);
    let Some(mut added) = templates.first().cloned().filter(|_| !has_extra(&templates)) else {
        return Answer::Idle;
    };
    added["name"] = json!(EXTRA);
    added["reclaim"] = json!({ "onScaleDown": "Retain", "keep": 0, "ttl": "5s" });
    templates.push(added);
    devices.push(json!({ "kind": "VirtualDisk", "name": EXTRA }));
    edit_disks(world, pool, templates, devices).await
}

/// Removes the added disk template, if there is one.
pub(crate) async fn remove_disk(world: &World, pool: &Object) -> Answer {
    let (mut templates, mut devices) = disks_of(pool);
    if !has_extra(&templates) {
        return Answer::Idle;
    }
    templates.retain(|template| template["name"] != EXTRA);
    devices.retain(|device| device["name"] != EXTRA);
    edit_disks(world, pool, templates, devices).await
}

fn has_extra(templates: &[Value]) -> bool {
    templates.iter().any(|template| template["name"] == EXTRA)
}

async fn grow(world: &World, pool: &Object, mib: u64) -> Answer {
    let (mut templates, devices) = disks_of(pool);
    let is_kept = |template: &Value| template.pointer("/reclaim/onScaleDown").is_some();
    let place = templates.iter().position(is_kept).unwrap_or_default();
    let Some(template) = templates.get_mut(place) else { return Answer::Idle };
    template["spec"]["persistentVolumeClaim"]["size"] = json!(format!("{mib}Mi"));
    edit_disks(world, pool, templates, devices).await
}

/// Whether the disk is free according to its annotations.
fn is_free(disk: &Object) -> bool {
    disk.annotation(annotations::FREE_SINCE).is_some() && !disk.is_terminating()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn answer<T>(result: Result<T>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) if error.status_code().is_some_and(|code| (400..500).contains(&code)) => Answer::Refused,
        Err(_) => Answer::Lost,
    }
}
