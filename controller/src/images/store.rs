//! What a leader knows of images: the images, the objects with their data, what refers to them, and grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::diskimage::{VmDiskImage, VmDiskImageGrant, labels::IMAGE_UID};
use vmpool_api::kubevirt;
use vmpool_diskimage::clone_permission;
use vmpool_diskimage::grants::{Grant, ReferrerNamespace, may_refer};
use vmpool_diskimage::model::{
    BackingClaim, BackingDataSource, BackingObjects, BackingSnapshot, DataKind, NamedSource, NamedSourceKind,
    ObjectKey, ReferrerKind,
};
use vmpool_diskimage::read::{self, backing, backing::OwnedObject, referrer, wrapper::read_wrapper_image};
use vmpool_diskimage::references::{CountedReferences, ReferrerIndex};
use vmpool_diskimage::wrapper::{DiskNameOwner, Wrapper};
use vmpool_diskimage::{model, model::DiskImage};

use super::kinds::UntypedObject;
use super::table::{self, VersionedTable, metadata_version, object_key};
use super::wrapped::WrapperStore;

mod referrers;

/// The images that a change concerns.
pub(super) type Changed = BTreeSet<ObjectKey>;

/// The objects besides images that changes concern.
#[derive(Debug, Default)]
pub(super) struct TouchedObjects {
    pub(super) wrappers: BTreeSet<ObjectKey>,
    pub(super) grants: BTreeSet<ObjectKey>,
    /// Permissions to clone whose images are not known.
    pub(super) permissions: BTreeSet<ObjectKey>,
}

/// Which kinds the cluster serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each kind is served or not")]
pub(super) struct Served {
    pub(super) images: bool,
    pub(super) wrappers: bool,
    pub(super) grants: bool,
    pub(super) importer: bool,
    pub(super) snapshots: bool,
    pub(super) machines: bool,
    pub(super) pools: bool,
}

/// The time at which an object is seen, by both clocks of the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservationTime {
    /// To compare with times in objects. It can jump.
    pub(super) wall: Timestamp,
    /// To measure how long something lasts.
    pub(super) uptime: Duration,
}

/// A snapshot and the name of its content.
#[derive(Clone, Debug)]
pub(super) struct SnapshotEntry {
    snapshot: OwnedObject<BackingSnapshot>,
    content: Option<String>,
    /// The uptime at which it was first seen not ready.
    unready_since: Option<Duration>,
}

/// The newest known objects.
#[derive(Debug, Default)]
pub(super) struct ImageStore {
    pub(super) served: Served,
    pub(super) images: VersionedTable<Arc<VmDiskImage>>,
    pub(super) volumes: VersionedTable<OwnedObject<model::BackingDataVolume>>,
    pub(super) claims: VersionedTable<OwnedObject<BackingClaim>>,
    pub(super) snapshots: VersionedTable<SnapshotEntry>,
    /// The contents of snapshots; `None` if this controller does not watch them.
    pub(super) contents: Option<VersionedTable<()>>,
    pub(super) sources: VersionedTable<OwnedObject<BackingDataSource>>,
    pub(super) roles: VersionedTable<Arc<Role>>,
    pub(super) bindings: VersionedTable<Arc<RoleBinding>>,
    grants: VersionedTable<(Grant, Arc<VmDiskImageGrant>)>,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    /// The namespaces that are being deleted, and since when.
    terminating: BTreeMap<String, Timestamp>,
    referrers: BTreeMap<ReferrerKind, VersionedTable<String>>,
    /// The stored revisions of pools, by their own names.
    revisions: VersionedTable<String>,
    index: ReferrerIndex,
    /// The grants that changes concern.
    touched_grants: BTreeSet<ObjectKey>,
    /// The permissions to clone whose images are not known since a change.
    touched_permissions: BTreeSet<ObjectKey>,
    /// Wrappers with their machines; `None` if this controller does not reconcile them.
    pub(super) wrapped: Option<WrapperStore>,
}

impl ImageStore {
    pub(super) fn new(served: Served, watches_contents: bool, reconciles_wrappers: bool) -> Self {
        let wrapped = reconciles_wrappers.then(WrapperStore::default);
        Self { served, contents: watches_contents.then(VersionedTable::default), wrapped, ..Self::default() }
    }

