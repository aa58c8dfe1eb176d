//! Objects, by the rules of the API server.

use std::collections::BTreeMap;

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::requests::{Call, Verb};

/// Resource, namespace and name of an object.
pub(super) type Key = (String, String, String);

/// What an answer consists of.
pub(super) type Answer = (StatusCode, Value);

/// A change, as a watch tells it.
pub(super) struct Change {
    pub(super) kind: &'static str,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) object: Value,
}

#[derive(Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<Key, Value>,
    version: u64,
    /// What no watch was told yet.
    pub(super) changes: Vec<Change>,
}

/// What the API server answers to something that it refuses.
pub(crate) fn refusal(code: StatusCode, reason: &str, message: &str) -> Answer {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code.as_u16() });
    (code, status)
}

fn conflict(message: &str) -> Answer {
    refusal(StatusCode::CONFLICT, "Conflict", message)
}

impl Store {
    pub(super) fn list(&self, resource: &str, namespace: &str) -> Answer {
        let matches =
            |(key, _): &(&Key, &Value)| key.0 == resource && (namespace.is_empty() || key.1 == namespace);
        let items: Vec<&Value> = self.objects.iter().filter(matches).map(|(_, object)| object).collect();
        let metadata = json!({ "resourceVersion": self.version.to_string() });
        (StatusCode::OK, json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items }))
    }

    pub(super) fn get(&self, key: &Key) -> Answer {
        match self.objects.get(key) {
            Some(object) => (StatusCode::OK, object.clone()),
            None => not_found(key),
        }
    }

    pub(super) fn create(&mut self, key: Key, mut object: Value, now: Timestamp) -> Answer {
        if self.objects.contains_key(&key) {
            return refusal(StatusCode::CONFLICT, "AlreadyExists", &format!("{} already exists", key.2));
        }
        object["metadata"]["namespace"] = json!(key.1);
        object["metadata"]["uid"] = json!(format!("uid-{}-{}", self.version + 1, key.2));
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(seconds(now));
        self.put(key, object, "ADDED")
    }

    /// A patch of the main resource changes no status, and one of the status nothing else.
    pub(super) fn patch(&mut self, key: &Key, call: &Call) -> Answer {
        let Some(old) = self.objects.get(key) else { return not_found(key) };
        let mut new = old.clone();
        if call.verb == Verb::MergePatch {
            let meta = &call.body["metadata"];
            for field in ["uid", "resourceVersion"] {
                if !meta[field].is_null() && meta[field] != old["metadata"][field] {
                    return conflict(&format!("{field} of {} is another", key.2));
                }
            }
            json_patch::merge(&mut new, &call.body);
        } else {
            let patch: json_patch::Patch = serde_json::from_value(call.body.clone()).unwrap();
            if let Err(error) = json_patch::patch(&mut new, &patch) {
                return refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", &error.to_string());
            }
        }
        let old = old.clone();
        if call.subresource == "status" {
            new = Value::Object(
                old.as_object()
                    .unwrap()
                    .clone()
                    .into_iter()
                    .chain([("status".into(), new["status"].take())])
                    .collect(),
            );
        } else {
            new["status"] = old["status"].clone();
        }
        self.replace(key, &old, new)
    }

    /// Stores `new` in the place of `old`, if they differ.
    pub(super) fn replace(&mut self, key: &Key, old: &Value, mut new: Value) -> Answer {
        if new["status"].is_null() {
            new.as_object_mut().unwrap().remove("status");
        }
        if new == *old {
            return (StatusCode::OK, new);
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap() + 1);
        }
        let (_, object) = self.put(key.clone(), new, "MODIFIED");
        (StatusCode::OK, object)
    }

    pub(super) fn delete(&mut self, key: &Key, preconditions: &Value, now: Timestamp) -> Answer {
        let Some(object) = self.objects.get(key) else { return not_found(key) };
        for field in ["uid", "resourceVersion"] {
            if !preconditions[field].is_null() && preconditions[field] != object["metadata"][field] {
                return conflict(&format!("{field} in the precondition is another"));
            }
        }
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if finalizers {
            let mut dying = object.clone();
            if dying["metadata"]["deletionTimestamp"].is_null() {
                dying["metadata"]["deletionTimestamp"] = json!(seconds(now));
                self.put(key.clone(), dying.clone(), "MODIFIED");
            }
            return (StatusCode::OK, dying);
        }
        self.remove(key);
        (StatusCode::OK, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
    }

    /// What the garbage collector does in time: takes objects whose controller is gone.
    pub(super) fn collect_garbage(&mut self) {
        loop {
            let alive: Vec<Value> =
                self.objects.values().map(|object| object["metadata"]["uid"].clone()).collect();
            let orphans: Vec<Key> = self
                .objects
                .iter()
                .filter(|(_, object)| {
                    let owner = &object["metadata"]["ownerReferences"][0]["uid"];
                    !owner.is_null() && !alive.contains(owner)
                })
                .map(|(key, _)| key.clone())
                .collect();
            if orphans.is_empty() {
                return;
            }
            for key in orphans {
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(mut object) = self.objects.remove(key) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.tell(key, object, "DELETED");
        }
    }

    fn put(&mut self, key: Key, mut object: Value, kind: &'static str) -> Answer {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(&key, object.clone(), kind);
        self.objects.insert(key, object.clone());
        (StatusCode::CREATED, object)
    }

    fn tell(&mut self, (resource, namespace, _): &Key, object: Value, kind: &'static str) {
        let (resource, namespace) = (resource.clone(), namespace.clone());
        self.changes.push(Change { kind, resource, namespace, object });
    }
}

fn not_found((_, _, name): &Key) -> Answer {
    refusal(StatusCode::NOT_FOUND, "NotFound", &format!("{name} not found"))
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
