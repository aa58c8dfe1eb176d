//! Dispatches events to the model, and marks the objects that depend on them.

use super::{
    model::KubeVirtModel,
    objects::{KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject, volumes_of},
    slots::{ObservationSource, ObservedChange},
};
use crate::objects::NamespacedKey;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashSet};

impl KubeVirtModel {
    /// Stores an object's state in the model.
    pub(super) fn see(
        &mut self,
        key: &NamespacedKey,
        object: ObservedKubeVirtObject,
        source: ObservationSource,
        now: Timestamp,
    ) {
        let kind = match &object {
            ObservedKubeVirtObject::Machine(_) => KubeVirtObjectKind::Machine,
            ObservedKubeVirtObject::Instance(_) => KubeVirtObjectKind::Instance,
            ObservedKubeVirtObject::DataVolume(_) => KubeVirtObjectKind::DataVolume,
            ObservedKubeVirtObject::Claim(_) => KubeVirtObjectKind::Claim,
            ObservedKubeVirtObject::Pod(_) => KubeVirtObjectKind::Pod,
            ObservedKubeVirtObject::DataSource(_) => KubeVirtObjectKind::DataSource,
            ObservedKubeVirtObject::Snapshot(_) => KubeVirtObjectKind::Snapshot,
            ObservedKubeVirtObject::Content(_) => KubeVirtObjectKind::Content,
            ObservedKubeVirtObject::Revision(_) => KubeVirtObjectKind::Revision,
        };
        let id = KubeVirtObjectId::new(kind, key);
        if source == ObservationSource::Watch && self.replaces(key, &object) {
            self.lose(&id, now);
        }
        let seen = match object {
            ObservedKubeVirtObject::Machine(view) => self.machines.see(key, *view, source, now),
            ObservedKubeVirtObject::Instance(view) => self.instances.see(key, *view, source, now),
            ObservedKubeVirtObject::DataVolume(view) => self.data_volumes.see(key, *view, source, now),
            ObservedKubeVirtObject::Claim(view) => self.claims.see(key, *view, source, now),
            ObservedKubeVirtObject::Pod(view) => self.pods.see(key, *view, source, now),
            ObservedKubeVirtObject::DataSource(view) => self.data_sources.see(key, *view, source, now),
            ObservedKubeVirtObject::Snapshot(view) => self.snapshots.see(key, *view, source, now),
            ObservedKubeVirtObject::Content(view) => self.contents.see(key, *view, source, now),
            ObservedKubeVirtObject::Revision(view) => self.revisions.see(key, *view, source, now),
        };
        if seen == ObservedChange::Stale {
            return;
        }
        match kind {
            KubeVirtObjectKind::Machine => {
                self.date_machine(key, now);
                self.index(key);
            }
            KubeVirtObjectKind::Instance => self.index(key),
            KubeVirtObjectKind::DataVolume => self.suspect_deletion(KubeVirtObjectKind::DataVolume, key, now),
            KubeVirtObjectKind::Claim => self.suspect_deletion(KubeVirtObjectKind::Claim, key, now),
            KubeVirtObjectKind::Pod => self.remember_pod(key),
            KubeVirtObjectKind::DataSource
            | KubeVirtObjectKind::Snapshot
            | KubeVirtObjectKind::Content
            | KubeVirtObjectKind::Revision => {}
        }
        self.mark_neighbors(&id);
    }

