//! The pool in a scenario's hands.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::condition::{Condition, View, exists, not};
use super::{DEADLINE, World};
use crate::error::{Error, Result};
use crate::object::{Kind, Object};

/// What becomes of a pool's machines and disks when the pool is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The pool goes at once, the garbage collector takes the rest.
    Background,
    /// The pool goes last.
    Foreground,
    /// Machines and disks stay and belong to nobody.
    Orphan,
}

/// A pool of a scenario. The handle stays valid after the pool is gone.
#[derive(Clone)]
pub struct Pool<'w> {
    world: &'w World,
    name: String,
    uid: String,
}

impl<'w> Pool<'w> {
    pub(super) fn new(world: &'w World, object: &Object) -> Self {
        Self { world, name: object.name().to_owned(), uid: object.uid().to_owned() }
    }

    pub(super) fn world(&self) -> &'w World {
        self.world
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The pool as it is stored now.
    ///
    /// # Errors
    /// [`Error::Api`], also if it is gone.
    pub async fn get(&self) -> Result<Object> {
        self.world.get(Kind::Pool, &self.name).await
    }

    /// Its members, terminating ones included, the oldest first, twins by name.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn machines(&self) -> Result<Vec<Object>> {
        self.world.recorder().catch_up().await?;
        let mut members: Vec<Object> =
            self.world.recorder().history().state().members(&self.uid).into_iter().cloned().collect();
        members.sort_by(|a, b| {
            let key = |object: &Object| {
                (object.text("/metadata/creationTimestamp").to_owned(), object.name().to_owned())
            };
            key(a).cmp(&key(b))
        });
        Ok(members)
    }

    /// Its member at this place of [`Pool::machines`], counted from 0.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if it has fewer, [`Error::Api`].
    pub async fn machine(&self, place: usize) -> Result<Object> {
        let members = self.machines().await?;
        members.get(place).cloned().ok_or_else(|| Error::Unexpected {
            what: format!("pool {} has a machine at place {place}", self.name),
            last: format!("{} members", members.len()),
        })
    }

    /// The disks of the pool and its members, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn disks(&self) -> Result<Vec<Object>> {
        self.world.recorder().catch_up().await?;
        let history = self.world.recorder().history();
        let view = View { state: history.state(), uid: &self.uid };
        let mut disks: Vec<Object> = view.disks().into_iter().cloned().collect();
        disks.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(disks)
    }

    /// Scales it as a user does: `kubectl scale`.
    ///
    /// # Errors
    /// [`Error::Command`] if kubectl fails, [`Error::Invariants`].
    pub async fn scale(&self, replicas: i64) -> Result<()> {
        let target = format!("{}.virtualization.deckhouse.io/{}", Kind::Pool.plural(), self.name);
        self.world.kubectl(&["scale", &target, &format!("--replicas={replicas}")]).await?;
        self.world.check().await
    }

    /// Scales it as an autoscaler does: through the scale subresource.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Invariants`].
    pub async fn scale_by_api(&self, replicas: i64) -> Result<()> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.world
            .api(Kind::Pool)
            .patch_scale(&self.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map_err(Error::api(format!("scaling pool {}", self.name)))?;
        self.world.check().await
    }

    /// Changes the pool itself by a merge patch.
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Invariants`].
    pub async fn edit(&self, patch: &Value) -> Result<()> {
        self.world.patch(Kind::Pool, &self.name, patch).await?;
        self.world.check().await
    }

    /// Changes the devices of its machines and its disk templates, as they are stored now.
    ///
    /// # Errors
    /// As for [`Pool::edit`].
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

    /// Deletes the pool. Whether and when its machines follow is another matter: see [`Pool::leaves_nothing`].
    ///
    /// # Errors
    /// [`Error::Api`], [`Error::Invariants`].
    pub async fn delete(&self, how: Deletion) -> Result<()> {
        let params = match how {
            Deletion::Background => DeleteParams::background(),
            Deletion::Foreground => DeleteParams::foreground(),
            Deletion::Orphan => DeleteParams::orphan(),
        };
        let uid = self.uid.clone();
        let params = params.preconditions(kube::api::Preconditions { uid: Some(uid), ..Default::default() });
        self.world
            .api(Kind::Pool)
            .delete(&self.name, &params)
            .await
            .map_err(Error::api(format!("deleting pool {}", self.name)))?;
        self.world.check().await
    }

    /// Waits until the pool and everything that belonged to it is gone (I9).
    ///
    /// # Errors
    /// [`Error::Deadline`] with what is left.
    pub async fn leaves_nothing(&self) -> Result<()> {
        self.until(not(exists())).await?;
        self.world.until_nothing_is_left().await
    }

    /// A killed or paused leader may add so many members more: its requests in flight.
    pub fn allow_in_flight(&self, members: usize) {
        self.world.grounds().in_flight.insert(self.uid.clone(), members);
    }

    /// Waits until it is so, with the deadline of all scenarios, and checks the invariants.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the pool and its members as they were last, [`Error::Invariants`].
    pub async fn until(&self, condition: Condition) -> Result<()> {
        self.until_within(condition, DEADLINE).await
    }

    /// Waits until it is so, at most for `deadline`, and checks the invariants.
    ///
    /// # Errors
    /// As [`Pool::until`].
    pub async fn until_within(&self, condition: Condition, deadline: Duration) -> Result<()> {
        self.world.wait_until(&self.name, &self.uid, &condition, deadline).await?;
        self.world.check().await
    }

    /// Waits until it is so, and does nothing more: for a moment at which something is to break.
    ///
    /// # Errors
    /// [`Error::Deadline`] with the pool and its members as they were last.
    pub async fn sees(&self, condition: Condition) -> Result<()> {
        self.world.wait_until(&self.name, &self.uid, &condition, DEADLINE).await
    }

    /// Watches that it stays so: looks after every single change for as long as told, and checks the invariants.
    ///
    /// # Errors
    /// [`Error::DidNotHold`] with the pool and its members at the first moment it was not so.
    pub async fn holds(&self, condition: Condition, duration: Duration) -> Result<()> {
        self.world.watch_hold(&self.name, &self.uid, &condition, duration).await?;
        self.world.check().await
    }
}
