//! The object of a new machine.

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::annotations::REFRESH_INSTANCETYPE;
use vmpool_api::names::is_dns_label;
use vmpool_engine::model::ObjectId;
use vmpool_engine::protection;
use vmpool_engine::scale_up::names::ordinal_name;
use vmpool_instancetype::pins;

use super::keys::{API_VERSION, FINALIZER, MACHINE_KIND, REVISION_LABEL, pool_owner_reference};
use super::read::NameGenerationSettings;

/// A template for the machine with one ordinal.
#[derive(Clone, Copy, Debug)]
pub struct RevisionTemplate<'a> {
    /// `virtualMachineTemplate` of a pool or of a stored revision.
    pub content: &'a Value,
    /// Which names get the ordinal, from the same pool or revision.
    pub names: NameGenerationSettings,
    /// The pinned matchers, from the same revision; null if it has none.
    pub pins: &'a Value,
}

/// The VirtualMachine of a pool with this ordinal. Its name is `<pool>-<ordinal>`.
///
/// `revision` is the name of the stored revision of `template`.
pub fn machine_object(
    namespace: &str,
    pool: &ObjectId,
    template: RevisionTemplate<'_>,
    ordinal: u64,
    revision: &str,
) -> Value {
    let Metadata { mut labels, annotations } = template_metadata(template.content);
    labels.insert(REVISION_LABEL.to_owned(), revision.into());
    let name = ordinal_name(&pool.name, ordinal);
    let mut metadata = json!({
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "finalizers": [FINALIZER],
        "ownerReferences": [pool_owner_reference(&pool.name, pool.uid.as_str())],
    });
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": MACHINE_KIND,
        "metadata": metadata,
        "spec": new_machine_spec(template, &name, ordinal, revision),
    })
}

/// What a template sets in the metadata of a machine. Its other metadata is ignored.
pub(super) struct Metadata {
    pub(super) labels: Map<String, Value>,
    pub(super) annotations: Map<String, Value>,
}

/// Whether only vmpool may write the label or annotation on machines, so that a template must not have it.
pub(super) fn is_reserved(key: &str) -> bool {
    key.starts_with(protection::PREFIX) && key != REFRESH_INSTANCETYPE
}

/// Labels and annotations of a template, without reserved ones.
pub(super) fn template_metadata(template: &Value) -> Metadata {
    let map = |field: &str| match &template["metadata"][field] {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| !value.is_null() && !is_reserved(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        _ => Map::new(),
    };
    Metadata { labels: map("labels"), annotations: map("annotations") }
}

/// The spec of the machine with this ordinal: the spec of the template with names that contain the ordinal,
/// and with the revision label for the VirtualMachineInstance.
pub(super) fn new_machine_spec(
    template: RevisionTemplate<'_>,
    name: &str,
    ordinal: u64,
    revision: &str,
) -> Value {
    let mut spec = named_machine_spec(template, name, ordinal);
    label_instance(&mut spec, revision);
    spec
}

/// Adds the parts that KubeVirt requires of a machine and that a template may omit, because an instance type
/// and a preference can describe all hardware.
fn complete_domain(spec: &mut Value) {
    let mut part = spec.pointer_mut("/template/spec");
    for field in ["domain", "devices"] {
        // The API server reports a part of another type.
        let Some(Value::Object(fields)) = part else { return };
        let inner = fields.entry(field).or_insert(Value::Null);
        if inner.is_null() {
            *inner = json!({});
        }
        part = Some(inner);
    }
}

/// Sets the revision label for the VirtualMachineInstance in the spec of a machine.
pub(super) fn label_instance(spec: &mut Value, revision: &str) {
    let Some(template) = object_field_mut(spec, "template") else { return };
    let metadata = ensure_json_object(template.entry("metadata").or_insert(Value::Null));
    ensure_json_object(&mut metadata["labels"])[REVISION_LABEL] = revision.into();
}

/// The value, as an empty object if it is none.
fn ensure_json_object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    value
}

