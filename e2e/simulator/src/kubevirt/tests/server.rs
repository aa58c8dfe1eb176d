//! An API server in memory, with a garbage collector and the protection of claims that Pods use.

mod garbage;
mod views;

use super::{machine_spec, ms, settings};
use crate::{
    kubevirt::{
        KubeVirtModel, KubeVirtModelAction, KubeVirtModelEvent, KubeVirtWrite, KubeVirtWriteOutcome,
        objects::{
            ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, KubeVirtMachineView,
            KubeVirtObjectId, KubeVirtObjectKind, LauncherView, ObservedKubeVirtObject, RevisionView,
            SnapshotView,
        },
    },
    objects::{BindingMode, ClassView, NamespacedKey},
    shared::{DiskViolation, SimulatorSettings},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const FOREGROUND: &str = "foregroundDeletion";

/// Objects as an API server stores them, and the model that plays with them.
pub(super) struct KubeVirtTestbed {
    pub(super) world: KubeVirtModel,
    pub(super) now: Timestamp,
    settings: SimulatorSettings,
    objects: BTreeMap<KubeVirtObjectId, Value>,
    version: u64,
    pub(super) writes: Vec<(KubeVirtObjectId, KubeVirtWrite)>,
    pub(super) violations: Vec<DiskViolation>,
    /// Every form of every object, in order.
    forms: Vec<(KubeVirtObjectId, Value)>,
    /// Kinds whose writes are refused, and why.
    pub(super) refuse: BTreeMap<KubeVirtObjectKind, String>,
    /// Users that may clone from another namespace.
    pub(super) may_clone: Vec<String>,
    /// The result of the next downloads: the digest of the content, or an error.
    pub(super) download: Option<Result<String, String>>,
    /// A status field of machines that the API server drops.
    pub(super) pruned: Option<&'static str>,
    /// How much later the model sees what happens to objects of a kind.
    pub(super) lag: BTreeMap<KubeVirtObjectKind, Duration>,
    /// Writes under way.
    under_way: Vec<(Timestamp, KubeVirtObjectId, KubeVirtWrite)>,
    /// Watch events under way.
    events: Vec<(Timestamp, KubeVirtModelEvent)>,
}

impl KubeVirtTestbed {
    pub(super) fn new() -> Self {
        Self::with(settings())
    }

    pub(super) fn with(settings: SimulatorSettings) -> Self {
        let mut stage = Self {
            world: KubeVirtModel::new(settings.clone()),
            now: Timestamp::from_second(1_000_000).unwrap(),
            settings,
            objects: BTreeMap::new(),
            version: 100,
            writes: Vec::new(),
            violations: Vec::new(),
            forms: Vec::new(),
            refuse: BTreeMap::new(),
            may_clone: Vec::new(),
            download: None,
            pruned: None,
            lag: BTreeMap::new(),
            under_way: Vec::new(),
            events: Vec::new(),
        };
        stage.begin();
        stage
    }

    /// Starts the simulator, which lists all objects.
    fn begin(&mut self) {
        for (name, binding) in [("now", BindingMode::Immediate), ("later", BindingMode::WaitForFirstConsumer)]
        {
            let class = ClassView { binding, expands: false, is_default: false };
            self.world.observe(KubeVirtModelEvent::Class(name.to_owned(), Some(class)), self.now);
        }
        for (id, object) in &self.objects {
            if let Some(object) = read(id.kind, object) {
                self.world.observe(KubeVirtModelEvent::Seen(id.key.clone(), object), self.now);
            }
        }
        self.world.observe(KubeVirtModelEvent::Synced, self.now);
    }

    /// The simulator exits and is started again.
    pub(super) fn restart_simulator(&mut self) {
        self.world = KubeVirtModel::new(self.settings.clone());
        self.under_way.clear();
        self.events.clear();
        self.writes.clear();
        self.begin();
    }

    pub(super) fn create(&mut self, kind: KubeVirtObjectKind, name: &str, content: &Value) {
        let id = id(kind, name);
        let mut object = content.clone();
        self.version += 1;
        let metadata = json!({
            "name": name,
            "namespace": *id.key.namespace,
            "uid": format!("uid-{name}-{}", self.version),
            "generation": 1,
            "resourceVersion": self.version.to_string(),
        });
        merge(&mut object, &json!({ "metadata": metadata }));
        if kind == KubeVirtObjectKind::Claim {
            object["metadata"]["finalizers"] = json!([PROTECTION]);
        }
        self.objects.insert(id.clone(), object);
        self.show(&id);
    }

    pub(super) fn machine(&mut self, name: &str, strategy: &str, disks: &[&str]) {
        self.create(KubeVirtObjectKind::Machine, name, &json!({"spec": machine_spec(strategy, disks)}));
    }

    /// A user changes an object.
    pub(super) fn edit(&mut self, kind: KubeVirtObjectKind, name: &str, patch: &Value) {
        self.store(&id(kind, name), |object| merge(object, patch));
    }

    pub(super) fn annotate(&mut self, kind: KubeVirtObjectKind, name: &str, knob: &str, value: Option<&str>) {
        let key = format!("simulator.vmpool.dev/{knob}");
        self.edit(kind, name, &json!({"metadata": {"annotations": {key: value}}}));
    }

    pub(super) fn knobs(&mut self, pairs: &[(&str, &str)]) {
        let data = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (knobs, errors) = crate::knobs::Knobs::from_config(&data);
        assert!(errors.is_empty(), "{errors:?}");
        self.world.observe(KubeVirtModelEvent::Knobs("ns".into(), Some(Box::new(knobs))), self.now);
    }

    /// A user deletes an object, with background propagation.
    pub(super) fn delete(&mut self, kind: KubeVirtObjectKind, name: &str) {
        let time = crate::objects::format_seconds(self.now);
        self.store(&id(kind, name), |object| {
            if object["metadata"]["deletionTimestamp"].is_null() {
                object["metadata"]["deletionTimestamp"] = json!(time);
            }
        });
    }

    /// A user deletes an object, with foreground propagation.
    pub(super) fn delete_in_foreground(&mut self, kind: KubeVirtObjectKind, name: &str) {
        self.store(&id(kind, name), |object| {
            let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.push(json!(FOREGROUND));
            object["metadata"]["finalizers"] = json!(finalizers);
        });
        self.delete(kind, name);
        self.collect_garbage();
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.step();
            let answer = self.under_way.iter().map(|(at, ..)| *at).min();
            let event = self.events.iter().map(|(at, _)| *at).min();
            let due = [self.world.next_due(), answer, event].into_iter().flatten().min();
            let Some(next) = due.filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let now = self.now;
            for (_, event) in self.events.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
                self.world.observe(event, now);
            }
            for (_, id, write) in self.under_way.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
                let outcome = self.perform(&id, &write);
                self.writes.push((id.clone(), write));
                self.world.observe(KubeVirtModelEvent::Written(id, outcome), now);
            }
        }
    }

    pub(super) fn settle(&mut self) {
        self.run(Duration::from_secs(8));
    }

    fn step(&mut self) {
        for action in self.world.step(self.now) {
            match action {
                KubeVirtModelAction::Write(id, write) => {
                    let busy = self.under_way.iter().any(|(_, other, _)| *other == id);
                    assert!(!busy, "two writes at once about {id:?}");
                    self.under_way.push((self.now + ms(1), id, write));
                }
                KubeVirtModelAction::Report(violation) => self.violations.push(violation),
            }
        }
    }

    fn perform(&mut self, id: &KubeVirtObjectId, write: &KubeVirtWrite) -> KubeVirtWriteOutcome {
        if let Some(why) = self.refuse.get(&id.kind) {
            return KubeVirtWriteOutcome::Failed(why.clone());
        }
        let write = match write {
            KubeVirtWrite::CreateClone { review, .. } if !self.may_clone.contains(&review.user) => {
                return KubeVirtWriteOutcome::Failed(review.refusal());
            }
            KubeVirtWrite::CreateClone { body, .. } => &KubeVirtWrite::Create(body.clone()),
            KubeVirtWrite::Fetch(download) => {
                let result = self.download.clone().expect("a test that downloads says what it gets");
                let mut patch = download.record(result);
                patch["metadata"]["uid"] = self.objects[id]["metadata"]["uid"].clone();
                patch["metadata"]["resourceVersion"] =
                    self.objects[id]["metadata"]["resourceVersion"].clone();
                &KubeVirtWrite::Patch(patch)
            }
            other => other,
        };
        match (write, self.objects.get(id).cloned()) {
            (KubeVirtWrite::CreateClone { .. } | KubeVirtWrite::Fetch(_), _) => {
                unreachable!("replaced above")
            }
            (KubeVirtWrite::Create(body), None) => {
                self.create(id.kind, &id.key.name, body);
                KubeVirtWriteOutcome::Done(self.objects.get(id).and_then(|object| read(id.kind, object)))
            }
            (KubeVirtWrite::Create(_), Some(object)) => KubeVirtWriteOutcome::Done(read(id.kind, &object)),
            (KubeVirtWrite::Delete { .. }, None) => KubeVirtWriteOutcome::Done(None),
            (_, None) => KubeVirtWriteOutcome::NotFound,
            (KubeVirtWrite::Delete { uid, now }, Some(object)) => {
                if object["metadata"]["uid"] != **uid {
                    return KubeVirtWriteOutcome::Conflict;
                }
                if id.kind == KubeVirtObjectKind::Pod && *now {
                    self.remove(id);
                } else if id.kind == KubeVirtObjectKind::Pod {
                    let time = crate::objects::format_seconds(self.now);
                    self.store(id, |pod| pod["metadata"]["deletionTimestamp"] = json!(time));
                } else {
                    self.delete(id.kind, &id.key.name);
                }
                KubeVirtWriteOutcome::Done(None)
            }
            (KubeVirtWrite::Patch(patch) | KubeVirtWrite::PatchStatus(patch), Some(object)) => {
                let lock = &patch["metadata"];
                let locked = |field: &str| lock[field] == object["metadata"][field];
                if !(locked("uid") && locked("resourceVersion")) {
                    return KubeVirtWriteOutcome::Conflict;
                }
                let mut patch = patch.clone();
                // Only instances have no status subresource.
                if matches!(write, KubeVirtWrite::Patch(_)) && id.kind != KubeVirtObjectKind::Instance {
                    patch.as_object_mut().map(|fields| fields.remove("status"));
                }
                if let Some(field) = self.pruned.filter(|_| id.kind == KubeVirtObjectKind::Machine) {
                    patch["status"].as_object_mut().map(|status| status.remove(field));
                }
                self.store(id, |object| merge(object, &patch));
                KubeVirtWriteOutcome::Done(self.objects.get(id).and_then(|object| read(id.kind, object)))
            }
        }
    }

    /// Stores a change. Version and generation grow, and an object that no finalizer keeps is removed.
    fn store(&mut self, id: &KubeVirtObjectId, change: impl FnOnce(&mut Value)) {
        let mut object = self.objects.get(id).unwrap_or_else(|| panic!("no {id:?}")).clone();
        let before = object.clone();
        change(&mut object);
        object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        if object == before {
            return;
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = json!(generation);
        }
        let has_finalizers = !strings(&object["metadata"]["finalizers"]).is_empty();
        let kept = has_finalizers || id.kind == KubeVirtObjectKind::Pod;
        self.objects.insert(id.clone(), object.clone());
        if !object["metadata"]["deletionTimestamp"].is_null() && !kept {
            self.remove(id);
        } else {
            self.show(id);
            self.protect();
        }
    }

    fn remove(&mut self, id: &KubeVirtObjectId) {
        self.objects.remove(id);
        let lag = self.lag.get(&id.kind).copied().unwrap_or_default();
        self.events.push((self.now + lag, KubeVirtModelEvent::Gone(id.clone())));
        self.protect();
        self.collect_garbage();
    }

    /// A watch reports the object.
    fn show(&mut self, id: &KubeVirtObjectId) {
        let Some(stored) = self.objects.get(id) else { return };
        self.forms.push((id.clone(), stored.clone()));
        let object = read(id.kind, stored).unwrap_or_else(|| panic!("{id:?} cannot be read"));
        let lag = self.lag.get(&id.kind).copied().unwrap_or_default();
        self.events.push((self.now + lag, KubeVirtModelEvent::Seen(id.key.clone(), object)));
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(text).collect()
}

