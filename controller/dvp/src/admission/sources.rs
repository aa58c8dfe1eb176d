//! Rules about the existing sources of disks. They only warn, because an image can be replaced before it is
//! used.

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_engine::admission::{LookupOutcome, Warning, shorten_text};

use super::facts::{DvpAdmissionFacts, ImageId, ImageKind, NeededObjects};
use super::rule::Rule;
use super::view::{ReviewedDiskTemplate, json_at_path, json_field, json_text};

/// The path of the source in a disk template.
const SOURCE: &str = ".spec.dataSource.objectRef.name";

/// The object that a disk is created from.
enum Source {
    Image(ImageId),
    Snapshot(String),
}

fn disk_source(disk: ReviewedDiskTemplate<'_>) -> Option<Source> {
    let reference: &Value = json_at_path(disk.spec(), &["dataSource", "objectRef"]);
    let name = json_text(reference, "name")?.to_owned();
    match json_text(reference, "kind")? {
        "VirtualDiskSnapshot" => Some(Source::Snapshot(name)),
        kind => ImageKind::named(kind).map(|kind| Source::Image(ImageId { kind, name })),
    }
}

/// The name of the storage class; `None` for the default one.
fn storage_class(disk: ReviewedDiskTemplate<'_>) -> Option<&str> {
    json_text(json_field(disk.spec(), "persistentVolumeClaim"), "storageClassName")
        .filter(|name| !name.is_empty())
}

pub(super) fn add_needed_sources(disk: ReviewedDiskTemplate<'_>, needs: &mut NeededObjects) {
    needs.storage_classes.extend(storage_class(disk).map(str::to_owned));
    match disk_source(disk) {
        Some(Source::Image(id)) => drop(needs.images.insert(id)),
        Some(Source::Snapshot(name)) => drop(needs.snapshots.insert(name)),
        None => {}
    }
}

pub(super) fn check_source_objects(
    disk: ReviewedDiskTemplate<'_>,
    facts: &DvpAdmissionFacts,
    warnings: &mut Vec<Warning>,
) {
    check_source(disk, facts, warnings);
    if let Some(name) = storage_class(disk)
        && facts.storage_classes.get(name) == Some(&LookupOutcome::Absent)
    {
        let name = shorten_text(name, 63);
        let detail =
            format!("there is no StorageClass {name:?}; machines wait for their disks until it exists");
        let path = disk.path(".spec.persistentVolumeClaim.storageClassName");
        warnings.push(Warning::new(Rule::StorageClassUnknown, path, detail));
    }
}

/// The detail about an object that does not exist.
fn missing_object_detail(what: &str) -> String {
    format!("there is no {what}; machines wait for their disks until it exists")
}

fn check_source(disk: ReviewedDiskTemplate<'_>, facts: &DvpAdmissionFacts, warnings: &mut Vec<Warning>) {
    let mut warn = |rule, below, detail: String| warnings.push(Warning::new(rule, disk.path(below), detail));
    let (what, needed) = match disk_source(disk) {
        Some(Source::Image(id)) => {
            let what = format!("{} {:?}", id.kind.as_str(), shorten_text(&id.name, 63));
            match facts.images.get(&id) {
                Some(LookupOutcome::There(image)) if image.ready => {
                    if image.cdrom {
                        let detail = format!(
                            "{what} is a CD-ROM; attach it as a device, and machines can boot from it"
                        );
                        warn(Rule::DiskFromIso, SOURCE, detail);
                    }
                    (what, image.unpacked)
                }
                Some(LookupOutcome::Failed(reason)) => {
                    return warn(Rule::DiskBelowSource, SOURCE, unreadable_object_detail(&what, reason));
                }
                Some(LookupOutcome::Absent) => {
                    return warn(Rule::SourceUnknown, SOURCE, missing_object_detail(&what));
                }
                _ => return,
            }
        }
        Some(Source::Snapshot(name)) => {
            let what = format!("VirtualDiskSnapshot {:?}", shorten_text(&name, 63));
            match facts.snapshots.get(&name) {
                Some(LookupOutcome::There(snapshot)) => (what, snapshot.restore_size),
                Some(LookupOutcome::Failed(reason)) => {
                    return warn(Rule::DiskBelowSource, SOURCE, unreadable_object_detail(&what, reason));
                }
                Some(LookupOutcome::Absent) => {
                    return warn(Rule::SourceUnknown, SOURCE, missing_object_detail(&what));
                }
                None => return,
            }
        }
        None => return,
    };
    let size = Quantity::deserialize(disk.size()).ok().and_then(|size| size.bytes().ok());
    if let (Some(size), Some(needed)) = (size, needed)
        && size < needed
    {
        let needed = Quantity::from_bytes(needed);
        let detail = format!(
            "the disk is smaller than {what}, which needs {needed}; use at least that, or leave size out"
        );
        warn(Rule::DiskBelowSource, ".spec.persistentVolumeClaim.size", detail);
    }
}

fn unreadable_object_detail(what: &str, reason: &str) -> String {
    format!("{what} could not be read, so the size of the disk is not checked: {reason}")
}
