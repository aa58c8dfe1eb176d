//! The core of the simulated KubeVirt with CDI.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, Change, ChangeKind, PatchKind, Verb};
use vmpool_simulator::kubevirt::objects::{
    COPY, ClaimView, ContentView, DataSourceView, DataVolumeView, Id, InstanceView, Kind, MachineView,
    Object, RevisionView, SnapshotView,
};
use vmpool_simulator::kubevirt::{Action, Event, Outcome, Review, World, Write};
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
pub(crate) struct KubeVirt {
    world: World,
    access: Access,
}

/// Who may clone which source, as the stored Roles and RoleBindings say: the part of RBAC that clones need.
#[derive(Default)]
struct Access {
    /// The names of the sources, by namespace and name of the Role.
    roles: BTreeMap<(String, String), Vec<String>>,
    /// The Role and the users, by namespace and name of the RoleBinding.
    bindings: BTreeMap<(String, String), (String, Vec<String>)>,
}

impl Access {
    fn observe(&mut self, change: &Change) {
        let key = (change.key.namespace.to_string(), change.key.name.to_string());
        let exists = change.kind != ChangeKind::Deleted;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match &*change.key.resource {
            "roles.rbac.authorization.k8s.io" => {
                self.roles.remove(&key);
                if exists {
                    let rules = list(&change.object["rules"]);
                    let names = rules.iter().flat_map(|rule| list(&rule["resourceNames"]));
                    self.roles.insert(key, names.map(|name| text(&name)).collect());
                }
            }
            "rolebindings.rbac.authorization.k8s.io" => {
                self.bindings.remove(&key);
                if exists {
                    let user = |subject: &Value| {
                        let (namespace, name) = (text(&subject["namespace"]), text(&subject["name"]));
                        format!("system:serviceaccount:{namespace}:{name}")
                    };
                    let users = list(&change.object["subjects"]).iter().map(user).collect();
                    self.bindings.insert(key, (text(&change.object["roleRef"]["name"]), users));
                }
            }
            _ => {}
        }
    }

    fn permits(&self, review: &Review) -> bool {
        self.bindings.iter().any(|((namespace, _), (role, users))| {
            let sources = self.roles.get(&(namespace.clone(), role.clone()));
            *namespace == review.namespace
                && users.contains(&review.user)
                && sources.is_some_and(|sources| sources.contains(&review.name))
        })
    }
}

impl KubeVirt {
    pub(crate) fn new(settings: Settings, now: Timestamp) -> Self {
        let mut world = World::new(settings);
        let class = ClassView { binding: BindingMode::Immediate, expands: false, is_default: true };
        world.observe(Event::Class("fast".to_owned(), Some(class)), now);
        world.observe(Event::Synced, now);
        Self { world, access: Access::default() }
    }
}

impl Simulated for KubeVirt {
    fn observe(&mut self, change: &Change, now: Timestamp) {
        self.access.observe(change);
        if let Some(event) = event(change) {
            self.world.observe(event, now);
        }
    }

    fn step(&mut self, now: Timestamp) -> (Vec<Call>, Vec<Violation>) {
        let (mut calls, mut violations) = (Vec::new(), Vec::new());
        for action in self.world.step(now) {
            match action {
                Action::Report(violation) => violations.push(violation),
                Action::Write(id, Write::CreateClone { review, .. }) if !self.access.permits(&review) => {
                    self.world.observe(Event::Written(id, Outcome::Failed(review.refusal())), now);
                }
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
        self.world.observe(Event::Written(Id { kind, key }, outcome), now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.world.next_due()
    }
}

fn request(id: &Id, write: Write) -> Call {
    let (verb, subresource, body) = match write {
        Write::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
        Write::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
        // The permission of a clone was checked before. Nothing is downloaded.
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
