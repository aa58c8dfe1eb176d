//! The launcher Pods of instances. There is no kubelet on their nodes: the simulator writes their status.

mod status;

use super::{
    json::name_suffix,
    model::{Guest, KubeVirtModel},
    objects::{
        CREATED_BY, InstancePhase, InstanceView, KUBEVIRT, KubeVirtObjectId, KubeVirtObjectKind, LAUNCHER,
        claims_of,
    },
    writes::controller_reference,
};
use crate::{knobs::PREFIX, objects::NamespacedKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The state of an instance's Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LauncherPodState {
    /// It was not requested.
    None,
    /// It does not exist yet.
    Requested,
    /// It exists. An instance whose Pod the settings leave out sees one that exists.
    Live,
    /// It is being deleted.
    Terminating,
    /// It existed.
    Gone,
}

impl KubeVirtModel {
    /// The state of an instance's Pod.
    pub(super) fn pod_state(&self, guest: &Guest) -> LauncherPodState {
        let started = guest.phase >= InstancePhase::Scheduling;
        if !self.settings.pods {
            return if started || guest.pod.is_some() {
                LauncherPodState::Live
            } else {
                LauncherPodState::None
            };
        }
        let Some(key) = &guest.pod else {
            // A run that was restored without a Pod has lost it.
            return if started { LauncherPodState::Gone } else { LauncherPodState::None };
        };
        match self.pods.view(key) {
            Some(pod) if pod.meta.deleting() => LauncherPodState::Terminating,
            Some(_) => LauncherPodState::Live,
            None if self.pods.memory(key).is_some_and(|memory| memory.owner.is_some()) => {
                LauncherPodState::Requested
            }
            None => LauncherPodState::Gone,
        }
    }

    /// Requests a Pod, and returns its key.
    pub(super) fn request_pod(&mut self, key: &NamespacedKey, instance: &InstanceView) -> NamespacedKey {
        let suffix = name_suffix((self.settings.seed, &*instance.meta.uid));
        let pod = key.sibling(&format!("virt-launcher-{}-{suffix}", key.name));
        if self.settings.pods {
            self.pods.place(&pod).memory.owner = Some((key.clone(), instance.meta.uid.clone()));
            self.pods_of.entry(instance.meta.uid.clone()).or_default().insert(pod.clone());
            self.mark(KubeVirtObjectKind::Pod, &pod);
        }
        pod
    }

    /// Whether any Pod of the instance with this UID exists, or is about to.
    pub(super) fn has_pods(&self, uid: &str) -> bool {
        self.pods_of.contains_key(uid)
    }

    pub(super) fn mark_pods_of(&mut self, instance: &NamespacedKey) {
        let Some(view) = self.instances.view(instance) else { return };
        for pod in self.pods_of.get(&view.meta.uid).into_iter().flatten() {
            self.agenda.mark(KubeVirtObjectId::new(KubeVirtObjectKind::Pod, pod));
        }
    }

    /// Records the owner of an observed Pod.
    pub(super) fn remember_pod(&mut self, key: &NamespacedKey) {
        let Some(view) = self.pods.view(key).cloned() else { return };
        if let Some(slot) = self.pods.slot(key) {
            slot.memory.owner = Some((key.sibling(&view.instance), view.owner.clone()));
        }
        self.pods_of.entry(view.owner.clone()).or_default().insert(key.clone());
    }

    /// The instance of a Pod.
    pub(super) fn instance_of_pod(&self, key: &NamespacedKey) -> Option<NamespacedKey> {
        self.pods.memory(key)?.owner.as_ref().map(|(instance, _)| instance.clone())
    }

    /// The Pod is gone. With the last Pod of an instance that is gone, too, its mounts end.
    pub(super) fn lose_pod(&mut self, key: &NamespacedKey) {
        let owner = self.pods.slot(key).and_then(|slot| slot.memory.owner.take());
        self.pods.forget_object(key);
        self.pods.remove_empty_slot(key);
        let Some((instance, uid)) = owner else { return };
        if let Some(pods) = self.pods_of.get_mut(&uid) {
            pods.remove(key);
            if pods.is_empty() {
                self.pods_of.remove(&uid);
                self.end_abandoned_mounts(&uid);
            }
        }
        self.mark(KubeVirtObjectKind::Instance, &instance);
    }

