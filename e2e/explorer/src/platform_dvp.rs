//! The core of the simulated DVP.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, Change, ChangeKind, PatchKind, Verb};
use vmpool_simulator::objects::{
    AttachmentView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, StoredAttachment,
    StoredDisk, StoredImage, StoredMachine, StoredOperation,
};
use vmpool_simulator::world::{Action, Event, Object, Outcome, Settings, Violation, World, Write};

use crate::simulated::{Simulated, call, decode};

/// The simulated kinds and their resources. Pods are left out, because no component here reads them.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Machine, "virtualmachines"),
    (Kind::Disk, "virtualdisks"),
    (Kind::ClusterImage, "clustervirtualimages"),
    (Kind::Operation, "virtualmachineoperations"),
    (Kind::Attachment, "virtualmachineblockdeviceattachments"),
];

/// DVP.
pub(crate) struct Dvp(World);

impl Dvp {
    pub(crate) fn new(settings: Settings, now: Timestamp) -> Self {
        let mut world = World::new(settings);
        world.observe(Event::Synced, now);
        Self(world)
    }
}

impl Simulated for Dvp {
    fn observe(&mut self, change: &Change, now: Timestamp) {
        if let Some(event) = event(change) {
            self.0.observe(event, now);
        }
    }

    fn step(&mut self, now: Timestamp) -> (Vec<Call>, Vec<Violation>) {
        let (mut calls, mut violations) = (Vec::new(), Vec::new());
        for action in self.0.step(now) {
            match action {
                Action::Report(violation) => violations.push(violation),
                Action::Write(id, write) => {
                    if let Some(call) = request(&id, write) {
                        calls.push(call);
                    } else {
                        let outcome = Outcome::Failed("the model has no such kind".to_owned());
                        self.0.observe(Event::Written(id, outcome), now);
                    }
                }
            }
        }
        (calls, violations)
    }

    fn written(&mut self, call: &Call, response: Result<Value, ApiError>, now: Timestamp) {
        let Some((kind, _)) = KINDS.iter().find(|(_, resource)| *resource == call.resource) else { return };
        let key = Key { namespace: call.namespace.as_str().into(), name: call.name.as_str().into() };
        let outcome = match response {
            Ok(object) => Outcome::Done(read(*kind, &object)),
            Err(ApiError { reason, .. }) if reason == "NotFound" => Outcome::NotFound,
            Err(ApiError { reason, .. }) if reason == "Conflict" => Outcome::Conflict,
            Err(refusal) => Outcome::Failed(refusal.message),
        };
        self.0.observe(Event::Written(Id::new(*kind, key), outcome), now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.0.next_due()
    }
}

fn request(id: &Id, write: Write) -> Option<Call> {
    let (_, resource) = KINDS.iter().find(|(kind, _)| *kind == id.kind)?;
    let (verb, subresource, body) = match write {
        Write::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
        Write::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
        Write::Create(body) => (Verb::Create, "", body),
        Write::Delete(uid) => (Verb::Delete, "", json!({ "preconditions": { "uid": &*uid } })),
    };
    let resource = ("virtualization.deckhouse.io", "v1alpha2", *resource);
    Some(call(verb, resource, (&id.key.namespace, &id.key.name), subresource, body))
}

/// The platform's event for a change, if there is one.
fn event(change: &Change) -> Option<Event> {
    let (kind, _) = KINDS.iter().find(|(_, plural)| {
        change.key.resource.strip_prefix(plural).is_some_and(|rest| rest.starts_with('.'))
    })?;
    let key = Key { namespace: change.key.namespace.clone(), name: change.key.name.clone() };
    match change.kind {
        ChangeKind::Deleted => Some(Event::Gone(Id::new(*kind, key))),
        ChangeKind::Added | ChangeKind::Modified => Some(Event::Seen(key, read(*kind, &change.object)?)),
    }
}

fn read(kind: Kind, object: &Value) -> Option<Object> {
    match kind {
        Kind::Machine => {
            decode::<StoredMachine>(object).map(|stored| Object::Machine(Box::new(MachineView::read(stored))))
        }
        Kind::Disk => {
            decode::<StoredDisk>(object).map(|stored| Object::Disk(Box::new(DiskView::read(stored))))
        }
        Kind::Image | Kind::ClusterImage => {
            decode::<StoredImage>(object).map(|stored| Object::Image(kind, ImageView::read(&stored)))
        }
        Kind::Operation => {
            decode::<StoredOperation>(object).map(|stored| Object::Operation(OperationView::read(stored)))
        }
        Kind::Attachment => {
            decode::<StoredAttachment>(object).map(|stored| Object::Attachment(AttachmentView::read(stored)))
        }
        Kind::Pod => None,
    }
}

/// A cluster image from which machines can boot.
pub(crate) fn image() -> Value {
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "ClusterVirtualImage",
        "metadata": { "name": "alpine" },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/alpine.qcow2" } } },
    })
}
