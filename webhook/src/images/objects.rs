//! Reads the objects that the rules about images need.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::diskimage::{API_VERSION, VmDiskImageGrant, WRAPPERS};
use vmpool_api::kubevirt::{DATA_VOLUME_API_VERSION, POOL_API_VERSION};
use vmpool_diskimage::admission::{Facts, FoundImage, Holder, HolderKind, Question};
use vmpool_diskimage::aliases::Aliases;
use vmpool_diskimage::model::{Key, NamedSource, SourceKind};
use vmpool_diskimage::read;
use vmpool_engine::admission::{Found, Lookup, Subject};

use crate::reads::Reader;

/// The image with this key.
pub(super) async fn image(reader: &Reader, key: &Key) -> Found<FoundImage> {
    let lookup = Lookup {
        subject: Subject::Image,
        api_version: API_VERSION,
        plural: "vmdiskimages",
        namespaced: true,
        name: Some(key.name.clone()),
        fields: &["metadata.uid", "metadata.deletionTimestamp", "spec.diskSize"],
        reveals: true,
    };
    reader.one(&key.namespace, lookup).await.map(|image| FoundImage {
        uid: image["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        deleting: !image["metadata"]["deletionTimestamp"].is_null(),
        disk_size: image["spec"]["diskSize"].as_str().map(Quantity::new),
    })
}

/// The names of the images that a DataSource may lead to.
pub(super) async fn images_behind(reader: &Reader, source: &Key) -> BTreeSet<Key> {
    let mut aliases = Aliases::default();
    let direct = read_targets(reader, source).await;
    for next in direct.iter().filter(|target| target.kind == SourceKind::DataSource) {
        aliases.set(&next.key, read_targets(reader, &next.key).await);
    }
    aliases.set(source, direct);
    aliases.resolve(source).into_iter().map(|target| target.key.clone()).collect()
}

/// What a DataSource points to. One that cannot be read is the controllers' business.
async fn read_targets(reader: &Reader, key: &Key) -> BTreeSet<NamedSource> {
    let lookup = Lookup {
        subject: Subject::Volume,
        api_version: DATA_VOLUME_API_VERSION,
        plural: "datasources",
        namespaced: true,
        name: Some(key.name.clone()),
        fields: &["spec.source", "status.source"],
        reveals: true,
    };
    match reader.one(&key.namespace, lookup).await {
        Found::There(source) => read::source_targets(&key.namespace, &source),
        Found::Absent | Found::Failed(_) => BTreeSet::new(),
    }
}

/// The stored object that a new machine names as its controller, as far as it refers to images.
pub(super) async fn read_holder(reader: &Reader, namespace: &str, holder: &Holder) -> Found<Value> {
    let (subject, api_version, plural) = match holder.kind {
        HolderKind::Wrapper => (Subject::Wrapper, API_VERSION, WRAPPERS),
        HolderKind::Pool => (Subject::Pool, POOL_API_VERSION, "virtualmachinepools"),
        HolderKind::Revision => (Subject::Revision, "apps/v1", "controllerrevisions"),
    };
    let (name, fields) = (Some(holder.name.clone()), holder.kind.fields());
    let lookup = Lookup { subject, api_version, plural, namespaced: true, name, fields, reveals: true };
    reader.one(namespace, lookup).await
}

/// What a question about a wrapper needs.
///
/// Grants and labels are read first. Without a permission nothing else is read, so that also the duration of the review does
/// not depend on the image.
pub(super) async fn facts(
    reader: &Reader,
    namespace: &str,
    question: &Question<'_>,
) -> Result<Facts, String> {
    let mut facts = Facts::default();
    let key = &question.image;
    if question.crosses_namespaces() {
        facts.grants = grants(reader, &key.namespace).await?;
        facts.labels = labels(reader, namespace).await?;
        if !question.is_permitted(&facts) {
            return Ok(facts);
        }
    }
    facts.image = match image(reader, key).await {
        Found::There(image) => Some(image),
        Found::Absent => None,
        Found::Failed(error) => return Err(format!("reading the image {key}: {error}")),
    };
    Ok(facts)
}

async fn grants(reader: &Reader, namespace: &str) -> Result<Vec<vmpool_diskimage::grants::Grant>, String> {
    let lookup = Lookup {
        subject: Subject::Grant,
        api_version: API_VERSION,
        plural: "vmdiskimagegrants",
        namespaced: true,
        name: None,
        fields: &["items"],
        reveals: true,
    };
    match reader.one(namespace, lookup).await {
        Found::There(list) => {
            let items = list["items"].as_array().into_iter().flatten();
            // A grant that cannot be read permits nothing.
            let grants = items.filter_map(|item| {
                let mut item = item.clone();
                item["apiVersion"] = API_VERSION.into();
                item["kind"] = "VMDiskImageGrant".into();
                VmDiskImageGrant::deserialize(&item).ok()
            });
            // References of existing objects are not reviewed again, so a grant that is being deleted permits nothing here.
            Ok(grants.map(|grant| read::grant(&grant)).filter(|grant| grant.is_in_effect(None)).collect())
        }
        Found::Absent => Ok(Vec::new()),
        Found::Failed(error) => Err(format!("reading the grants of namespace {namespace}: {error}")),
    }
}

async fn labels(reader: &Reader, namespace: &str) -> Result<BTreeMap<String, String>, String> {
    let lookup = Lookup {
        subject: Subject::Namespace,
        api_version: "v1",
        plural: "namespaces",
        namespaced: false,
        name: Some(namespace.to_owned()),
        fields: &["metadata.labels"],
        reveals: true,
    };
    match reader.one(namespace, lookup).await {
        Found::There(object) => Ok(BTreeMap::deserialize(&object["metadata"]["labels"]).unwrap_or_default()),
        Found::Absent => Ok(BTreeMap::new()),
        Found::Failed(error) => Err(format!("reading the namespace {namespace}: {error}")),
    }
}
