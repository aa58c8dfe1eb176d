//! The objects that the controller creates for a wrapper: a missing image, and the machine.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use vmpool_api::Quantity;
use vmpool_api::diskimage::annotations::APPLIED_TEMPLATE;
use vmpool_api::diskimage::finalizers::IMAGE_PROTECTION;
use vmpool_api::diskimage::labels::WRAPPER_UID;
use vmpool_api::diskimage::{API_VERSION, VirtualMachine, WRAPPER_KIND};
use vmpool_api::kubevirt;

use crate::clone_permission::Account;
use crate::limits::NESTING;
use crate::objects::DELETE_AFTER_COMPLETION;
use crate::read::referrer::clone_account_name;
use crate::wrapper::fields::{list_field_mut, list_items, object_field_mut};
use crate::wrapper::guest::{add_guest_settings, find_guest_error};

#[cfg(test)]
mod tests;

/// Name of the disk if the wrapper names none.
const DEFAULT_DISK: &str = "root";

fn wrapper_name(wrapper: &VirtualMachine) -> &str {
    wrapper.metadata.name.as_deref().unwrap_or_default()
}

/// Name of the disk, and of its volume in the machine.
pub fn disk_name(wrapper: &VirtualMachine) -> &str {
    wrapper.spec.disk_name.as_deref().unwrap_or(DEFAULT_DISK)
}

/// Name of the DataVolume with the disk of the machine.
pub fn data_volume_name(wrapper: &VirtualMachine) -> String {
    format!("{}-{}", wrapper_name(wrapper), disk_name(wrapper))
}

/// The image that the template of a wrapper describes. `None` if it has no template.
///
/// The image has no owner: machines never delete images, and an owner in another namespace is not possible.
pub fn image_object(wrapper: &VirtualMachine) -> Option<Value> {
    let template = wrapper.spec.vm_disk_image_template.as_ref()?;
    let reference = &wrapper.spec.vm_disk_image_ref;
    let mut spec = serde_json::to_value(template).ok()?;
    let labels = spec.as_object_mut().and_then(|spec| spec.remove("labels"));
    // Without the finalizer, a deletion would not wait for the wrapper until the controller of images adds
    // it.
    let mut metadata = json!({
        "name": reference.name,
        "finalizers": [IMAGE_PROTECTION],
        "namespace": reference.namespace.as_ref().or(wrapper.metadata.namespace.as_ref()),
    });
    if let Some(labels) = labels {
        metadata["labels"] = labels;
    }
    Some(json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "metadata": metadata, "spec": spec }))
}

/// Whether lists and maps are nested in more than this number of levels.
fn exceeds_nesting(value: &Value, levels: usize) -> bool {
    let deeper = |inner: &Value| levels.checked_sub(1).is_none_or(|levels| exceeds_nesting(inner, levels));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(deeper),
        Value::Object(fields) => levels == 0 || fields.values().any(deeper),
        _ => false,
    }
}

