//! The objects that the controller creates for an image.
//!
//! Those with the data have the namespace and the name of the image. Once the data can be used, neither they
//! nor the permission to clone have an owner reference to the image, so that no deletion of the image can
//! reach them before the controller has counted the references: in the foreground, the garbage collector
//! deletes what an object owns although a finalizer holds the object itself. The label with the UID says
//! whose they are.
//!
//! Until the controller has seen an object, it has an owner reference. The API server can carry out a create
//! after the image is gone, when no controller expects it anymore. The garbage collector deletes such an
//! object, because its owner does not exist. A label could not decide about that: users can write labels, and
//! a restored backup has those of a former image.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::diskimage::annotations::COPIED_LABELS;
use vmpool_api::diskimage::labels::IMAGE_UID;
use vmpool_api::diskimage::values::SourceType;
use vmpool_api::diskimage::{API_VERSION, VmDiskImage};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, SNAPSHOT_API_VERSION};

use crate::clone_permission::ClonePermission;
use crate::model::{DataTarget, ObjectKey};
use crate::owner::ObjectOwnerKind;

#[cfg(test)]
mod tests;

/// On DataVolumes: CDI imports although no Pod uses the claim yet.
pub const BIND_IMMEDIATELY: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
/// On DataVolumes: CDI does not fill a new claim on its own.
pub const PREPOPULATED: &str = "cdi.kubevirt.io/storage.prePopulated";
/// On DataVolumes: with `false`, CDI does not delete the DataVolume after its success. Without it, a cluster
/// can be configured to do so, and the claim is left without an owner, so that nothing deletes it with the
/// image.
pub const DELETE_AFTER_COMPLETION: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";
/// The prefix of the labels that name default instance types and preferences.
pub const INSTANCETYPE_LABELS: &str = "instancetype.kubevirt.io/";
/// The group of DataVolumes, whose sources are protected by RBAC.
const IMPORTER_GROUP: &str = "cdi.kubevirt.io";
const RBAC_API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The labels that the objects of an image get from it.
fn copied_labels(image: &VmDiskImage, prefixes: &[String]) -> BTreeMap<String, String> {
    let labels = image.metadata.labels.iter().flatten();
    let is_copied = |label: &str| prefixes.iter().any(|prefix| label.starts_with(prefix.as_str()));
    labels
        .filter(|(label, _)| is_copied(label))
        .map(|(label, value)| (label.clone(), value.clone()))
        .collect()
}

/// The annotation with the names of the copied labels. The controller removes such a label with that of the
/// image, and no label that a user has added to the object.
fn names_of(copied: &BTreeMap<String, String>) -> Option<String> {
    let names: Vec<&str> = copied.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// What an object has of the labels of its image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageObjectLabels {
    /// All labels of the object.
    labels: BTreeMap<String, String>,
    /// The names of those that were copied.
    copied: Option<String>,
}

impl ImageObjectLabels {
    /// `None` for an object that has nothing of an image.
    pub fn read(object: &ObjectMeta) -> Option<Box<Self>> {
        let copied = object.annotations.as_ref().and_then(|all| all.get(COPIED_LABELS)).cloned();
        let labels = object.labels.as_ref();
        let is_marked = copied.is_some() || labels.is_some_and(|labels| labels.contains_key(IMAGE_UID));
        is_marked.then(|| Box::new(Self { labels: labels.cloned().unwrap_or_default(), copied }))
    }
}

/// A merge patch that gives an object the labels of its image again: the UID, and those with these prefixes.
/// `None` if it has them.
pub fn label_patch(
    image: &VmDiskImage,
    prefixes: &[String],
    stored: Option<&ImageObjectLabels>,
) -> Option<Value> {
    let none = ImageObjectLabels::default();
    let stored = stored.unwrap_or(&none);
    let mut wanted = copied_labels(image, prefixes);
    let names = names_of(&wanted);
    wanted.insert(IMAGE_UID.to_owned(), image.metadata.uid.clone().unwrap_or_default());
    let changed = wanted.iter().filter(|(label, value)| stored.labels.get(*label) != Some(*value));
    let mut labels: Map<String, Value> =
        changed.map(|(label, value)| (label.clone(), json!(value))).collect();
    let former = stored.copied.iter().flat_map(|names| names.split(','));
    let removed = former.filter(|label| !wanted.contains_key(*label) && stored.labels.contains_key(*label));
    labels.extend(removed.map(|label| (label.to_owned(), Value::Null)));
    if labels.is_empty() && names == stored.copied {
        return None;
    }
    Some(json!({ "metadata": { "labels": labels, "annotations": { COPIED_LABELS: names } } }))
}

