//! The VM controller: it gives a VirtualMachine its DataVolumes and its instance, and reports its state.

mod defaults;
mod disks;
mod facts;
mod run;
mod start_failure;
mod status;

pub(super) use run::Rerun;

use super::{
    go_encoding::encode_instance_spec,
    json::merge_patch,
    model::KubeVirtModel,
    objects::{
        CONTROLLER_FINALIZER, FOREGROUND_FINALIZER, InstancePhase, InstanceView, KUBEVIRT,
        KubeVirtMachineView, KubeVirtObjectId, KubeVirtObjectKind,
    },
    sizing::SizedTemplate,
    writes::{WriteRequestState, controller_reference},
};
use crate::{knobs::Effective, objects::NamespacedKey, shared::delay_end};
use disks::MachineDiskState;
use facts::{MachineInstance, MachinePassFacts};
use jiff::Timestamp;
use run::InstanceDecision;
use serde_json::{Value, json};
use std::sync::Arc;

impl KubeVirtModel {
    /// Dates the first sight of a machine.
    pub(super) fn date_machine(&mut self, key: &NamespacedKey, now: Timestamp) {
        if let Some(slot) = self.machines.slot(key) {
            slot.memory.first_seen.get_or_insert(now);
        }
    }

    pub(super) fn knobs_of_machine<'a>(
        &'a self,
        key: &NamespacedKey,
        machine: &'a KubeVirtMachineView,
    ) -> Effective<'a> {
        self.knobs_for(key, machine.knobs.as_deref())
    }

    /// The instance that has the name of a machine.
    pub(super) fn instance_of(&self, key: &NamespacedKey, machine: &KubeVirtMachineView) -> MachineInstance {
        match self.instances.view(key) {
            None => MachineInstance::None,
            Some(view) if view.meta.is_controlled_by(&machine.meta.uid) => MachineInstance::Own(view.clone()),
            Some(_) => MachineInstance::Foreign,
        }
    }

    /// One pass over a machine.
    pub(super) fn plan_machine(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(machine) = self.machines.view(key).cloned() else { return };
        let instance = self.instance_of(key, &machine);
        if machine.meta.deleting() {
            return self.plan_deleted_machine(key, machine, instance, now);
        }
        if !self.set_up(key, &machine, now) {
            return;
        }
        let disks = self.prepare_disks(key, &machine, now);
        let facts = self.decide(key, machine, instance, disks, now);
        self.publish_machine(key, &facts, now);
        match (&facts.decision, &facts.instance) {
            // A failed start is recorded before its instance is gone.
            (InstanceDecision::Stop, MachineInstance::Own(instance))
                if !start_failure::is_unrecorded(&facts) =>
            {
                self.stop(key, instance, now);
            }
            (InstanceDecision::Start, MachineInstance::None) if facts.may_start() => {
                if let Ok(template) = &facts.template {
                    self.start(key, &facts.machine, template, now);
                }
            }
            _ => {}
        }
        self.update_live(key, &facts, now);
    }

    /// A machine that is being deleted keeps its finalizer until its instance has stopped.
    fn plan_deleted_machine(
        &mut self,
        key: &NamespacedKey,
        machine: Arc<KubeVirtMachineView>,
        instance: MachineInstance,
        now: Timestamp,
    ) {
        // Its dependents stay, so the controller leaves the instance alone.
        let orphans = machine.meta.has_finalizer("orphan");
        if let (false, MachineInstance::Own(instance)) = (orphans, &instance) {
            self.stop(key, instance, now);
        } else if machine.meta.has_finalizer(CONTROLLER_FINALIZER) {
            let kept: Vec<_> =
                machine.meta.finalizers.iter().filter(|name| *name != CONTROLLER_FINALIZER).collect();
            let patch = json!({"metadata": {"finalizers": kept}});
            self.patch(&KubeVirtObjectId::new(KubeVirtObjectKind::Machine, key), patch, now);
            return;
        }
        let disks = MachineDiskState::default();
        let facts = self.decide(key, machine, instance, disks, now);
        self.publish_machine(key, &facts, now);
    }

    /// Puts the finalizer, annotations and defaults on a machine, and then takes from it what Go's encoder
    /// drops. Returns whether all of that is done.
    fn set_up(&mut self, key: &NamespacedKey, machine: &KubeVirtMachineView, now: Timestamp) -> bool {
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Machine, key);
        let delay = self
            .knobs_of_machine(key, machine)
            .get(|knobs| knobs.evaluation_delay)
            .unwrap_or(self.settings.evaluation_delay);
        let first_seen = self.machines.memory(key).and_then(|memory| memory.first_seen).unwrap_or(now);
        if !machine.meta.has_finalizer(CONTROLLER_FINALIZER) {
            match delay_end(first_seen, delay) {
                Some(at) if at <= now => {}
                Some(at) => {
                    self.agenda.wake(id, at);
                    return false;
                }
                None => return false,
            }
        }
        let patch = defaults::machine_defaults_patch(key, machine, self.settings.seed);
        match patch.or_else(|| self.go_encoding_patch(key, machine)) {
            Some(patch) => self.patch(&id, patch, now) == WriteRequestState::Useless,
            None => true,
        }
    }

    /// The merge patch that removes what Go's encoder drops of the spec, as each write of a Go program does.
    fn go_encoding_patch(&self, key: &NamespacedKey, machine: &KubeVirtMachineView) -> Option<Value> {
        let spec = self.encode_spec(key, machine, &machine.spec.instance_spec)?;
        let change = merge_patch(&machine.spec.instance_spec, &spec)?;
        Some(json!({ "spec": { "template": { "spec": change } } }))
    }

    /// A spec of an instance as Go's encoder writes it, if the knob `go-encoding` is set.
    fn encode_spec(&self, key: &NamespacedKey, machine: &KubeVirtMachineView, spec: &Value) -> Option<Value> {
        let is_encoded = self.knobs_of_machine(key, machine).is(|knobs| knobs.go_encoding);
        is_encoded.then(|| encode_instance_spec(spec))
    }

    fn start(
        &mut self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        template: &SizedTemplate,
        now: Timestamp,
    ) {
        let body = json!({
            "apiVersion": KUBEVIRT,
            "kind": "VirtualMachineInstance",
            "metadata": {
                "name": *key.name,
                "namespace": *key.namespace,
                "labels": machine.spec.template_labels,
                "annotations": template.annotations,
                "finalizers": [CONTROLLER_FINALIZER, FOREGROUND_FINALIZER],
                "ownerReferences": [controller_reference(KUBEVIRT, "VirtualMachine", key, &machine.meta)],
            },
            "spec": self.encode_spec(key, machine, &template.spec).unwrap_or_else(|| template.spec.clone()),
        });
        self.create(&KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key), body, now);
    }

    fn stop(&mut self, key: &NamespacedKey, instance: &InstanceView, now: Timestamp) {
        if !instance.meta.deleting() {
            self.delete(
                &KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key),
                &instance.meta.uid,
                false,
                now,
            );
        }
    }

    /// Carries changes that need no restart over to the running instance, at once. Its guest gets them later.
    fn update_live(&mut self, key: &NamespacedKey, facts: &MachinePassFacts, now: Timestamp) {
        let Some(instance) = facts.instance.own() else { return };
        let runs = instance.status.phase == InstancePhase::Running && !instance.meta.deleting();
        if !runs || facts.restart_required {
            return;
        }
        let Ok(template) = &facts.template else { return };
        let comparable = status::comparable_template(&template.spec, &instance.spec);
        if let Some(change) = merge_patch(&instance.spec, &comparable) {
            let id = KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key);
            self.patch(&id, json!({ "spec": change }), now);
        }
    }
}
