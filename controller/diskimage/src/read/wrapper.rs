//! Reads a stored wrapper, its image, its machine and the disk of that.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::annotations::APPLIED_TEMPLATE;
use vmpool_api::diskimage::labels::WRAPPER_UID;
use vmpool_api::diskimage::values::{Mode, PullMethod, SourceType};
use vmpool_api::diskimage::virtual_machine::VirtualMachineVmDiskImageTemplate;
use vmpool_api::diskimage::{VirtualMachine, VmDiskImage};
use vmpool_api::kubevirt::{self, values::RunStrategy};

use super::backing::OVER_QUOTA;
use super::{image, object_key};
use crate::grants::ProposedImage;
use crate::model::{FoundObject, ObjectKey};
use crate::owner::ObjectOwnerKind;
use crate::wrapper::{
    ImageTemplateFields, Wrapper, WrapperDisk, WrapperImage, WrapperMachine, objects, status,
};

#[cfg(test)]
mod tests;

/// The image that a wrapper names.
pub fn wrapper_image_key(stored: &VirtualMachine) -> ObjectKey {
    let named = &stored.spec.vm_disk_image_ref;
    let namespace = named.namespace.as_ref().or(stored.metadata.namespace.as_ref());
    ObjectKey::new(namespace.cloned().unwrap_or_default(), &named.name)
}

/// A stored wrapper.
pub fn read_wrapper(stored: &VirtualMachine) -> Wrapper {
    let spec = &stored.spec;
    let template = spec.vm_disk_image_template.as_ref();
    let default = if template.is_some() { Mode::CreateIfNotExist } else { Mode::FailIfNotExist };
    Wrapper {
        key: object_key(&stored.metadata),
        uid: stored.metadata.uid.clone().unwrap_or_default(),
        deleting: stored.metadata.deletion_timestamp.is_some(),
        image: wrapper_image_key(stored),
        template: template.map(read_template_fields),
        // A mode that cannot be read creates nothing.
        mode: spec.mode.as_ref().map_or(default, |mode| mode.parse().unwrap_or(Mode::FailIfNotExist)),
        disk_size: spec.resources.as_ref().and_then(|resources| resources.disk_size.clone()),
        unusable: objects::template_validation_error(stored),
        status: stored.status.as_ref().map(status::read_wrapper_status).unwrap_or_default(),
    }
}

fn read_template_fields(template: &VirtualMachineVmDiskImageTemplate) -> ImageTemplateFields {
    ImageTemplateFields {
        name: template.name.clone(),
        url: template.url.clone(),
        source_type: template.source_type.clone(),
        disk_size: template.disk_size.clone(),
        storage_class: template.storage_class.clone(),
        snapshot_class: template.snapshot_class.clone(),
        secret_ref: template.secret_ref.clone(),
        cert_config_map: template.cert_config_map.clone(),
        checksum: template.checksum.clone(),
        source_name: template.source_name.clone(),
        pull_method: template.pull_method.clone(),
        insecure_skip_verify: template.insecure_skip_verify,
        extra_headers: template.extra_headers.clone(),
        secret_extra_headers: template.secret_extra_headers.clone(),
    }
}

/// The image that a wrapper would create. `None` without a template, or if its kind of source is unknown.
pub fn read_proposed_image(stored: &VirtualMachine) -> Option<ProposedImage<'_>> {
    let template = stored.spec.vm_disk_image_template.as_ref()?;
    let source = template.source_type.parse().ok()?;
    let secrets = template.secret_ref.iter().chain(template.secret_extra_headers.iter().flatten());
    Some(ProposedImage {
        source,
        url: template.url.as_deref(),
        secrets: secrets.map(String::as_str).collect(),
        storage_class: template.storage_class.as_deref(),
        disk_size: &template.disk_size,
        ungrantable: find_ungrantable_field(template, source),
    })
}

/// The first field of a template with a value that no grant can permit. A grant limits URL, Secrets,
/// StorageClass and size, and these fields go around that: they read other data of the namespace, or send its
/// Secrets to another server or path.
fn find_ungrantable_field(
    template: &VirtualMachineVmDiskImageTemplate,
    source: SourceType,
) -> Option<&'static str> {
    let is_node = template.pull_method.as_ref().is_some_and(|method| *method == PullMethod::Node.to_string());
    let fields = [
        ("the sourceType pvc or snapshot", source.has_source_name()),
        ("the sourceType upload", source == SourceType::Upload),
        ("insecureSkipVerify", template.insecure_skip_verify == Some(true)),
        ("extraHeaders", template.extra_headers.is_some()),
        ("the pullMethod node", is_node),
    ];
    fields.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
}

/// An image, as wrappers see it.
pub fn read_wrapper_image(stored: &VmDiskImage) -> WrapperImage {
    let read = image::read_image(stored, &[]);
    let spec = &stored.spec;
    WrapperImage {
        uid: read.uid,
        deleting: read.deleting,
        protected: read.protected,
        phase: read.status.phase,
        usable: read.status.is_usable(),
        message: read.status.message,
        generation: read.generation,
        source: ImageTemplateFields {
            name: spec.name.clone(),
            url: spec.url.clone(),
            source_type: spec.source_type.clone(),
            disk_size: spec.disk_size.clone(),
            storage_class: spec.storage_class.clone(),
            snapshot_class: spec.snapshot_class.clone(),
            secret_ref: spec.secret_ref.clone(),
            cert_config_map: spec.cert_config_map.clone(),
            checksum: spec.checksum.clone(),
            source_name: spec.source_name.clone(),
            pull_method: spec.pull_method.clone(),
            insecure_skip_verify: spec.insecure_skip_verify,
            extra_headers: spec.extra_headers.clone(),
            secret_extra_headers: spec.secret_extra_headers.clone(),
        },
    }
}