fn image_object_metadata(image: &VmDiskImage, name: &str, prefixes: &[String]) -> Value {
    let uid = image.metadata.uid.clone().unwrap_or_default();
    let mut labels = copied_labels(image, prefixes);
    let names = names_of(&labels);
    labels.insert(IMAGE_UID.to_owned(), uid.clone());
    // Neither controller nor blocking: it is there only until [`owner_removal_patch`].
    let owner =
        json!({ "apiVersion": API_VERSION, "kind": "VMDiskImage", "name": image.metadata.name, "uid": uid });
    let mut metadata = json!({ "name": name, "namespace": image.metadata.namespace, "labels": labels,
        "ownerReferences": [owner] });
    if let Some(names) = names {
        metadata["annotations"] = json!({ COPIED_LABELS: names });
    }
    metadata
}

/// Whether an object belongs to the image: it has the label with the UID, and no other controller.
pub fn is_of_image(object: &ObjectMeta, image_uid: &str) -> bool {
    let has_label = object.labels.iter().flatten().any(|(name, uid)| name == IMAGE_UID && uid == image_uid);
    let is_image = |owner| ObjectOwnerKind::Image.is_kind_of(owner) && owner.uid == image_uid;
    has_label && OwnerIdentity::of_controller(object).is_none_or(is_image)
}

/// A JSON patch that removes the owner reference to an image from an object, whose label then says that it
/// belongs to the image. `None` if it has none. It fails if the owners have changed since.
pub fn owner_removal_patch(object: &ObjectMeta, image_uid: &str) -> Option<Value> {
    let is_image =
        |owner: OwnerIdentity<'_>| ObjectOwnerKind::Image.is_kind_of(owner) && owner.uid == image_uid;
    let mut owners = object.owner_references.iter().flatten().map(OwnerIdentity::of);
    let at = owners.position(is_image)?;
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": object.uid }),
        json!({ "op": "test", "path": format!("/metadata/ownerReferences/{at}/uid"), "value": image_uid }),
        json!({ "op": "remove", "path": format!("/metadata/ownerReferences/{at}") }),
    ];
    match &object.labels {
        Some(labels) if labels.contains_key(IMAGE_UID) => {}
        Some(_) => {
            let path = format!("/metadata/labels/{}", IMAGE_UID.replace('/', "~1"));
            operations.push(json!({ "op": "add", "path": path, "value": image_uid }));
        }
        None => {
            let version = &object.resource_version;
            operations.push(json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }));
            let labels = json!({ IMAGE_UID: image_uid });
            operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": labels }));
        }
    }
    Some(Value::Array(operations))
}

/// The owner reference to an image, as its controller, for the time after the finalizer of the image is
/// removed.
pub fn owner_reference(image: &VmDiskImage) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VMDiskImage",
        "name": image.metadata.name,
        "uid": image.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn image_name(image: &VmDiskImage) -> &str {
    image.metadata.name.as_deref().unwrap_or_default()
}

/// The DataVolume that imports the data. `copied` are the prefixes of the labels that the objects get from
/// the image.
///
/// CDI chooses the access mode, because the spec has no claim of its own.
pub fn data_volume_object(image: &VmDiskImage, copied: &[String]) -> Value {
    let spec = &image.spec;
    let mut storage = json!({ "resources": { "requests": { "storage": spec.disk_size } } });
    if let Some(class) = &spec.storage_class {
        storage["storageClassName"] = json!(class);
    }
    let mut metadata = image_object_metadata(image, image_name(image), copied);
    metadata["annotations"][BIND_IMMEDIATELY] = json!("true");
    metadata["annotations"][DELETE_AFTER_COMPLETION] = json!("false");
    json!({
        "apiVersion": DATA_VOLUME_API_VERSION,
        "kind": "DataVolume",
        "metadata": metadata,
        "spec": { "source": data_volume_source(image), "storage": storage },
    })
}

