//! The core of the simulated KubeVirt with CDI.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_model::{ApiError, Call, ChangeKind, ObjectChange, PatchKind, Verb};
use vmpool_simulator::kubevirt::objects::{
    COPY, ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, KubeVirtMachineView,
    KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject, RevisionView, SnapshotView,
};
use vmpool_simulator::kubevirt::{
    CloneReview, KubeVirtModel, KubeVirtModelAction, KubeVirtModelEvent, KubeVirtWrite, KubeVirtWriteOutcome,
};
use vmpool_simulator::objects::{BindingMode, ClassView, NamespacedKey};
use vmpool_simulator::world::{DiskViolation, SimulatorSettings};

use crate::simulated::{Simulated, decode_object, simulator_call};

/// The simulated kinds. Pods are left out, because no component here reads them.
const KINDS: [KubeVirtObjectKind; 8] = [
    KubeVirtObjectKind::Machine,
    KubeVirtObjectKind::Instance,
    KubeVirtObjectKind::DataVolume,
    KubeVirtObjectKind::Claim,
    KubeVirtObjectKind::DataSource,
    KubeVirtObjectKind::Snapshot,
    KubeVirtObjectKind::Content,
    KubeVirtObjectKind::Revision,
];

/// KubeVirt with CDI.
pub(crate) struct KubeVirtSimulation {
    world: KubeVirtModel,
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
    fn observe(&mut self, change: &ObjectChange) {
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

    fn permits(&self, review: &CloneReview) -> bool {
        self.bindings.iter().any(|((namespace, _), (role, users))| {
            let sources = self.roles.get(&(namespace.clone(), role.clone()));
            *namespace == review.namespace
                && users.contains(&review.user)
                && sources.is_some_and(|sources| sources.contains(&review.name))
        })
    }
}

impl KubeVirtSimulation {
    pub(crate) fn new(settings: SimulatorSettings, now: Timestamp) -> Self {
        let mut world = KubeVirtModel::new(settings);
        let class = ClassView { binding: BindingMode::Immediate, expands: false, is_default: true };
        world.observe(KubeVirtModelEvent::Class("fast".to_owned(), Some(class)), now);
        world.observe(KubeVirtModelEvent::Synced, now);
        Self { world, access: Access::default() }
    }
}

impl Simulated for KubeVirtSimulation {
    fn observe(&mut self, change: &ObjectChange, now: Timestamp) {
        self.access.observe(change);
        if let Some(event) = event(change) {
            self.world.observe(event, now);
        }
    }

    fn step(&mut self, now: Timestamp) -> (Vec<Call>, Vec<DiskViolation>) {
        let (mut calls, mut violations) = (Vec::new(), Vec::new());
        for action in self.world.step(now) {
            match action {
                KubeVirtModelAction::Report(violation) => violations.push(violation),
                KubeVirtModelAction::Write(id, KubeVirtWrite::CreateClone { review, .. })
                    if !self.access.permits(&review) =>
                {
                    self.world.observe(
                        KubeVirtModelEvent::Written(id, KubeVirtWriteOutcome::Failed(review.refusal())),
                        now,
                    );
                }
                KubeVirtModelAction::Write(id, write) => calls.push(request(&id, write)),
            }
        }
        (calls, violations)
    }

    fn written(&mut self, call: &Call, response: Result<Value, ApiError>, now: Timestamp) {
        let Some(kind) = KINDS.into_iter().find(|kind| kind.resource().plural == call.resource) else {
            return;
        };
        let outcome = match response {
            Ok(_) if call.verb == Verb::Delete => KubeVirtWriteOutcome::Done(None),
            Ok(object) => KubeVirtWriteOutcome::Done(read(kind, &object)),
            Err(ApiError { reason, .. }) if reason == "NotFound" && call.verb == Verb::Delete => {
                KubeVirtWriteOutcome::Done(None)
            }
            Err(ApiError { reason, .. }) if reason == "NotFound" => KubeVirtWriteOutcome::NotFound,
            Err(ApiError { reason, .. }) if reason == "Conflict" => KubeVirtWriteOutcome::Conflict,
            Err(refusal) => KubeVirtWriteOutcome::Failed(refusal.message),
        };
        let key =
            NamespacedKey { namespace: call.namespace.as_str().into(), name: call.name.as_str().into() };
        self.world.observe(KubeVirtModelEvent::Written(KubeVirtObjectId { kind, key }, outcome), now);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.world.next_due()
    }
}

fn request(id: &KubeVirtObjectId, write: KubeVirtWrite) -> Call {
    let (verb, subresource, body) = match write {
        KubeVirtWrite::Patch(body) => (Verb::Patch(PatchKind::Merge), "", body),
        KubeVirtWrite::PatchStatus(body) => (Verb::Patch(PatchKind::Merge), "status", body),
        // The permission of a clone was checked before. Nothing is downloaded.
        KubeVirtWrite::Create(body) | KubeVirtWrite::CreateClone { body, .. } => (Verb::Create, "", body),
        KubeVirtWrite::Fetch(download) => {
            let unreachable = Err("no server in the explorer".to_owned());
            (Verb::Patch(PatchKind::Merge), "", download.record(unreachable))
        }
        KubeVirtWrite::Delete { uid, .. } => (Verb::Delete, "", json!({ "preconditions": { "uid": &*uid } })),
    };
    let resource = id.kind.resource();
    let resource = (&*resource.group, &*resource.version, &*resource.plural);
    simulator_call(verb, resource, (&id.key.namespace, &id.key.name), subresource, body)
}

/// The platform's event for a change, if there is one.
fn event(change: &ObjectChange) -> Option<KubeVirtModelEvent> {
    let named = |kind: &KubeVirtObjectKind| {
        let resource = kind.resource();
        *change.key.resource == *format!("{}.{}", resource.plural, resource.group).trim_end_matches('.')
    };
    let kind = KINDS.into_iter().find(named)?;
    let key = NamespacedKey { namespace: change.key.namespace.clone(), name: change.key.name.clone() };
    match change.kind {
        ChangeKind::Deleted => Some(KubeVirtModelEvent::Gone(KubeVirtObjectId { kind, key })),
        ChangeKind::Added | ChangeKind::Modified => {
            Some(KubeVirtModelEvent::Seen(key, read(kind, &change.object)?))
        }
    }
}

fn read(kind: KubeVirtObjectKind, object: &Value) -> Option<ObservedKubeVirtObject> {
    match kind {
        KubeVirtObjectKind::Machine => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Machine(Box::new(KubeVirtMachineView::read(stored)))),
        KubeVirtObjectKind::Instance => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Instance(Box::new(InstanceView::read(stored)))),
        KubeVirtObjectKind::DataVolume => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::DataVolume(Box::new(DataVolumeView::read(stored)))),
        KubeVirtObjectKind::Claim => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Claim(Box::new(ClaimView::read(stored)))),
        KubeVirtObjectKind::Revision if object["metadata"]["labels"][COPY].is_null() => None,
        KubeVirtObjectKind::Revision => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Revision(Box::new(RevisionView::read(stored)))),
        KubeVirtObjectKind::DataSource => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::DataSource(Box::new(DataSourceView::read(stored)))),
        KubeVirtObjectKind::Snapshot => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Snapshot(Box::new(SnapshotView::read(stored)))),
        KubeVirtObjectKind::Content => decode_object(object)
            .map(|stored| ObservedKubeVirtObject::Content(Box::new(ContentView::read(stored)))),
        KubeVirtObjectKind::Pod => None,
    }
}
