//! The pool in a scenario's hands.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::condition::{Condition, View, exists, not, ready_replicas};
use super::{DEADLINE, World};
use crate::error::{Error, Result};
use crate::installation::{CLASS, IMAGE};
use crate::object::{API_VERSION, Kind, Object};

/// Who leaves when a pool is scaled down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The youngest machine first.
    NewestFirst,
    /// The oldest machine first.
    OldestFirst,
    /// Nobody but named machines.
    Explicit,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::NewestFirst => "NewestFirst",
            Self::OldestFirst => "OldestFirst",
            Self::Explicit => "Explicit",
        }
    }
}

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

/// A pool that is about to be created: tiny machines with one root disk each, unless told otherwise.
#[must_use = "a pool is created by `create` or `ready`"]
pub struct PoolBuilder<'w> {
    world: &'w World,
    object: Value,
}

impl<'w> PoolBuilder<'w> {
    pub(super) fn new(world: &'w World, name: &str) -> Self {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": Kind::Pool.name(),
            "metadata": { "name": name, "namespace": world.namespace() },
            "spec": {
                "replicas": 0,
                "scaleDownPolicy": Policy::NewestFirst.name(),
                "virtualMachineTemplate": {
                    "metadata": { "labels": { "app": name } },
                    "spec": {
                        "virtualMachineClassName": CLASS,
                        "cpu": { "cores": 1, "coreFraction": "5%" },
                        "memory": { "size": "512Mi" },
                        "terminationGracePeriodSeconds": 1,
                        "blockDeviceRefs": [],
                    },
                },
                "virtualDiskTemplates": [],
            },
        });
        Self { world, object }
    }

    /// How many machines.
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.object["spec"]["replicas"] = json!(replicas);
        self
    }

    /// Who leaves first.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.object["spec"]["scaleDownPolicy"] = json!(policy.name());
        self
    }

    /// One more disk per machine, made from the image. Without any, a pool has one called `root`.
    pub fn disk(mut self, name: &str) -> Self {
        let source =
            json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": IMAGE } });
        let disk = json!({ "persistentVolumeClaim": { "size": "64Mi" }, "dataSource": source });
        let spec = &mut self.object["spec"];
        push(&mut spec["virtualDiskTemplates"], json!({ "name": name, "spec": disk }));
        let references = &mut spec["virtualMachineTemplate"]["spec"]["blockDeviceRefs"];
        push(references, json!({ "kind": "VirtualDisk", "name": name }));
        self
    }

    /// Misbehaviour of the simulator for every machine of this pool, as an annotation of the template.
    pub fn knob(mut self, knob: &str, value: &str) -> Self {
        self.object["spec"]["virtualMachineTemplate"]["metadata"]["annotations"]
            [super::faults::annotation(knob)] = json!(value);
        self
    }

    /// Any other change of the object, as a merge patch.
    pub fn with(mut self, patch: &Value) -> Self {
        merge(&mut self.object, patch);
        self
    }

    /// The object as it will be sent.
    pub fn object(mut self) -> Value {
        if self.object["spec"]["virtualDiskTemplates"].as_array().is_none_or(Vec::is_empty) {
            self = self.disk("root");
        }
        self.object
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// [`Error::Api`] if the API server refuses it, [`Error::Invariants`].
    pub async fn create(self) -> Result<Pool<'w>> {
        let world = self.world;
        let object = world.post(Kind::Pool, &self.object()).await?;
        let pool = Pool { world, name: object.name().to_owned(), uid: object.uid().to_owned() };
        world.check().await?;
        Ok(pool)
    }

    /// Creates the pool and waits until all its machines run.
    ///
    /// # Errors
    /// As [`PoolBuilder::create`], and [`Error::Deadline`].
    pub async fn ready(self) -> Result<Pool<'w>> {
        let replicas = self.object["spec"]["replicas"].as_i64().unwrap_or_default();
        let pool = self.create().await?;
        pool.until(ready_replicas(replicas)).await?;
        Ok(pool)
    }
}

/// A pool of a scenario. The handle stays valid after the pool is gone.
#[derive(Clone)]
pub struct Pool<'w> {
    world: &'w World,
    name: String,
    uid: String,
}

impl Pool<'_> {
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

    /// Watches that it stays so: looks after every single change for as long as told, and checks the invariants.
    ///
    /// # Errors
    /// [`Error::DidNotHold`] with the pool and its members at the first moment it was not so.
    pub async fn holds(&self, condition: Condition, duration: Duration) -> Result<()> {
        self.world.watch_hold(&self.name, &self.uid, &condition, duration).await?;
        self.world.check().await
    }
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// A merge patch, as in RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    target.as_object_mut().map(|object| object.remove(key));
                } else {
                    merge(&mut target[key], value);
                }
            }
        }
        other => *target = other.clone(),
    }
}

impl World {
    pub(super) async fn post(&self, kind: Kind, object: &Value) -> Result<Object> {
        let doing = format!("creating {} {}", kind.name(), object["metadata"]["name"]);
        let typed = serde_json::from_value(object.clone()).map_err(Error::json(doing.clone()))?;
        let created =
            self.api(kind).create(&PostParams::default(), &typed).await.map_err(Error::api(doing.clone()))?;
        Object::try_from(created).map_err(Error::json(doing))
    }
}
