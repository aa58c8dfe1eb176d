//! The core of the simulated KubeVirt with CDI.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, Change, ChangeKind, PatchKind, Verb};
use vmpool_simulator::kubevirt::objects::{
    COPY, ClaimView, ContentView, DataSourceView, DataVolumeView, Id, InstanceView, Kind, MachineView,
    Object, RevisionView, SnapshotView,
};
use vmpool_simulator::kubevirt::{Action, Event, Outcome, World, Write};
use vmpool_simulator::objects::{BindingMode, ClassView, Key};
use vmpool_simulator::world::{Settings, Violation};

use crate::simulated::{Simulated, call, decode};

/// The simulated kinds. Pods are left out, because no component here reads them.
const KINDS: [Kind; 8] = [
    Kind::Machine,
    Kind::Instance,
    Kind::DataVolume,
    Kind::Claim,
    Kind::DataSource,
    Kind::Snapshot,
    Kind::Content,
    Kind::Revision,
];

/// KubeVirt with CDI.
pub(crate) struct KubeVirt(World);

impl KubeVirt {
    pub(crate) fn new(settings: Settings, now: Timestamp) -> Self {
        let mut world = World::new(settings);
        let class = ClassView { binding: BindingMode::Immediate, expands: false, is_default: true };
        world.observe(Event::Class("fast".to_owned(), Some(class)), now);
        world.observe(Event::Synced, now);
        Self(world)
    }
}

impl Simulated for KubeVirt {
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
                Action::Write(id, write) => calls.push(request(&id, write)),
            }
        }
        (calls, violations)
    }

    fn written(&mut self, call: &Call, response: Result<Value, ApiError>, now: Timestamp) {
        let Some(kind) = KINDS.into_iter().find(|kind| kind.resource().plural == call.resource) else {
            return;
        };
        let outcome = match response {
            Ok(_) if call.verb == Verb::Delete => Outcome::Done(None),
            Ok(object) => Outcome::Done(read(kind, &object)),
            Err(ApiError { reason, .. }) if reason == "NotFound" && call.verb == Verb::Delete => {
                Outcome::Done(None)
            }
            Err(ApiError { reason, .. }) if reason == "NotFound" => Outcome::NotFound,
            Err(ApiError { reason, .. }) if reason == "Conflict" => Outcome::Conflict,
            Err(refusal) => Outcome::Failed(refusal.message),
        };
        let key = Key { namespace: call.namespace.as_str().into(), name: call.name.as_str().into() };
        self.0.observe(Event::Written(Id { kind, key }, outcome), now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.0.next_due()
    }
}

fn request(id: &Id, write: Write) -> Call {
    let (verb, subresource, body) = match write {
        Write::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
        Write::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
        // The explorer has one namespace, so no clone needs a permission, and it downloads nothing.
        Write::Create(body) | Write::CreateClone { body, .. } => (Verb::Create, "", body),
        Write::Fetch(download) => {
            let unreachable = Err("no server in the explorer".to_owned());
            (Verb::Patch(PatchKind::Merge), "", download.record(unreachable))
        }
        Write::Delete { uid, .. } => (Verb::Delete, "", json!({ "preconditions": { "uid": &*uid } })),
    };
    let resource = id.kind.resource();
    let resource = (&*resource.group, &*resource.version, &*resource.plural);
    call(verb, resource, (&id.key.namespace, &id.key.name), subresource, body)
}

/// The platform's event for a change, if there is one.
fn event(change: &Change) -> Option<Event> {
    let named = |kind: &Kind| {
        let resource = kind.resource();
        *change.key.resource == *format!("{}.{}", resource.plural, resource.group).trim_end_matches('.')
    };
    let kind = KINDS.into_iter().find(named)?;
    let key = Key { namespace: change.key.namespace.clone(), name: change.key.name.clone() };
    match change.kind {
        ChangeKind::Deleted => Some(Event::Gone(Id { kind, key })),
        ChangeKind::Added | ChangeKind::Modified => Some(Event::Seen(key, read(kind, &change.object)?)),
    }
}

fn read(kind: Kind, object: &Value) -> Option<Object> {
    match kind {
        Kind::Machine => decode(object).map(|stored| Object::Machine(Box::new(MachineView::read(stored)))),
        Kind::Instance => decode(object).map(|stored| Object::Instance(Box::new(InstanceView::read(stored)))),
        Kind::DataVolume => {
            decode(object).map(|stored| Object::DataVolume(Box::new(DataVolumeView::read(stored))))
        }
        Kind::Claim => decode(object).map(|stored| Object::Claim(Box::new(ClaimView::read(stored)))),
        Kind::Revision if object["metadata"]["labels"][COPY].is_null() => None,
        Kind::Revision => decode(object).map(|stored| Object::Revision(Box::new(RevisionView::read(stored)))),
        Kind::DataSource => {
            decode(object).map(|stored| Object::DataSource(Box::new(DataSourceView::read(stored))))
        }
        Kind::Snapshot => decode(object).map(|stored| Object::Snapshot(Box::new(SnapshotView::read(stored)))),
        Kind::Content => decode(object).map(|stored| Object::Content(Box::new(ContentView::read(stored)))),
        Kind::Pod => None,
    }
}
