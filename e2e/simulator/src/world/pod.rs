//! The Pods of running machines. There is no kubelet: the simulator writes their status.

use super::{
    events::{DvpModelAction, DvpObservationSource, DvpWrite},
    model::{Boot, DvpModel, Pod, Power, SimulatedMachine},
};
use crate::{
    objects::{
        API_VERSION, DvpObjectId, DvpObjectKind, NamespacedKey, POD_LABEL, Pairs, PodView, format_seconds,
    },
    shared::outbox::{Outbox, Permit},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// The state of a machine's Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachinePodState {
    /// It is being created.
    Requested,
    /// It exists.
    Live,
    /// It is deleted or being deleted.
    Lost,
}

/// Letters and digits without ambiguous ones, as in generated names.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

impl DvpModel {
    /// Chooses a node and requests a Pod. A migration chooses another node, if one exists.
    pub(super) fn new_boot(
        &mut self,
        key: &NamespacedKey,
        machine: &SimulatedMachine,
        leaves: Option<&Boot>,
    ) -> Boot {
        let mut hasher = DefaultHasher::new();
        let count = (machine.boots, machine.migrations, leaves.is_some());
        (self.settings.seed, &*machine.view.meta.uid, count).hash(&mut hasher);
        let mut number = hasher.finish();
        let candidates: Vec<&String> =
            self.settings.nodes.iter().filter(|node| leaves.is_none_or(|boot| boot.node != **node)).collect();
        let pick = |count: usize| usize::try_from(number % count.max(1) as u64).unwrap_or_default();
        let node = match candidates.get(pick(candidates.len())) {
            Some(node) => (*node).clone(),
            None => leaves.map(|boot| boot.node.clone()).unwrap_or_default(),
        };
        let spec = machine.spec().clone();
        if !self.settings.pods {
            return Boot { pod: None, node, spec };
        }
        let mut name = format!("d8v-{}-", key.name);
        for _ in 0..SUFFIX_LENGTH {
            let letters = SUFFIX_ALPHABET.len() as u64;
            name.push(char::from(SUFFIX_ALPHABET[usize::try_from(number % letters).unwrap_or_default()]));
            number /= letters;
        }
        let pod = key.sibling(&name);
        let owner = machine.view.meta.uid.clone();
        self.pods_of.entry(owner.clone()).or_default().insert(pod.clone());
        // A list that began before the Pod was created does not remove the Pod from the model.
        let outbox = Outbox::new(Timestamp::MAX);
        self.pods.insert(pod.clone(), Pod { machine: key.clone(), owner, view: None, outbox });
        self.mark(DvpObjectKind::Pod, &pod);
        Boot { pod: Some(pod), node, spec }
    }

    pub(super) fn pod_state(&self, boot: &Boot) -> MachinePodState {
        let Some(key) = &boot.pod else { return MachinePodState::Live };
        match self.pods.get(key).map(|pod| &pod.view) {
            None => MachinePodState::Lost,
            Some(None) => MachinePodState::Requested,
            Some(Some(view)) if view.meta.deleting => MachinePodState::Lost,
            Some(Some(_)) => MachinePodState::Live,
        }
    }

    /// Why a machine's Pod could not be created.
    pub(super) fn pod_failure(&self, boot: &Boot) -> Option<&str> {
        self.pods.get(boot.pod.as_ref()?)?.outbox.failure()
    }

    /// Whether a Pod of this machine exists.
    pub(super) fn has_live_pods(&self, machine_uid: &Arc<str>) -> bool {
        self.pods_of.get(machine_uid).is_some_and(|pods| !pods.is_empty())
    }

    pub(super) fn see_pod(
        &mut self,
        key: &NamespacedKey,
        view: PodView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let machine = match self.pods.get_mut(key) {
            Some(pod) => {
                if pod.view.as_ref().is_some_and(|known| view.meta.version <= known.meta.version) {
                    return;
                }
                pod.outbox.touched = now;
                pod.view = Some(view);
                pod.machine.clone()
            }
            None if novelty == DvpObservationSource::KnownOnly => return,
            None => {
                let machine = key.sibling(&view.machine);
                let owner = view.owner.clone();
                self.pods_of.entry(owner.clone()).or_default().insert(key.clone());
                let pod = Pod { machine: machine.clone(), owner, view: Some(view), outbox: Outbox::new(now) };
                self.pods.insert(key.clone(), pod);
                machine
            }
        };
        self.mark(DvpObjectKind::Pod, key);
        self.mark(DvpObjectKind::Machine, &machine);
    }

