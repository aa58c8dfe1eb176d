//! What users do with a pool, and the state in which it ends.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::POOL_API_VERSION;
use vmpool_e2e::crash::Successor;
use vmpool_installation::fault_proxy::WatchFault;

use crate::healing::fail;
use crate::pins::{small, write};
use crate::pools::{memory, spec};
use crate::storage_preservation::larger;
use crate::updates::start;
use crate::world::{KubeVirtWorld, has_finalizer};

pub(super) const POOL: &str = "p";
const DATA_VOLUME: (&str, &str) = ("cdi.kubevirt.io/v1beta1", "DataVolume");

/// What a user does with a settled pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrashStep {
    /// The pool is created with two machines.
    Create,
    /// As `Create`, with a template that names an instance type and a preference.
    CreateTyped,
    /// Two of three machines are removed, and their storage is preserved.
    ScaleIn,
    /// Both machines get more memory and restart one after the other.
    Update,
    /// As `Update`, with the run strategy `Manual`: the controller requests the restarts in the status of the
    /// machines.
    UpdateManual,
    /// The instance type changes, and both machines get it.
    UpdateTyped,
    /// The DataVolume template changes, and new machines with new storage replace both machines.
    ReplaceStorage,
    /// A user deletes a machine, and the next one with its name uses its storage.
    LoseMachine,
    /// A machine does not start, and a new one with new storage replaces it.
    Heal,
    /// A user changes the labels of a machine, so that the controller releases it.
    Release,
    /// A user removes the owner reference of a machine.
    Detach,
    /// A user gives a detached machine back to the pool.
    Return,
    /// A client removes a machine by name.
    Remove,
    /// The pool is deleted.
    Delete,
    /// The pool is deleted, and its machines stay.
    Orphan,
}

