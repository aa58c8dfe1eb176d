//! What other controllers do: the garbage collector, and the one that protects claims.

use super::{FOREGROUND, KubeVirtTestbed, PROTECTION, strings};
use crate::kubevirt::objects::{KubeVirtObjectId, KubeVirtObjectKind};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl KubeVirtTestbed {
    /// Removes the finalizer from deleted claims that no Pod uses.
    pub(super) fn protect(&mut self) {
        let used: BTreeSet<String> = self
            .list(KubeVirtObjectKind::Pod)
            .flat_map(|pod| pod["spec"]["volumes"].as_array().cloned().unwrap_or_default())
            .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned))
            .collect();
        let free = |(id, object): &(&KubeVirtObjectId, &Value)| {
            id.kind == KubeVirtObjectKind::Claim
                && !object["metadata"]["deletionTimestamp"].is_null()
                && !used.contains(&*id.key.name)
                && strings(&object["metadata"]["finalizers"]).contains(&PROTECTION.to_owned())
        };
        for id in self.objects.iter().filter(free).map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.store(&id, |claim| claim["metadata"]["finalizers"] = json!([]));
        }
    }

    /// Deletes objects whose owners are gone, or are deleted in the foreground.
    pub(super) fn collect_garbage(&mut self) {
        let uids: BTreeMap<String, bool> = self
            .objects
            .values()
            .map(|object| {
                let metadata = &object["metadata"];
                let waits = strings(&metadata["finalizers"]).contains(&FOREGROUND.to_owned())
                    && !metadata["deletionTimestamp"].is_null();
                (metadata["uid"].as_str().unwrap().to_owned(), waits)
            })
            .collect();
        let owners = |object: &Value| -> Vec<String> {
            let list = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect()
        };
        let orphans = |(_, object): &(&KubeVirtObjectId, &Value)| {
            let owners = owners(object);
            object["metadata"]["deletionTimestamp"].is_null()
                && !owners.is_empty()
                && owners.iter().all(|owner| uids.get(owner).is_none_or(|waits| *waits))
        };
        for id in self.objects.iter().filter(orphans).map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            if self.objects.contains_key(&id) {
                self.delete(id.kind, &id.key.name);
            }
        }
        let waiting: Vec<String> = uids.into_iter().filter(|(_, waits)| *waits).map(|(uid, _)| uid).collect();
        for uid in waiting {
            let has_dependents = self.objects.values().any(|object| owners(object).contains(&uid));
            let owner = self.objects.iter().find(|(_, object)| object["metadata"]["uid"] == *uid);
            if let (false, Some(id)) = (has_dependents, owner.map(|(id, _)| id.clone())) {
                self.store(&id, |object| {
                    let kept = strings(&object["metadata"]["finalizers"]);
                    let kept: Vec<_> = kept.into_iter().filter(|name| name != FOREGROUND).collect();
                    object["metadata"]["finalizers"] = json!(kept);
                });
            }
        }
    }
}
