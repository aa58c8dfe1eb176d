//! Images: the simulator makes images without a phase ready, and does not change other images.

use super::{
    events::{DvpModelAction, DvpObservationSource, DvpWrite},
    model::{DvpModel, SimulatedImage, matching_keys},
};
use crate::{
    objects::{DvpObjectId, DvpObjectKind, ImageView, NamespacedKey},
    shared::outbox::{Outbox, Permit, locked_status},
};
use jiff::Timestamp;
use serde_json::json;

/// Size of all images that the simulator makes ready: 256 MiB, in bytes.
const CONTENT_BYTES: &str = "268435456";

impl DvpModel {
    /// A known image. A cluster image has no namespace.
    pub(super) fn image(&self, kind: DvpObjectKind, namespace: &str, name: &str) -> Option<&ImageView> {
        let namespace = if kind == DvpObjectKind::ClusterImage { "" } else { namespace };
        self.images.get(&DvpObjectId::new(kind, NamespacedKey::new(namespace, name))).map(|image| &image.view)
    }

    pub(super) fn see_image(
        &mut self,
        id: &DvpObjectId,
        view: ImageView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let ready = view.is_ready();
        let was_ready = match self.images.get_mut(id) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                if view.meta.version <= known.view.meta.version {
                    return;
                }
                known.outbox.touched = now;
                std::mem::replace(&mut known.view, view).is_ready()
            }
            _ if novelty == DvpObservationSource::KnownOnly => return,
            _ => {
                self.images.insert(id.clone(), SimulatedImage { view, outbox: Outbox::new(now) });
                false
            }
        };
        self.agenda.mark(id.clone());
        if ready != was_ready {
            self.mark_users_of_image(id);
        }
    }

    pub(super) fn lose_image(&mut self, id: &DvpObjectId) {
        if self.images.remove(id).is_some() {
            self.mark_users_of_image(id);
        }
    }

    /// Enqueues disks that wait for an image, and machines that are not running. Images change rarely, so
    /// that all objects of the namespace are enqueued.
    fn mark_users_of_image(&mut self, id: &DvpObjectId) {
        for disk in self.disks_of_image(&id.key.namespace) {
            self.mark(DvpObjectKind::Disk, &disk);
        }
        let machines = matching_keys(&self.machines, |key, machine| {
            machine.power.boot().is_none()
                && (id.kind == DvpObjectKind::ClusterImage || key.namespace == id.key.namespace)
        });
        for machine in machines {
            self.mark(DvpObjectKind::Machine, &machine);
        }
    }

    pub(super) fn plan_image(&mut self, id: &DvpObjectId, now: Timestamp) {
        let Some(image) = self.images.get_mut(id) else { return };
        if image.view.phase.is_some() || image.view.meta.deleting {
            return;
        }
        match image.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id.clone(), at),
        }
        let status = json!({
            "phase": "Ready",
            "format": "qcow2",
            "cdrom": false,
            "size": {
                "stored": "256Mi",
                "storedBytes": CONTENT_BYTES,
                "unpacked": "256Mi",
                "unpackedBytes": CONTENT_BYTES,
            },
        });
        if image.outbox.admit(&status, image.view.meta.version) {
            let patch = locked_status(&image.view.meta, &status);
            self.actions.push(DvpModelAction::Write(id.clone(), DvpWrite::PatchStatus(patch)));
        }
    }
}
