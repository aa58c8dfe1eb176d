//! The review of machines and pools that name images.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_decision::{AdmissionRead, AdmissionReads, Step, join_steps};

use super::existing::find_reference_holders;
use super::finding::{AdmissionFinding, ImageRule};
use super::reads::{FoundImage, find_holder, find_image, images_behind};
use crate::model::{NamedSource, NamedSourceKind, ObjectKey};
use crate::read::named_sources;

/// The most images whose deletion is looked up for one machine or pool.
const MAX_IMAGES: usize = 40;

/// A named image that is being deleted.
struct TerminatingImage {
    key: ObjectKey,
    uid: String,
    /// The DataSources that lead to it.
    aliases: BTreeSet<ObjectKey>,
}

/// Refuses new references to images of the own namespace that are being deleted. Without a grant, the
/// deletion of an image in another namespace is not revealed; the controllers handle it. A machine that a
/// wrapper or a pool creates from an image that it refers to already is no new reference. A DataSource of the
/// namespace that leads to an image is a reference to it.
///
/// # Errors
/// Objects were not read. One that cannot be read is the controllers' business, too: they enforce the rule.
pub fn review_references(
    namespace: &str,
    old: &Value,
    new: &Value,
    reads: &AdmissionReads,
) -> Step<Vec<AdmissionFinding>, AdmissionRead> {
    if !reads.may_reveal() || !new["metadata"]["deletionTimestamp"].is_null() {
        return Ok(Vec::new());
    }
    let (before, named) = (named_sources(namespace, old), named_sources(namespace, new));
    let known: BTreeSet<&ObjectKey> = before.iter().map(|source| &source.key).collect();
    let added = named.difference(&before).filter(|source| source.key.namespace == namespace);
    let found = added.take(MAX_IMAGES).map(|source| terminating_images(source, &known, reads));
    let mut terminating: Vec<_> = join_steps(found)?.into_iter().flatten().collect();
    for holder in find_reference_holders(new) {
        if terminating.is_empty() {
            break;
        }
        match find_holder(namespace, &holder, reads)? {
            Ok(Some(stored)) => terminating
                .retain(|TerminatingImage { key, uid, aliases }| !holder.refers(stored, key, uid, aliases)),
            Ok(None) => {}
            // A refused machine would not be created.
            Err(_) => return Ok(Vec::new()),
        }
    }
    Ok(terminating.iter().map(|image| refuse_terminating(&image.key)).collect())
}

/// The images of the namespace of a source that it leads to and that are being deleted, but for those that
/// were named before.
fn terminating_images(
    source: &NamedSource,
    known: &BTreeSet<&ObjectKey>,
    reads: &AdmissionReads,
) -> Step<Vec<TerminatingImage>, AdmissionRead> {
    if let Some(image) = find_image(&source.key, reads)?.ok().flatten() {
        return Ok(TerminatingImage::of(&source.key, image, BTreeSet::new()).into_iter().collect());
    }
    if source.kind != NamedSourceKind::DataSource {
        return Ok(Vec::new());
    }
    let behind = images_behind(&source.key, reads)?;
    let behind = behind.iter().filter(|key| key.namespace == source.key.namespace && !known.contains(key));
    let found = join_steps(behind.map(|key| find_image(key, reads).map(|found| (key, found))))?;
    let alias = BTreeSet::from([source.key.clone()]);
    let terminating =
        found.into_iter().filter_map(|(key, found)| TerminatingImage::of(key, found.ok()??, alias.clone()));
    Ok(terminating.collect())
}

impl TerminatingImage {
    fn of(key: &ObjectKey, image: FoundImage, aliases: BTreeSet<ObjectKey>) -> Option<Self> {
        image.deleting.then(|| Self { key: key.clone(), uid: image.uid, aliases })
    }
}

fn refuse_terminating(key: &ObjectKey) -> AdmissionFinding {
    AdmissionFinding::new(
        ImageRule::Terminating,
        "spec",
        format!("the image {key} is being deleted"),
        "wait until it is gone, or use another image",
    )
}

#[cfg(test)]
mod tests;
