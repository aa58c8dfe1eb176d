//! What a leader knows of images: the images, the objects with their data, what refers to them, and grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::core::PartialObjectMeta;
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_diskimage::grants::{Grant, Origin, may_refer};
use vmpool_diskimage::model::{Backing, Claim, DataSource, Key, ReferrerKind, Snapshot};
use vmpool_diskimage::read::{self, backing, backing::Owned, referrer};
use vmpool_diskimage::references::{Counted, Index, Referrer};
use vmpool_diskimage::{model, model::Image};

use super::kinds::Loose;
use super::table::{self, Table, key, version};

/// The images that a change concerns.
pub(super) type Changed = BTreeSet<Key>;

/// Which kinds the cluster serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each kind is served or not")]
pub(super) struct Served {
    pub(super) importer: bool,
    pub(super) snapshots: bool,
    pub(super) machines: bool,
    pub(super) pools: bool,
}

/// A snapshot and the name of its content.
#[derive(Clone, Debug)]
pub(super) struct SnapshotEntry {
    snapshot: Owned<Snapshot>,
    content: Option<String>,
}

/// The newest known objects.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) served: Served,
    pub(super) images: Table<Arc<VmDiskImage>>,
    pub(super) volumes: Table<Owned<model::DataVolume>>,
    pub(super) claims: Table<Owned<Claim>>,
    pub(super) snapshots: Table<SnapshotEntry>,
    /// The contents of snapshots; `None` if this controller does not watch them.
    pub(super) contents: Option<Table<()>>,
    pub(super) sources: Table<Owned<DataSource>>,
    pub(super) roles: Table<Arc<Role>>,
    pub(super) bindings: Table<Arc<RoleBinding>>,
    grants: Table<Grant>,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    referrers: BTreeMap<ReferrerKind, Table<String>>,
    /// The stored revisions of pools, by their own names.
    revisions: Table<String>,
    index: Index,
}

impl Store {
    pub(super) fn new(served: Served, watches_contents: bool) -> Self {
        Self { served, contents: watches_contents.then(Table::default), ..Self::default() }
    }

    /// The objects with the data of an image.
    pub(super) fn backing(&self, image: &Image) -> Backing {
        let (key, uid) = (&image.key, image.uid.as_str());
        let data_volume = Owned::found(self.volumes.get(key), uid);
        let snapshot = self.snapshots.get(key).map(|entry| {
            let mut snapshot = entry.snapshot.clone();
            let content = entry.content.as_ref().zip(self.contents.as_ref());
            snapshot.object.content_lost =
                content.is_some_and(|(name, contents)| contents.get(&Key::new("", name)).is_none());
            snapshot
        });
        Backing {
            importer_served: self.served.importer,
            snapshots_served: self.served.snapshots,
            claim: Owned::found_claim(self.claims.get(key), uid, &data_volume),
            data_volume,
            snapshot: Owned::found(snapshot.as_ref(), uid),
            data_source: Owned::found(self.sources.get(key), uid),
        }
    }

    /// The references to an image, as the caches show them.
    pub(super) fn count(&self, image: &Image) -> Counted {
        let grants: Vec<Grant> =
            self.grants.of_namespace(&image.key.namespace).map(|(_, grant)| grant.clone()).collect();
        self.index.count(image, &grants, &self.labels)
    }

    /// Whether a pool of this namespace may use an image.
    pub(super) fn may_use_in_pool(&self, image: &Key, namespace: &str) -> bool {
        let none = BTreeMap::new();
        let origin = Origin { namespace, labels: self.labels.get(namespace).unwrap_or(&none) };
        let grants: Vec<Grant> =
            self.grants.of_namespace(&image.namespace).map(|(_, grant)| grant.clone()).collect();
        may_refer(&grants, image, origin, ReferrerKind::Pool)
    }

