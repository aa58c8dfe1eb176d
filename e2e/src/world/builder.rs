//! A builder for the pools of scenarios.

use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::Kind;
use vmpool_invariants::platform::PlatformName;
use vmpool_test_cluster::error::Result;

use parts::push;

pub use parts::Policy;

use super::condition::ready_replicas;
use super::faults;
use super::pool::Pool;
use super::state::World;

mod kubevirt;
mod parts;

#[cfg(test)]
mod tests;

/// A pool to be created. By default its machines are small and have one root disk.
#[must_use = "a pool is created by `create` or `ready`"]
pub struct PoolBuilder<'w> {
    world: &'w World,
    object: Value,
}

impl<'w> PoolBuilder<'w> {
    pub(super) fn new(world: &'w World, name: &str) -> Self {
        if world.platform() == PlatformName::KubeVirt {
            return Self { world, object: kubevirt::object(world.namespace(), name) };
        }
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

    fn is_kubevirt(&self) -> bool {
        self.world.platform() == PlatformName::KubeVirt
    }

    /// Sets the number of replicas.
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.object["spec"]["replicas"] = json!(replicas);
        self
    }

    /// Sets the scale-down policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        if self.is_kubevirt() {
            kubevirt::set_policy(&mut self.object["spec"], policy);
            return self;
        }
        self.object["spec"]["scaleDownPolicy"] = json!(policy.name());
        self
    }

    /// Adds a disk with the content of the image to each machine. Without any disk, a pool gets one with the name `root`.
    pub fn disk(mut self, name: &str) -> Self {
        if self.is_kubevirt() {
            kubevirt::add_disk(&mut self.object["spec"], name);
            return self;
        }
        let source =
            json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": IMAGE } });
        let disk = json!({ "persistentVolumeClaim": { "size": "64Mi" }, "dataSource": source });
        let spec = &mut self.object["spec"];
        push(&mut spec["virtualDiskTemplates"], json!({ "name": name, "spec": disk }));
        let references = &mut spec["virtualMachineTemplate"]["spec"]["blockDeviceRefs"];
        push(references, json!({ "kind": "VirtualDisk", "name": name }));
        self
    }

    /// Adds a retained disk to each machine: `keep` free disks are kept, the others for `ttl`.
    pub fn retained(self, name: &str, keep: u32, ttl: &str) -> Self {
        let mut with = self.disk(name);
        let templates = &mut with.object["spec"]["virtualDiskTemplates"];
        if let Some(template) = templates.as_array_mut().and_then(|all| all.last_mut()) {
            template["reclaim"] = json!({ "onScaleDown": "Retain", "keep": keep, "ttl": ttl });
        }
        with
    }

    /// Sets a simulator setting for every machine of the pool, as an annotation in the template.
    pub fn knob(mut self, knob: &str, value: &str) -> Self {
        self.object["spec"]["virtualMachineTemplate"]["metadata"]["annotations"][faults::annotation(knob)] =
            json!(value);
        self
    }

    /// Applies a merge patch to the object.
    pub fn with(mut self, patch: &Value) -> Self {
        merge(&mut self.object, patch);
        self
    }

    /// The object as it will be sent.
    pub fn object(mut self) -> Value {
        if !self.is_kubevirt()
            && self.object["spec"]["virtualDiskTemplates"].as_array().is_none_or(Vec::is_empty)
        {
            self = self.disk("root");
        }
        self.object
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Api`] if the API server refuses the pool, [`vmpool_test_cluster::Error::Violations`].
    pub async fn create(self) -> Result<Pool<'w>> {
        let world = self.world;
        let object = world.post(Kind::Pool, &self.object()).await?;
        let pool = Pool::new(world, &object);
        world.check().await?;
        Ok(pool)
    }

    /// Creates the pool and waits until all its machines run.
    ///
    /// # Errors
    /// As [`PoolBuilder::create`], and [`vmpool_test_cluster::Error::Deadline`].
    pub async fn ready(self) -> Result<Pool<'w>> {
        let replicas = self.object["spec"]["replicas"].as_i64().unwrap_or_default();
        let pool = self.create().await?;
        pool.until(ready_replicas(replicas)).await?;
        Ok(pool)
    }
}

/// Applies a merge patch, as in RFC 7386.
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
