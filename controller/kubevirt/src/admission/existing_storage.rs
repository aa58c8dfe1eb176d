//! Warnings about DataVolumes and claims that exist already with the names that the machines of a pool give
//! to theirs.
//!
//! KubeVirt adopts a DataVolume without an owner that has the name of one of a machine, and CDI can use such
//! a claim. The machine then starts with the data of the object, and the object is deleted with the machine.
//! A user may want that, so it is no error. Storage that has an owner is not adopted, and preserved storage
//! of the pool is meant to be used again.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_api::kubevirt::DATA_VOLUME_API_VERSION;
use vmpool_engine::admission::{LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup, shorten_text};
use vmpool_platform::value::{json_entries, json_field, json_text};

use super::findings::Findings;
use super::pool::{KubeVirtPoolView, MACHINE};
use super::rule::Rule;
use crate::keys::PRESERVED_POOL;
use crate::machine::{self, RevisionTemplate};
use crate::read::read_pool_settings;

/// The maximum number of DataVolumes of new machines that are looked for, each as a DataVolume and as a
/// claim.
pub(super) const MAX_VOLUMES: usize = 8;
/// The maximum number of objects that a request warns about.
const MAX_WARNINGS: usize = 3;

const KINDS: [(&str, &str); 2] = [(DATA_VOLUME_API_VERSION, "datavolumes"), ("v1", "persistentvolumeclaims")];

/// The reads for the first machines that the request adds to the pool, or whose DataVolumes it renames.
pub(super) fn existing_storage_lookups(
    old: Option<KubeVirtPoolView<'_>>,
    new: KubeVirtPoolView<'_>,
) -> Vec<ObjectLookup> {
    let count = |pool: KubeVirtPoolView<'_>| pool.part("replicas").as_u64().unwrap_or(1);
    let names =
        |pool: KubeVirtPoolView<'_>| pool.data_volume_names().map(str::to_owned).collect::<BTreeSet<_>>();
    let first = old.filter(|old| names(*old) == names(new)).map_or(0, count);
    let template = RevisionTemplate {
        content: new.template(),
        names: read_pool_settings(new.spec()).names,
        pins: &Value::Null,
    };
    // A pool without DataVolumes has no names, however many machines it has.
    let ordinals = (first..count(new)).take(MAX_VOLUMES);
    let volumes = ordinals.flat_map(|ordinal| {
        let spec = machine::numbered_machine_spec(template, ordinal);
        let templates = json_entries(json_field(&spec, "dataVolumeTemplates")).iter();
        templates
            .filter_map(|one| Some(json_text(json_field(one, "metadata"), "name")?.to_owned()))
            .collect::<Vec<_>>()
    });
    let volumes: Vec<String> = volumes.take(MAX_VOLUMES).collect();
    let lookup = |name: &String, (api_version, plural)| ObjectLookup {
        subject: LookupSubject::Volume,
        api_version,
        plural,
        namespace: LookupNamespace::Reviewed,
        name: Some(name.clone()),
        fields: &["metadata.ownerReferences", "metadata.labels", "metadata.deletionTimestamp"],
        // The warning says that the object exists.
        reveals: true,
    };
    volumes.iter().flat_map(|name| KINDS.map(|kind| lookup(name, kind))).collect()
}

/// Warns about objects that machines of the pool would adopt. What could not be read gives no warning.
pub(super) fn warn_about_existing_storage<'a>(
    pool: KubeVirtPoolView<'_>,
    results: impl Iterator<Item = (&'a ObjectLookup, Option<&'a LookupOutcome<Value>>)>,
    findings: &mut Findings,
) {
    let mut warned = BTreeSet::new();
    for (lookup, found) in results {
        let (Some(name), Some(LookupOutcome::There(object))) = (&lookup.name, found) else { continue };
        let metadata = json_field(object, "metadata");
        let is_owned = !json_entries(json_field(metadata, "ownerReferences")).is_empty();
        let is_leaving = !json_field(metadata, "deletionTimestamp").is_null();
        let is_preserved = json_field(metadata, "labels")[PRESERVED_POOL] == pool.name();
        if is_owned || is_leaving || is_preserved || warned.len() == MAX_WARNINGS || !warned.insert(name) {
            continue;
        }
        let kind = if lookup.plural == "datavolumes" { "DataVolume" } else { "PersistentVolumeClaim" };
        let detail = format!(
            "{kind} {:?} exists and has no owner: a machine of the pool would adopt it with its data, and delete it with itself; \
             rename the template, or delete the object",
            shorten_text(name, 63)
        );
        findings.warn(Rule::ExistingStorage, format!("{MACHINE}.dataVolumeTemplates"), detail);
    }
}