    /// All images.
    pub(super) fn all(&self) -> Changed {
        self.images.iter().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn set_image(&mut self, object: VmDiskImage, origin: table::Origin) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let object = Arc::new(object);
        let set = self.images.put(origin, key.clone(), version, object);
        changed(set.is_ok(), key)
    }

    pub(super) fn set_volume(&mut self, object: &kubevirt::DataVolume, origin: table::Origin) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let entry = backing::data_volume(object);
        let set = self.volumes.put(origin, key.clone(), version, entry);
        let mut affected = changed(set.is_ok(), key);
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        affected.extend(self.set_referrer(version, referrer::data_volume(&object.metadata, &spec, phase)));
        affected
    }

    pub(super) fn set_claim(&mut self, object: &PersistentVolumeClaim) -> Changed {
        let key = key(&object.metadata);
        let set = self.claims.set(key.clone(), version(&object.metadata), backing::claim(object));
        changed(set.is_ok(), key)
    }

    /// A snapshot that was ready and is not ready anymore gets the time since when.
    pub(super) fn set_snapshot(
        &mut self,
        object: &kubevirt::VolumeSnapshot,
        now: Timestamp,
        origin: table::Origin,
    ) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let (mut snapshot, content) = backing::snapshot(object);
        let before = self.snapshots.get(&key).map(|entry| &entry.snapshot.object);
        if let Some(before) = before.filter(|before| before.uid == snapshot.object.uid)
            && !snapshot.object.ready
        {
            snapshot.object.unready_since = before.unready_since.or(before.ready.then_some(now));
        }
        let entry = SnapshotEntry { snapshot, content };
        let set = self.snapshots.put(origin, key.clone(), version, entry);
        changed(set.is_ok(), key)
    }

    /// Returns the image of the snapshot that has the content.
    pub(super) fn set_content(
        &mut self,
        object: &Loose<kubevirt::VolumeSnapshotContent>,
        exists: bool,
    ) -> Changed {
        let Some(contents) = &mut self.contents else { return Changed::new() };
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        if exists {
            let _known = contents.set(key, version, ());
        } else {
            contents.deleted(&key, version);
        }
        let of = &object.spec["volumeSnapshotRef"];
        let text = |field: &str| of[field].as_str().unwrap_or_default();
        Changed::from([Key::new(text("namespace"), text("name"))])
    }

    pub(super) fn set_source(&mut self, object: &kubevirt::DataSource, origin: table::Origin) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let entry = backing::data_source(object);
        let set = self.sources.put(origin, key.clone(), version, entry);
        changed(set.is_ok(), key)
    }

    pub(super) fn set_wrapper(&mut self, object: &Wrapper) -> Changed {
        self.set_referrer(version(&object.metadata), referrer::wrapper(object))
    }

    pub(super) fn set_machine(&mut self, object: &Loose<kubevirt::VirtualMachine>) -> Changed {
        self.set_referrer(version(&object.metadata), referrer::machine(&object.metadata, &object.spec))
    }

    pub(super) fn set_pool(&mut self, object: &Loose<kubevirt::VirtualMachinePool>) -> Changed {
        self.set_referrer(version(&object.metadata), referrer::pool(&object.metadata, &object.spec))
    }

    /// Only objects that name an image are in the index.
    fn set_referrer(&mut self, version: u64, referrer: Referrer) -> Changed {
        let table = self.referrers.entry(referrer.kind).or_default();
        match table.set(referrer.key.clone(), version, referrer.uid.clone()) {
            Err(_older) => Changed::new(),
            Ok(former) => self.replace(former, referrer),
        }
    }

    fn replace(&mut self, former: Option<String>, referrer: Referrer) -> Changed {
        let mut affected = Changed::new();
        if let Some(former) = former.filter(|former| *former != referrer.uid) {
            affected.extend(self.index.remove(&former));
        }
        let names_images = !referrer.images.is_empty() || referrer.mark.is_some();
        affected.extend(if names_images {
            self.index.update(referrer)
        } else {
            self.index.remove(&referrer.uid)
        });
        affected
    }

    /// Objects of other controllers are ignored.
    pub(super) fn set_revision(&mut self, object: &Loose<ControllerRevision>) -> Changed {
        let Some(referrer) = referrer::revision(&object.metadata, &object.data) else {
            return Changed::new();
        };
        let set = self.revisions.set(key(&object.metadata), version(&object.metadata), referrer.uid.clone());
        match set {
            Err(_older) => Changed::new(),
            Ok(former) => self.replace(former, referrer),
        }
    }

    pub(super) fn unset_revision(&mut self, key: &Key, version: Option<u64>) -> Changed {
        let uid = match version {
            Some(version) => self.revisions.deleted(key, version),
            None => self.revisions.missing(key),
        };
        uid.map(|uid| self.index.remove(&uid)).unwrap_or_default()
    }

    pub(super) fn revisions(&self) -> Vec<Key> {
        self.revisions.expected()
    }

    /// An object that may refer to images is gone: deleted at this version, or missing in a list.
    pub(super) fn unset_referrer(&mut self, kind: ReferrerKind, key: &Key, version: Option<u64>) -> Changed {
        let Some(table) = self.referrers.get_mut(&kind) else { return Changed::new() };
        let uid = match version {
            Some(version) => table.deleted(key, version),
            None => table.missing(key),
        };
        uid.map(|uid| self.index.remove(&uid)).unwrap_or_default()
    }

    /// The referrers of a kind that a complete list must contain.
    pub(super) fn referrers(&self, kind: ReferrerKind) -> Vec<Key> {
        self.referrers.get(&kind).map(Table::expected).unwrap_or_default()
    }

    pub(super) fn set_grant(&mut self, object: &VmDiskImageGrant) -> Changed {
        let (key, version) = (key(&object.metadata), version(&object.metadata));
        let namespace = key.namespace.clone();
        let set = self.grants.set(key, version, read::grant(object));
        if set.is_ok() { self.of_namespace(&namespace) } else { Changed::new() }
    }

    pub(super) fn unset_grant(&mut self, key: &Key, version: Option<u64>) -> Changed {
        let gone = match version {
            Some(version) => self.grants.deleted(key, version),
            None => self.grants.missing(key),
        };
        if gone.is_some() { self.of_namespace(&key.namespace) } else { Changed::new() }
    }

    pub(super) fn grants(&self) -> Vec<Key> {
        self.grants.expected()
    }

    fn of_namespace(&self, namespace: &str) -> Changed {
        self.images.of_namespace(namespace).map(|(key, _)| key.clone()).collect()
    }

    /// Labels decide which namespaces a grant means, so a change of them may concern every image.
    pub(super) fn set_labels(&mut self, object: &PartialObjectMeta<Namespace>, exists: bool) -> Changed {
        let name = object.metadata.name.clone().unwrap_or_default();
        let labels = object.metadata.labels.clone().filter(|_| exists);
        let before = match &labels {
            Some(labels) => self.labels.insert(name, labels.clone()),
            None => self.labels.remove(&name),
        };
        if before == labels { Changed::new() } else { self.all() }
    }

    /// The namespaces whose labels are known.
    pub(super) fn labeled(&self) -> Vec<Key> {
        self.labels.keys().map(|name| Key::new("", name)).collect()
    }

    pub(super) fn unset_labels(&mut self, key: &Key) -> Changed {
        if self.labels.remove(&key.name).is_some() { self.all() } else { Changed::new() }
    }
}

fn changed(is_new: bool, key: Key) -> Changed {
    is_new.then_some(key).into_iter().collect()
}

/// The image that owns a permission to clone.
pub(super) fn owner_of<K: kube::Resource>(object: &K) -> Changed {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let owners = object.meta().owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
    owner.map(|owner| Key::new(namespace, &owner.name)).into_iter().collect()
}
