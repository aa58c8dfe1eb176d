//! Dispatches events to the model, and marks the objects that depend on them.

use super::{
    model::World,
    objects::{Id, Kind, Object, volumes_of},
    slots::{Seen, Source},
};
use crate::objects::Key;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashSet};

impl World {
    /// Stores an object's state in the model.
    pub(super) fn see(&mut self, key: &Key, object: Object, source: Source, now: Timestamp) {
        let kind = match &object {
            Object::Machine(_) => Kind::Machine,
            Object::Instance(_) => Kind::Instance,
            Object::DataVolume(_) => Kind::DataVolume,
            Object::Claim(_) => Kind::Claim,
            Object::Pod(_) => Kind::Pod,
            Object::DataSource(_) => Kind::DataSource,
            Object::Snapshot(_) => Kind::Snapshot,
            Object::Content(_) => Kind::Content,
            Object::Revision(_) => Kind::Revision,
        };
        let id = Id::new(kind, key);
        if source == Source::Watch && self.replaces(key, &object) {
            self.lose(&id, now);
        }
        let seen = match object {
            Object::Machine(view) => self.machines.see(key, *view, source, now),
            Object::Instance(view) => self.instances.see(key, *view, source, now),
            Object::DataVolume(view) => self.data_volumes.see(key, *view, source, now),
            Object::Claim(view) => self.claims.see(key, *view, source, now),
            Object::Pod(view) => self.pods.see(key, *view, source, now),
            Object::DataSource(view) => self.data_sources.see(key, *view, source, now),
            Object::Snapshot(view) => self.snapshots.see(key, *view, source, now),
            Object::Content(view) => self.contents.see(key, *view, source, now),
            Object::Revision(view) => self.revisions.see(key, *view, source, now),
        };
        if seen == Seen::Stale {
            return;
        }
        match kind {
            Kind::Machine => {
                self.date_machine(key, now);
                self.index(key);
            }
            Kind::Instance => self.index(key),
            Kind::DataVolume => self.suspect_deletion(Kind::DataVolume, key, now),
            Kind::Claim => self.suspect_deletion(Kind::Claim, key, now),
            Kind::Pod => self.remember_pod(key),
            Kind::DataSource | Kind::Snapshot | Kind::Content | Kind::Revision => {}
        }
        self.mark_neighbors(&id);
    }

    /// Whether an object takes the name of a different one, whose deletion was not reported.
    fn replaces(&self, key: &Key, object: &Object) -> bool {
        let (known, new) = match object {
            Object::Machine(view) => (self.machines.view(key).map(|known| &known.meta), &view.meta),
            Object::Instance(view) => (self.instances.view(key).map(|known| &known.meta), &view.meta),
            Object::DataVolume(view) => (self.data_volumes.view(key).map(|known| &known.meta), &view.meta),
            Object::Claim(view) => (self.claims.view(key).map(|known| &known.meta), &view.meta),
            Object::Pod(view) => (self.pods.view(key).map(|known| &known.meta), &view.meta),
            Object::DataSource(view) => (self.data_sources.view(key).map(|known| &known.meta), &view.meta),
            Object::Snapshot(view) => (self.snapshots.view(key).map(|known| &known.meta), &view.meta),
            Object::Content(view) => (self.contents.view(key).map(|known| &known.meta), &view.meta),
            Object::Revision(view) => (self.revisions.view(key).map(|known| &known.meta), &view.meta),
        };
        known.is_some_and(|known| known.uid != new.uid && known.version < new.version)
    }

    /// An object is gone.
    pub(super) fn lose(&mut self, id: &Id, now: Timestamp) {
        // While the object is known, its neighbors are.
        self.mark_neighbors(id);
        let key = &id.key;
        match id.kind {
            Kind::Machine => {
                self.machines.lose(key);
                self.index(key);
            }
            Kind::Instance => {
                if let Some((view, memory)) = self.instances.lose(key) {
                    self.index(key);
                    self.abandon_mounts(&view.meta.uid, memory);
                }
            }
            Kind::DataVolume => {
                if let Some((view, memory)) = self.data_volumes.lose(key)
                    && !view.meta.deleting()
                    && !memory.collected
                {
                    self.suspect(key, now);
                }
            }
            Kind::Claim => {
                if let Some((view, _)) = self.claims.lose(key)
                    && !view.meta.deleting()
                {
                    self.suspect(key, now);
                }
            }
            Kind::Pod => self.lose_pod(key),
            Kind::DataSource => drop(self.data_sources.lose(key)),
            Kind::Snapshot => drop(self.snapshots.lose(key)),
            Kind::Content => drop(self.contents.lose(key)),
            Kind::Revision => drop(self.revisions.lose(key)),
        }
    }