pub(super) fn id(kind: KubeVirtObjectKind, name: &str) -> KubeVirtObjectId {
    KubeVirtObjectId {
        kind,
        key: NamespacedKey::new(if kind == KubeVirtObjectKind::Content { "" } else { "ns" }, name),
    }
}

fn read(kind: KubeVirtObjectKind, object: &Value) -> Option<ObservedKubeVirtObject> {
    fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
    }
    Some(match kind {
        KubeVirtObjectKind::Machine => {
            ObservedKubeVirtObject::Machine(Box::new(KubeVirtMachineView::read(decode(object))))
        }
        KubeVirtObjectKind::Instance => {
            ObservedKubeVirtObject::Instance(Box::new(InstanceView::read(decode(object))))
        }
        KubeVirtObjectKind::DataVolume => {
            ObservedKubeVirtObject::DataVolume(Box::new(DataVolumeView::read(decode(object))))
        }
        KubeVirtObjectKind::Claim => ObservedKubeVirtObject::Claim(Box::new(ClaimView::read(decode(object)))),
        KubeVirtObjectKind::Pod => ObservedKubeVirtObject::Pod(Box::new(LauncherView::read(decode(object))?)),
        KubeVirtObjectKind::DataSource => {
            ObservedKubeVirtObject::DataSource(Box::new(DataSourceView::read(decode(object))))
        }
        KubeVirtObjectKind::Snapshot => {
            ObservedKubeVirtObject::Snapshot(Box::new(SnapshotView::read(decode(object))))
        }
        KubeVirtObjectKind::Content => {
            ObservedKubeVirtObject::Content(Box::new(ContentView::read(decode(object))))
        }
        KubeVirtObjectKind::Revision => {
            ObservedKubeVirtObject::Revision(Box::new(RevisionView::read(decode(object))))
        }
    })
}

/// RFC 7396.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|fields| fields.remove(key));
        } else {
            merge(&mut target[key], value);
        }
    }
}
