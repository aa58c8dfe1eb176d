//! The core of the simulated DVP.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, ChangeKind, ObjectChange, PatchKind, Verb};
use vmpool_simulator::objects::{
    AttachmentView, DiskView, DvpMachineView, DvpObjectId, DvpObjectKind, ImageView, NamespacedKey,
    OperationView, StoredAttachment, StoredDvpDisk, StoredDvpMachine, StoredImage, StoredOperation,
};
use vmpool_simulator::world::{
    DiskViolation, DvpModel, DvpModelAction, DvpModelEvent, DvpWrite, DvpWriteOutcome, ObservedDvpObject,
    SimulatorSettings,
};

use crate::simulated::{Simulated, decode_object, simulator_call};

/// The simulated kinds and their resources. Pods are left out, because no component here reads them.
const KINDS: [(DvpObjectKind, &str); 5] = [
    (DvpObjectKind::Machine, "virtualmachines"),
    (DvpObjectKind::Disk, "virtualdisks"),
    (DvpObjectKind::ClusterImage, "clustervirtualimages"),
    (DvpObjectKind::Operation, "virtualmachineoperations"),
    (DvpObjectKind::Attachment, "virtualmachineblockdeviceattachments"),
];

/// DVP.
pub(crate) struct DvpSimulation(DvpModel);

impl DvpSimulation {
    pub(crate) fn new(settings: SimulatorSettings, now: Timestamp) -> Self {
        let mut world = DvpModel::new(settings);
        world.observe(DvpModelEvent::Synced, now);
        Self(world)
    }
}

impl Simulated for DvpSimulation {
    fn observe(&mut self, change: &ObjectChange, now: Timestamp) {
        if let Some(event) = event(change) {
            self.0.observe(event, now);
        }
    }

    fn step(&mut self, now: Timestamp) -> (Vec<Call>, Vec<DiskViolation>) {
        let (mut calls, mut violations) = (Vec::new(), Vec::new());
        for action in self.0.step(now) {
            match action {
                DvpModelAction::Report(violation) => violations.push(violation),
                DvpModelAction::Write(id, write) => {
                    if let Some(call) = request(&id, write) {
                        calls.push(call);
                    } else {
                        let outcome = DvpWriteOutcome::Failed("the model has no such kind".to_owned());
                        self.0.observe(DvpModelEvent::Written(id, outcome), now);
                    }
                }
            }
        }
        (calls, violations)
    }

    fn written(&mut self, call: &Call, response: Result<Value, ApiError>, now: Timestamp) {
        let Some((kind, _)) = KINDS.iter().find(|(_, resource)| *resource == call.resource) else { return };
        let key =
            NamespacedKey { namespace: call.namespace.as_str().into(), name: call.name.as_str().into() };
        let outcome = match response {
            Ok(object) => DvpWriteOutcome::Done(read(*kind, &object)),
            Err(ApiError { reason, .. }) if reason == "NotFound" => DvpWriteOutcome::NotFound,
            Err(ApiError { reason, .. }) if reason == "Conflict" => DvpWriteOutcome::Conflict,
            Err(refusal) => DvpWriteOutcome::Failed(refusal.message),
        };
        self.0.observe(DvpModelEvent::Written(DvpObjectId::new(*kind, key), outcome), now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.0.next_due()
    }
}

fn request(id: &DvpObjectId, write: DvpWrite) -> Option<Call> {
    let (_, resource) = KINDS.iter().find(|(kind, _)| *kind == id.kind)?;
    let (verb, subresource, body) = match write {
        DvpWrite::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
        DvpWrite::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
        DvpWrite::Create(body) => (Verb::Create, "", body),
        DvpWrite::Delete(uid) => (Verb::Delete, "", json!({ "preconditions": { "uid": &*uid } })),
    };
    let resource = ("virtualization.deckhouse.io", "v1alpha2", *resource);
    Some(simulator_call(verb, resource, (&id.key.namespace, &id.key.name), subresource, body))
}

/// The platform's event for a change, if there is one.
fn event(change: &ObjectChange) -> Option<DvpModelEvent> {
    let (kind, _) = KINDS.iter().find(|(_, plural)| {
        change.key.resource.strip_prefix(plural).is_some_and(|rest| rest.starts_with('.'))
    })?;
    let key = NamespacedKey { namespace: change.key.namespace.clone(), name: change.key.name.clone() };
    match change.kind {
        ChangeKind::Deleted => Some(DvpModelEvent::Gone(DvpObjectId::new(*kind, key))),
        ChangeKind::Added | ChangeKind::Modified => {
            Some(DvpModelEvent::Seen(key, read(*kind, &change.object)?))
        }
    }
}

fn read(kind: DvpObjectKind, object: &Value) -> Option<ObservedDvpObject> {
    match kind {
        DvpObjectKind::Machine => decode_object::<StoredDvpMachine>(object)
            .map(|stored| ObservedDvpObject::Machine(Box::new(DvpMachineView::read(stored)))),
        DvpObjectKind::Disk => decode_object::<StoredDvpDisk>(object)
            .map(|stored| ObservedDvpObject::Disk(Box::new(DiskView::read(stored)))),
        DvpObjectKind::Image | DvpObjectKind::ClusterImage => decode_object::<StoredImage>(object)
            .map(|stored| ObservedDvpObject::Image(kind, ImageView::read(&stored))),
        DvpObjectKind::Operation => decode_object::<StoredOperation>(object)
            .map(|stored| ObservedDvpObject::Operation(OperationView::read(stored))),
        DvpObjectKind::Attachment => decode_object::<StoredAttachment>(object)
            .map(|stored| ObservedDvpObject::Attachment(AttachmentView::read(stored))),
        DvpObjectKind::Pod => None,
    }
}

/// A cluster image from which machines can boot.
pub(crate) fn cluster_image_object() -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "ClusterVirtualImage",
        "metadata": { "name": "alpine" },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/alpine.qcow2" } } },
    })
}