    /// The objects with the data of an image, at this uptime.
    /// `prefixes` are those of the labels that the objects get from the image.
    pub(super) fn backing(
        &self,
        image: &DiskImage,
        object: &VmDiskImage,
        prefixes: &[String],
        uptime: Duration,
    ) -> BackingObjects {
        use DataKind::{DataSource, DataVolume, Snapshot};
        let key = &image.key;
        let (volume, source) = (self.volumes.get(key), self.sources.get(key));
        let data_volume = OwnedObject::found(volume, image, DataVolume);
        let snapshot = self.snapshots.get(key).map(|entry| {
            let mut snapshot = entry.snapshot.clone();
            let content = entry.content.as_ref().zip(self.contents.as_ref());
            snapshot.object.content_lost =
                content.is_some_and(|(name, contents)| contents.get(&ObjectKey::new("", name)).is_none());
            snapshot.object.unready_for = entry.unready_since.map(|since| uptime.saturating_sub(since));
            snapshot
        });
        let snapshot = snapshot.as_ref();
        let owned = [
            OwnedObject::owned(volume, image, DataVolume),
            OwnedObject::owned(snapshot, image, Snapshot),
            OwnedObject::owned(source, image, DataSource),
        ];
        let mislabeled = [
            OwnedObject::mislabeled(volume, image, object, prefixes, DataVolume),
            OwnedObject::mislabeled(snapshot, image, object, prefixes, Snapshot),
            OwnedObject::mislabeled(source, image, object, prefixes, DataSource),
        ];
        BackingObjects {
            importer_served: self.served.importer,
            snapshots_served: self.served.snapshots,
            claim: OwnedObject::found_claim(self.claims.get(key), image, &data_volume),
            data_volume,
            snapshot: OwnedObject::found(snapshot, image, Snapshot),
            data_source: OwnedObject::found(source, image, DataSource),
            owned: owned.into_iter().flatten().collect(),
            mislabeled: mislabeled.into_iter().flatten().collect(),
        }
    }

    /// The image to which a permission to clone belongs.
    pub(super) fn image_of<K: kube::Resource>(&self, object: &K) -> Changed {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let found = image_uid(object.meta()).and_then(|uid| self.image_with(namespace, uid));
        found.into_iter().collect()
    }

    fn image_with(&self, namespace: &str, uid: &str) -> Option<ObjectKey> {
        let mut images = self.images.of_namespace(namespace);
        images.find(|(_, image)| image.metadata.uid.as_deref() == Some(uid)).map(|(key, _)| key.clone())
    }

    /// The image of a Role or a RoleBinding has changed, or its permission has. Returns the image; one that
    /// is not known may be gone.
    pub(super) fn touch_permission<K: kube::Resource>(&mut self, object: &K) -> Changed {
        let image = self.image_of(object);
        if image.is_empty() {
            self.touched_permissions.insert(object_key(object.meta()));
        }
        image
    }

    /// The UID of the image of a permission to clone with this key, if the image is not known.
    pub(super) fn image_of_orphan(&self, key: &ObjectKey) -> Option<String> {
        let role = self.roles.get(key).map(|role| &role.metadata);
        let binding = self.bindings.get(key).map(|binding| &binding.metadata);
        let mut uids = [role, binding].into_iter().flatten().filter_map(image_uid);
        // Other objects with the label are not of the controller.
        let uid = uids.find(|uid| clone_permission::clone_permission_name(uid) == key.name)?;
        self.image_with(&key.namespace, uid).is_none().then(|| uid.to_owned())
    }

    /// The references to an image, as the caches show them.
    pub(super) fn count(&self, image: &DiskImage) -> CountedReferences {
        self.index.count(image, &self.grants_of(&image.key.namespace), &self.labels)
    }

    /// Whether an object of this kind and namespace may use an image.
    pub(super) fn may_use(&self, image: &ObjectKey, namespace: &str, kind: ReferrerKind) -> bool {
        self.with_grants(image, namespace, |grants, origin| may_refer(grants, image, origin, kind))
    }

    /// Whether the deletion of an image waits for a pool: its deletion is requested, and the pool referred to
    /// it before.
    pub(super) fn is_held_by_pool(&self, image: &ObjectKey, pool: &str, namespace: &str) -> bool {
        let deleted = self.images.get(image).and_then(|image| read::deletion_time(&image.metadata));
        deleted.is_some_and(|deleted| self.index.had_reference(pool, namespace, image, deleted))
    }

    /// Whether a namespace contains images.
    pub(super) fn has_images(&self, namespace: &str) -> bool {
        self.images.of_namespace(namespace).next().is_some()
    }

