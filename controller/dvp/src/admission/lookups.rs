//! The objects that the rules need, as lookups; and the results of lookups, as facts.

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_engine::admission::{
    AdmissionRead, AdmissionReads, LookupNamespace, LookupOutcome, LookupSubject, ObjectLookup, Step,
};

use super::facts::{
    ClassName, DiskSnapshotFacts, DvpAdmissionFacts, ImageId, ImageKind, NeededObjects, StoredRevisionFacts,
    VirtualImageFacts,
};
use super::sizing::{MachineClass, default_class};
use super::view::{json_at_path, json_entries};

const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// The facts of the objects that a request needs.
///
/// # Errors
/// Objects were not read.
pub(super) fn find_facts(
    needs: &NeededObjects,
    reads: &AdmissionReads,
) -> Step<DvpAdmissionFacts, AdmissionRead> {
    reads.objects(&needed_lookups(needs, reads))?;
    Ok(read_facts(needs, &FoundObjects(reads)))
}

/// The lookups for a request. The volume snapshot of a disk snapshot follows when the disk snapshot was read.
fn needed_lookups(needs: &NeededObjects, reads: &AdmissionReads) -> Vec<ObjectLookup> {
    let NeededObjects { class, images, snapshots, storage_classes, revisions } = needs;
    let found = FoundObjects(reads);
    let snapshots = snapshots.iter().map(|name| match found.get(&disk_snapshot_lookup(name)) {
        Some(LookupOutcome::There(snapshot)) => volume_snapshot_lookup(&snapshot),
        Some(LookupOutcome::Absent | LookupOutcome::Failed(_)) | None => disk_snapshot_lookup(name),
    });
    let all = class.iter().map(class_lookup).chain(revisions.iter().map(|name| revision_lookup(name)));
    let all = all.chain(images.iter().map(image_lookup)).chain(snapshots);
    all.chain(storage_classes.iter().map(|name| storage_class_lookup(name))).collect()
}

/// The facts in the objects.
fn read_facts(needs: &NeededObjects, found: &FoundObjects<'_>) -> DvpAdmissionFacts {
    let NeededObjects { class, images, snapshots, storage_classes, revisions } = needs;
    let revision = |name: &String| {
        let found = found.get(&revision_lookup(name)).unwrap_or(LookupOutcome::Absent);
        found.map(|revision| StoredRevisionFacts::read(&revision))
    };
    let images = images.iter().filter_map(|id| {
        let found = found.get(&image_lookup(id))?;
        Some((id.clone(), found.map(|image| read_image(&image))))
    });
    let snapshots = snapshots.iter().filter_map(|name| {
        let found = match found.get(&disk_snapshot_lookup(name))? {
            // A disk snapshot without a volume snapshot exists, and its size is unknown.
            LookupOutcome::There(snapshot) => match found.get(&volume_snapshot_lookup(&snapshot))? {
                LookupOutcome::Absent => LookupOutcome::There(DiskSnapshotFacts::default()),
                volume => volume.map(|volume| read_volume_snapshot(&volume)),
            },
            LookupOutcome::Absent => LookupOutcome::Absent,
            LookupOutcome::Failed(reason) => LookupOutcome::Failed(reason),
        };
        Some((name.clone(), found))
    });
    let storage_classes = storage_classes.iter().filter_map(|name| {
        let found = found.get(&storage_class_lookup(name))?;
        Some((name.clone(), found.map(drop)))
    });
    DvpAdmissionFacts {
        class: class.as_ref().and_then(|name| found.class(name)),
        images: images.collect(),
        snapshots: snapshots.collect(),
        storage_classes: storage_classes.collect(),
        revisions: revisions.iter().map(revision).collect(),
    }
}

/// The objects that were read.
struct FoundObjects<'a>(&'a AdmissionReads);

impl FoundObjects<'_> {
    fn get(&self, lookup: &ObjectLookup) -> Option<LookupOutcome<Value>> {
        self.0.object(lookup).ok().flatten().cloned()
    }

    fn class(&self, name: &ClassName) -> Option<LookupOutcome<MachineClass>> {
        let found = self.get(&class_lookup(name))?;
        Some(match name {
            ClassName::Named(_) => found.map(|class| MachineClass::read(&class)),
            ClassName::Default => {
                match found.map(|all| default_class(json_entries(&all["items"])).map(MachineClass::read)) {
                    LookupOutcome::There(Some(class)) => LookupOutcome::There(class),
                    LookupOutcome::There(None) | LookupOutcome::Absent => LookupOutcome::Absent,
                    LookupOutcome::Failed(reason) => LookupOutcome::Failed(reason),
                }
            }
        })
    }
}

