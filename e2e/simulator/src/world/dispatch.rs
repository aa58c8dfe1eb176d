//! Applies events to the model, and enqueues the objects that they affect.

use super::{
    events::{Novelty, Object, Outcome},
    model::{World, collect},
};
use crate::{
    objects::{Id, Key, Kind},
    shared::outbox,
};
use jiff::Timestamp;
use std::{collections::HashSet, sync::Arc};

impl World {
    /// Stores an object's new state in the model. The response to a write does not restore an object whose deletion was
    /// observed before the response.
    pub(super) fn see(&mut self, key: &Key, object: Object, novelty: Novelty, now: Timestamp) {
        match object {
            Object::Machine(view) => self.see_machine(key, *view, novelty, now),
            Object::Disk(view) => self.see_disk(key, *view, novelty, now),
            Object::Image(kind, view) => self.see_image(&Id::new(kind, key.clone()), view, novelty, now),
            Object::Operation(view) => self.see_operation(key, view, novelty, now),
            Object::Attachment(view) => self.see_attachment(key, view, novelty, now),
            Object::Pod(view) => self.see_pod(key, *view, novelty, now),
        }
    }

    pub(super) fn lose(&mut self, id: &Id) {
        match id.kind {
            Kind::Machine => self.lose_machine(&id.key),
            Kind::Disk => self.lose_disk(&id.key),
            Kind::Image | Kind::ClusterImage => self.lose_image(id),
            Kind::Operation => self.lose_operation(&id.key),
            Kind::Attachment => self.lose_attachment(&id.key),
            Kind::Pod => self.lose_pod(&id.key),
        }
    }

    pub(super) fn forget_unlisted(&mut self, kind: Kind, keys: &HashSet<Key>, began: Timestamp) {
        let unlisted = |key: &Key, touched: Timestamp| touched < began && !keys.contains(key);
        let gone: Vec<Key> = match kind {
            Kind::Machine => collect(&self.machines, |k, m| unlisted(k, m.outbox.touched)),
            Kind::Disk => collect(&self.disks, |k, d| unlisted(k, d.outbox.touched)),
            Kind::Image | Kind::ClusterImage => {
                collect(&self.images, |id, i| id.kind == kind && unlisted(&id.key, i.outbox.touched))
                    .into_iter()
                    .map(|id| id.key)
                    .collect()
            }
            Kind::Operation => collect(&self.operations, |k, o| unlisted(k, o.outbox.touched)),
            Kind::Attachment => collect(&self.attachments, |k, a| unlisted(k, a.outbox.touched)),
            Kind::Pod => collect(&self.pods, |k, p| p.view.is_some() && unlisted(k, p.outbox.touched)),
        };
        for key in gone {
            self.lose(&Id::new(kind, key));
        }
    }

    pub(super) fn settle(&mut self, id: &Id, outcome: Outcome, now: Timestamp) {
        if let Outcome::Failed(why) = &outcome {
            tracing::debug!(kind = ?id.kind, object = %id.key, %why, "write failed; retrying");
        }
        let failed = match outcome {
            Outcome::Done(object) => {
                if let Some(object) = object {
                    self.see(&id.key, object, Novelty::KnownOnly, now);
                }
                None
            }
            Outcome::Conflict => Some("another client has changed the object".to_owned()),
            Outcome::NotFound => Some("not found".to_owned()),
            Outcome::Failed(why) => Some(why),
        };
        let Some((outbox, version)) = self.outbox(id) else { return };
        let retry = outbox.ended(failed, version, now);
        match retry {
            Some(at) => self.agenda.wake(id.clone(), at),
            None => self.agenda.mark(id.clone()),
        }
        if let (Kind::Pod, Some(pod)) = (id.kind, self.pods.get(&id.key)) {
            let machine = pod.machine.clone();
            self.mark(Kind::Machine, &machine);
        }
    }

    /// The outbox of an existing object, and its last observed version.
    fn outbox(&mut self, id: &Id) -> Option<(&mut outbox::Outbox, u64)> {
        let Id { kind, key } = id;
        Some(match kind {
            Kind::Machine => self.machines.get_mut(key).map(|m| (&mut m.outbox, m.view.meta.version))?,
            Kind::Disk => self.disks.get_mut(key).map(|d| (&mut d.outbox, d.view.meta.version))?,
            Kind::Image | Kind::ClusterImage => {
                self.images.get_mut(id).map(|i| (&mut i.outbox, i.view.meta.version))?
            }
            Kind::Operation => self.operations.get_mut(key).map(|o| (&mut o.outbox, o.view.meta.version))?,
            Kind::Attachment => {
                self.attachments.get_mut(key).map(|a| (&mut a.outbox, a.view.meta.version))?
            }
            Kind::Pod => self.pods.get_mut(key).map(|p| {
                let version = p.view.as_ref().map_or(0, |view| view.meta.version);
                (&mut p.outbox, version)
            })?,
        })
    }

    pub(super) fn mark(&mut self, kind: Kind, key: &Key) {
        self.agenda.mark(Id::new(kind, key.clone()));
    }

    pub(super) fn mark_users(&mut self, disk: &Key) {
        for machine in self.users.get(disk).into_iter().flatten() {
            self.agenda.mark(Id::new(Kind::Machine, machine.clone()));
        }
    }

    pub(super) fn mark_namespace(&mut self, namespace: &Arc<str>) {
        let machines = collect(&self.machines, |key, _| key.namespace == *namespace);
        let disks = collect(&self.disks, |key, _| key.namespace == *namespace);
        for key in &machines {
            self.mark(Kind::Machine, key);
        }
        for key in &disks {
            self.mark(Kind::Disk, key);
        }
    }

    /// Enqueues waiting disks, and machines that wait for images.
    pub(super) fn mark_disks_that_wait(&mut self) {
        for key in collect(&self.disks, |_, disk| disk.is_pending()) {
            self.mark(Kind::Disk, &key);
        }
    }

    /// Enqueues all objects for the first time. Running machines precede waiting ones, so that a disk in the spec of
    /// several machines remains attached to the machine that uses it.
    pub(super) fn take_over(&mut self) {
        let mut machines: Vec<_> =
            self.machines.iter().map(|(key, m)| (m.seniority(), key.clone())).collect();
        machines.sort();
        for (_, key) in machines {
            self.mark(Kind::Machine, &key);
        }
        let disks: Vec<_> = self.disks.keys().cloned().collect();
        for key in &disks {
            self.mark(Kind::Disk, key);
        }
    }
}