    /// Whether what a template names exists, and does not belong to the image with its name. If there is no
    /// such image, what has the label of one may belong to an image that the cache does not show yet.
    pub(super) fn is_foreign(&self, source: &NamedSource, image: Option<&DiskImage>) -> bool {
        let key = &source.key;
        let (data_source, claim) = (self.sources.get(key), self.claims.get(key));
        let snapshot = self.snapshots.get(key).map(|entry| &entry.snapshot);
        let Some(image) = image else {
            let label = match source.kind {
                NamedSourceKind::DataSource => data_source.map(|found| &found.label),
                NamedSourceKind::Snapshot => snapshot.map(|found| &found.label),
                NamedSourceKind::Claim => claim.map(|found| &found.label),
            };
            return label.is_some_and(Option::is_none);
        };
        match source.kind {
            NamedSourceKind::DataSource => {
                OwnedObject::found(data_source, image, DataKind::DataSource).is_foreign()
            }
            NamedSourceKind::Snapshot => OwnedObject::found(snapshot, image, DataKind::Snapshot).is_foreign(),
            NamedSourceKind::Claim => {
                let volume = OwnedObject::found(self.volumes.get(key), image, DataKind::DataVolume);
                OwnedObject::found_claim(claim, image, &volume).is_foreign()
            }
        }
    }

    /// Who has the name of the disk of a wrapper, as the caches show it.
    pub(super) fn disk_name(&self, wrapper: &Wrapper, disk: &ObjectKey) -> DiskNameOwner {
        let (volume, claim) = (self.volumes.get(disk), self.claims.get(disk));
        let found = backing::find_disk_name_owner(&wrapper.key, &wrapper.uid, volume, claim);
        if found != DiskNameOwner::Free {
            return found;
        }
        // Neither its DataVolume nor that of the machine of another wrapper needs to exist yet.
        if self.images.get(disk).is_some() {
            return DiskNameOwner::Taken("VMDiskImage");
        }
        let first = self.wrapped.as_ref().and_then(|wrapped| wrapped.first_with_disk(disk));
        first.filter(|first| *first != wrapper.key).map_or(found, |first| DiskNameOwner::Wrapper(first.name))
    }

    /// Calls `decide` with the grants for an image and a namespace.
    pub(super) fn with_grants<T>(
        &self,
        image: &ObjectKey,
        namespace: &str,
        decide: impl FnOnce(&[Grant], ReferrerNamespace<'_>) -> T,
    ) -> T {
        let origin = ReferrerNamespace { namespace, labels: self.labels.get(namespace) };
        decide(&self.grants_of(&image.namespace), origin)
    }

    /// The objects besides images that changes concern since the last call.
    pub(super) fn take_touched(&mut self) -> TouchedObjects {
        TouchedObjects {
            wrappers: self.wrapped.as_mut().map(WrapperStore::take_touched).unwrap_or_default(),
            grants: std::mem::take(&mut self.touched_grants),
            permissions: std::mem::take(&mut self.touched_permissions),
        }
    }

    /// All images.
    pub(super) fn all(&self) -> Changed {
        self.images.iter().map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn set_image(&mut self, object: VmDiskImage, origin: table::ObjectOrigin) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let now = self.wrapped.is_some().then(|| read_wrapper_image(&object));
        let before =
            now.as_ref().and_then(|_| self.images.get(&key)).map(|before| read_wrapper_image(before));
        let set = self.images.put(origin, key.clone(), version, Arc::new(object));
        if set.is_ok() && now != before {
            self.touch_wrappers(&key);
        }
        changed_image_set(set.is_ok(), key)
    }

    /// An image is gone: deleted at this version, or missing in a list.
    pub(super) fn unset_image(&mut self, key: &ObjectKey, version: Option<u64>) -> Changed {
        let gone = self.images.remove(key, version);
        let is_gone = gone.is_some();
        if let Some(image) = gone {
            let uid = image.metadata.uid.as_deref().unwrap_or_default();
            self.touched_permissions
                .insert(ObjectKey::new(&key.namespace, clone_permission::clone_permission_name(uid)));
            self.touch_wrappers(key);
            self.touch_disk(key);
            self.touch_grants(&key.namespace);
        }
        changed_image_set(is_gone, key.clone())
    }

    /// A change concerns the wrappers without a machine whose disk has this name.
    pub(super) fn touch_disk(&mut self, disk: &ObjectKey) {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_disk(disk);
        }
    }

