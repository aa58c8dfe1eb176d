//! What tests look at.

use super::{KubeVirtTestbed, id, strings, text};
use crate::kubevirt::objects::KubeVirtObjectKind;
use serde_json::Value;

impl KubeVirtTestbed {
    pub(crate) fn list(&self, kind: KubeVirtObjectKind) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |(id, _)| id.kind == kind).map(|(_, object)| object)
    }

    pub(crate) fn find(&self, kind: KubeVirtObjectKind, name: &str) -> Option<&Value> {
        self.objects.get(&id(kind, name))
    }

    pub(crate) fn get(&self, kind: KubeVirtObjectKind, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    pub(crate) fn uid(&self, kind: KubeVirtObjectKind, name: &str) -> String {
        self.get(kind, name)["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn pods(&self) -> Vec<&Value> {
        self.list(KubeVirtObjectKind::Pod).collect()
    }

    pub(crate) fn printable(&self, name: &str) -> String {
        text(&self.get(KubeVirtObjectKind::Machine, name)["status"]["printableStatus"])
    }

    pub(crate) fn phase(&self, kind: KubeVirtObjectKind, name: &str) -> String {
        text(&self.get(kind, name)["status"]["phase"])
    }

    /// Status and reason of a condition, such as `True/Running`.
    pub(crate) fn condition(&self, kind: KubeVirtObjectKind, name: &str, type_: &str) -> String {
        let conditions = self.get(kind, name)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        found.map_or("absent".to_owned(), |found| {
            format!("{}/{}", text(&found["status"]), text(&found["reason"]))
        })
    }

    /// The values that a field had, one after another. The pointer is that of RFC 6901.
    pub(crate) fn values(&self, kind: KubeVirtObjectKind, name: &str, pointer: &str) -> Vec<String> {
        let id = id(kind, name);
        let mut values: Vec<String> = self
            .forms
            .iter()
            .filter(|(other, _)| *other == id)
            .map(|(_, form)| form.pointer(pointer).map_or_else(String::new, text))
            .collect();
        values.dedup();
        values.retain(|value| !value.is_empty());
        values
    }

    pub(crate) fn finalizers(&self, kind: KubeVirtObjectKind, name: &str) -> Vec<String> {
        strings(&self.get(kind, name)["metadata"]["finalizers"])
    }
}