fn class_lookup(name: &ClassName) -> ObjectLookup {
    ObjectLookup {
        subject: LookupSubject::Class,
        api_version: API_VERSION,
        plural: "virtualmachineclasses",
        namespace: LookupNamespace::Cluster,
        name: match name {
            ClassName::Named(name) => Some(name.clone()),
            ClassName::Default => None,
        },
        fields: &["metadata.name", "metadata.annotations", "spec.sizingPolicies", "items"],
        reveals: false,
    }
}

/// A revision reveals nothing: it is used only if it belongs to the pool with the UID of the review.
fn revision_lookup(name: &str) -> ObjectLookup {
    ObjectLookup {
        subject: LookupSubject::Revision,
        api_version: "apps/v1",
        plural: "controllerrevisions",
        namespace: LookupNamespace::Reviewed,
        name: Some(name.to_owned()),
        fields: &["metadata.ownerReferences", "data.spec.blockDeviceRefs"],
        reveals: false,
    }
}

/// The verdict shows whether an image exists and how large it is.
fn image_lookup(id: &ImageId) -> ObjectLookup {
    let (plural, namespace) = match id.kind {
        ImageKind::Namespace => ("virtualimages", LookupNamespace::Reviewed),
        ImageKind::Cluster => ("clustervirtualimages", LookupNamespace::Cluster),
    };
    ObjectLookup {
        subject: LookupSubject::Image,
        api_version: API_VERSION,
        plural,
        namespace,
        name: Some(id.name.clone()),
        fields: &["status.phase", "status.cdrom", "status.size"],
        reveals: true,
    }
}

fn disk_snapshot_lookup(name: &str) -> ObjectLookup {
    ObjectLookup {
        subject: LookupSubject::Snapshot,
        api_version: API_VERSION,
        plural: "virtualdisksnapshots",
        namespace: LookupNamespace::Reviewed,
        name: Some(name.to_owned()),
        fields: &["status.volumeSnapshotName"],
        reveals: true,
    }
}

/// The volume snapshot of a disk snapshot, which has the size.
fn volume_snapshot_lookup(disk: &Value) -> ObjectLookup {
    let name = json_at_path(disk, &["status", "volumeSnapshotName"]).as_str().unwrap_or_default();
    ObjectLookup {
        subject: LookupSubject::Snapshot,
        api_version: SNAPSHOT_API,
        plural: "volumesnapshots",
        namespace: LookupNamespace::Reviewed,
        name: Some(name.to_owned()),
        fields: &["status.restoreSize"],
        reveals: true,
    }
}

fn storage_class_lookup(name: &str) -> ObjectLookup {
    ObjectLookup {
        subject: LookupSubject::StorageClass,
        api_version: "storage.k8s.io/v1",
        plural: "storageclasses",
        namespace: LookupNamespace::Cluster,
        name: Some(name.to_owned()),
        fields: &["metadata.name"],
        reveals: true,
    }
}

fn read_image(image: &Value) -> VirtualImageFacts {
    let size = json_at_path(image, &["status", "size"]);
    VirtualImageFacts {
        ready: json_at_path(image, &["status", "phase"]) == "Ready",
        cdrom: json_at_path(image, &["status", "cdrom"]) == true,
        unpacked: json_at_path(size, &["unpackedBytes"])
            .as_str()
            .and_then(|bytes| bytes.parse().ok())
            .or_else(|| quantity_bytes(json_at_path(size, &["unpacked"]))),
    }
}

fn read_volume_snapshot(volume: &Value) -> DiskSnapshotFacts {
    DiskSnapshotFacts { restore_size: quantity_bytes(json_at_path(volume, &["status", "restoreSize"])) }
}

fn quantity_bytes(quantity: &Value) -> Option<u64> {
    serde_json::from_value::<Quantity>(quantity.clone()).ok()?.bytes().ok()
}
