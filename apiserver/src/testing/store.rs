//! Pools and machines, by the rules of the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::NAMESPACE;

/// Resource and name.
pub(crate) type Key = (&'static str, String);

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) objects: BTreeMap<Key, Value>,
    version: u64,
    /// Machines go at once instead of waiting for somebody.
    pub(crate) vanishing: bool,
    /// Names of machines that the controller has made.
    pub(crate) created: Vec<String>,
    /// Names of machines that the controller has deleted although nobody had named them.
    pub(crate) victims: Vec<String>,
    /// When the controller first saw a reservation.
    pub(super) seen: BTreeMap<String, Duration>,
}

pub(crate) fn refusal(code: StatusCode, reason: &str, message: &str) -> (StatusCode, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code.as_u16() });
    (code, status)
}

impl Store {
    pub(crate) fn create_pool(&mut self, name: &str, replicas: usize) {
        let pool = json!({
            "apiVersion": "virtualization.deckhouse.io/v1alpha2",
            "kind": "VirtualMachinePool",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "replicas": replicas },
        });
        let pool = self.create("virtualmachinepools", name, pool);
        for index in 0..replicas {
            self.create_machine(&format!("{name}-{index}"), &pool["metadata"]["uid"]);
        }
    }

    pub(crate) fn create_machine(&mut self, name: &str, owner: &Value) -> Value {
        let mut machine = json!({ "metadata": { "name": name, "namespace": NAMESPACE, "ownerReferences": [
            { "kind": "Watcher", "name": "other", "uid": "other" },
            { "kind": "VirtualMachinePool", "name": "web", "uid": owner, "controller": true },
        ]}});
        if !self.vanishing {
            machine["metadata"]["finalizers"] = json!(["platform"]);
        }
        self.create("virtualmachines", name, machine)
    }

    fn create(&mut self, resource: &'static str, name: &str, mut object: Value) -> Value {
        object["metadata"]["uid"] = json!(format!("uid-{}-{name}", self.version + 1));
        self.put((resource, name.to_owned()), object)
    }

    fn put(&mut self, key: Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key, object.clone());
        object
    }

    pub(crate) fn get(&self, resource: &'static str, name: &str) -> Option<&Value> {
        self.objects.get(&(resource, name.to_owned()))
    }

    pub(crate) fn pool(&self) -> &Value {
        self.get("virtualmachinepools", "web").unwrap()
    }

    pub(crate) fn replicas(&self) -> i64 {
        self.pool()["spec"]["replicas"].as_i64().unwrap()
    }

    /// Machines whose owner is this pool.
    pub(crate) fn members(&self, pool: &Value) -> Vec<Value> {
        let owned = |object: &&Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == pool["metadata"]["uid"]))
        };
        self.machines().filter(owned).cloned().collect()
    }

    pub(crate) fn machines(&self) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(|((resource, _), _)| *resource == "virtualmachines")
            .map(|(_, object)| object)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.machines().map(|machine| machine["metadata"]["name"].as_str().unwrap()).collect()
    }

    /// Somebody else changes an object.
    pub(crate) fn edit(&mut self, resource: &'static str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(resource, name).unwrap().clone();
        change(&mut object);
        self.put((resource, name.to_owned()), object);
    }

    pub(crate) fn merge(&mut self, key: &Key, patch: &Value) -> (StatusCode, Value) {
        let Some(old) = self.objects.get(key) else { return not_found(key) };
        for field in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][field];
            assert!(wanted.is_string(), "a write without {field}: {patch}");
            if *wanted != old["metadata"][field] {
                return refusal(StatusCode::CONFLICT, "Conflict", &format!("another {field}"));
            }
        }
        let mut new = old.clone();
        json_patch::merge(&mut new, patch);
        if new == *old {
            return (StatusCode::OK, new);
        }
        (StatusCode::OK, self.put(key.clone(), new))
    }

    pub(crate) fn delete(&mut self, key: &Key, uid: Option<&str>) -> (StatusCode, Value) {
        let Some(object) = self.objects.get(key) else { return not_found(key) };
        if uid.is_some_and(|uid| object["metadata"]["uid"] != uid) {
            return refusal(StatusCode::CONFLICT, "Conflict", "another UID");
        }
        if object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            let object = self.objects.remove(key).unwrap();
            self.version += 1;
            return (StatusCode::OK, object);
        }
        let mut dying = object.clone();
        if dying["metadata"]["deletionTimestamp"].is_null() {
            dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            dying = self.put(key.clone(), dying);
        }
        (StatusCode::OK, dying)
    }

    /// The platform lets a machine go for good.
    pub(crate) fn finish(&mut self, name: &str) {
        self.objects.remove(&("virtualmachines", name.to_owned()));
        self.version += 1;
    }
}

pub(crate) fn not_found((resource, name): &Key) -> (StatusCode, Value) {
    refusal(StatusCode::NOT_FOUND, "NotFound", &format!("{resource} {name:?} not found"))
}