    /// A change concerns the wrappers of an image.
    fn touch_wrappers(&mut self, image: &ObjectKey) {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch(self.index.referrers(image, ReferrerKind::Wrapper).cloned());
        }
    }

    pub(super) fn set_volume(
        &mut self,
        object: &kubevirt::DataVolume,
        now: ObservationTime,
        origin: table::ObjectOrigin,
    ) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let entry = backing::read_data_volume(object);
        if let Some(wrapped) = &mut self.wrapped
            && let Some(disk) = read::wrapper::read_wrapper_disk(object, now.wall)
        {
            wrapped.set_disk(key.clone(), version, disk);
        }
        let set = self.volumes.put(origin, key.clone(), version, entry);
        self.touch_disk(&key);
        let mut affected = changed_image_set(set.is_ok(), key);
        let spec = serde_json::to_value(&object.spec).unwrap_or_default();
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        affected.extend(
            self.set_referrer(version, referrer::read_data_volume_referrer(&object.metadata, &spec, phase)),
        );
        affected
    }

    pub(super) fn set_claim(&mut self, object: &PersistentVolumeClaim) -> Changed {
        let key = object_key(&object.metadata);
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.touch_claim(&key);
        }
        let set =
            self.claims.set(key.clone(), metadata_version(&object.metadata), backing::read_claim(object));
        self.touch_disk(&key);
        changed_image_set(set.is_ok(), key)
    }

    /// A snapshot that is not ready gets the time since when. For a new leader, that is the time when it
    /// first sees the snapshot: whether it was ready before is known from the status of the image only.
    pub(super) fn set_snapshot(
        &mut self,
        object: &kubevirt::VolumeSnapshot,
        now: ObservationTime,
        origin: table::ObjectOrigin,
    ) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let (snapshot, content) = backing::read_snapshot(object);
        let before =
            self.snapshots.get(&key).filter(|before| before.snapshot.object.uid == snapshot.object.uid);
        let before = before.and_then(|before| before.unready_since);
        let unready_since = (!snapshot.object.ready).then(|| before.unwrap_or(now.uptime));
        let entry = SnapshotEntry { snapshot, content, unready_since };
        let set = self.snapshots.put(origin, key.clone(), version, entry);
        changed_image_set(set.is_ok(), key)
    }

    /// Returns the image of the snapshot that has the content.
    pub(super) fn set_content(
        &mut self,
        object: &UntypedObject<kubevirt::VolumeSnapshotContent>,
        exists: bool,
    ) -> Changed {
        let Some(contents) = &mut self.contents else { return Changed::new() };
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        if exists {
            let _known = contents.set(key, version, ());
        } else {
            contents.deleted(&key, version);
        }
        let of = &object.spec["volumeSnapshotRef"];
        let text = |field: &str| of[field].as_str().unwrap_or_default();
        Changed::from([ObjectKey::new(text("namespace"), text("name"))])
    }

    pub(super) fn set_source(
        &mut self,
        object: &kubevirt::DataSource,
        origin: table::ObjectOrigin,
    ) -> Changed {
        let (key, version) = (object_key(&object.metadata), metadata_version(&object.metadata));
        let entry = backing::read_data_source(object);
        let targets = read::data_source_targets(object);
        let set = self.sources.put(origin, key.clone(), version, entry);
        let mut affected = changed_image_set(set.is_ok(), key.clone());
        if set.is_ok() {
            affected.extend(self.index.set_source(&key, targets));
        }
        affected
    }

    /// A DataSource is gone: deleted at this version, or missing in a list.
    pub(super) fn unset_source(&mut self, key: &ObjectKey, version: Option<u64>) -> Changed {
        let is_gone = self.sources.remove(key, version).is_some();
        let mut affected = changed_image_set(is_gone, key.clone());
        if is_gone {
            affected.extend(self.index.set_source(key, BTreeSet::new()));
        }
        affected
    }

    /// What a DataSource leads to.
    pub(super) fn resolve(&self, source: &ObjectKey) -> Vec<NamedSource> {
        self.index.aliases().resolve(source).into_iter().cloned().collect()
    }

    /// Adds the DataSources that lead to changed images or DataSources, so that a pool that names one of them
    /// is concerned, too.
    pub(super) fn add_aliases(&self, changed: &mut Changed) {
        let aliases = changed.iter().flat_map(|key| self.index.aliases().leading_to(key));
        let aliases: Changed = aliases.cloned().collect();
        changed.extend(aliases);
    }
}

/// The UID of an image in the label of an object.
fn image_uid(metadata: &ObjectMeta) -> Option<&str> {
    metadata.labels.as_ref()?.get(IMAGE_UID).map(String::as_str)
}

fn changed_image_set(is_new: bool, key: ObjectKey) -> Changed {
    is_new.then_some(key).into_iter().collect()
}
