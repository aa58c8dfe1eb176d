//! Reads from the API server that a decision needs before it removes something.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmpool_api::diskimage::{VirtualMachine as Wrapper, VmDiskImage, VmDiskImageGrant};
use vmpool_api::kubevirt;
use vmpool_diskimage::grants::Grant;
use vmpool_diskimage::model::{BackingObjects, DataKind, DiskImage, NamedSource, ObjectKey};
use vmpool_diskimage::read::{self, backing, backing::OwnedObject, referrer};
use vmpool_diskimage::references::{CountedReferences, Referrer, ReferrerIndex};
use vmpool_kit::definitions::list_defined;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::object::collection_path;
use vmpool_kit::rejection;
use vmpool_kit::sink::Watched;
use vmpool_kit::watch::{WatchError, WatchScope};
use vmpool_platforms::ApiObject;
use vmpool_runtime::env::TimeoutElapsed;

use super::context::ImageContext;
use super::kinds::UntypedObject;

/// How many times the deadline of a request all pages of a list may take.
const PAGES: u32 = 8;

/// What DataSources point to.
type Sources = BTreeMap<ObjectKey, BTreeSet<NamedSource>>;

/// Why a live read failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageReadError {
    #[error("reading an object")]
    Get(#[source] kube::Error),
    #[error("listing all objects of a kind")]
    List(#[source] WatchError),
    #[error(transparent)]
    TooLate(#[from] TimeoutElapsed),
}

impl ImageContext {
    /// Reads an object. `None` if it does not exist, or if the cluster does not serve its kind.
    pub(super) async fn get<K: ApiObject>(&self, key: &ObjectKey) -> Result<Option<K>, ImageReadError> {
        self.get_as::<K, K>(key).await
    }

    /// Reads an object of kind `K` as JSON.
    pub(super) async fn get_value<K: ApiObject>(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Value>, ImageReadError> {
        self.get_as::<K, Value>(key).await
    }

    async fn get_as<K: ApiObject, T: DeserializeOwned>(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<T>, ImageReadError> {
        let read =
            rejection::get_object(&self.leader.client, collection_path::<K>(&key.namespace), &key.name);
        self.leader.env.timeout(self.deadline, read).await?.map_err(ImageReadError::Get)
    }

    /// The objects with the data of an image. What only watches show is taken from the caches.
    pub(super) async fn read_backing(
        &self,
        image: &DiskImage,
        cached: &BackingObjects,
    ) -> Result<BackingObjects, ImageReadError> {
        let volume = self.get::<kubevirt::DataVolume>(&image.key).await?;
        let claim = self.get::<PersistentVolumeClaim>(&image.key).await?;
        let snapshot = self.get::<kubevirt::VolumeSnapshot>(&image.key).await?;
        let source = self.get::<kubevirt::DataSource>(&image.key).await?;
        let volume = volume.as_ref().map(backing::read_data_volume);
        let data_volume = OwnedObject::found(volume.as_ref(), image, DataKind::DataVolume);
        let snapshot = match snapshot.as_ref().map(backing::read_snapshot) {
            None => None,
            Some((mut owned, content)) => {
                let known = cached.snapshot.ours().filter(|known| known.uid == owned.object.uid);
                owned.object.unready_for = known.and_then(|known| known.unready_for);
                // The watches of snapshots and contents have no common order, so a content that is missing in
                // the cache can be one that the cache does not show yet.
                let is_missing = known.is_some_and(|known| known.content_lost);
                if let Some(name) = content.filter(|_| is_missing) {
                    let path = kubevirt::VolumeSnapshotContent::url_path(&(), None);
                    let read = rejection::get_object::<Value>(&self.leader.client, path, &name);
                    let content =
                        self.leader.env.timeout(self.deadline, read).await?.map_err(ImageReadError::Get)?;
                    owned.object.content_lost = content.is_none();
                }
                Some(owned)
            }
        };
        Ok(BackingObjects {
            claim: OwnedObject::found_claim(
                claim.as_ref().map(backing::read_claim).as_ref(),
                image,
                &data_volume,
            ),
            data_volume,
            snapshot: OwnedObject::found(snapshot.as_ref(), image, DataKind::Snapshot),
            data_source: OwnedObject::found(
                source.as_ref().map(backing::read_data_source).as_ref(),
                image,
                DataKind::DataSource,
            ),
            importer_served: cached.importer_served,
            snapshots_served: cached.snapshots_served,
            owned: cached.owned.clone(),
            mislabeled: cached.mislabeled.clone(),
        })
    }

    /// Counts the references to an image from lists that begin now: one of each kind that can refer to it,
    /// and of what permits references from other namespaces.
    pub(super) async fn read_references(
        &self,
        image: &DiskImage,
    ) -> Result<CountedReferences, ImageReadError> {
        let mut found: Vec<Referrer> = Vec::new();
        // A pool can change to another DataSource while the lists are read. The DataSources from before and
        // after them show both.
        let mut sources: Sources = BTreeMap::new();
        self.list_sources(&mut sources).await?;
        self.list_all(|object: Wrapper| found.push(referrer::read_wrapper_referrer(&object))).await?;
        self.list_all(|object: UntypedObject<kubevirt::VirtualMachine>| {
            found.push(referrer::read_machine_referrer(&object.metadata, &object.spec));
        })
        .await?;
        self.list_all(|object: UntypedObject<kubevirt::VirtualMachinePool>| {
            found.push(referrer::read_pool_referrer(&object.metadata, &object.spec));
        })
        .await?;
        self.list_all(|object: UntypedObject<ControllerRevision>| {
            found.extend(referrer::read_revision_referrer(&object.metadata, &object.data));
        })
        .await?;
        self.list_all(|object: UntypedObject<kubevirt::DataVolume>| {
            let phase = object.status["phase"].as_str();
            found.push(referrer::read_data_volume_referrer(&object.metadata, &object.spec, phase));
        })
        .await?;
        self.list_sources(&mut sources).await?;
        // The namespaces after the grants: the deletion of a namespace comes before that of its grants.
        let mut grants: Vec<Grant> = Vec::new();
        let of_namespace =
            Api::<VmDiskImageGrant>::namespaced(self.leader.client.clone(), &image.key.namespace);
        self.pages(&of_namespace, WatchScope::default(), |grant| grants.push(read::read_grant(&grant)))
            .await?;
        let mut labels = BTreeMap::new();
        let mut terminating = None;
        if self.leader.namespace.is_none() && !grants.is_empty() {
            let namespaces = Api::<PartialObjectMeta<Namespace>>::all(self.leader.client.clone());
            let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
            self.pages(&namespaces, scope, |namespace: PartialObjectMeta<Namespace>| {
                let metadata = namespace.metadata;
                if metadata.name.as_ref() == Some(&image.key.namespace) {
                    terminating = read::deletion_time(&metadata);
                }
                labels.extend(metadata.name.zip(metadata.labels));
            })
            .await?;
        }
        grants.retain(|grant| grant.is_in_effect(terminating));
        let mut index = ReferrerIndex::new(found);
        for (source, targets) in sources {
            index.set_source(&source, targets);
        }
        let mut counted = index.count(image, &grants, &labels);
        counted.references.live = true;
        Ok(counted)
    }

    /// Adds what the DataSources of all namespaces point to now.
    async fn list_sources(&self, sources: &mut Sources) -> Result<(), ImageReadError> {
        self.list_all(|object: UntypedObject<kubevirt::DataSource>| {
            let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
            let stored = json!({ "spec": object.spec, "status": object.status });
            let targets = read::source_targets(namespace, &stored);
            sources.entry(read::object_key(&object.metadata)).or_default().extend(targets);
        })
        .await
    }

    /// A namespace. `None` if it does not exist.
    pub(super) async fn get_namespace(&self, name: &str) -> Result<Option<Namespace>, ImageReadError> {
        let read = rejection::get_object(&self.leader.client, Namespace::url_path(&(), None), name);
        self.leader.env.timeout(self.deadline, read).await?.map_err(ImageReadError::Get)
    }

    /// Whether a namespace contains an image with such metadata.
    pub(super) async fn has_image(
        &self,
        namespace: &str,
        is_such: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<bool, ImageReadError> {
        let images = Api::<PartialObjectMeta<VmDiskImage>>::namespaced(self.leader.client.clone(), namespace);
        let scope = WatchScope { metadata_only: true, ..WatchScope::default() };
        let mut found = false;
        self.pages(&images, scope, |image| found |= is_such(&image.metadata)).await?;
        Ok(found)
    }

    async fn list_all<K: ApiObject>(&self, visit: impl FnMut(K)) -> Result<(), ImageReadError> {
        self.pages(
            &api_for_namespace::<K>(&self.leader.client, self.leader.namespace.as_deref()),
            WatchScope::default(),
            visit,
        )
        .await
    }

    async fn pages<K: Watched>(
        &self,
        api: &Api<K>,
        scope: WatchScope,
        visit: impl FnMut(K),
    ) -> Result<(), ImageReadError> {
        let listed = list_defined(api, scope, visit);
        self.leader.env.timeout(self.deadline * PAGES, listed).await?.map_err(ImageReadError::List)
    }
}