fn data_volume_source(image: &VmDiskImage) -> Value {
    let spec = &image.spec;
    // The schema refuses other types, and an image of such a type is not imported.
    let kind = spec.source_type.parse().unwrap_or(SourceType::Blank);
    let mut fields = match kind {
        SourceType::Blank | SourceType::Upload | SourceType::Gcs => json!({}),
        // Never another namespace: CDI would ask only whether the controller may clone from there.
        SourceType::Pvc | SourceType::Snapshot => {
            json!({ "namespace": image.metadata.namespace, "name": spec.source_name })
        }
        SourceType::S3 => json!({ "certConfigMap": spec.cert_config_map }),
        SourceType::Registry => {
            json!({ "certConfigMap": spec.cert_config_map, "pullMethod": spec.pull_method })
        }
        SourceType::Http => json!({
            "certConfigMap": spec.cert_config_map,
            "checksum": spec.checksum,
            "extraHeaders": spec.extra_headers,
            "insecureSkipVerify": spec.insecure_skip_verify,
            "secretExtraHeaders": spec.secret_extra_headers,
        }),
    };
    if kind.has_url() {
        fields["url"] = json!(spec.url);
        fields["secretRef"] = json!(spec.secret_ref);
    }
    let mut fields = fields.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    json!({ kind.to_string(): fields })
}

/// The snapshot of the claim.
pub fn snapshot_object(image: &VmDiskImage, copied: &[String]) -> Value {
    let mut spec = json!({ "source": { "persistentVolumeClaimName": image_name(image) } });
    if let Some(class) = &image.spec.snapshot_class {
        spec["volumeSnapshotClassName"] = json!(class);
    }
    json!({
        "apiVersion": SNAPSHOT_API_VERSION,
        "kind": "VolumeSnapshot",
        "metadata": image_object_metadata(image, image_name(image), copied),
        "spec": spec,
    })
}

/// The DataSource.
pub fn data_source_object(image: &VmDiskImage, target: DataTarget, copied: &[String]) -> Value {
    let key = ObjectKey::new(image.metadata.namespace.clone().unwrap_or_default(), image_name(image));
    json!({
        "apiVersion": DATA_VOLUME_API_VERSION,
        "kind": "DataSource",
        "metadata": image_object_metadata(image, image_name(image), copied),
        "spec": { "source": data_source_target(&key, target) },
    })
}

/// `spec.source` of the DataSource. In a merge patch, it removes what else the source has.
pub fn data_source_target(image: &ObjectKey, target: DataTarget) -> Value {
    let reference = json!({ "namespace": image.namespace, "name": image.name });
    match target {
        DataTarget::Snapshot => json!({ "snapshot": reference }),
        DataTarget::Claim => json!({ "pvc": reference }),
    }
}

/// The Role that permits to clone the image.
pub fn clone_role(image: &VmDiskImage, permission: &ClonePermission) -> Value {
    json!({
        "apiVersion": RBAC_API_VERSION,
        "kind": "Role",
        "metadata": image_object_metadata(image, &permission.name, &[]),
        "rules": [{
            "apiGroups": [IMPORTER_GROUP],
            "resources": ["datavolumes/source"],
            "resourceNames": [permission.source],
            "verbs": ["create"],
        }],
    })
}

/// The RoleBinding that gives this permission to accounts of other namespaces.
pub fn clone_role_binding(image: &VmDiskImage, permission: &ClonePermission) -> Value {
    let subjects: Vec<Value> = permission
        .accounts
        .iter()
        .map(|account| {
            json!({ "kind": "ServiceAccount", "namespace": account.namespace, "name": account.name })
        })
        .collect();
    json!({
        "apiVersion": RBAC_API_VERSION,
        "kind": "RoleBinding",
        "metadata": image_object_metadata(image, &permission.name, &[]),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": permission.name },
        "subjects": subjects,
    })
}
