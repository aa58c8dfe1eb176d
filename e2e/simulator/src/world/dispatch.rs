//! Applies events to the model, and enqueues the objects that they affect.

use super::{
    events::{DvpObservationSource, DvpWriteOutcome, ObservedDvpObject},
    model::{DvpModel, matching_keys},
};
use crate::{
    objects::{DvpObjectId, DvpObjectKind, NamespacedKey},
    shared::outbox,
};
use jiff::Timestamp;
use std::{collections::HashSet, sync::Arc};

impl DvpModel {
    /// Stores an object's new state in the model. The response to a write does not restore an object whose
    /// deletion was observed before the response.
    pub(super) fn see(
        &mut self,
        key: &NamespacedKey,
        object: ObservedDvpObject,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        match object {
            ObservedDvpObject::Machine(view) => self.see_machine(key, *view, novelty, now),
            ObservedDvpObject::Disk(view) => self.see_disk(key, *view, novelty, now),
            ObservedDvpObject::Image(kind, view) => {
                self.see_image(&DvpObjectId::new(kind, key.clone()), view, novelty, now);
            }
            ObservedDvpObject::Operation(view) => self.see_operation(key, view, novelty, now),
            ObservedDvpObject::Attachment(view) => self.see_attachment(key, view, novelty, now),
            ObservedDvpObject::Pod(view) => self.see_pod(key, *view, novelty, now),
        }
    }

    pub(super) fn lose(&mut self, id: &DvpObjectId) {
        match id.kind {
            DvpObjectKind::Machine => self.lose_machine(&id.key),
            DvpObjectKind::Disk => self.lose_disk(&id.key),
            DvpObjectKind::Image | DvpObjectKind::ClusterImage => self.lose_image(id),
            DvpObjectKind::Operation => self.lose_operation(&id.key),
            DvpObjectKind::Attachment => self.lose_attachment(&id.key),
            DvpObjectKind::Pod => self.lose_pod(&id.key),
        }
    }

    pub(super) fn forget_unlisted(
        &mut self,
        kind: DvpObjectKind,
        keys: &HashSet<NamespacedKey>,
        began: Timestamp,
    ) {
        let unlisted = |key: &NamespacedKey, touched: Timestamp| touched < began && !keys.contains(key);
        let gone: Vec<NamespacedKey> = match kind {
            DvpObjectKind::Machine => matching_keys(&self.machines, |k, m| unlisted(k, m.outbox.touched)),
            DvpObjectKind::Disk => matching_keys(&self.disks, |k, d| unlisted(k, d.outbox.touched)),
            DvpObjectKind::Image | DvpObjectKind::ClusterImage => {
                matching_keys(&self.images, |id, i| id.kind == kind && unlisted(&id.key, i.outbox.touched))
                    .into_iter()
                    .map(|id| id.key)
                    .collect()
            }
            DvpObjectKind::Operation => matching_keys(&self.operations, |k, o| unlisted(k, o.outbox.touched)),
            DvpObjectKind::Attachment => {
                matching_keys(&self.attachments, |k, a| unlisted(k, a.outbox.touched))
            }
            DvpObjectKind::Pod => {
                matching_keys(&self.pods, |k, p| p.view.is_some() && unlisted(k, p.outbox.touched))
            }
        };
        for key in gone {
            self.lose(&DvpObjectId::new(kind, key));
        }
    }

    pub(super) fn settle(&mut self, id: &DvpObjectId, outcome: DvpWriteOutcome, now: Timestamp) {
        if let DvpWriteOutcome::Failed(why) = &outcome {
            tracing::debug!(kind = ?id.kind, object = %id.key, %why, "write failed; retrying");
        }
        let failed = match outcome {
            DvpWriteOutcome::Done(object) => {
                if let Some(object) = object {
                    self.see(&id.key, object, DvpObservationSource::KnownOnly, now);
                }
                None
            }
            DvpWriteOutcome::Conflict => Some("another client has changed the object".to_owned()),
            DvpWriteOutcome::NotFound => Some("not found".to_owned()),
            DvpWriteOutcome::Failed(why) => Some(why),
        };
        let Some((outbox, version)) = self.outbox(id) else { return };
        let retry = outbox.ended(failed, version, now);
        match retry {
            Some(at) => self.agenda.wake(id.clone(), at),
            None => self.agenda.mark(id.clone()),
        }
        if let (DvpObjectKind::Pod, Some(pod)) = (id.kind, self.pods.get(&id.key)) {
            let machine = pod.machine.clone();
            self.mark(DvpObjectKind::Machine, &machine);
        }
    }

    /// The outbox of an existing object, and its last observed version.
    fn outbox(&mut self, id: &DvpObjectId) -> Option<(&mut outbox::Outbox, u64)> {
        let DvpObjectId { kind, key } = id;
        Some(match kind {
            DvpObjectKind::Machine => {
                self.machines.get_mut(key).map(|m| (&mut m.outbox, m.view.meta.version))?
            }
            DvpObjectKind::Disk => self.disks.get_mut(key).map(|d| (&mut d.outbox, d.view.meta.version))?,
            DvpObjectKind::Image | DvpObjectKind::ClusterImage => {
                self.images.get_mut(id).map(|i| (&mut i.outbox, i.view.meta.version))?
            }
            DvpObjectKind::Operation => {
                self.operations.get_mut(key).map(|o| (&mut o.outbox, o.view.meta.version))?
            }
            DvpObjectKind::Attachment => {
                self.attachments.get_mut(key).map(|a| (&mut a.outbox, a.view.meta.version))?
            }
            DvpObjectKind::Pod => self.pods.get_mut(key).map(|p| {
                let version = p.view.as_ref().map_or(0, |view| view.meta.version);
                (&mut p.outbox, version)
            })?,
        })
    }

    pub(super) fn mark(&mut self, kind: DvpObjectKind, key: &NamespacedKey) {
        self.agenda.mark(DvpObjectId::new(kind, key.clone()));
    }

    pub(super) fn mark_users(&mut self, disk: &NamespacedKey) {
        for machine in self.users.get(disk).into_iter().flatten() {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Machine, machine.clone()));
        }
    }

    pub(super) fn mark_namespace(&mut self, namespace: &Arc<str>) {
        let machines = matching_keys(&self.machines, |key, _| key.namespace == *namespace);
        let disks = matching_keys(&self.disks, |key, _| key.namespace == *namespace);
        for key in &machines {
            self.mark(DvpObjectKind::Machine, key);
        }
        for key in &disks {
            self.mark(DvpObjectKind::Disk, key);
        }
    }

    /// Enqueues waiting disks, and machines that wait for images.
    pub(super) fn mark_disks_that_wait(&mut self) {
        for key in matching_keys(&self.disks, |_, disk| disk.is_pending()) {
            self.mark(DvpObjectKind::Disk, &key);
        }
    }

    /// Enqueues all objects for the first time. Running machines precede waiting ones, so that a disk in the
    /// spec of several machines remains attached to the machine that uses it.
    pub(super) fn enqueue_all(&mut self) {
        let mut machines: Vec<_> =
            self.machines.iter().map(|(key, m)| (m.seniority(), key.clone())).collect();
        machines.sort();
        for (_, key) in machines {
            self.mark(DvpObjectKind::Machine, &key);
        }
        let disks: Vec<_> = self.disks.keys().cloned().collect();
        for key in &disks {
            self.mark(DvpObjectKind::Disk, key);
        }
    }
}
