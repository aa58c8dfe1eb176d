//! Reads the objects that the rules about images need.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::diskimage::{API_VERSION, VmDiskImageGrant, WRAPPERS};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, POOL_API_VERSION};
use vmpool_diskimage::admission::{
    FoundImage, ReferenceHolder, ReferenceHolderKind, WrapperReview, WrapperReviewFacts,
};
use vmpool_diskimage::aliases::Aliases;
use vmpool_diskimage::model::{NamedSource, NamedSourceKind, ObjectKey};
use vmpool_diskimage::read;
use vmpool_engine::admission::{LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup};

use crate::reads::Reader;

/// The image with this key.
pub(super) async fn read_image(reader: &Reader, key: &ObjectKey) -> LookupOutcome<FoundImage> {
    let lookup = ObjectLookup {
        subject: LookupSubject::Image,
        api_version: API_VERSION,
        plural: "vmdiskimages",
        namespace: LookupNamespace::Reviewed,
        name: Some(key.name.clone()),
        fields: &["metadata.uid", "metadata.deletionTimestamp", "spec.diskSize"],
        reveals: true,
    };
    reader.read_lookup(&key.namespace, lookup).await.map(|image| FoundImage {
        uid: image["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        deleting: !image["metadata"]["deletionTimestamp"].is_null(),
        disk_size: image["spec"]["diskSize"].as_str().map(Quantity::new),
    })
}

/// The names of the images that a DataSource may lead to.
pub(super) async fn images_behind(reader: &Reader, source: &ObjectKey) -> BTreeSet<ObjectKey> {
    let mut aliases = Aliases::default();
    let direct = read_targets(reader, source).await;
    for next in direct.iter().filter(|target| target.kind == NamedSourceKind::DataSource) {
        aliases.set(&next.key, read_targets(reader, &next.key).await);
    }
    aliases.set(source, direct);
    aliases.resolve(source).into_iter().map(|target| target.key.clone()).collect()
}

/// What a DataSource points to. One that cannot be read is the controllers' business.
async fn read_targets(reader: &Reader, key: &ObjectKey) -> BTreeSet<NamedSource> {
    let lookup = ObjectLookup {
        subject: LookupSubject::Volume,
        api_version: DATA_VOLUME_API_VERSION,
        plural: "datasources",
        namespace: LookupNamespace::Reviewed,
        name: Some(key.name.clone()),
        fields: &["spec.source", "status.source"],
        reveals: true,
    };
    match reader.read_lookup(&key.namespace, lookup).await {
        LookupOutcome::There(source) => read::source_targets(&key.namespace, &source),
        LookupOutcome::Absent | LookupOutcome::Failed(_) => BTreeSet::new(),
    }
}

/// The stored object that a new machine names as its controller, as far as it refers to images.
pub(super) async fn read_holder(
    reader: &Reader,
    namespace: &str,
    holder: &ReferenceHolder,
) -> LookupOutcome<Value> {
    let (subject, api_version, plural) = match holder.kind {
        ReferenceHolderKind::Wrapper => (LookupSubject::Wrapper, API_VERSION, WRAPPERS),
        ReferenceHolderKind::Pool => (LookupSubject::Pool, POOL_API_VERSION, "virtualmachinepools"),
        ReferenceHolderKind::Revision => (LookupSubject::Revision, "apps/v1", "controllerrevisions"),
    };
    let (name, fields) = (Some(holder.name.clone()), holder.kind.fields());
    let lookup = ObjectLookup {
        subject,
        api_version,
        plural,
        namespace: LookupNamespace::Reviewed,
        name,
        fields,
        reveals: true,
    };
    reader.read_lookup(namespace, lookup).await
}

/// Why the facts for a question about a wrapper are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum FactReadError {
    /// The image cannot be read.
    #[error("reading the image {key}: {why}")]
    Image { key: ObjectKey, why: String },
    /// The grants cannot be listed.
    #[error("reading the grants of namespace {namespace}: {why}")]
    Grants { namespace: String, why: String },
    /// The labels of the namespace cannot be read.
    #[error("reading the namespace {namespace}: {why}")]
    Namespace { namespace: String, why: String },
}

/// What a question about a wrapper needs.
///
/// Grants and labels are read first. Without a permission nothing else is read, so that also the duration of
/// the review does not depend on the image.
pub(super) async fn read_question_facts(
    reader: &Reader,
    namespace: &str,
    question: &WrapperReview<'_>,
) -> Result<WrapperReviewFacts, FactReadError> {
    let mut facts = WrapperReviewFacts::default();
    let key = &question.image;
    if question.crosses_namespaces() {
        facts.grants = read_grants(reader, &key.namespace).await?;
        facts.labels = read_namespace_labels(reader, namespace).await?;
        if !question.is_permitted(&facts) {
            return Ok(facts);
        }
    }
    facts.image = match read_image(reader, key).await {
        LookupOutcome::There(image) => Some(image),
        LookupOutcome::Absent => None,
        LookupOutcome::Failed(why) => return Err(FactReadError::Image { key: key.clone(), why }),
    };
    Ok(facts)
}

async fn read_grants(
    reader: &Reader,
    namespace: &str,
) -> Result<Vec<vmpool_diskimage::grants::Grant>, FactReadError> {
    let lookup = ObjectLookup {
        subject: LookupSubject::Grant,
        api_version: API_VERSION,
        plural: "vmdiskimagegrants",
        namespace: LookupNamespace::Reviewed,
        name: None,
        fields: &["items"],
        reveals: true,
    };
    match reader.read_lookup(namespace, lookup).await {
        LookupOutcome::There(list) => {
            let items = list["items"].as_array().into_iter().flatten();
            // A grant that cannot be read permits nothing.
            let grants = items.filter_map(|item| {
                let mut item = item.clone();
                item["apiVersion"] = API_VERSION.into();
                item["kind"] = "VMDiskImageGrant".into();
                VmDiskImageGrant::deserialize(&item).ok()
            });
            // References of existing objects are not reviewed again, so a grant that is being deleted permits
            // nothing here.
            Ok(grants
                .map(|grant| read::read_grant(&grant))
                .filter(|grant| grant.is_in_effect(None))
                .collect())
        }
        LookupOutcome::Absent => Ok(Vec::new()),
        LookupOutcome::Failed(why) => Err(FactReadError::Grants { namespace: namespace.to_owned(), why }),
    }
}

async fn read_namespace_labels(
    reader: &Reader,
    namespace: &str,
) -> Result<BTreeMap<String, String>, FactReadError> {
    let lookup = ObjectLookup {
        subject: LookupSubject::Namespace,
        api_version: "v1",
        plural: "namespaces",
        namespace: LookupNamespace::Cluster,
        name: Some(namespace.to_owned()),
        fields: &["metadata.labels"],
        reveals: true,
    };
    match reader.read_lookup(namespace, lookup).await {
        LookupOutcome::There(object) => {
            Ok(BTreeMap::deserialize(&object["metadata"]["labels"]).unwrap_or_default())
        }
        LookupOutcome::Absent => Ok(BTreeMap::new()),
        LookupOutcome::Failed(why) => Err(FactReadError::Namespace { namespace: namespace.to_owned(), why }),
    }
}
