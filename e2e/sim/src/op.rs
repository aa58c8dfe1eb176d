//! What users and operators do, and what breaks apart from requests.

use std::fmt;

use jiff::SignedDuration;
use serde_json::{Value, json};
use vmpool_model::{Break, Pace, PatchKind, Verb};

use crate::world::World;

/// The pool that everything is about.
pub const POOL: &str = "web";

const MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";
const DISKS: &str = "virtualdisks.virtualization.deckhouse.io";
const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const WATCHED: [&str; 3] = [POOLS, MACHINES, DISKS];

/// One thing that happens. Objects and controllers are chosen by a number, of those that there are then.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A pool is made: so many machines, this policy, and these disk templates.
    Make(i64, &'static str, Vec<(&'static str, Value)>),
    /// `kubectl scale`.
    Scale(i64),
    /// Machines get so many cores.
    Cores(i64),
    /// The policy changes.
    Policy(&'static str),
    /// A disk template is added.
    AddDisk(&'static str, Value),
    /// A disk template is taken away.
    RemoveDisk(&'static str),
    /// Somebody deletes a machine.
    DeleteMachine(usize),
    /// Somebody deletes a disk.
    DeleteDisk(usize),
    /// Somebody takes our labels off a machine.
    Relabel(usize),
    /// Somebody takes a machine out of the pool.
    Disown(usize),
    /// The pool is deleted.
    DeletePool(&'static str),
    /// A controller dies.
    Kill(usize),
    /// A controller stands still.
    Pause(usize),
    /// All controllers go on.
    Resume,
    /// The wall clock of a controller jumps by so many seconds.
    Jump(usize, i64),
    /// Watches of all controllers on a resource are so many events behind.
    Behind(usize, usize),
    /// They hear nothing.
    Hold(usize),
    /// All watches catch up.
    Release,
    /// They hear of several changes as of one.
    Coalesce(usize),
    /// Connections of watches close, or are told that they are too old.
    Break(usize, bool),
    /// The server forgets its history.
    Compact,
    /// The server tells all watches how far they are.
    Bookmark,
}

impl Op {
    /// Does it.
    pub async fn perform(&self, world: &mut World) {
        match self {
            Self::Make(replicas, policy, disks) => {
                _ = world.create("virtualmachinepools", &pool(*replicas, policy, disks)).await;
            }
            Self::Scale(replicas) => {
                let patch = json!({ "spec": { "replicas": replicas } });
                let call =
                    world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "scale", patch);
                _ = world.do_as_user(&call).await;
            }
            Self::Cores(cores) => {
                edit(world, json!({ "virtualMachineTemplate": { "spec": { "cpu": { "cores": cores } } } }))
                    .await;
            }
            Self::Policy(policy) => edit(world, json!({ "scaleDownPolicy": policy })).await,
            Self::AddDisk(name, reclaim) => {
                let known = |disks: &[Value]| disks.iter().any(|disk| disk["name"] == *name);
                if let Some((mut devices, mut disks)) = disks_of(world).filter(|(_, disks)| !known(disks)) {
                    devices.push(json!({ "kind": "VirtualDisk", "name": name }));
                    disks.push(disk(name, reclaim));
                    edit(world, templates(&devices, &disks)).await;
                }
            }
            Self::RemoveDisk(name) => {
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
                world.harmed = true;
                delete(world, DISKS, *which).await;
            }
            Self::Relabel(which) => {
                meddle(
                    world,
                    *which,
                    json!({ "labels": { "vmpool.virtualization.deckhouse.io/pool-uid": null } }),
                )
                .await;
            }
            Self::Disown(which) => meddle(world, *which, json!({ "ownerReferences": null })).await,
            Self::DeletePool(policy) => {
                let body = json!({ "propagationPolicy": policy });
                let call = world.call(Verb::Delete, "virtualmachinepools", POOL, "", body);
                _ = world.do_as_user(&call).await;
            }
            Self::Kill(which) => world.kill(*which),
            Self::Pause(which) => world.pause(*which),
            Self::Resume => world.resume(),
            Self::Jump(which, seconds) => world.jump(*which, SignedDuration::from_secs(*seconds)),
            Self::Behind(which, events) => pace(world, *which, Pace::Behind(*events)),
            Self::Hold(which) => pace(world, *which, Pace::Held),
            Self::Release => {
                world.server.release();
                world.tell("all watches catch up");
            }
            Self::Coalesce(which) => {
                for who in world.controllers() {
                    world.server.coalesce(&who, WATCHED[which % WATCHED.len()]);
                }
            }
            Self::Break(which, expire) => {
                let how = if *expire { Break::Expire } else { Break::Close };
                for who in world.controllers() {
                    world.server.break_watches(&who, WATCHED[which % WATCHED.len()], how);
                }
                world.tell(format!("watches of {} break: {how:?}", WATCHED[which % WATCHED.len()]));
            }
            Self::Compact => {
                world.server.compact();
                world.tell("the server forgets its history");
            }
            Self::Bookmark => world.server.bookmark(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A disk template.
pub fn disk(name: &str, reclaim: &Value) -> Value {
    let mut disk = json!({
        "name": name,
        "spec": {
            "persistentVolumeClaim": { "size": "64Mi" },
            "dataSource": { "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "alpine" } },
        },
    });
    if !reclaim.is_null() {
        disk["reclaim"] = reclaim.clone();
    }
    disk
}

fn pool(replicas: i64, policy: &str, disks: &[(&'static str, Value)]) -> Value {
    let devices: Vec<Value> =
        disks.iter().map(|(name, _)| json!({ "kind": "VirtualDisk", "name": name })).collect();
    let disks: Vec<Value> = disks.iter().map(|(name, reclaim)| disk(name, reclaim)).collect();
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool", "metadata": { "name": POOL },
        "spec": {
            "replicas": replicas,
            "scaleDownPolicy": policy,
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": "generic",
                "cpu": { "cores": 1 },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": devices,
            } },
            "virtualDiskTemplates": disks,
        },
    })
}

fn templates(devices: &[Value], disks: &[Value]) -> Value {
    json!({ "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } }, "virtualDiskTemplates": disks })
}

/// The devices and the disk templates of the pool.
fn disks_of(world: &World) -> Option<(Vec<Value>, Vec<Value>)> {
    let pool = world.server.get(POOLS, crate::world::NAMESPACE, POOL)?;
    let list = |pointer: &str| pool.pointer(pointer)?.as_array().cloned();
    list("/spec/virtualMachineTemplate/spec/blockDeviceRefs").zip(list("/spec/virtualDiskTemplates"))
}

async fn edit(world: &mut World, spec: Value) {
    let call =
        world.call(Verb::Patch(PatchKind::Merge), "virtualmachinepools", POOL, "", json!({ "spec": spec }));
    _ = world.do_as_user(&call).await;
}

async fn meddle(world: &mut World, which: usize, metadata: Value) {
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
    world.grounds.named.insert(uid);
    let plural = resource.split('.').next().unwrap_or_default();
    let call = world.call(Verb::Delete, plural, &name, "", Value::Null);
    _ = world.do_as_user(&call).await;
}

/// Name and UID of an object.
fn choose(world: &World, resource: &str, which: usize) -> Option<(String, String)> {
    let all = world.server.all(resource);
    let object = all.get(which.checked_rem(all.len())?)?;
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    text("name").zip(text("uid"))
}

fn pace(world: &mut World, which: usize, pace: Pace) {
    let resource = WATCHED[which % WATCHED.len()];
    for who in world.controllers() {
        world.server.set_pace(&who, resource, pace);
    }
    world.tell(format!("watches of {resource}: {pace:?}"));
}