    /// Objects of a kind that a complete list lacks.
    pub(super) fn unlisted(&self, kind: Kind, listed: &HashSet<Key>, began: Timestamp) -> Vec<Key> {
        match kind {
            Kind::Machine => self.machines.unlisted(listed, began),
            Kind::Instance => self.instances.unlisted(listed, began),
            Kind::DataVolume => self.data_volumes.unlisted(listed, began),
            Kind::Claim => self.claims.unlisted(listed, began),
            Kind::Pod => self.pods.unlisted(listed, began),
            Kind::DataSource => self.data_sources.unlisted(listed, began),
            Kind::Snapshot => self.snapshots.unlisted(listed, began),
            Kind::Content => self.contents.unlisted(listed, began),
            Kind::Revision => self.revisions.unlisted(listed, began),
        }
    }

    /// Records which DataVolumes and claims the machine and the instance of this name refer to.
    fn index(&mut self, key: &Key) {
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
    pub(super) fn uses(&self, key: &Key) -> BTreeSet<Key> {
        let machine = self.machines.view(key).map(|machine| machine.spec.disks()).unwrap_or_default();
        let instance = self.instances.view(key).map(|instance| {
            let (data_volumes, claims) = volumes_of(&instance.spec);
            data_volumes.into_iter().chain(claims)
        });
        machine.into_iter().chain(instance.into_iter().flatten()).map(|name| key.sibling(&name)).collect()
    }

    /// Marks an object and all objects whose controllers look at it.
    pub(super) fn mark_neighbors(&mut self, id: &Id) {
        self.agenda.mark(id.clone());
        let key = &id.key;
        match id.kind {
            Kind::Machine => {
                self.mark(Kind::Instance, key);
                // Its knobs are those of the instance and its Pod.
                self.mark_pods_of(key);
                self.mark_suspects_of(key);
            }
            Kind::Instance => {
                self.mark(Kind::Machine, key);
                self.mark_pods_of(key);
                for disk in self.uses(key) {
                    self.mark(Kind::DataVolume, &disk);
                }
                self.mark_suspects_of(key);
            }
            Kind::DataVolume | Kind::Claim => {
                self.mark(Kind::DataVolume, key);
                self.mark(Kind::Claim, key);
                for user in self.users.get(key).into_iter().flatten() {
                    self.agenda.mark(Id::new(Kind::Machine, user));
                    self.agenda.mark(Id::new(Kind::Instance, user));
                }
                if id.kind == Kind::Claim {
                    self.mark_dependents(id);
                } else {
                    self.mark_source_of(key);
                    if self.data_volumes.view(key).is_none_or(|view| view.succeeded()) {
                        self.mark_dependents(&Id::new(Kind::Claim, key));
                    }
                }
            }
            Kind::Pod => {
                if let Some(instance) = self.instance_of_pod(key) {
                    self.mark(Kind::Instance, &instance);
                }
            }
            Kind::DataSource | Kind::Snapshot => self.mark_dependents(id),
            Kind::Content => {
                if let Some(content) = self.contents.view(key) {
                    self.agenda.mark(Id::new(Kind::Snapshot, &content.snapshot.clone()));
                }
            }
            Kind::Revision => self.mark_users_of(key),
        }
    }

    pub(super) fn mark(&mut self, kind: Kind, key: &Key) {
        self.agenda.mark(Id::new(kind, key));
    }

    /// Marks every object whose key is wanted.
    pub(super) fn mark_all(&mut self, wanted: impl Fn(&Key) -> bool) {
        for kind in Kind::ALL {
            let keys = match kind {
                Kind::Machine => self.machines.keys(),
                Kind::Instance => self.instances.keys(),
                Kind::DataVolume => self.data_volumes.keys(),
                Kind::Claim => self.claims.keys(),
                Kind::Pod => self.pods.keys(),
                Kind::DataSource => self.data_sources.keys(),
                Kind::Snapshot => self.snapshots.keys(),
                Kind::Content => self.contents.keys(),
                Kind::Revision => self.revisions.keys(),
            };
            for key in keys.into_iter().filter(&wanted) {
                self.agenda.mark(Id { kind, key });
            }
        }
    }
}