    /// One pass over a Pod.
    pub(super) fn plan_pod(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some((instance, uid)) = self.pods.memory(key).and_then(|memory| memory.owner.clone()) else {
            return self.pods.remove_empty_slot(key);
        };
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Pod, key);
        let owner = self.instances.view(&instance).filter(|view| view.meta.uid == uid).cloned();
        let guest = owner.as_ref().and_then(|_| self.instances.memory(&instance)?.guest.clone());
        let pod = self.pods.view(key).cloned();
        match (owner, guest, pod) {
            (None, _, None) => self.lose_pod(key),
            (None, _, Some(pod)) => drop(self.delete(&id, &pod.meta.uid, true, now)),
            // The run is restored with the first pass over the instance.
            (Some(_), None, _) => {}
            (Some(owner), Some(guest), None) => {
                if guest.ended || guest.phase.is_final() {
                    self.lose_pod(key);
                } else {
                    let mut body = pod_body(key, &instance, &owner, &guest);
                    let knobs = self.knobs_of_instance(&instance, &owner);
                    if let Some(container) = knobs.get(|knobs| knobs.launcher_container.clone()) {
                        run_in_cluster(&mut body, container);
                    }
                    self.create(&id, body, now);
                }
            }
            (Some(owner), Some(guest), Some(pod)) => {
                let over = guest.ended || guest.phase.is_final();
                if over && (owner.meta.deleting() || pod.meta.deleting()) {
                    self.delete(&id, &pod.meta.uid, true, now);
                } else if owner.meta.deleting() && !pod.meta.deleting() {
                    self.delete(&id, &pod.meta.uid, false, now);
                } else {
                    self.publish_pod(key, &instance, &owner, &guest, &pod, now);
                }
            }
        }
    }
}

fn pod_body(key: &NamespacedKey, name: &NamespacedKey, instance: &InstanceView, guest: &Guest) -> Value {
    let mut labels = instance.meta.labels.clone();
    // A label value has at most 63 characters.
    let short: String = name.name.chars().take(63).collect();
    let short = short.trim_end_matches(['-', '.']);
    for (label, value) in [
        LAUNCHER,
        (CREATED_BY, &instance.meta.uid),
        ("vm.kubevirt.io/name", short),
        ("vmi.kubevirt.io/id", short),
    ] {
        labels.insert(label.to_owned(), value.to_owned());
    }
    let mut annotations = instance.meta.annotations.clone();
    annotations.retain(|name, _| !name.starts_with(PREFIX));
    let claims = claims_of(name, instance).into_iter().map(|claim| claim.name);
    let volumes: Vec<_> = claims
        .enumerate()
        .map(|(index, claim)| {
            json!({"name": format!("disk-{index}"), "persistentVolumeClaim": {"claimName": *claim}})
        })
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": *key.name,
            "namespace": *key.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences":
                [controller_reference(KUBEVIRT, "VirtualMachineInstance", name, &instance.meta)],
        },
        "spec": {
            "nodeName": guest.node,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            // Without a grace period the Pod would be gone at once when it is deleted.
            "terminationGracePeriodSeconds": instance.grace().as_secs() + 15,
            "containers": [{
                "name": "compute",
                "image": "simulated",
                "resources": {"requests": requests(&instance.spec)},
            }],
            "volumes": volumes,
        },
    })
}

/// Lets the cluster schedule and run a Pod, with this container.
fn run_in_cluster(pod: &mut Value, mut container: Value) {
    container["name"] = json!("compute");
    pod["spec"]["containers"] = json!([container]);
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
}

/// What the guest asks of its node: a tenth of a processor for each virtual one, and its memory.
fn requests(spec: &Value) -> Value {
    let domain = &spec["domain"];
    let explicit = &domain["resources"]["requests"];
    let cpu = &domain["cpu"];
    let count = |field: &str| cpu[field].as_u64().unwrap_or(1).max(1);
    let virtual_cpus = count("cores") * count("sockets") * count("threads");
    let mut requests = json!({"cpu": format!("{}m", virtual_cpus * 100)});
    if explicit["cpu"].is_string() || explicit["cpu"].is_number() {
        requests["cpu"] = explicit["cpu"].clone();
    }
    for memory in [&domain["memory"]["guest"], &explicit["memory"]] {
        if memory.is_string() || memory.is_number() {
            requests["memory"] = memory.clone();
        }
    }
    requests
}