    /// The Pod is deleted. If it is the last Pod of a deleted machine, the machine's disks are no longer in
    /// use.
    pub(super) fn lose_pod(&mut self, key: &NamespacedKey) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(pods) = self.pods_of.get_mut(&pod.owner) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_of.remove(&pod.owner);
                if let Some(disks) = self.orphaned_mounts.remove(&pod.owner) {
                    self.unmount(&pod.owner, &disks);
                }
            }
        }
        self.mark(DvpObjectKind::Machine, &pod.machine);
    }

    pub(super) fn plan_pod(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(pod) = self.pods.get(key) else { return };
        let id = DvpObjectId::new(DvpObjectKind::Pod, key.clone());
        match pod.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => self.agenda.wake(id.clone(), at),
        }
        let machine = self.machines.get(&pod.machine).filter(|machine| machine.view.meta.uid == pod.owner);
        let wanted = machine.and_then(|machine| {
            let boot = machine.power.boots().find(|boot| boot.pod.as_ref() == Some(key))?;
            Some((machine, boot))
        });
        let write = match (wanted, &pod.view) {
            (None, None) => return self.lose_pod(key),
            (None, Some(view)) => Some(DvpWrite::Delete(view.meta.uid.clone())),
            (Some(_), Some(view)) if view.meta.deleting => Some(DvpWrite::Delete(view.meta.uid.clone())),
            (Some((machine, boot)), None) => {
                Some(DvpWrite::Create(pod_body(key, &pod.machine, machine, boot)))
            }
            (Some((machine, boot)), Some(view)) => {
                metadata_patch(&pod.machine, machine, view).or_else(|| status_patch(machine, boot, view, now))
            }
        };
        if pod.outbox.permit(now) != Permit::Open {
            return;
        }
        let (Some(write), Some(pod)) = (write, self.pods.get_mut(key)) else { return };
        let version = pod.view.as_ref().map_or(0, |view| view.meta.version);
        let body = match &write {
            DvpWrite::Patch(body) | DvpWrite::PatchStatus(body) | DvpWrite::Create(body) => body.clone(),
            DvpWrite::Delete(uid) => json!({"delete": **uid}),
        };
        if pod.outbox.admit(&body, version) {
            self.actions.push(DvpModelAction::Write(id, write));
        }
    }
}

fn pod_labels(name: &NamespacedKey, machine: &SimulatedMachine) -> Pairs {
    let mut labels = machine.view.labels.clone();
    labels.insert(POD_LABEL.to_owned(), name.name.to_string());
    labels
}

fn pod_body(key: &NamespacedKey, owner: &NamespacedKey, machine: &SimulatedMachine, boot: &Boot) -> Value {
    let mut requests = Map::new();
    requests.insert("cpu".to_owned(), json!(format!("{}m", boot.spec.cpu_millis())));
    if let Some(memory) = boot.spec.memory() {
        requests.insert("memory".to_owned(), memory.clone());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": *key.name,
            "namespace": *key.namespace,
            "labels": pod_labels(owner, machine),
            "annotations": machine.view.annotations,
            "ownerReferences": [{
                "apiVersion": API_VERSION,
                "kind": "VirtualMachine",
                "name": *owner.name,
                "uid": *machine.view.meta.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": {
            "nodeName": boot.node,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "guest", "image": "simulated", "resources": {"requests": requests}}],
        },
    })
}

/// Labels and annotations follow the machine's.
fn metadata_patch(name: &NamespacedKey, machine: &SimulatedMachine, view: &PodView) -> Option<DvpWrite> {
    let labels = pairs_patch(&view.labels, &pod_labels(name, machine));
    let annotations = pairs_patch(&view.annotations, &machine.view.annotations);
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let mut metadata = Map::new();
    metadata.insert("uid".to_owned(), json!(*view.meta.uid));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    Some(DvpWrite::Patch(json!({ "metadata": metadata })))
}

fn pairs_patch(observed: &Pairs, desired: &Pairs) -> Map<String, Value> {
    let changed = desired.iter().filter(|(key, value)| observed.get(*key) != Some(value));
    let removed = observed.keys().filter(|key| !desired.contains_key(*key));
    changed
        .map(|(key, value)| (key.clone(), json!(value)))
        .chain(removed.map(|key| (key.clone(), Value::Null)))
        .collect()
}

/// The Pod of a running guest is ready. The Pod of a crashed guest has failed.
fn status_patch(machine: &SimulatedMachine, boot: &Boot, view: &PodView, now: Timestamp) -> Option<DvpWrite> {
    let active = machine.power.boot().is_some_and(|active| active.pod == boot.pod);
    let phase = match &machine.power {
        Power::On { .. } => "Running",
        Power::Migrating { .. } if active => "Running",
        Power::Crashed { .. } => "Failed",
        _ => return None,
    };
    if view.phase.as_deref() == Some(phase) {
        return None;
    }
    let up = phase == "Running";
    let time = format_seconds(now);
    let condition = |type_: &str, status: bool| json!({"type": type_, "status": if status { "True" } else { "False" }, "lastTransitionTime": time});
    let conditions = [
        condition("PodScheduled", true),
        condition("Initialized", true),
        condition("ContainersReady", up),
        condition("Ready", up),
    ];
    let mut status = json!({"phase": phase, "conditions": conditions});
    if up {
        status["startTime"] = json!(time);
        status["containerStatuses"] = json!([{
            "name": "guest",
            "image": "simulated",
            "imageID": "",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": time}},
        }]);
    } else {
        status["containerStatuses"] = Value::Null;
    }
    Some(DvpWrite::PatchStatus(json!({"metadata": {"uid": *view.meta.uid}, "status": status})))
}