    /// Whether an object takes the name of a different one, whose deletion was not reported.
    fn replaces(&self, key: &NamespacedKey, object: &ObservedKubeVirtObject) -> bool {
        let (known, new) = match object {
            ObservedKubeVirtObject::Machine(view) => {
                (self.machines.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Instance(view) => {
                (self.instances.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::DataVolume(view) => {
                (self.data_volumes.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Claim(view) => {
                (self.claims.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Pod(view) => (self.pods.view(key).map(|known| &known.meta), &view.meta),
            ObservedKubeVirtObject::DataSource(view) => {
                (self.data_sources.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Snapshot(view) => {
                (self.snapshots.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Content(view) => {
                (self.contents.view(key).map(|known| &known.meta), &view.meta)
            }
            ObservedKubeVirtObject::Revision(view) => {
                (self.revisions.view(key).map(|known| &known.meta), &view.meta)
            }
        };
        known.is_some_and(|known| known.uid != new.uid && known.version < new.version)
    }

    /// An object is gone.
    pub(super) fn lose(&mut self, id: &KubeVirtObjectId, now: Timestamp) {
        // While the object is known, its neighbors are.
        self.mark_neighbors(id);
        let key = &id.key;
        match id.kind {
            KubeVirtObjectKind::Machine => {
                self.machines.forget_object(key);
                self.index(key);
            }
            KubeVirtObjectKind::Instance => {
                if let Some((view, memory)) = self.instances.forget_object(key) {
                    self.index(key);
                    self.abandon_mounts(&view.meta.uid, memory);
                }
            }
            KubeVirtObjectKind::DataVolume => {
                if let Some((view, memory)) = self.data_volumes.forget_object(key)
                    && !view.meta.deleting()
                    && !memory.collected
                {
                    self.suspect(key, now);
                }
            }
            KubeVirtObjectKind::Claim => {
                if let Some((view, _)) = self.claims.forget_object(key)
                    && !view.meta.deleting()
                {
                    self.suspect(key, now);
                }
            }
            KubeVirtObjectKind::Pod => self.lose_pod(key),
            KubeVirtObjectKind::DataSource => drop(self.data_sources.forget_object(key)),
            KubeVirtObjectKind::Snapshot => drop(self.snapshots.forget_object(key)),
            KubeVirtObjectKind::Content => drop(self.contents.forget_object(key)),
            KubeVirtObjectKind::Revision => drop(self.revisions.forget_object(key)),
        }
    }

    /// Objects of a kind that a complete list lacks.
    pub(super) fn unlisted(
        &self,
        kind: KubeVirtObjectKind,
        listed: &HashSet<NamespacedKey>,
        began: Timestamp,
    ) -> Vec<NamespacedKey> {
        match kind {
            KubeVirtObjectKind::Machine => self.machines.unlisted(listed, began),
            KubeVirtObjectKind::Instance => self.instances.unlisted(listed, began),
            KubeVirtObjectKind::DataVolume => self.data_volumes.unlisted(listed, began),
            KubeVirtObjectKind::Claim => self.claims.unlisted(listed, began),
            KubeVirtObjectKind::Pod => self.pods.unlisted(listed, began),
            KubeVirtObjectKind::DataSource => self.data_sources.unlisted(listed, began),
            KubeVirtObjectKind::Snapshot => self.snapshots.unlisted(listed, began),
            KubeVirtObjectKind::Content => self.contents.unlisted(listed, began),
            KubeVirtObjectKind::Revision => self.revisions.unlisted(listed, began),
        }
    }

    /// Records which DataVolumes and claims the machine and the instance of this name refer to.
    fn index(&mut self, key: &NamespacedKey) {
        let used = self.uses(key);
        let before = self.uses_of.remove(key).unwrap_or_default();
        for disk in before.difference(&used) {
            if let Some(users) = self.users.get_mut(disk) {
                users.remove(key);
                if users.is_empty() {
                    self.users.remove(disk);
                }
            }
        }
        for disk in &used {
            self.users.entry(disk.clone()).or_default().insert(key.clone());
        }
        if !used.is_empty() {
            self.uses_of.insert(key.clone(), used);
        }
    }

    /// The DataVolumes and claims that the machine and the instance of this name refer to.
    pub(super) fn uses(&self, key: &NamespacedKey) -> BTreeSet<NamespacedKey> {
        let machine = self.machines.view(key).map(|machine| machine.spec.disks()).unwrap_or_default();
        let instance = self.instances.view(key).map(|instance| {
            let (data_volumes, claims) = volumes_of(&instance.spec);
            data_volumes.into_iter().chain(claims)
        });
        machine.into_iter().chain(instance.into_iter().flatten()).map(|name| key.sibling(&name)).collect()
    }

    /// Marks an object and all objects whose controllers look at it.
    pub(super) fn mark_neighbors(&mut self, id: &KubeVirtObjectId) {
        self.agenda.mark(id.clone());
        let key = &id.key;
        match id.kind {
            KubeVirtObjectKind::Machine => {
                self.mark(KubeVirtObjectKind::Instance, key);
                // Its knobs are those of the instance and its Pod.
                self.mark_pods_of(key);
                self.mark_suspects_of(key);
            }
            KubeVirtObjectKind::Instance => {
                self.mark(KubeVirtObjectKind::Machine, key);
                self.mark_pods_of(key);
                for disk in self.uses(key) {
                    self.mark(KubeVirtObjectKind::DataVolume, &disk);
                }
                self.mark_suspects_of(key);
            }
            KubeVirtObjectKind::DataVolume | KubeVirtObjectKind::Claim => {
                self.mark(KubeVirtObjectKind::DataVolume, key);
                self.mark(KubeVirtObjectKind::Claim, key);
                for user in self.users.get(key).into_iter().flatten() {
                    self.agenda.mark(KubeVirtObjectId::new(KubeVirtObjectKind::Machine, user));
                    self.agenda.mark(KubeVirtObjectId::new(KubeVirtObjectKind::Instance, user));
                }
                if id.kind == KubeVirtObjectKind::Claim {
                    self.mark_dependents(id);
                } else {
                    self.mark_source_of(key);
                    if self.data_volumes.view(key).is_none_or(|view| view.succeeded()) {
                        self.mark_dependents(&KubeVirtObjectId::new(KubeVirtObjectKind::Claim, key));
                    }
                }
            }
            KubeVirtObjectKind::Pod => {
                if let Some(instance) = self.instance_of_pod(key) {
                    self.mark(KubeVirtObjectKind::Instance, &instance);
                }
            }
            KubeVirtObjectKind::DataSource | KubeVirtObjectKind::Snapshot => self.mark_dependents(id),
            KubeVirtObjectKind::Content => {
                if let Some(content) = self.contents.view(key) {
                    self.agenda
                        .mark(KubeVirtObjectId::new(KubeVirtObjectKind::Snapshot, &content.snapshot.clone()));
                }
            }
            KubeVirtObjectKind::Revision => self.mark_users_of(key),
        }
    }

    pub(super) fn mark(&mut self, kind: KubeVirtObjectKind, key: &NamespacedKey) {
        self.agenda.mark(KubeVirtObjectId::new(kind, key));
    }

    /// Marks every object whose key is wanted.
    pub(super) fn mark_all(&mut self, wanted: impl Fn(&NamespacedKey) -> bool) {
        for kind in KubeVirtObjectKind::ALL {
            let keys = match kind {
                KubeVirtObjectKind::Machine => self.machines.keys(),
                KubeVirtObjectKind::Instance => self.instances.keys(),
                KubeVirtObjectKind::DataVolume => self.data_volumes.keys(),
                KubeVirtObjectKind::Claim => self.claims.keys(),
                KubeVirtObjectKind::Pod => self.pods.keys(),
                KubeVirtObjectKind::DataSource => self.data_sources.keys(),
                KubeVirtObjectKind::Snapshot => self.snapshots.keys(),
                KubeVirtObjectKind::Content => self.contents.keys(),
                KubeVirtObjectKind::Revision => self.revisions.keys(),
            };
            for key in keys.into_iter().filter(&wanted) {
                self.agenda.mark(KubeVirtObjectId { kind, key });
            }
        }
    }
}
