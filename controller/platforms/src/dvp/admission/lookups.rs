//! The objects that the rules need, as lookups; and the results of lookups, as facts.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_engine::admission::{Found, Lookup, LookupResult, Subject};

use super::facts::{ClassName, Facts, Image, ImageId, ImageKind, Needs, Revision, Snapshot};
use super::sizing::{Class, default_class};
use super::view::{at, list};

const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// The objects that a request needs, as far as they were read.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    needs: Needs,
    results: BTreeMap<Lookup, Option<Found<Value>>>,
}

impl Gathered {
    pub(super) fn new(needs: Needs) -> Self {
        Self { needs, results: BTreeMap::new() }
    }

    /// The lookups without a result. The volume snapshot of a disk snapshot follows when the disk snapshot was read.
    pub(super) fn lookups(&self) -> Vec<Lookup> {
        let Needs { class, images, snapshots, storage_classes, revisions } = &self.needs;
        let snapshots = snapshots.iter().map(|name| match self.results.get(&disk_snapshot(name)) {
            Some(Some(Found::There(snapshot))) => volume_snapshot(snapshot),
            _ => disk_snapshot(name),
        });
        let all = class.iter().map(class_of).chain(revisions.iter().map(|name| revision(name)));
        let all = all.chain(images.iter().map(image)).chain(snapshots);
        let all = all.chain(storage_classes.iter().map(|name| storage_class(name)));
        all.filter(|lookup| !self.results.contains_key(lookup)).collect()
    }

    pub(super) fn add(&mut self, results: Vec<LookupResult>) {
        self.results.extend(results);
    }

    /// The facts in the objects.
    pub(super) fn facts(&self) -> Facts {
        let Needs { class, images, snapshots, storage_classes, revisions } = &self.needs;
        let revision = |name: &String| {
            let found = self.get(&revision(name)).unwrap_or(Found::Absent);
            found.map(|revision| Revision::read(&revision))
        };
        let images = images.iter().filter_map(|id| {
            let found = self.get(&image(id))?;
            Some((id.clone(), found.map(|image| read_image(&image))))
        });
        let snapshots = snapshots.iter().filter_map(|name| {
            let found = match self.get(&disk_snapshot(name))? {
                // A disk snapshot without a volume snapshot exists, and its size is unknown.
                Found::There(snapshot) => match self.get(&volume_snapshot(&snapshot))? {
                    Found::Absent => Found::There(Snapshot::default()),
                    volume => volume.map(|volume| read_volume_snapshot(&volume)),
                },
                Found::Absent => Found::Absent,
                Found::Failed(reason) => Found::Failed(reason),
            };
            Some((name.clone(), found))
        });
        let storage_classes = storage_classes.iter().filter_map(|name| {
            let found = self.get(&storage_class(name))?;
            Some((name.clone(), found.map(drop)))
        });
        Facts {
            class: class.as_ref().and_then(|name| self.class(name)),
            images: images.collect(),
            snapshots: snapshots.collect(),
            storage_classes: storage_classes.collect(),
            revisions: revisions.iter().map(revision).collect(),
        }
    }

    fn get(&self, lookup: &Lookup) -> Option<Found<Value>> {
        self.results.get(lookup).cloned().flatten()
    }

    fn class(&self, name: &ClassName) -> Option<Found<Class>> {
        let found = self.get(&class_of(name))?;
        Some(match name {
            ClassName::Named(_) => found.map(|class| Class::read(&class)),
            ClassName::Default => {
                match found.map(|all| default_class(list(&all["items"])).map(Class::read)) {
                    Found::There(Some(class)) => Found::There(class),
                    Found::There(None) | Found::Absent => Found::Absent,
                    Found::Failed(reason) => Found::Failed(reason),
                }
            }
        })
    }
}

fn class_of(name: &ClassName) -> Lookup {
    Lookup {
        subject: Subject::Class,
        api_version: API_VERSION,
        plural: "virtualmachineclasses",
        namespaced: false,
        name: match name {
            ClassName::Named(name) => Some(name.clone()),
            ClassName::Default => None,
        },
        fields: &["metadata.name", "metadata.annotations", "spec.sizingPolicies", "items"],
        reveals: false,
    }
}

/// A revision reveals nothing: it is used only if it belongs to the pool with the UID of the review.
fn revision(name: &str) -> Lookup {
    Lookup {
        subject: Subject::Revision,
        api_version: "apps/v1",
        plural: "controllerrevisions",
        namespaced: true,
        name: Some(name.to_owned()),
        fields: &["metadata.ownerReferences", "data.spec.blockDeviceRefs"],
        reveals: false,
    }
}

/// The verdict shows whether an image exists and how large it is.
fn image(id: &ImageId) -> Lookup {
    let (plural, namespaced) = match id.kind {
        ImageKind::Namespace => ("virtualimages", true),
        ImageKind::Cluster => ("clustervirtualimages", false),
    };
    Lookup {
        subject: Subject::Image,
        api_version: API_VERSION,
        plural,
        namespaced,
        name: Some(id.name.clone()),
        fields: &["status.phase", "status.cdrom", "status.size"],
        reveals: true,
    }
}

fn disk_snapshot(name: &str) -> Lookup {
    Lookup {
        subject: Subject::Snapshot,
        api_version: API_VERSION,
        plural: "virtualdisksnapshots",
        namespaced: true,
        name: Some(name.to_owned()),
        fields: &["status.volumeSnapshotName"],
        reveals: true,
    }
}

/// The volume snapshot of a disk snapshot, which has the size.
fn volume_snapshot(disk: &Value) -> Lookup {
    let name = at(disk, &["status", "volumeSnapshotName"]).as_str().unwrap_or_default();
    Lookup {
        subject: Subject::Snapshot,
        api_version: SNAPSHOT_API,
        plural: "volumesnapshots",
        namespaced: true,
        name: Some(name.to_owned()),
        fields: &["status.restoreSize"],
        reveals: true,
    }
}

fn storage_class(name: &str) -> Lookup {
    Lookup {
        subject: Subject::StorageClass,
        api_version: "storage.k8s.io/v1",
        plural: "storageclasses",
        namespaced: false,
        name: Some(name.to_owned()),
        fields: &["metadata.name"],
        reveals: true,
    }
}

fn read_image(image: &Value) -> Image {
    let size = at(image, &["status", "size"]);
    Image {
        ready: at(image, &["status", "phase"]) == "Ready",
        cdrom: at(image, &["status", "cdrom"]) == true,
        unpacked: at(size, &["unpackedBytes"])
            .as_str()
            .and_then(|bytes| bytes.parse().ok())
            .or_else(|| bytes(at(size, &["unpacked"]))),
    }
}

fn read_volume_snapshot(volume: &Value) -> Snapshot {
    Snapshot { restore_size: bytes(at(volume, &["status", "restoreSize"])) }
}

fn bytes(quantity: &Value) -> Option<u64> {
    serde_json::from_value::<Quantity>(quantity.clone()).ok()?.bytes().ok()
}