/// A stored machine, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWrapperMachine {
    /// UID of the wrapper of the same name that controls it.
    owner: Option<String>,
    /// The digest of the template that was written to it last.
    applied: Option<String>,
    machine: WrapperMachine,
}

/// The wrapper that controls a machine. It has the name of the machine.
fn wrapper_of(machine: &ObjectMeta) -> Option<OwnerIdentity<'_>> {
    let owner = OwnerIdentity::of_controller(machine)?;
    (ObjectOwnerKind::Wrapper.is_kind_of(owner) && Some(owner.name) == machine.name.as_deref())
        .then_some(owner)
}

/// A stored machine.
pub fn read_wrapper_machine(metadata: &ObjectMeta, spec: &Value, status: &Value) -> StoredWrapperMachine {
    let applied = metadata.annotations.as_ref().and_then(|all| all.get(APPLIED_TEMPLATE));
    let printable = status["printableStatus"].as_str().unwrap_or_default();
    let ready = status["ready"] == true;
    let is_stopped = ["", "Stopped", "Succeeded"].contains(&printable);
    let off = match RunStrategy::of(spec["runStrategy"].as_str(), spec["running"].as_bool()) {
        Some(RunStrategy::Halted) => true,
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure | RunStrategy::Once) => is_stopped,
        _ => false,
    };
    StoredWrapperMachine {
        owner: wrapper_of(metadata).map(|owner| owner.uid.to_owned()),
        applied: applied.map(|text| objects::template_digest(text)),
        machine: WrapperMachine {
            uid: metadata.uid.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            current: false,
            ready,
            off,
            started: ready || status["created"] == true,
        },
    }
}

impl StoredWrapperMachine {
    /// Remembers that the machine has started, if the former version of the object says so.
    pub fn remember(&mut self, former: &Self) {
        self.machine.started |= self.machine.uid == former.machine.uid && former.machine.started;
    }

    /// The machine of the wrapper with this UID, which wants the template with this digest.
    pub fn found(stored: Option<&Self>, wrapper_uid: &str, wanted: &str) -> FoundObject<WrapperMachine> {
        match stored {
            None => FoundObject::Missing,
            Some(stored) if stored.owner.as_deref() == Some(wrapper_uid) => {
                let current = stored.applied.as_deref() == Some(wanted);
                FoundObject::Ours(WrapperMachine { current, ..stored.machine.clone() })
            }
            Some(_) => FoundObject::Foreign,
        }
    }
}

/// A DataVolume with the disk of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWrapperDisk {
    /// The machine that controls it. It has the name of its wrapper.
    pub machine: ObjectKey,
    machine_uid: String,
    disk: WrapperDisk,
}

/// The DataVolume of a machine of a wrapper; `None` if it is another one.
pub fn read_wrapper_disk(stored: &kubevirt::DataVolume, now: Timestamp) -> Option<StoredWrapperDisk> {
    let metadata = &stored.metadata;
    metadata.labels.as_ref()?.get(WRAPPER_UID)?;
    let owner =
        OwnerIdentity::of_controller(metadata).filter(|owner| ObjectOwnerKind::Machine.is_kind_of(*owner))?;
    let phase = stored.status.as_ref().and_then(|status| status.phase.as_deref());
    let waits = matches!(phase, Some("Pending" | "CloneScheduled" | "Unknown"));
    let waits_since = if waits { waits_since(stored, now) } else { None };
    let disk = WrapperDisk {
        uid: metadata.uid.clone().unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        populated: matches!(phase, Some("Succeeded" | "WaitForFirstConsumer" | "PendingPopulation")),
        failed: phase == Some("Failed"),
        // The clock of CDI can be ahead.
        stuck_since: waits_since.map(|since| since.min(now)),
        claim: None,
    };
    Some(StoredWrapperDisk {
        machine: ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), owner.name),
        machine_uid: owner.uid.to_owned(),
        disk,
    })
}

/// Since when CDI reports the same about a disk that does not begin; `now` if no condition has a time. `None`
/// if a condition says that a quota is the cause, because another disk would need the same quota.
///
/// The messages of conditions are for people, so they do not decide. CDI sets `lastHeartbeatTime` when
/// status, reason or message change, and `lastTransitionTime` with the status only. With the time of CDI,
/// another leader does not begin to wait anew. If the clock of CDI differs, the controller only waits longer
/// or shorter before it deletes the disk: how often, and how far apart, its own clock says.
fn waits_since(stored: &kubevirt::DataVolume, now: Timestamp) -> Option<Timestamp> {
    let conditions = || {
        let conditions = stored.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.filter(|condition| condition.status != "True")
    };
    if conditions().any(|condition| condition.reason.as_deref() == Some(OVER_QUOTA)) {
        return None;
    }
    let changed = conditions().filter_map(|condition| {
        condition.unknown_fields.get("lastHeartbeatTime").and_then(Value::as_str)?.parse().ok()
    });
    Some(changed.max().unwrap_or(now))
}

impl StoredWrapperDisk {
    /// Keeps the time since when the disk waits for its source, if the former version of the object waits,
    /// too.
    pub fn remember(&mut self, former: &Self) {
        if let (Some(now), Some(before), true) =
            (self.disk.stuck_since, former.disk.stuck_since, self.disk.uid == former.disk.uid)
        {
            self.disk.stuck_since = Some(before.min(now));
        }
    }

    /// The disk, if it belongs to this machine.
    pub fn of(&self, machine: &FoundObject<WrapperMachine>) -> Option<&WrapperDisk> {
        machine.ours().filter(|machine| machine.uid == self.machine_uid).map(|_| &self.disk)
    }
}
