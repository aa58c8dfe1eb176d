//! A pool of a scenario.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::error::{Error, Result};

use super::condition::{PoolPredicate, PoolView, negate_condition, pool_exists};
use super::guests::memory_patch;
use super::state::{DEADLINE, ScenarioWorld};
use super::wait::until_after_second;

/// The propagation policy of a pool's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolDeletion {
    /// The pool is deleted at once, and the garbage collector deletes the rest.
    Background,
    /// The pool is deleted last.
    Foreground,
    /// Machines and disks remain without an owner.
    Orphan,
}

/// A handle for a pool. It stays valid after the pool was deleted.
#[derive(Clone)]
pub struct PoolHandle<'w> {
    world: &'w ScenarioWorld,
    name: String,
    uid: String,
}

impl<'w> PoolHandle<'w> {
    pub(super) fn new(world: &'w ScenarioWorld, object: &JsonObject) -> Self {
        Self { world, name: object.name().to_owned(), uid: object.uid().to_owned() }
    }

    pub(super) fn world(&self) -> &'w ScenarioWorld {
        self.world
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pool's UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The stored pool.
    ///
    /// # Errors
    /// [`Error::Api`], also if the pool does not exist.
    pub async fn get(&self) -> Result<JsonObject> {
        self.world.get(TestedKind::Pool, &self.name).await
    }

