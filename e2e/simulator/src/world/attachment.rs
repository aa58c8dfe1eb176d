//! VirtualMachineBlockDeviceAttachment: an object that adds a device to a machine.

use super::{
    events::{DvpModelAction, DvpObservationSource, DvpWrite},
    model::{DvpModel, SimulatedAttachment},
};
use crate::{
    objects::{AttachmentView, DvpObjectId, DvpObjectKind, NamespacedKey},
    shared::outbox::{Outbox, Permit, locked_status},
};
use jiff::Timestamp;
use serde_json::json;

impl DvpModel {
    pub(super) fn see_attachment(
        &mut self,
        key: &NamespacedKey,
        view: AttachmentView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let machine = key.sibling(&view.machine);
        match self.attachments.get_mut(key) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                if view.meta.version <= known.view.meta.version {
                    return;
                }
                known.view = view;
                known.outbox.touched = now;
            }
            _ if novelty == DvpObservationSource::KnownOnly => return,
            _ => {
                self.lose_attachment(key);
                self.attachments.insert(key.clone(), SimulatedAttachment { view, outbox: Outbox::new(now) });
                self.attachments_of.entry(machine.clone()).or_default().insert(key.clone());
            }
        }
        self.mark(DvpObjectKind::Attachment, key);
        self.mark(DvpObjectKind::Machine, &machine);
    }

    pub(super) fn lose_attachment(&mut self, key: &NamespacedKey) {
        let Some(attachment) = self.attachments.remove(key) else { return };
        let machine = key.sibling(&attachment.view.machine);
        if let Some(attachments) = self.attachments_of.get_mut(&machine) {
            attachments.remove(key);
            if attachments.is_empty() {
                self.attachments_of.remove(&machine);
            }
        }
        self.mark(DvpObjectKind::Machine, &machine);
    }

    pub(super) fn plan_attachment(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(attachment) = self.attachments.get(key) else { return };
        if attachment.view.meta.deleting {
            return;
        }
        let machine = self.machines.get(&key.sibling(&attachment.view.machine));
        let device = machine.and_then(|machine| {
            machine.devices.iter().find(|device| device.attachment.as_deref() == Some(&*key.name))
        });
        let phase = match device {
            Some(device) if device.is_attached() => "Attached",
            Some(_) if machine.is_some_and(|machine| !machine.power.is_off()) => "InProgress",
            _ => "Pending",
        };
        if attachment.view.phase.as_deref() == Some(phase) {
            return;
        }
        let id = DvpObjectId::new(DvpObjectKind::Attachment, key.clone());
        let Some(attachment) = self.attachments.get_mut(key) else { return };
        match attachment.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id, at),
        }
        let status = json!({"phase": phase, "observedGeneration": attachment.view.meta.generation});
        if attachment.outbox.admit(&status, attachment.view.meta.version) {
            let patch = locked_status(&attachment.view.meta, &status);
            self.actions.push(DvpModelAction::Write(id, DvpWrite::PatchStatus(patch)));
        }
    }
}
