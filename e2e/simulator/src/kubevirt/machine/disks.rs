//! The DataVolumes of a machine: the VM controller creates them or adopts those that exist, and waits for
//! them.

use crate::{
    kubevirt::{
        events::{CloneReview, REFUSED},
        model::KubeVirtModel,
        objects::{
            ALLOW_ADOPTION, CDI, CREATED_BY, ClaimView, DataVolumeView, KUBEVIRT, KubeVirtMachineView,
            KubeVirtObjectId, KubeVirtObjectKind, RunStrategy, volumes_of,
        },
        writes::controller_reference,
    },
    objects::NamespacedKey,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

/// What a machine's DataVolumes allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineDiskState {
    /// A DataVolume is missing, or its copy has not ended.
    pub(crate) provisioning: bool,
    /// A DataVolume waits for the first instance that uses it.
    pub(crate) binding: bool,
    /// A copy fails.
    pub(crate) failed: bool,
    /// Why the machine must not use a disk.
    pub(crate) conflict: Option<String>,
}

impl MachineDiskState {
    /// Whether an instance may be created.
    pub(crate) fn allow_start(&self) -> bool {
        !self.provisioning && !self.failed && self.conflict.is_none()
    }

    fn add(&mut self, data_volume: &DataVolumeView) {
        self.failed |= data_volume.fails();
        self.binding |= data_volume.waits_for_consumer();
        self.provisioning |=
            data_volume.meta.deleting() || !(data_volume.succeeded() || data_volume.waits_for_consumer());
    }
}

impl KubeVirtModel {
    /// Creates and adopts the DataVolumes of a machine, and says how they are.
    pub(super) fn prepare_disks(
        &mut self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        now: Timestamp,
    ) -> MachineDiskState {
        let mut disks = MachineDiskState::default();
        for template in &machine.spec.data_volume_templates {
            let Some(name) = template["metadata"]["name"].as_str() else { continue };
            let disk = key.sibling(name);
            match self.data_volumes.view(&disk).cloned() {
                Some(data_volume) => self.use_data_volume(key, machine, &disk, &data_volume, &mut disks, now),
                None => self.use_claim(key, machine, &disk, template, &mut disks, now),
            }
        }
        let (others, _) = volumes_of(&machine.spec.instance_spec);
        for name in others.iter().filter(|name| machine.spec.template_names().all(|own| own != *name)) {
            if let Some(data_volume) = self.data_volumes.view(&key.sibling(name)) {
                disks.add(data_volume);
            }
        }
        // A stopped machine waits for no disk to be bound.
        disks.binding &= machine.spec.run_strategy != RunStrategy::Halted;
        disks
    }

    fn use_data_volume(
        &mut self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        disk: &NamespacedKey,
        data_volume: &DataVolumeView,
        disks: &mut MachineDiskState,
        now: Timestamp,
    ) {
        match data_volume.meta.controller() {
            Some(owner) if *owner.uid == *machine.meta.uid => disks.add(data_volume),
            Some(owner) => disks.conflict = Some(controlled("DataVolume", disk, owner)),
            None => {
                disks.provisioning = true;
                if !data_volume.meta.deleting() {
                    let patch = adoption(key, machine, &data_volume.meta.owners);
                    self.patch(&KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, disk), patch, now);
                }
            }
        }
    }

    /// Without a DataVolume, a claim that the machine controls is its disk: CDI deletes DataVolumes that
    /// succeeded.
    fn use_claim(
        &mut self,
        key: &NamespacedKey,
        machine: &KubeVirtMachineView,
        disk: &NamespacedKey,
        template: &Value,
        disks: &mut MachineDiskState,
        now: Timestamp,
    ) {
        let claim = self.claims.view(disk).cloned();
        let owner = claim.as_deref().and_then(|claim: &ClaimView| claim.meta.controller());
        match owner {
            Some(owner) if *owner.uid == *machine.meta.uid => {
                disks.provisioning |= claim.as_ref().is_some_and(|claim| claim.meta.deleting());
            }
            // The garbage collector deletes it, because its DataVolume is gone.
            Some(owner) if owner.kind == "DataVolume" => disks.provisioning = true,
            Some(owner) => disks.conflict = Some(controlled("PersistentVolumeClaim", disk, owner)),
            None => {
                disks.provisioning = true;
                match self.resolve_template(key, machine, &template["spec"]) {
                    Ok((spec, review)) => {
                        let body = data_volume(key, machine, disk, template, &spec);
                        self.create_disk(disk, body, review, disks, now);
                    }
                    Err(why) => disks.conflict = Some(why),
                }
            }
        }
    }

    fn create_disk(
        &mut self,
        disk: &NamespacedKey,
        body: Value,
        review: Option<CloneReview>,
        disks: &mut MachineDiskState,
        now: Timestamp,
    ) {
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::DataVolume, disk);
        match review {
            None => self.create(&id, body, now),
            Some(review) => self.create_clone(&id, body, review, now),
        };
        disks.conflict = self.creation_failure(&id).filter(|why| why.starts_with(REFUSED));
    }
}

fn controlled(kind: &str, disk: &NamespacedKey, owner: &OwnerReference) -> String {
    format!("{kind} {} is controlled by {} {}", disk.name, owner.kind, owner.name)
}

fn adoption(key: &NamespacedKey, machine: &KubeVirtMachineView, owners: &[OwnerReference]) -> Value {
    let controller = controller_reference(KUBEVIRT, "VirtualMachine", key, &machine.meta);
    let all: Vec<Value> = owners.iter().map(|owner| json!(owner)).chain([controller]).collect();
    json!({"metadata": {"ownerReferences": all}})
}

fn data_volume(
    key: &NamespacedKey,
    machine: &KubeVirtMachineView,
    disk: &NamespacedKey,
    template: &Value,
    spec: &Value,
) -> Value {
    let mut body = json!({
        "apiVersion": CDI,
        "kind": "DataVolume",
        "metadata": {
            "name": *disk.name,
            "namespace": *disk.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [controller_reference(KUBEVIRT, "VirtualMachine", key, &machine.meta)],
        },
        "spec": spec,
    });
    let (label, value) = created_by(machine);
    body["metadata"]["labels"][label] = value;
    body["metadata"]["annotations"][ALLOW_ADOPTION] = json!("true");
    body
}

/// The label with which a DataVolume names the machine that it was created for.
pub(super) fn created_by(machine: &KubeVirtMachineView) -> (&'static str, Value) {
    (CREATED_BY, json!(*machine.meta.uid))
}