    /// The pool's machines, including terminating ones, ordered by age (oldest first), then by name.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn machines(&self) -> Result<Vec<JsonObject>> {
        self.world.recorder().catch_up().await?;
        let mut machines: Vec<JsonObject> = self
            .world
            .recorder()
            .history()
            .state()
            .machines_of_pool(&self.uid)
            .into_iter()
            .cloned()
            .collect();
        machines.sort_by(|a, b| {
            let key = |object: &JsonObject| {
                (object.text("/metadata/creationTimestamp").to_owned(), object.name().to_owned())
            };
            key(a).cmp(&key(b))
        });
        Ok(machines)
    }

    /// The machine with this index in [`PoolHandle::machines`].
    ///
    /// # Errors
    /// [`Error::Unexpected`] if there are fewer machines, [`Error::Api`].
    pub async fn machine(&self, place: usize) -> Result<JsonObject> {
        let machines = self.machines().await?;
        machines.get(place).cloned().ok_or_else(|| Error::Unexpected {
            what: format!("pool {} has a machine at index {place}", self.name),
            last: format!("{} machines", machines.len()),
        })
    }

    /// The disks of the pool and its machines, ordered by name.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn disks(&self) -> Result<Vec<JsonObject>> {
        self.world.recorder().catch_up().await?;
        let history = self.world.recorder().history();
        let view = PoolView { state: history.state(), uid: &self.uid };
        let mut disks: Vec<JsonObject> = view.disks().into_iter().cloned().collect();
        disks.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(disks)
    }

    /// Scales the pool with `kubectl scale`.
    ///
    /// # Errors
    /// [`Error::Command`] if kubectl fails, [`Error::Violations`].
    pub async fn scale(&self, replicas: i64) -> Result<()> {
        let resource = self.world.platform().resource(TestedKind::Pool);
        let target = format!("{}.{}/{}", resource.plural, resource.group, self.name);
        self.world.kubectl(&["scale", &target, &format!("--replicas={replicas}")]).await?;
        self.world.check().await
    }

    /// Scales the pool through the scale subresource, as an autoscaler does.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Violations`].
    pub async fn scale_by_api(&self, replicas: i64) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.world
            .api(TestedKind::Pool)
            .patch_scale(&self.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::api(format!("scaling pool {}", self.name)))?;
        self.world.check().await
    }

    /// Changes the pool with a merge patch.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Violations`].
    pub async fn edit(&self, patch: &Value) -> Result<()> {
        self.world.patch(TestedKind::Pool, &self.name, patch).await?;
        self.world.check().await
    }

    /// Changes the memory in the template, which needs a restart of the guests.
    ///
    /// # Errors
    /// As for [`PoolHandle::edit`].
    pub async fn change_memory(&self, size: &str) -> Result<()> {
        self.edit(&memory_patch(self.world.platform(), size)).await
    }

    /// Changes labels of the machines in the template; null removes one.
    ///
    /// # Errors
    /// As for [`PoolHandle::edit`].
    pub async fn change_labels(&self, labels: &Value) -> Result<()> {
        self.edit(&json!({ "spec": { "virtualMachineTemplate": { "metadata": { "labels": labels } } } }))
            .await
    }

    /// Changes the stored device list and the disk templates.
    ///
    /// # Errors
    /// As for [`PoolHandle::edit`].
    pub async fn edit_templates(&self, edit: impl FnOnce(&mut Vec<Value>, &mut Vec<Value>)) -> Result<()> {
        let stored = self.get().await?;
        let list = |pointer: &str| stored.at(pointer).as_array().cloned().unwrap_or_default();
        let mut devices = list("/spec/virtualMachineTemplate/spec/blockDeviceRefs");
        let mut templates = list("/spec/virtualDiskTemplates");
        edit(&mut devices, &mut templates);
        let machine = json!({ "spec": { "blockDeviceRefs": devices } });
        let spec = json!({ "virtualDiskTemplates": templates, "virtualMachineTemplate": machine });
        self.edit(&json!({ "spec": spec })).await
    }

    /// Waits until machines that are created from now on are younger than all that exist: creation timestamps
    /// have a resolution of one second.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Deadline`].
    pub async fn until_next_are_younger(&self) -> Result<()> {
        let machines = self.machines().await?;
        let created = machines.iter().map(|machine| machine.text("/metadata/creationTimestamp"));
        until_after_second(created.max().unwrap_or_default()).await
    }

    /// Deletes the pool, without waiting for its machines: see [`PoolHandle::leaves_nothing`].
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Violations`].
    pub async fn delete(&self, how: PoolDeletion) -> Result<()> {
        let params = match how {
            PoolDeletion::Background => DeleteParams::background(),
            PoolDeletion::Foreground => DeleteParams::foreground(),
            PoolDeletion::Orphan => DeleteParams::orphan(),
        };
        let uid = self.uid.clone();
        let params = params.preconditions(kube::api::Preconditions { uid: Some(uid), ..Default::default() });
        self.world
            .api(TestedKind::Pool)
            .delete(&self.name, &params)
            .await
            .map_err(Error::api(format!("deleting pool {}", self.name)))?;
        self.world.check().await
    }

    /// Waits until the pool and all its objects are deleted (I9).
    ///
    /// # Errors
    /// [`Error::Deadline`] with the remaining objects.
    pub async fn leaves_nothing(&self) -> Result<()> {
        self.until(negate_condition(pool_exists())).await?;
        self.world.until_nothing_is_left().await
    }

    /// Records that a killed or paused leader may create this number of additional machines with its open
    /// requests.
    pub fn allow_in_flight(&self, machines: usize) {
        self.world.user_actions().in_flight.insert(self.uid.clone(), machines);
    }

    /// Waits for a condition with the default timeout, and checks the invariants.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last state of the pool and its machines, [`Error::Violations`].
    pub async fn until(&self, condition: PoolPredicate) -> Result<()> {
        self.until_within(condition, DEADLINE).await
    }

    /// Waits for a condition at most for `deadline`, and checks the invariants.
    ///
    /// # Errors
    /// As [`PoolHandle::until`].
    pub async fn until_within(&self, condition: PoolPredicate, deadline: Duration) -> Result<()> {
        self.world.wait_until(&self.name, &self.uid, &condition, deadline).await?;
        self.world.check().await
    }

    /// Waits for a condition without checking the invariants, for moments at which a fault follows.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the last state of the pool and its machines.
    pub async fn sees(&self, condition: PoolPredicate) -> Result<()> {
        self.world.wait_until(&self.name, &self.uid, &condition, DEADLINE).await
    }

    /// Checks that a condition holds after every change during `duration`, and checks the invariants.
    ///
    /// # Errors
    /// [`Error::DidNotHold`] with the pool and its machines at the first violation.
    pub async fn holds(&self, condition: PoolPredicate, duration: Duration) -> Result<()> {
        self.world.watch_hold(&self.name, &self.uid, &condition, duration).await?;
        self.world.check().await
    }
}