impl CrashStep {
    pub(super) fn spec(self) -> Value {
        let mut spec = spec(if matches!(self, Self::ScaleIn | Self::Remove) { 3 } else { 2 });
        spec["maxUnavailable"] = json!(1);
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        let machine = &mut spec["virtualMachineTemplate"]["spec"];
        if self.is_typed() {
            machine["instancetype"] = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
            machine["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
            for size in ["cpu", "memory"] {
                machine["template"]["spec"]["domain"][size] = Value::Null;
            }
        }
        if self == Self::UpdateManual {
            machine["runStrategy"] = json!("Manual");
        }
        if self == Self::Heal {
            spec["autohealing"] = json!({ "startUpFailureThreshold": 1 });
        }
        spec
    }

    /// The name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::CreateTyped => "create typed",
            Self::ScaleIn => "scale in",
            Self::Update => "update",
            Self::UpdateManual => "update manual",
            Self::UpdateTyped => "update typed",
            Self::ReplaceStorage => "replace storage",
            Self::LoseMachine => "lose machine",
            Self::Heal => "heal",
            Self::Release => "release",
            Self::Detach => "detach",
            Self::Return => "return",
            Self::Remove => "remove",
            Self::Delete => "delete",
            Self::Orphan => "orphan",
        }
    }

    /// The watch fault of the default run.
    pub(super) fn watch_fault(self) -> WatchFault {
        match self {
            Self::Create | Self::CreateTyped | Self::Heal => WatchFault::Behind(3),
            Self::ScaleIn | Self::Remove | Self::Detach => WatchFault::Lost(2),
            Self::Update | Self::UpdateManual | Self::UpdateTyped | Self::Release => WatchFault::Silent,
            Self::LoseMachine | Self::ReplaceStorage => WatchFault::Expired(1),
            Self::Delete | Self::Orphan | Self::Return => WatchFault::Refused,
        }
    }

    /// The successor of the default run.
    pub(super) fn successor(self) -> Successor {
        match self {
            Self::Create
            | Self::ScaleIn
            | Self::UpdateTyped
            | Self::LoseMachine
            | Self::Release
            | Self::Return
            | Self::Delete => Successor::Restarted,
            Self::CreateTyped
            | Self::Update
            | Self::UpdateManual
            | Self::ReplaceStorage
            | Self::Heal
            | Self::Detach
            | Self::Remove
            | Self::Orphan => Successor::Standby,
        }
    }

    /// Whether the template names an instance type and a preference.
    fn is_typed(self) -> bool {
        matches!(self, Self::CreateTyped | Self::UpdateTyped)
    }

    /// Whether the garbage collector must know the kinds of KubeVirt before the step: it processes a
    /// foreground deletion and an orphaned pool.
    pub(super) fn needs_garbage_collector(self) -> bool {
        matches!(self, Self::Heal | Self::ReplaceStorage | Self::Orphan)
    }

    /// The memory of the instances after the step, if it is checked.
    fn memory(self) -> Option<&'static str> {
        match self {
            Self::CreateTyped => Some("1Gi"),
            Self::Update | Self::UpdateManual => Some("2Gi"),
            Self::UpdateTyped => Some("3Gi"),
            _ => None,
        }
    }

    /// The machines after the step.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::ScaleIn => &["p-0"],
            Self::Release | Self::Detach | Self::Return => &["p-0", "p-1", "p-2"],
            Self::Remove => &["p-0", "p-2"],
            Self::Delete => &[],
            _ => &["p-0", "p-1"],
        }
    }

    /// The machines after the step that do not belong to a pool.
    fn free(self) -> &'static [&'static str] {
        match self {
            Self::Release | Self::Detach => &["p-1"],
            Self::Orphan => self.names(),
            _ => &[],
        }
    }

    /// The machines that the step replaces.
    fn replaced(self) -> &'static [&'static str] {
        match self {
            Self::LoseMachine | Self::Heal => &["p-1"],
            Self::ReplaceStorage => &["p-0", "p-1"],
            _ => &[],
        }
    }

    /// The machines that the step replaces with new storage.
    fn discarded(self) -> &'static [&'static str] {
        if self == Self::LoseMachine { &[] } else { self.replaced() }
    }

    /// The machines that the controller deletes.
    pub(super) fn deleted(self) -> &'static [&'static str] {
        match self {
            Self::ScaleIn => &["p-1", "p-2"],
            Self::Remove => &["p-1"],
            _ => self.discarded(),
        }
    }

    pub(super) async fn prepare(self, world: &KubeVirtWorld<'_>) -> Result<()> {
        if self.is_typed() {
            small(world, "1Gi").await?;
            write(world, "VirtualMachinePreference", "linux", json!({})).await?;
        }
        if matches!(self, Self::Create | Self::CreateTyped) {
            return Ok(());
        }
        world.create(POOL, &self.spec()).await?;
        let names: &[&str] = if matches!(self, Self::ScaleIn | Self::Remove) {
            &["p-0", "p-1", "p-2"]
        } else {
            &["p-0", "p-1"]
        };
        if self == Self::UpdateManual {
            for name in names {
                start(world, name).await?;
            }
        }
        world.until_ready(names).await?;
        world.until_status(POOL, names.len()).await?;
        if self == Self::Return {
            detach(world).await?;
            until_free(world, &["p-1"]).await?;
            world.until_ready(&["p-0", "p-1", "p-2"]).await?;
            // The pool has a place for the machine only once it continues.
            world.patch(POOL, &json!({ "spec": { "paused": true, "replicas": 3 } })).await?;
            world.until_condition(POOL, "ReplicaPaused", "").await?;
        }
        Ok(())
    }

    pub(super) async fn begin(self, world: &KubeVirtWorld<'_>) -> Result<()> {
        match self {
            Self::Create | Self::CreateTyped => world.create(POOL, &self.spec()).await,
            Self::ScaleIn => world.patch(POOL, &json!({ "spec": { "replicas": 1 } })).await.map(drop),
            Self::Update | Self::UpdateManual => world.patch(POOL, &memory("2Gi")).await.map(drop),
            Self::UpdateTyped => {
                small(world, "3Gi").await?;
                let annotations = json!({ "vmpool.dev/refresh-instancetype": "1" });
                let patch = json!({ "spec": { "virtualMachineTemplate": { "metadata": { "annotations": annotations } } } });
                world.patch(POOL, &patch).await.map(drop)
            }
            Self::ReplaceStorage => world.patch(POOL, &larger(&self.spec())).await.map(drop),
            Self::LoseMachine => world.delete_machine("p-1").await,
            // It fails until it is replaced.
            Self::Heal => fail(world, "p-1", "fail-start", "1000").await,
            Self::Release => {
                world.patch_machine("p-1", &json!({ "metadata": { "labels": { "farm": "other" } } })).await
            }
            Self::Detach => detach(world).await,
            Self::Return => {
                give_back(world).await?;
                world.patch(POOL, &json!({ "spec": { "paused": false } })).await.map(drop)
            }
            Self::Remove => remove(world).await,
            Self::Delete => world.delete_pool(POOL, "Background").await,
            Self::Orphan => world.delete_pool(POOL, "Orphan").await,
        }
    }

    /// Waits until the step has completed.
    pub(super) async fn end(self, world: &KubeVirtWorld<'_>, before: &ObjectUids) -> Result<()> {
        if self == Self::Delete {
            return until_gone(world).await;
        }
        world
            .until(&format!("{} has completed", self.name()), async || {
                let instances = world.instances().await?;
                let updated = |name: &str| {
                    let memory = &instances[name]["spec"]["domain"]["memory"]["guest"];
                    self.memory().is_none_or(|expected| memory == expected)
                };
                let machines = world.machines().await?;
                let is_other = |name: &&str| {
                    machines.get(*name).is_some_and(|machine| uid(machine) != before.machines[*name])
                };
                let done = machines.keys().eq(self.names().iter().copied())
                    && instances.keys().eq(self.names().iter().copied())
                    && machines.values().all(|machine| machine["status"]["ready"] == true)
                    && self.names().iter().all(|name| updated(name));
                Ok((done && self.replaced().iter().all(is_other)).then_some(()))
            })
            .await?;
        until_free(world, self.free()).await?;
        if self == Self::Orphan {
            until_no_pool(world).await?;
        } else {
            world.until_status(POOL, self.names().len() - self.free().len()).await?;
        }
        if self.is_typed() {
            have_the_same_copies(world).await?;
        }
        self.check_machines(world).await?;
        let after = ObjectUids::of(world).await?;
        for (name, uid) in &before.machines {
            let stays = self.names().contains(&&**name) && !self.replaced().contains(&&**name);
            ensure!(!stays || after.machines[name] == *uid, "machine {name} was replaced");
        }
        for (name, uid) in &before.volumes {
            let is_new =
                self.discarded().iter().any(|machine| name.trim_start_matches("scratch") == &machine[1..]);
            let now = after.volumes.get(name).with_context(|| format!("the storage {name} is lost"))?;
            ensure!((now != uid) == is_new, "the storage {name} is new: {}, expected: {is_new}", now != uid);
        }
        Ok(())
    }

    /// Every machine of the pool has owner and finalizer, and every other one neither.
    async fn check_machines(self, world: &KubeVirtWorld<'_>) -> Result<()> {
        for (name, machine) in world.machines().await? {
            let belongs = !self.free().contains(&&*name);
            let owned = machine["metadata"]["ownerReferences"][0]["name"] == POOL;
            ensure!(owned == belongs && has_finalizer(&machine) == belongs, "{name}: {machine:#}");
        }
        Ok(())
    }
}