/// Why no machine can be made from the template of a wrapper. The schema refuses most such templates.
pub fn template_validation_error(wrapper: &VirtualMachine) -> Option<String> {
    let spec = &wrapper.spec.virtual_machine_template.spec;
    if exceeds_nesting(spec, NESTING) {
        return Some(format!(
            "virtualMachineTemplate.spec is nested more than {NESTING} levels deep; remove the innermost lists and maps"
        ));
    }
    let instance = &spec["template"]["spec"];
    let (disk, volume) = (disk_name(wrapper), data_volume_name(wrapper));
    let lists = [
        ("dataVolumeTemplates", &spec["dataVolumeTemplates"]),
        ("template.spec.volumes", &instance["volumes"]),
        ("template.spec.domain.devices.disks", &instance["domain"]["devices"]["disks"]),
    ];
    if let Some((field, _)) = lists.iter().find(|(_, list)| !list.is_null() && !list.is_array()) {
        return Some(format!("virtualMachineTemplate.spec.{field} is not a list; correct it"));
    }
    let devices = &instance["domain"]["devices"];
    if !devices.is_null() && !devices.is_object() {
        return Some(
            "virtualMachineTemplate.spec.template.spec.domain.devices is not an object; correct it"
                .to_owned(),
        );
    }
    if list_items(&spec["dataVolumeTemplates"])
        .any(|template| template["metadata"]["name"] == volume.as_str())
    {
        return Some(format!(
            "virtualMachineTemplate has a DataVolume template {volume}, which is the name of the disk that the controller \
             adds; rename it"
        ));
    }
    if let Some(error) = find_guest_error(wrapper) {
        return Some(error.to_string());
    }
    let account = Account {
        namespace: wrapper.metadata.namespace.clone().unwrap_or_default(),
        name: clone_account_name(instance),
    };
    if !account.has_valid_name() {
        return Some(
            "virtualMachineTemplate names a service account with a name that none can have; correct it"
                .to_owned(),
        );
    }
    let other = |found: &Value| found["name"] == disk && found["dataVolume"]["name"] != volume.as_str();
    list_items(&instance["volumes"]).any(other).then(|| {
        format!(
            "virtualMachineTemplate has a volume {disk} with another source than the DataVolume {volume}; remove it, or \
             create a wrapper with another diskName"
        )
    })
}

/// What the controller writes of the machine: labels, annotations and spec, without the template of its own
/// DataVolume, which is written once.
pub fn machine_template(wrapper: &VirtualMachine) -> Value {
    let template = &wrapper.spec.virtual_machine_template;
    let metadata = template.metadata.as_ref();
    let mut labels = metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(WRAPPER_UID.to_owned(), wrapper.metadata.uid.clone().unwrap_or_default());
    let mut annotations = metadata.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default();
    annotations.remove(APPLIED_TEMPLATE);
    let mut spec = template.spec.clone();
    if let Some(instance) = instance_spec_mut(&mut spec) {
        add_disk(instance, disk_name(wrapper), &data_volume_name(wrapper));
        add_resources(instance, wrapper);
        add_guest_settings(instance, wrapper);
    }
    json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": spec })
}

fn instance_spec_mut(spec: &mut Value) -> Option<&mut Map<String, Value>> {
    object_field_mut(object_field_mut(spec.as_object_mut()?, "template")?, "spec")
}

fn add_disk(instance: &mut Map<String, Value>, disk: &str, data_volume: &str) {
    let volumes = list_field_mut(instance, "volumes");
    if let Some(volumes) = volumes.filter(|volumes| volumes.iter().all(|volume| volume["name"] != disk)) {
        volumes.push(json!({ "name": disk, "dataVolume": { "name": data_volume } }));
    }
    let devices = object_field_mut(instance, "domain").and_then(|domain| object_field_mut(domain, "devices"));
    let Some(devices) = devices else { return };
    // KubeVirt refuses one boot order for two devices, also for a disk and a network interface.
    let interfaces =
        devices.get("interfaces").map(|all| list_items(all).cloned().collect::<Vec<_>>()).unwrap_or_default();
    let Some(disks) = list_field_mut(devices, "disks") else { return };
    if disks.iter().any(|known| known["name"] == disk) {
        return;
    }
    let mut added = json!({ "name": disk, "disk": {} });
    if disks.iter().chain(&interfaces).all(|known| known["bootOrder"] != 1) {
        added["bootOrder"] = json!(1);
    }
    disks.push(added);
}

fn add_resources(instance: &mut Map<String, Value>, wrapper: &VirtualMachine) {
    let Some(resources) = &wrapper.spec.resources else { return };
    let Some(domain) = object_field_mut(instance, "domain") else { return };
    // The schema accepts whole numbers only.
    if let Some(sockets) = resources.cpu.as_ref().and_then(|cpu| cpu.bytes().ok())
        && let Some(cpu) = object_field_mut(domain, "cpu")
    {
        cpu.insert("sockets".to_owned(), json!(sockets));
    }
    if let Some(size) = &resources.memory
        && let Some(memory) = object_field_mut(domain, "memory")
    {
        memory.insert("guest".to_owned(), json!(size));
    }
}