/// The spec of the template with names that contain the ordinal, and with the host name of the machine with
/// this name. A name that no host can have gives none.
pub(super) fn named_machine_spec(template: RevisionTemplate<'_>, name: &str, ordinal: u64) -> Value {
    let mut spec = numbered_machine_spec(template, ordinal);
    if template.names.hostname
        && is_dns_label(name)
        && let Some(Value::Object(instance)) = spec.pointer_mut("/template/spec")
    {
        instance.insert("hostname".to_owned(), name.into());
    }
    spec
}

/// The spec of the template with names that contain the ordinal.
///
/// A volume refers to a storage object of its own machine if it names one of the DataVolume templates. It
/// refers to a shared one otherwise, and then stays unchanged.
pub(super) fn numbered_machine_spec(template: RevisionTemplate<'_>, ordinal: u64) -> Value {
    let mut spec = template.content["spec"].clone();
    pins::apply_pins(&mut spec, template.pins);
    complete_domain(&mut spec);
    let mut templates = Vec::new();
    for template in list_items_mut(spec.get_mut("dataVolumeTemplates")) {
        let Some(metadata) = object_field_mut(template, "metadata") else { continue };
        if let Some(Value::String(name)) = metadata.get_mut("name") {
            templates.push(name.clone());
            append_ordinal(name, ordinal);
        }
    }
    let is_template = |name: &str| templates.iter().any(|template| template == name);
    for volume in list_items_mut(spec.pointer_mut("/template/spec/volumes")) {
        for (source, field) in [("dataVolume", "name"), ("persistentVolumeClaim", "claimName")] {
            if let Some(name) = nonempty_text_mut(volume, &[source, field])
                && is_template(name)
            {
                append_ordinal(name, ordinal);
            }
        }
        let names = template.names;
        let config_map: &[&[&str]] = &[&["configMap", "name"]];
        let sysprep: &[&[&str]] = &[&["sysprep", "secret", "name"], &["sysprep", "configMap", "name"]];
        let meta_data: &[&[&str]] = &[
            &["cloudInitNoCloud", "metaDataSecretRef", "name"],
            &["cloudInitConfigDrive", "metaDataSecretRef", "name"],
        ];
        let secrets: &[&[&str]] = &[
            &["secret", "secretName"],
            &["cloudInitNoCloud", "secretRef", "name"],
            &["cloudInitNoCloud", "networkDataSecretRef", "name"],
            &["cloudInitConfigDrive", "secretRef", "name"],
            &["cloudInitConfigDrive", "networkDataSecretRef", "name"],
        ];
        for (enabled, paths) in [
            (names.config_maps, config_map),
            (names.secrets, secrets),
            (names.sysprep, sysprep),
            (names.meta_data, meta_data),
        ] {
            for path in paths.iter().filter(|_| enabled) {
                if let Some(name) = nonempty_text_mut(volume, path) {
                    append_ordinal(name, ordinal);
                }
            }
        }
    }
    if template.names.resource_claims {
        for claim in list_items_mut(spec.pointer_mut("/template/spec/resourceClaims")) {
            if let Some(name) = nonempty_text_mut(claim, &["resourceClaimName"]) {
                append_ordinal(name, ordinal);
            }
        }
    }
    if template.names.machine_state
        && let Some(state) = spec.pointer_mut("/template/spec/vmState")
    {
        append_to_state_claims(state, ordinal);
    }
    spec
}

/// Appends the ordinal to the name of a claim that exists, and of one that KubeVirt creates for the machine.
fn append_to_state_claims(state: &mut Value, ordinal: u64) {
    for path in [&["persistentVolumeClaim", "name"][..], &["template", "metadata", "name"]] {
        if let Some(name) = nonempty_text_mut(state, path) {
            append_ordinal(name, ordinal);
        }
    }
}

fn append_ordinal(name: &mut String, ordinal: u64) {
    *name = format!("{name}-{ordinal}");
}

fn list_items_mut(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn object_field_mut<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    value.get_mut(field)?.as_object_mut()
}

/// The text at this path, unless it is empty.
fn nonempty_text_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut String> {
    let found = path.iter().try_fold(value, |value, field| value.get_mut(*field))?;
    match found {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