/// Removes the owner reference of `p-1`.
async fn detach(world: &KubeVirtWorld<'_>) -> Result<()> {
    world.patch_machine("p-1", &json!({ "metadata": { "ownerReferences": null } })).await
}

/// Makes the pool the owner of `p-1` again.
async fn give_back(world: &KubeVirtWorld<'_>) -> Result<()> {
    let pool = world.pool(POOL).await?;
    let owner = json!({
        "apiVersion": POOL_API_VERSION, "kind": "VirtualMachinePool", "name": POOL,
        "uid": pool["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    world.patch_machine("p-1", &json!({ "metadata": { "ownerReferences": [owner] } })).await
}

/// Removes `p-1` through the aggregated API.
async fn remove(world: &KubeVirtWorld<'_>) -> Result<()> {
    let target = uid(&world.machines().await?["p-1"]);
    world.user_actions().request_removal(std::slice::from_ref(&target));
    let path = format!(
        "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/{}/virtualmachinepools/{POOL}/scaledownwith",
        world.place.namespace
    );
    world.place.ask(Method::POST, &path, &json!({ "targets": ["p-1"] })).await?;
    world.user_actions().completed_removals.insert(target, "p-1".to_owned());
    Ok(())
}

/// Waits until these machines have neither owner nor finalizer.
async fn until_free(world: &KubeVirtWorld<'_>, names: &[&str]) -> Result<()> {
    world
        .until(&format!("{names:?} belong to no pool"), async || {
            let machines = world.machines().await?;
            let is_free = |name: &&str| {
                machines.get(*name).is_some_and(|machine| {
                    machine["metadata"]["ownerReferences"].is_null() && !has_finalizer(machine)
                })
            };
            Ok(names.iter().all(is_free).then_some(()))
        })
        .await
}

/// All machines of a revision use the same copies.
async fn have_the_same_copies(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut copies = BTreeMap::new();
    for machine in world.machines().await?.values() {
        let revision = machine["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"].to_string();
        let used =
            ["instancetype", "preference"].map(|family| machine["spec"][family]["revisionName"].clone());
        ensure!(used.iter().all(Value::is_string), "{machine}");
        let first = copies.entry(revision).or_insert_with(|| used.clone());
        ensure!(*first == used, "machines of one revision use {first:?} and {used:?}");
    }
    Ok(())
}

pub(super) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The UIDs of the machines and DataVolumes, by name.
#[derive(Default)]
pub(super) struct ObjectUids {
    pub(super) machines: BTreeMap<String, String>,
    pub(super) volumes: BTreeMap<String, String>,
}

impl ObjectUids {
    pub(super) async fn of(world: &KubeVirtWorld<'_>) -> Result<Self> {
        let uids = |objects: BTreeMap<String, Value>| {
            objects.into_iter().map(|(name, object)| (name, uid(&object))).collect()
        };
        let volumes = world.all(DATA_VOLUME.0, DATA_VOLUME.1).await?;
        Ok(Self { machines: uids(world.machines().await?), volumes: uids(volumes) })
    }
}

async fn until_no_pool(world: &KubeVirtWorld<'_>) -> Result<()> {
    world
        .until("no pool is left", async || {
            Ok(world.all(POOL_API_VERSION, "VirtualMachinePool").await?.is_empty().then_some(()))
        })
        .await
}

/// Waits until nothing of the pool is left. Preserved storage belongs to users.
async fn until_gone(world: &KubeVirtWorld<'_>) -> Result<()> {
    until_no_pool(world).await?;
    world.until("no machine is left", async || Ok(world.machines().await?.is_empty().then_some(()))).await
}

/// Deletes the pool, all machines and all storage, so that the next trial begins with an empty namespace.
pub(super) async fn clean_up(world: &KubeVirtWorld<'_>) -> Result<()> {
    if !world.all(POOL_API_VERSION, "VirtualMachinePool").await?.is_empty() {
        world.delete_pool(POOL, "Background").await?;
    }
    until_no_pool(world).await?;
    // Without those that the garbage collector deletes.
    for (name, machine) in world.machines().await? {
        if machine["metadata"]["ownerReferences"].is_null() {
            world.delete_machine(&name).await?;
        }
    }
    until_gone(world).await?;
    world.delete_all(DATA_VOLUME.0, DATA_VOLUME.1).await
}
