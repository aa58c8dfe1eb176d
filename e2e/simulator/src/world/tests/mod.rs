//! The model with an API server in memory and a virtual clock.

mod disks;
mod faults;
mod machines;
mod operations;
mod writes;

use super::{
    DiskViolation, DvpModel, DvpModelAction, DvpModelEvent, DvpWrite, DvpWriteOutcome, ObservedDvpObject,
    SimulatorSettings,
};
use crate::{
    duration::Delay,
    objects::{
        AttachmentView, BindingMode, ClassView, DiskView, DvpMachineView, DvpObjectId, DvpObjectKind,
        ImageView, NamespacedKey, OperationView, PodView, VM_CLEANUP,
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn settings() -> SimulatorSettings {
    SimulatorSettings {
        start_delay: Delay::After(ms(200)),
        stop_delay: Delay::After(ms(200)),
        provisioning_delay: Delay::After(ms(200)),
        evaluation_delay: Delay::After(ms(20)),
        hot_plug_delay: Delay::After(ms(100)),
        nodes: vec!["node-1".to_owned(), "node-2".to_owned()],
        pods: true,
        seed: 7,
    }
}

/// Objects as an API server would store them, and the model.
pub(super) struct DvpTestbed {
    pub(super) world: DvpModel,
    pub(super) now: Timestamp,
    objects: BTreeMap<DvpObjectId, Value>,
    version: u64,
    pub(super) writes: HashMap<DvpObjectId, Vec<DvpWrite>>,
    pub(super) violations: Vec<DiskViolation>,
    /// Results of writes of these kinds, which are not performed.
    pub(super) refuse: BTreeMap<DvpObjectKind, String>,
    /// A status field of machines that the server drops.
    pub(super) pruned: Option<&'static str>,
    /// Duration of a write.
    pub(super) latency: Duration,
    under_way: Vec<(Timestamp, DvpObjectId, DvpWrite)>,
}

impl DvpTestbed {
    pub(super) fn new() -> Self {
        Self::with(settings())
    }

    pub(super) fn with(settings: SimulatorSettings) -> Self {
        let mut stage = Self {
            world: DvpModel::new(settings),
            now: Timestamp::UNIX_EPOCH,
            objects: BTreeMap::new(),
            version: 100,
            writes: HashMap::new(),
            violations: Vec::new(),
            refuse: BTreeMap::new(),
            pruned: None,
            latency: ms(1),
            under_way: Vec::new(),
        };
        stage.begin();
        stage
    }

    /// Starts the simulator, which lists all objects.
    fn begin(&mut self) {
        for (name, binding) in [("now", BindingMode::Immediate), ("later", BindingMode::WaitForFirstConsumer)]
        {
            let class = ClassView { binding, expands: binding == BindingMode::Immediate, is_default: false };
            self.world.observe(DvpModelEvent::Class(name.to_owned(), Some(class)), self.now);
        }
        for id in self.objects.keys().cloned().collect::<Vec<_>>() {
            self.show(&id);
        }
        self.world.observe(DvpModelEvent::Synced, self.now);
    }

    /// Kills the simulator and starts it again.
    pub(super) fn restart_simulator(&mut self) {
        self.world = DvpModel::new(settings());
        self.under_way.clear();
        self.writes.clear();
        self.begin();
    }

    pub(super) fn create(&mut self, kind: DvpObjectKind, name: &str, content: &Value) {
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
        self.objects.insert(id.clone(), object);
        self.show(&id);
    }

    pub(super) fn machine(&mut self, name: &str, disks: &[&str]) {
        let refs: Vec<_> = disks.iter().map(|disk| json!({"kind": "VirtualDisk", "name": disk})).collect();
        let spec = json!({
            "cpu": {"cores": 2, "coreFraction": "25%"},
            "memory": {"size": "512Mi"},
            "blockDeviceRefs": refs,
        });
        self.create(DvpObjectKind::Machine, name, &json!({ "spec": spec }));
    }

    pub(super) fn disk(&mut self, name: &str) {
        let claim = json!({"size": "1Gi", "storageClassName": "now"});
        self.create(DvpObjectKind::Disk, name, &json!({"spec": {"persistentVolumeClaim": claim}}));
    }

    /// Changes an object as another client.
    pub(super) fn edit(&mut self, kind: DvpObjectKind, name: &str, patch: &Value) {
        let id = id(kind, name);
        self.store(&id, |object| merge(object, patch));
    }

    pub(super) fn annotate(&mut self, kind: DvpObjectKind, name: &str, knob: &str, value: Option<&str>) {
        let key = format!("simulator.vmpool.dev/{knob}");
        self.edit(kind, name, &json!({"metadata": {"annotations": {key: value}}}));
    }

    pub(super) fn knobs(&mut self, pairs: &[(&str, &str)]) {
        let data = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (knobs, errors) = crate::knobs::Knobs::from_config(&data);
        assert!(errors.is_empty(), "{errors:?}");
        self.world.observe(DvpModelEvent::Knobs("ns".into(), Some(Box::new(knobs))), self.now);
    }

    pub(super) fn delete(&mut self, kind: DvpObjectKind, name: &str) {
        let id = id(kind, name);
        self.store(&id, |object| {
            merge(object, &json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:09Z"}}));
        });
    }

    /// Advances the clock.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.step();
            let answer = self.under_way.iter().map(|(at, ..)| *at).min();
            let Some(next) =
                [self.world.next_due(), answer].into_iter().flatten().min().filter(|at| *at <= end)
            else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            let (landed, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= self.now);
            self.under_way = rest;
            for (_, id, write) in landed {
                let outcome = self.perform(&id, &write);
                self.writes.entry(id.clone()).or_default().push(write);
                self.world.observe(DvpModelEvent::Written(id, outcome), self.now);
            }
        }
    }

    pub(super) fn settle(&mut self) {
        self.run(Duration::from_secs(10));
    }

    fn step(&mut self) {
        for action in self.world.step(self.now) {
            match action {
                DvpModelAction::Write(id, write) => {
                    let busy = self.under_way.iter().any(|(_, other, _)| *other == id);
                    assert!(!busy, "two concurrent writes of {id:?}");
                    self.under_way.push((self.now + self.latency, id, write));
                }
                DvpModelAction::Report(violation) => self.violations.push(violation),
            }
        }
    }

    fn perform(&mut self, id: &DvpObjectId, write: &DvpWrite) -> DvpWriteOutcome {
        if let Some(why) = self.refuse.get(&id.kind) {
            return DvpWriteOutcome::Failed(why.clone());
        }
        let stored = self.objects.get(id).cloned();
        match (write, stored) {
            (DvpWrite::Create(body), None) => {
                self.create(id.kind, &id.key.name, body);
                DvpWriteOutcome::Done(self.objects.get(id).and_then(|object| read(id.kind, object)))
            }
            (DvpWrite::Create(_), Some(object)) => DvpWriteOutcome::Done(read(id.kind, &object)),
            (_, None) => DvpWriteOutcome::NotFound,
            (DvpWrite::Delete(_), Some(_)) => {
                self.objects.remove(id);
                self.world.observe(DvpModelEvent::Gone(id.clone()), self.now);
                DvpWriteOutcome::Done(None)
            }
            (DvpWrite::Patch(patch) | DvpWrite::PatchStatus(patch), Some(object)) => {
                let lock = &patch["metadata"];
                let locked = |field: &str| lock[field].is_null() || lock[field] == object["metadata"][field];
                if !(locked("uid") && locked("resourceVersion")) {
                    return DvpWriteOutcome::Conflict;
                }
                let mut patch = patch.clone();
                if let Some(field) = self.pruned.filter(|_| id.kind == DvpObjectKind::Machine) {
                    patch["status"].as_object_mut().map(|status| status.remove(field));
                }
                self.store(id, |object| merge(object, &patch));
                DvpWriteOutcome::Done(self.objects.get(id).and_then(|object| read(id.kind, object)))
            }
        }
    }

    /// Stores a change: increments version and generation, and removes a deleted object without finalizers.
    fn store(&mut self, id: &DvpObjectId, change: impl FnOnce(&mut Value)) {
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
            object["metadata"]["generation"] =
                json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        let kept = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !object["metadata"]["deletionTimestamp"].is_null() && !kept {
            self.objects.remove(id);
            self.world.observe(DvpModelEvent::Gone(id.clone()), self.now);
        } else {
            self.objects.insert(id.clone(), object);
            self.show(id);
        }
    }

    fn show(&mut self, id: &DvpObjectId) {
        let object = self.objects.get(id).and_then(|object| read(id.kind, object));
        let object = object.unwrap_or_else(|| panic!("{id:?} cannot be read"));
        self.world.observe(DvpModelEvent::Seen(id.key.clone(), object), self.now);
    }

    pub(super) fn find(&self, kind: DvpObjectKind, name: &str) -> Option<&Value> {
        self.objects.get(&id(kind, name))
    }

    pub(super) fn get(&self, kind: DvpObjectKind, name: &str) -> &Value {
        self.find(kind, name).unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    pub(super) fn phase(&self, kind: DvpObjectKind, name: &str) -> String {
        self.get(kind, name)["status"]["phase"].as_str().unwrap_or("none").to_owned()
    }

    /// Status and reason of a condition, such as `True/Running`.
    pub(super) fn condition(&self, kind: DvpObjectKind, name: &str, type_: &str) -> String {
        let conditions = self.get(kind, name)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_);
        found.map_or("absent".to_owned(), |c| {
            format!("{}/{}", c["status"].as_str().unwrap_or("?"), c["reason"].as_str().unwrap_or("?"))
        })
    }

    pub(super) fn pods(&self) -> Vec<&Value> {
        self.objects.iter().filter(|(id, _)| id.kind == DvpObjectKind::Pod).map(|(_, pod)| pod).collect()
    }

    pub(super) fn written(&self) -> usize {
        self.writes.values().map(Vec::len).sum()
    }

    pub(super) fn has_finalizer(&self, kind: DvpObjectKind, name: &str, finalizer: &str) -> bool {
        let list = self.get(kind, name)["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        list.iter().any(|other| other == finalizer)
    }

    /// Removes the finalizer of a deleted machine as another client.
    pub(super) fn force_finalizer_off(&mut self, name: &str) {
        assert!(self.has_finalizer(DvpObjectKind::Machine, name, VM_CLEANUP));
        self.edit(DvpObjectKind::Machine, name, &json!({"metadata": {"finalizers": null}}));
    }
}

pub(super) fn id(kind: DvpObjectKind, name: &str) -> DvpObjectId {
    DvpObjectId::new(
        kind,
        NamespacedKey::new(if kind == DvpObjectKind::ClusterImage { "" } else { "ns" }, name),
    )
}

fn read(kind: DvpObjectKind, object: &Value) -> Option<ObservedDvpObject> {
    fn decode<T: serde::de::DeserializeOwned>(object: &Value) -> T {
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
    }
    Some(match kind {
        DvpObjectKind::Machine => ObservedDvpObject::Machine(Box::new(DvpMachineView::read(decode(object)))),
        DvpObjectKind::Disk => ObservedDvpObject::Disk(Box::new(DiskView::read(decode(object)))),
        DvpObjectKind::Image | DvpObjectKind::ClusterImage => {
            ObservedDvpObject::Image(kind, ImageView::read(&decode(object)))
        }
        DvpObjectKind::Operation => ObservedDvpObject::Operation(OperationView::read(decode(object))),
        DvpObjectKind::Attachment => ObservedDvpObject::Attachment(AttachmentView::read(decode(object))),
        DvpObjectKind::Pod => ObservedDvpObject::Pod(Box::new(PodView::read(decode(object))?)),
    })
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
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
