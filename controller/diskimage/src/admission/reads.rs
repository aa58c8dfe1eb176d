//! The objects that reviews of images need, as lookups; and what is read from them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::diskimage::{API_VERSION, VmDiskImageGrant, WRAPPERS};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, POOL_API_VERSION};
use vmpool_decision::{
    AdmissionRead, AdmissionReads, LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup, Step,
    join_steps,
};

use super::existing::{ReferenceHolder, ReferenceHolderKind};
use crate::aliases::Aliases;
use crate::grants::Grant;
use crate::model::{NamedSource, NamedSourceKind, ObjectKey};
use crate::read::{read_grant, source_targets};

/// The image that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundImage {
    /// Its UID.
    pub(super) uid: String,
    /// Whether it has a deletion timestamp.
    pub(super) deleting: bool,
    /// Size of its disk.
    pub(super) disk_size: Option<Quantity>,
}

/// An object that a rule needs cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {what}: {why}")]
pub struct FactReadError {
    what: String,
    why: String,
}

/// An object that was read; `None` if it does not exist.
type FoundValue<'r> = Result<Option<&'r Value>, FactReadError>;

/// The object of a lookup. `what` names it in errors.
fn find_object<'r>(
    lookup: &ObjectLookup,
    what: String,
    reads: &'r AdmissionReads,
) -> Step<FoundValue<'r>, AdmissionRead> {
    let failed = |why: &str| Err(FactReadError { what, why: why.to_owned() });
    Ok(match reads.object(lookup)? {
        Some(LookupOutcome::There(object)) => Ok(Some(object)),
        Some(LookupOutcome::Absent) => Ok(None),
        Some(LookupOutcome::Failed(why)) => failed(why),
        None => failed("it is not read for this client"),
    })
}

/// The lookup of all objects of a resource in a namespace.
fn lookup_in(
    namespace: &str,
    subject: LookupSubject,
    api_version: &'static str,
    plural: &'static str,
) -> ObjectLookup {
    let namespace = LookupNamespace::Named(namespace.to_owned());
    ObjectLookup { subject, api_version, plural, namespace, name: None, fields: &[], reveals: true }
}

/// The image with this key.
pub(super) fn find_image(
    key: &ObjectKey,
    reads: &AdmissionReads,
) -> Step<Result<Option<FoundImage>, FactReadError>, AdmissionRead> {
    let lookup = ObjectLookup {
        name: Some(key.name.clone()),
        fields: &["metadata.uid", "metadata.deletionTimestamp", "spec.diskSize"],
        ..lookup_in(&key.namespace, LookupSubject::Image, API_VERSION, "vmdiskimages")
    };
    let found = find_object(&lookup, format!("the image {key}"), reads)?;
    Ok(found.map(|image| image.map(read_found_image)))
}

fn read_found_image(image: &Value) -> FoundImage {
    FoundImage {
        uid: image["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        deleting: !image["metadata"]["deletionTimestamp"].is_null(),
        disk_size: image["spec"]["diskSize"].as_str().map(Quantity::new),
    }
}

/// The names of the images that a DataSource may lead to.
pub(super) fn images_behind(
    source: &ObjectKey,
    reads: &AdmissionReads,
) -> Step<BTreeSet<ObjectKey>, AdmissionRead> {
    let mut aliases = Aliases::default();
    let direct = find_targets(source, reads)?;
    let next = direct.iter().filter(|target| target.kind == NamedSourceKind::DataSource);
    let next = next.map(|next| Ok((&next.key, find_targets(&next.key, reads)?)));
    for (key, targets) in join_steps(next)? {
        aliases.set(key, targets);
    }
    aliases.set(source, direct.clone());
    Ok(aliases.resolve(source).into_iter().map(|target| target.key.clone()).collect())
}

/// What a DataSource points to. One that cannot be read is the controllers' business.
fn find_targets(key: &ObjectKey, reads: &AdmissionReads) -> Step<BTreeSet<NamedSource>, AdmissionRead> {
    let lookup = ObjectLookup {
        name: Some(key.name.clone()),
        fields: &["spec.source", "status.source"],
        ..lookup_in(&key.namespace, LookupSubject::Volume, DATA_VOLUME_API_VERSION, "datasources")
    };
    let source = find_object(&lookup, format!("the DataSource {key}"), reads)?.ok().flatten();
    Ok(source.map(|source| source_targets(&key.namespace, source)).unwrap_or_default())
}

/// The stored object of a namespace that a new machine names as its controller, as far as it refers to
/// images.
pub(super) fn find_holder<'r>(
    namespace: &str,
    holder: &ReferenceHolder,
    reads: &'r AdmissionReads,
) -> Step<FoundValue<'r>, AdmissionRead> {
    let (subject, api_version, plural) = match holder.kind {
        ReferenceHolderKind::Wrapper => (LookupSubject::Wrapper, API_VERSION, WRAPPERS),
        ReferenceHolderKind::Pool => (LookupSubject::Pool, POOL_API_VERSION, "virtualmachinepools"),
        ReferenceHolderKind::Revision => (LookupSubject::Revision, "apps/v1", "controllerrevisions"),
    };
    let lookup = ObjectLookup {
        name: Some(holder.name.clone()),
        fields: holder.kind.fields(),
        ..lookup_in(namespace, subject, api_version, plural)
    };
    find_object(&lookup, format!("the owner {}", holder.name), reads)
}

/// The grants of a namespace.
pub(super) fn find_grants(
    namespace: &str,
    reads: &AdmissionReads,
) -> Step<Result<Vec<Grant>, FactReadError>, AdmissionRead> {
    let lookup = ObjectLookup {
        fields: &["items"],
        ..lookup_in(namespace, LookupSubject::Grant, API_VERSION, "vmdiskimagegrants")
    };
    let list = find_object(&lookup, format!("the grants of namespace {namespace}"), reads)?;
    // A grant that cannot be read permits nothing. References of existing objects are not reviewed again, so
    // a grant that is being deleted permits nothing here.
    let read_grants = |list: &Value| {
        let items = list["items"].as_array().into_iter().flatten();
        let grants = items.filter_map(|item| {
            let mut item = item.clone();
            item["apiVersion"] = API_VERSION.into();
            item["kind"] = "VMDiskImageGrant".into();
            serde_json::from_value::<VmDiskImageGrant>(item).ok()
        });
        grants.map(|grant| read_grant(&grant)).filter(|grant| grant.is_in_effect(None)).collect()
    };
    Ok(list.map(|list| list.map(read_grants).unwrap_or_default()))
}

/// The labels of a namespace.
pub(super) fn find_namespace_labels(
    namespace: &str,
    reads: &AdmissionReads,
) -> Step<Result<BTreeMap<String, String>, FactReadError>, AdmissionRead> {
    let lookup = ObjectLookup {
        subject: LookupSubject::Namespace,
        api_version: "v1",
        plural: "namespaces",
        namespace: LookupNamespace::Cluster,
        name: Some(namespace.to_owned()),
        fields: &["metadata.labels"],
        reveals: true,
    };
    let read_labels =
        |object: &Value| serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
    let object = find_object(&lookup, format!("the namespace {namespace}"), reads)?;
    Ok(object.map(|object| object.map(read_labels).unwrap_or_default()))
}
