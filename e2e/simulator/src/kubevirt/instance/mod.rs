//! The VMI controller and the node agent: an instance passes its phases.

mod condition;
mod guest_size;
mod guest_state;
mod hot_plug;
mod phases;
mod shown_guest;
mod status;

pub(super) use guest_size::GuestSize;

use shown_guest::ShownGuest;

use super::{
    model::{Guest, KubeVirtModel},
    objects::{
        CONTROLLER_FINALIZER, FOREGROUND_FINALIZER, InstanceView, KubeVirtObjectId, KubeVirtObjectKind,
    },
};
use crate::{knobs::Effective, objects::NamespacedKey, shared::outbox::status_merge_patch};
use jiff::Timestamp;
use serde_json::json;

impl KubeVirtModel {
    /// An instance has the knobs of its machine, or its own if it has no machine.
    pub(super) fn knobs_of_instance<'a>(
        &'a self,
        key: &NamespacedKey,
        instance: &'a InstanceView,
    ) -> Effective<'a> {
        let machine = self.machines.view(key).filter(|m| instance.meta.is_controlled_by(&m.meta.uid));
        match machine {
            Some(machine) => self.knobs_of_machine(key, machine),
            None => self.knobs_for(key, instance.knobs.as_deref()),
        }
    }

    /// One pass over an instance.
    pub(super) fn plan_instance(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(instance) = self.instances.view(key).cloned() else {
            // A create that failed is repeated by the machine, if there still is one.
            return match self.machines.view(key) {
                Some(_) => self.mark(KubeVirtObjectKind::Machine, key),
                None => self.give_up(&KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key)),
            };
        };
        let known = self.instances.slot(key).and_then(|slot| slot.memory.guest.take());
        let mut guest = match known {
            Some(guest) => guest,
            None => self.restore_guest(key, &instance, now),
        };
        self.advance(key, &instance, &mut guest, now);
        self.advance_hot_plugs(key, &instance, &mut guest, now);
        self.publish_instance(key, &instance, &guest, now);
        if let Some(slot) = self.instances.slot(key) {
            slot.memory.guest = Some(guest);
        }
    }

    /// Continues the run that the objects show.
    fn restore_guest(&mut self, key: &NamespacedKey, instance: &InstanceView, now: Timestamp) -> Guest {
        let phase = instance.status.phase;
        let pods = self.pods_of.get(&instance.meta.uid).into_iter().flatten();
        let alive = pods.filter_map(|pod| Some((pod.clone(), self.pods.view(pod)?.node.clone())));
        let pod = alive.min();
        let mut guest = Guest {
            phase,
            since: now,
            node: instance
                .status
                .node_name
                .clone()
                .or(pod.as_ref().map(|(_, node)| node.clone()))
                .unwrap_or_default(),
            pod: pod.map(|(key, _)| key),
            size: GuestSize::of_status(&instance.status),
            ..Guest::default()
        };
        if phase.has_volumes_open() {
            self.mount_all(key, instance, &mut guest, None);
        }
        guest
    }

    /// Writes what differs between the run and the object, finalizers last.
    fn publish_instance(
        &mut self,
        key: &NamespacedKey,
        instance: &InstanceView,
        guest: &Guest,
        now: Timestamp,
    ) {
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key);
        let desired = self.instance_status(ShownGuest { key, instance, guest }, now);
        if let Some(status) = status_merge_patch(&instance.status, &desired) {
            self.patch(&id, json!({ "status": status }), now);
            return;
        }
        let pods_gone = !self.has_pods(&instance.meta.uid);
        if guest.ended && pods_gone {
            let ours = [CONTROLLER_FINALIZER, FOREGROUND_FINALIZER];
            let finalizers = &instance.meta.finalizers;
            let kept: Vec<_> = finalizers.iter().filter(|name| !ours.contains(&name.as_str())).collect();
            if kept.len() < finalizers.len() {
                self.patch(&id, json!({"metadata": {"finalizers": kept}}), now);
            }
        }
    }
}