/// The template of the DataVolume with the disk. `size` is that of the disk.
fn disk_template(wrapper: &VirtualMachine, size: &Quantity) -> Value {
    let reference = &wrapper.spec.vm_disk_image_ref;
    let namespace = reference.namespace.as_ref().or(wrapper.metadata.namespace.as_ref());
    json!({
        // KubeVirt copies labels and annotations to the DataVolume, whose end would be that of the disk.
        "metadata": {
            "name": data_volume_name(wrapper),
            "labels": { WRAPPER_UID: wrapper.metadata.uid },
            "annotations": { DELETE_AFTER_COMPLETION: "false" },
        },
        "spec": {
            "sourceRef": { "kind": "DataSource", "namespace": namespace, "name": reference.name },
            // Without a class, CDI takes one that can clone the image.
            "storage": { "resources": { "requests": { "storage": size } } },
        },
    })
}

/// The machine of a wrapper. `image_size` is the size of the image, which its disk has if the wrapper sets no
/// other.
pub fn machine_object(wrapper: &VirtualMachine, image_size: &Quantity) -> Value {
    let template = machine_template(wrapper);
    let applied = template.to_string();
    let own = wrapper.spec.resources.as_ref().and_then(|resources| resources.disk_size.as_ref());
    let mut machine = template;
    if let Some(spec) = machine["spec"].as_object_mut()
        && let Some(templates) = list_field_mut(spec, "dataVolumeTemplates")
    {
        templates.push(disk_template(wrapper, own.unwrap_or(image_size)));
    }
    machine["apiVersion"] = json!(kubevirt::API_VERSION);
    machine["kind"] = json!("VirtualMachine");
    machine["metadata"]["name"] = json!(wrapper_name(wrapper));
    machine["metadata"]["namespace"] = json!(wrapper.metadata.namespace);
    machine["metadata"]["annotations"][APPLIED_TEMPLATE] = json!(applied);
    machine["metadata"]["ownerReferences"] = json!([{
        "apiVersion": API_VERSION,
        "kind": WRAPPER_KIND,
        "name": wrapper_name(wrapper),
        "uid": wrapper.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    machine
}

/// An update of a machine: the template that was written to it last, and the one of the wrapper. Both contain
/// the template of the machine's own DataVolume as it is now, because a list is written as a whole and that
/// template never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineTemplateUpdate {
    /// What was written last. `None` if that cannot be read: then nothing is removed.
    pub from: Option<Value>,
    /// What the wrapper wants.
    pub to: Value,
}

/// The update of a machine.
pub fn machine_template_update(wrapper: &VirtualMachine, live: &Value) -> MachineTemplateUpdate {
    let volume = data_volume_name(wrapper);
    let applied = live["metadata"]["annotations"][APPLIED_TEMPLATE].as_str();
    let mut from: Option<Value> = applied.and_then(|text| serde_json::from_str(text).ok());
    let mut to = machine_template(wrapper);
    let text = to.to_string();
    let own = list_items(&live["spec"]["dataVolumeTemplates"]);
    let own: Vec<Value> =
        own.filter(|template| template["metadata"]["name"] == volume.as_str()).cloned().collect();
    for template in from.iter_mut().chain([&mut to]) {
        if let Some(templates) =
            template["spec"].as_object_mut().and_then(|spec| list_field_mut(spec, "dataVolumeTemplates"))
        {
            templates.extend(own.iter().cloned());
        }
    }
    if !to["metadata"]["annotations"].is_object() {
        to["metadata"]["annotations"] = json!({});
    }
    to["metadata"]["annotations"][APPLIED_TEMPLATE] = json!(text);
    MachineTemplateUpdate { from, to }
}

/// A short form of an applied template, to compare it.
pub fn template_digest(applied: &str) -> String {
    let digest = Sha256::digest(applied.as_bytes());
    let number = digest.iter().take(16).fold(0, |number: u128, byte| (number << 8) | u128::from(*byte));
    format!("{number:032x}")
}
