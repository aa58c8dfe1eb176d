//! Pools and machines, and changes by other clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_model::Resource;
use vmpool_runtime::Env;

use super::NAMESPACE;

const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";
const CONFIGURATION: (&str, &str, &str) = ("configmaps", "kube-system", "extension-apiserver-authentication");

pub(crate) struct FaultyServerStore {
    pub(super) model: vmpool_model::ApiServerModel,
    /// Machines have no finalizer, so a delete request removes them immediately.
    pub(crate) vanishing: bool,
    /// Names of machines that the controller has created.
    pub(crate) created: Vec<String>,
    /// Names of machines that the controller has deleted although no request named them.
    pub(crate) victims: Vec<String>,
    /// When the controller first saw a reservation.
    pub(super) reservations_seen_at: BTreeMap<String, Duration>,
}

impl FaultyServerStore {
    pub(super) fn new(env: &Env) -> Self {
        let of_types = |plural: &'static str, kind: &'static str| {
            Resource::builtin("instancetype.kubevirt.io", "v1beta1", plural, kind)
        };
        let kubevirt = [
            Resource::builtin("pool.kubevirt.io", "v1beta1", "virtualmachinepools", "VirtualMachinePool"),
            Resource::builtin("kubevirt.io", "v1", "virtualmachines", "VirtualMachine"),
            Resource::builtin("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance"),
            Resource::builtin("kubevirt.io", "v1", "kubevirts", "KubeVirt"),
            Resource::builtin("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Resource::builtin("cdi.kubevirt.io", "v1beta1", "datasources", "DataSource"),
            of_types("virtualmachineinstancetypes", "VirtualMachineInstancetype"),
            of_types("virtualmachinepreferences", "VirtualMachinePreference"),
            of_types("virtualmachineclusterinstancetypes", "VirtualMachineClusterInstancetype").of_cluster(),
            of_types("virtualmachineclusterpreferences", "VirtualMachineClusterPreference").of_cluster(),
        ];
        Self {
            model: vmpool_model::ApiServerModel::new(env, vmpool_model::platform_resources().chain(kubevirt)),
            vanishing: false,
            created: Vec::new(),
            victims: Vec::new(),
            reservations_seen_at: BTreeMap::new(),
        }
    }

    /// The API server model.
    pub(crate) fn model(&self) -> &vmpool_model::ApiServerModel {
        &self.model
    }

    pub(crate) fn create_pool(&mut self, name: &str, replicas: usize) {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        let pool = json!({ "metadata": metadata, "spec": { "replicas": replicas } });
        let pool = self.model.create_now(POOLS, pool).unwrap();
        for index in 0..replicas {
            self.create_machine(&format!("{name}-{index}"), &pool["metadata"]["uid"]);
        }
    }

    pub(crate) fn create_machine(&mut self, name: &str, owner: &Value) {
        let mut machine = json!({ "metadata": { "name": name, "namespace": NAMESPACE, "ownerReferences": [
            { "apiVersion": "v1", "kind": "Watcher", "name": "other", "uid": "other" },
            { "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
                "name": "web", "uid": owner,
              "controller": true },
        ]}});
        if !self.vanishing {
            machine["metadata"]["finalizers"] = json!(["platform"]);
        }
        self.model.create_now(MACHINES, machine).unwrap();
    }

    pub(crate) fn find_pool(&self) -> Option<Arc<Value>> {
        self.model.get(POOLS, NAMESPACE, "web")
    }

    pub(crate) fn pool(&self) -> Arc<Value> {
        self.find_pool().unwrap()
    }

    pub(crate) fn replicas(&self) -> i64 {
        self.pool()["spec"]["replicas"].as_i64().unwrap()
    }

    pub(crate) fn machine(&self, name: &str) -> Option<Arc<Value>> {
        self.model.get(MACHINES, NAMESPACE, name)
    }

    /// The machines of a pool, by owner reference.
    pub(crate) fn machines_of(&self, pool: &Value) -> Vec<Arc<Value>> {
        let owned = |object: &Arc<Value>| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == pool["metadata"]["uid"]))
        };
        self.machines().into_iter().filter(owned).collect()
    }

    /// All machines, ordered by name.
    pub(crate) fn machines(&self) -> Vec<Arc<Value>> {
        self.model.all(MACHINES)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let name = |machine: &Arc<Value>| machine["metadata"]["name"].as_str().unwrap().to_owned();
        self.machines().iter().map(name).collect()
    }

    /// Another client changes the pool.
    pub(crate) fn edit_pool(&mut self, change: impl FnOnce(&mut Value)) {
        self.model.edit_now(POOLS, NAMESPACE, "web", change).unwrap();
    }

    /// Another client changes a machine.
    pub(crate) fn edit_machine(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.model.edit_now(MACHINES, NAMESPACE, name, change).unwrap();
    }

    /// Another client deletes the pool if it exists. Without finalizers it is removed immediately.
    pub(crate) fn delete_pool(&mut self) {
        // The pool may already be deleted.
        let _ = self.model.delete_now(POOLS, NAMESPACE, "web", Value::Null);
    }

    /// Another client deletes a machine if it exists, with a UID precondition if `uid` is given.
    pub(crate) fn delete_machine(&mut self, name: &str, uid: Option<&str>) {
        let options = json!({ "preconditions": { "uid": uid } });
        let _ = self.model.delete_now(MACHINES, NAMESPACE, name, options);
    }

    /// The platform completes the deletion of a machine if it exists.
    pub(crate) fn finish(&mut self, name: &str) {
        self.delete_machine(name, None);
        if self.machine(name).is_some() {
            self.edit_machine(name, |machine| machine["metadata"]["finalizers"] = json!([]));
        }
    }

    /// Writes the ConfigMap with the configuration of the front proxy.
    pub(crate) fn configure(&mut self, data: &BTreeMap<String, String>) {
        let (resource, namespace, name) = CONFIGURATION;
        if self.model.get(resource, namespace, name).is_some() {
            self.model.edit_now(resource, namespace, name, |map| map["data"] = json!(data)).unwrap();
        } else {
            let map = json!({ "metadata": { "name": name, "namespace": namespace }, "data": data });
            self.model.create_now(resource, map).unwrap();
        }
    }

    /// Deletes the ConfigMap with the configuration of the front proxy.
    pub(crate) fn delete_configuration(&mut self) {
        let (resource, namespace, name) = CONFIGURATION;
        self.model.delete_now(resource, namespace, name, Value::Null).unwrap();
    }
}
