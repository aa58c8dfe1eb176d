//! The objects that the rules depend on, as lookups; and the results of lookups, as facts.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_engine::admission::{Found, Lookup, LookupResult, Subject};

use super::facts::{ClassName, Facts, Image, ImageId, ImageKind, Needs, Revision, Snapshot};
use super::sizing::{Class, default_class};
use super::view::{at, list};
use crate::dvp::API_VERSION;

const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// The facts that a request needs, as far as they are known.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    needs: Needs,
    facts: Facts,
    /// Results of the lookups so far.
    results: BTreeMap<Lookup, Found<Value>>,
}

impl Gathered {
    pub(super) fn new(needs: Needs) -> Self {
        Self { needs, facts: Facts::default(), results: BTreeMap::new() }
    }

    /// The lookups without a result. The volume of a snapshot follows when the snapshot is known.
    pub(super) fn lookups(&self) -> Vec<Lookup> {
        let Needs { class, images, snapshots, revisions } = &self.needs;
        let snapshots = snapshots.iter().map(|name| match self.results.get(&disk_snapshot(name)) {
            Some(Found::There(snapshot)) => volume_snapshot(snapshot),
            _ => disk_snapshot(name),
        });
        let all = class.iter().map(class_of).chain(revisions.iter().map(|name| revision(name)));
        let all = all.chain(images.iter().map(image)).chain(snapshots);
        all.filter(|lookup| !self.results.contains_key(lookup)).collect()
    }

    pub(super) fn add(&mut self, results: Vec<LookupResult>) {
        self.results.extend(results);
    }

    /// The facts. A lookup without a result counts as absent.
    pub(super) fn facts(mut self) -> Facts {
        let needs = std::mem::take(&mut self.needs);
        self.facts.class = needs.class.as_ref().map(|name| self.class(name));
        self.facts.revisions = needs
            .revisions
            .iter()
            .map(|name| self.get(&revision(name)).map(|found| Revision::read(&found)))
            .collect();
        for id in needs.images {
            let found = self.get(&image(&id)).map(|found| read_image(&found));
            self.facts.images.insert(id, found);
        }
        for name in needs.snapshots {
            let found = match self.get(&disk_snapshot(&name)) {
                Found::There(snapshot) => self.get(&volume_snapshot(&snapshot)),
                other => other,
            };
            let read =
                |volume: Value| Snapshot { restore_size: bytes(at(&volume, &["status", "restoreSize"])) };
            self.facts.snapshots.insert(name, found.map(read));
        }
        self.facts
    }

    fn get(&self, lookup: &Lookup) -> Found<Value> {
        self.results.get(lookup).cloned().unwrap_or(Found::Absent)
    }

    fn class(&self, name: &ClassName) -> Found<Class> {
        let found = self.get(&class_of(name));
        match name {
            ClassName::Named(_) => found.map(|class| Class::read(&class)),
            ClassName::Default => {
                match found.map(|all| default_class(list(&all["items"])).map(Class::read)) {
                    Found::There(Some(class)) => Found::There(class),
                    Found::There(None) | Found::Absent => Found::Absent,
                    Found::Failed(reason) => Found::Failed(reason),
                }
            }
        }
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
    }
}

fn revision(name: &str) -> Lookup {
    Lookup {
        subject: Subject::Revision,
        api_version: "apps/v1",
        plural: "controllerrevisions",
        namespaced: true,
        name: Some(name.to_owned()),
        fields: &["metadata.ownerReferences", "data.spec.blockDeviceRefs"],
    }
}

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

fn bytes(quantity: &Value) -> Option<u64> {
    serde_json::from_value::<Quantity>(quantity.clone()).ok()?.bytes().ok()
}
