//! A builder for the pools of scenarios.

use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::Result;

use parts::push_list_item;

pub use parts::PoolScaleDownPolicy;

use super::condition::ready_replicas;
use super::faults;
use super::guests::memory_patch;
use super::pool::PoolHandle;
use super::state::ScenarioWorld;

mod kubevirt;
mod parts;

#[cfg(test)]
mod tests;

/// A pool to be created. By default its machines are small and have one root disk.
#[must_use = "a pool is created by `create` or `ready`"]
pub struct ScenarioPoolBuilder<'w> {
    world: &'w ScenarioWorld,
    object: Value,
}

impl<'w> ScenarioPoolBuilder<'w> {
    pub(super) fn new(world: &'w ScenarioWorld, name: &str) -> Self {
        if world.platform() == TestedPlatform::KubeVirt {
            return Self { world, object: kubevirt::kubevirt_pool_object(world.namespace(), name) };
        }
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": TestedKind::Pool.name(),
            "metadata": { "name": name, "namespace": world.namespace() },
            "spec": {
                "replicas": 0,
                "scaleDownPolicy": PoolScaleDownPolicy::NewestFirst.name(),
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
        self.world.platform() == TestedPlatform::KubeVirt
    }

    /// Sets the number of replicas.
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.object["spec"]["replicas"] = json!(replicas);
        self
    }

    /// Sets the scale-down policy.
    pub fn policy(mut self, policy: PoolScaleDownPolicy) -> Self {
        if self.is_kubevirt() {
            kubevirt::set_policy(&mut self.object["spec"], policy);
            return self;
        }
        self.object["spec"]["scaleDownPolicy"] = json!(policy.name());
        self
    }

    /// Adds a disk with the content of the image to each machine. Without any disk, a pool gets one with the
    /// name `root`.
    pub fn disk(mut self, name: &str) -> Self {
        if self.is_kubevirt() {
            kubevirt::add_disk(&mut self.object["spec"], name);
            return self;
        }
        let source =
            json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": IMAGE } });
        let disk = json!({ "persistentVolumeClaim": { "size": "64Mi" }, "dataSource": source });
        let spec = &mut self.object["spec"];
        push_list_item(&mut spec["virtualDiskTemplates"], json!({ "name": name, "spec": disk }));
        let references = &mut spec["virtualMachineTemplate"]["spec"]["blockDeviceRefs"];
        push_list_item(references, json!({ "kind": "VirtualDisk", "name": name }));
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

    /// Lets the controller restart machines by itself when a change of the template needs that. Pools of
    /// KubeVirt do so by default.
    pub fn automatic_restarts(self) -> Self {
        match self.world.platform() {
            TestedPlatform::Dvp => self.with(&json!({ "spec": { "virtualMachineTemplate": { "spec": {
                "disruptions": { "restartApprovalMode": "Automatic" },
            } } } })),
            TestedPlatform::KubeVirt => self,
        }
    }

    /// Gives the machines this memory.
    pub fn memory(self, size: &str) -> Self {
        let patch = memory_patch(self.world.platform(), size);
        self.with(&patch)
    }

    /// Sets a simulator setting for every machine of the pool, as an annotation in the template.
    pub fn knob(mut self, knob: &str, value: &str) -> Self {
        self.object["spec"]["virtualMachineTemplate"]["metadata"]["annotations"]
            [faults::simulator_annotation(knob)] = json!(value);
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
    /// [`vmpool_test_cluster::Error::Api`] if the API server refuses the pool,
    /// [`vmpool_test_cluster::Error::Violations`].
    pub async fn create(self) -> Result<PoolHandle<'w>> {
        let world = self.world;
        let object = world.post(TestedKind::Pool, &self.object()).await?;
        let pool = PoolHandle::new(world, &object);
        world.check().await?;
        Ok(pool)
    }

    /// Creates the pool and waits until all its machines run.
    ///
    /// # Errors
    /// As [`ScenarioPoolBuilder::create`], and [`vmpool_test_cluster::Error::Deadline`].
    pub async fn ready(self) -> Result<PoolHandle<'w>> {
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
